"""Vision environments for language-speaking agents, as an OpenEnv package."""

from vagen_adapters.openenv_env import VagenAction, VagenClient, VagenObservation

__all__ = ["VagenAction", "VagenClient", "VagenObservation"]
