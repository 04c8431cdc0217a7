"""NeMo Gym starts this: the agent that shows each observation with its picture."""

from vagen_adapters.nemo_gym_agent import VagenAgent

if __name__ == "__main__":
    VagenAgent.run_webserver()
