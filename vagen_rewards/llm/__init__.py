"""`LLMJudge`: verdicts by a language model at an OpenAI-compatible endpoint."""

from vagen_rewards.llm.judge import LLMJudge
from vagen_rewards.llm.spending import Price, Spending
from vagen_rewards.llm.verdicts import register_structured

__all__ = ["LLMJudge", "Price", "Spending", "register_structured"]
