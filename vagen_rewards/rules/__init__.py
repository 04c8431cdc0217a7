"""`RuleJudge`: verdicts by rule, without a model or a network."""

from vagen_rewards.rules.judge import RuleJudge
from vagen_rewards.rules.marks import Marks, register_comparison

__all__ = ["Marks", "RuleJudge", "register_comparison"]
