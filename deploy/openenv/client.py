"""The client, where OpenEnv looks for it."""

from vagen_adapters.openenv_env import VagenAction, VagenClient, VagenObservation

__all__ = ["VagenAction", "VagenClient", "VagenObservation"]
