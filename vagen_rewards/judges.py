"""Judges by name, as options of commands, recipes and adapters give them."""

from __future__ import annotations

import os
from typing import Any

from vagen_rewards.composed import FallbackJudge
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.rule_judge import RuleJudge
from vagen_rewards.scores import Judge

NAMES = "rule, rule-direct, llm:MODEL, llm-structured:MODEL, or several of them with commas between"


def make_judge(name: str, **llm_options: Any) -> Judge:
    """The judge of this name.

    Args:
        name: `rule`, `rule-direct`, `llm:MODEL` or `llm-structured:MODEL`. Of several with commas between, each is
            asked about what the one before left unscored or unread (`FallbackJudge`).
        llm_options: of `LLMJudge`, for those that are one.

    Raises:
        JudgeConfigError: there is no such judge, or its endpoint has no key.
        MissingExtraError: its extra isn't installed.
    """
    kind, _, model = name.partition(":")
    if "," in name:
        return FallbackJudge(*[make_judge(each.strip(), **llm_options) for each in name.split(",")])
    if name == "rule":
        return RuleJudge()
    if name == "rule-direct":
        return RuleJudge("direct")
    if kind in ("llm", "llm-structured") and model:
        return _llm_judge(kind, model, **llm_options)
    raise JudgeConfigError(f"unknown judge {name!r}; use {NAMES}")


def _llm_judge(kind: str, model: str, **options: Any) -> Judge:
    from vagen_rewards.llm import LLMJudge

    if options.get("max_dollars") is not None and options.get("price") is None:
        raise JudgeConfigError("max_dollars needs the model's price, in dollars per million tokens")
    if not options.get("api_key") and not os.environ.get("OPENAI_API_KEY"):
        raise JudgeConfigError(
            f"the judge {kind}:{model} needs a key: set the environment variable OPENAI_API_KEY (any word for a server "
            "of your own, which base_url or OPENAI_BASE_URL names)"
        )
    return LLMJudge(model, "direct" if kind == "llm" else "structured", **options)
