"""NeMo Gym starts this: the resources server over all environments of vagen-envs."""

from vagen_adapters.nemo_gym_env import VagenServer

if __name__ == "__main__":
    VagenServer.run_webserver()
