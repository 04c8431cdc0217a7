"""The client, where OpenEnv looks for it."""

from vagen_adapters.openenv_env import Reply, Seen, VagenClient

__all__ = ["Reply", "Seen", "VagenClient"]
