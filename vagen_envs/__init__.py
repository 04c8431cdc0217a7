"""Five vision environments for language-speaking agents, registered with Gymnasium.

>>> import gymnasium as gym, vagen_envs
>>> env = gym.make("vagen/Sokoban-v0")

Importing this package imports no simulator and no torch.
"""

from vagen_envs.arrays import register_conversions
from vagen_envs.core import Executed, Observation, RewardTerm, State, Turn, VagenEnv
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture
from vagen_envs.registration import ENV_IDS, register_all
from vagen_envs.replies import Grammar, ParsedTurn, Problem

__version__ = "0.1.0"

__all__ = [
    "ENV_IDS",
    "Executed",
    "Grammar",
    "Observation",
    "ParsedTurn",
    "Picture",
    "Problem",
    "RewardTerm",
    "State",
    "Turn",
    "VagenEnv",
    "VagenError",
    "__version__",
]

register_all()
register_conversions()
