"""`LLMJudge`: verdicts by a language model at an OpenAI-compatible endpoint."""

from vagen_rewards.llm.extract import register_structured
from vagen_rewards.llm.judge import LLMJudge
from vagen_rewards.usage import Price, Spending

__all__ = ["LLMJudge", "Price", "Spending", "register_structured"]
