"""`LLMJudge`: verdicts by a language model at an OpenAI-compatible endpoint."""

from vagen_rewards.llm.judge import LLMJudge
from vagen_rewards.llm.spending import Price, Spending

__all__ = ["LLMJudge", "Price", "Spending"]
