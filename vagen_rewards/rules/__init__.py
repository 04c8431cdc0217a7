"""`RuleJudge`: verdicts by rule, without a model or a network."""

from vagen_rewards.rules.judge import RuleJudge
from vagen_rewards.rules.marks import Marks, register_comparison
from vagen_rewards.rules.readings import Claim, Fact, Reading, read, register_reader

__all__ = ["Claim", "Fact", "Marks", "Reading", "RuleJudge", "read", "register_comparison", "register_reader"]
