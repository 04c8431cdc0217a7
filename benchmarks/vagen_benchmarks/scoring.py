"""What agents say, judged while they play: verdicts in each turn, as `vagen judge rescore` gives them afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import BenchError, ProtocolError
from vagen_envs.core import Turn
from vagen_rewards import Judge, RuleJudge, score_turns_sync
from vagen_rewards.clip import ClipJudge
from vagen_rewards.scores import PARTS
from vagen_rewards.wrapper import with_scores


@dataclass(frozen=True)
class Scoring:
    """A judge and how much its scores weigh in the reward.

    Attributes:
        name: of the judge, as `make_judge` knows it.
        betas: weight of each part's score, by its name.
    """

    name: str
    judge: Judge
    betas: Mapping[str, float]

    def describe(self) -> dict[str, Any]:
        """What of it belongs to the protocol."""
        return {"judge": self.name, "version": self.judge.name, "betas": dict(self.betas)}

    def scored(self, turns: Sequence[Turn]) -> list[Turn]:
        """The turns with verdicts, reasons and reward terms. Blocks; may be called from threads."""
        scores = score_turns_sync(turns, self.judge)
        return [with_scores(turn, each, dict(self.betas)) for turn, each in zip(turns, scores, strict=True)]


def make_scoring(said: Mapping[str, Any] | None) -> Scoring | None:
    """From what a protocol says: `judge`, and `betas` (0.5 for each part, as in VAGEN's section 5.3).

    Raises:
        ProtocolError: something else is said.
        BenchError: there is no such judge.
    """
    if said is None:
        return None
    betas = {**dict.fromkeys(PARTS, 0.5), **said.get("betas", {})}
    unknown = ({*said} - {"judge", "version", "betas"}) | ({*betas} - {*PARTS})
    if unknown or not isinstance(said.get("judge"), str):
        raise ProtocolError(
            f"scoring {dict(said)!r} is not valid: give judge = 'rule' or another of `vagen judge`, "
            "and betas = {grounding = …, world_modeling = …} if not 0.5"
        )
    name = said["judge"]
    if name.startswith("llm") and not os.environ.get("OPENAI_API_KEY"):
        raise ProtocolError(
            f"the judge {name} needs a key: set the environment variable OPENAI_API_KEY (any word for a server of your "
            "own, which OPENAI_BASE_URL names)"
        )
    return Scoring(name, make_judge(name), {part: float(beta) for part, beta in betas.items()})


def make_judge(
    name: str, cache: Path | None = None, max_dollars: float | None = None, price: tuple[float, float] = (0.0, 0.0)
) -> Judge:
    """The judge of this name. Raises BenchError for an unknown one."""
    kind, _, model = name.partition(":")
    if name == "rule":
        return RuleJudge()
    if name == "rule-direct":
        return RuleJudge("direct")
    if kind in ("llm", "llm-structured") and model:
        from vagen_rewards.llm import LLMJudge, Price

        if max_dollars is not None and not any(price):
            raise BenchError("--max-dollars needs the model's --price, in dollars per million tokens")
        mode = "direct" if kind == "llm" else "structured"
        return LLMJudge(model, mode, cache=cache, price=Price(*price), max_dollars=max_dollars)  # type: ignore[arg-type]
    if kind == "clip":
        return ClipJudge(model or None)
    raise BenchError(f"unknown judge {name!r}; use rule, rule-direct, llm:MODEL, llm-structured:MODEL or clip:FOLDER")
