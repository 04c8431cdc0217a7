"""What a claim tells: shares of an environment's own states, and statements weighed by them."""

from vagen_rewards.worth.playing import Transition
from vagen_rewards.worth.reference import Reference, reference_of
from vagen_rewards.worth.told import register_done, register_made, register_stood, register_told
from vagen_rewards.worth.weighing import Weighed, Worth

__all__ = [
    "Reference",
    "Transition",
    "Weighed",
    "Worth",
    "reference_of",
    "register_done",
    "register_made",
    "register_stood",
    "register_told",
]
