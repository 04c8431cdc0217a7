"""Vision environments for language-speaking agents, as an OpenEnv package."""

from vagen_adapters.openenv_env import Reply, Seen, VagenClient

__all__ = ["Reply", "Seen", "VagenClient"]
