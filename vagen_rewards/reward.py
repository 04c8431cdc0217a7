"""The visual reasoning reward (VAGEN, sections 5.1 and 5.3) as a function from a turn to reward terms.

    reward = ReasoningReward()
    terms = reward(info["turn"])

The wrapper, the trainer, every adapter and the command line use this one object.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

import gymnasium as gym

from vagen_envs.core import RewardTerm, Turn, VagenEnv
from vagen_envs.errors import did_you_mean
from vagen_rewards.contrast import LEAST, Contrast, contrast_for
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.hacking import RepetitionPenalty
from vagen_rewards.judges import make_judge
from vagen_rewards.reader import Fact, Reading
from vagen_rewards.rule_judge import RuleJudge, accepts
from vagen_rewards.scores import (
    PARTS,
    Judge,
    Part,
    Score,
    Statement,
    TurnScores,
    statements_of,
    wait_for,
)

REPETITION = "repetition"
"""The term of `RepetitionPenalty`."""

_PLAYING = threading.Lock()
"""Shadow episodes of a configuration are played in one environment, which rewards share."""

_OURS = frozenset({REPETITION, *PARTS})


class ReasoningReward:
    """Pays a turn for what its reply says it sees and foresees: β_g · score(observation) + β_w · score(prediction).

    Args:
        judge: reads the words; `RuleJudge()` by default, or a judge's name (`make_judge`).
        beta_grounding, beta_world_modeling: β_g and β_w; 0.5 each in section 5.3. A part of weight 0 isn't judged.
        gate: pay only in turns of correct format in which an action was executed, as the released code does. Other
            turns are not judged at all.
        weighting: `"contrast"`: a claim's truth minus its share of truth in states that look the same without the
            picture, and for a prediction also in the state before (`vagen_rewards.contrast`). The state's own
            description earns 1 on average, a constant statement 0; more than 0 earns only what `rule-direct` accepts.
            Needs a judge that reads claims. `"plain"`: the judge's own score, from 0 to 1; with `RuleJudge()` the
            paper's F1, by which a constant statement earns 0.2 to 1.0, depending on the environment.
        penalty: of frequent sentences with a low score, adds the term `repetition`: a `RepetitionPenalty`, `True` or
            `"paper"` for the paper's, `None` for none.
        env_options: options of the environment whose turns are paid, as for `gym.make`. Peer states come from it.
            `of(env)` takes them from an environment.

    Raises:
        JudgeConfigError: an option isn't known, or the judge can't do what `weighting` needs.
    """

    def __init__(
        self,
        judge: Judge | str | None = None,
        beta_grounding: float = 0.5,
        beta_world_modeling: float = 0.5,
        *,
        gate: bool = True,
        weighting: Literal["contrast", "plain"] = "contrast",
        penalty: RepetitionPenalty | bool | Literal["paper"] | None = None,
        env_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.judge = (
            RuleJudge() if judge is None else make_judge(judge) if isinstance(judge, str) else judge
        )
        if weighting not in ("contrast", "plain"):
            raise JudgeConfigError(
                f"weighting {weighting!r} is not known; use 'contrast' or 'plain'"
            )
        if weighting == "contrast" and not self.judge.reads:
            raise JudgeConfigError(
                f"the judge {self.judge.name} gives verdicts, not claims, so they can't be weighed by what they tell; "
                "use weighting='plain', or a judge that reads: rule or llm-structured:MODEL"
            )
        self.betas: dict[Part, float] = {
            "grounding": float(beta_grounding),
            "world_modeling": float(beta_world_modeling),
        }
        self.gate, self.weighting = gate, weighting
        if not isinstance(penalty, RepetitionPenalty) and penalty not in (
            None,
            False,
            "",
            True,
            "paper",
        ):
            raise JudgeConfigError(
                f"penalty {penalty!r} is not known; use 'paper' (or True), or a RepetitionPenalty"
            )
        self.penalty = (
            penalty
            if isinstance(penalty, RepetitionPenalty)
            else RepetitionPenalty()
            if penalty
            else None
        )
        self.env_options = dict(env_options or {})

    @classmethod
    def from_options(cls, options: Mapping[str, Any], env: VagenEnv | None = None) -> Self:
        """From options as files and command lines give them.

        Args:
            options: those of the class; `grounding` and `world_modeling` are the weights, `llm` a table of options
                of `LLMJudge`.
            env: the environment whose turns are paid.
        """
        said = dict(options)
        known = ("judge", "llm", "gate", "weighting", "penalty", *PARTS)
        for name in said:
            if name not in known:
                raise JudgeConfigError(
                    f"unknown option {name!r} of the reasoning reward.{did_you_mean(name, known)}"
                )
        betas = {f"beta_{part}": said.pop(part) for part in PARTS if part in said}
        if betas and len(betas) < len(PARTS):  # one part alone is named: the other isn't paid
            betas = {f"beta_{part}": betas.get(f"beta_{part}", 0.0) for part in PARTS}
        judge, llm = said.pop("judge", None), said.pop("llm", {})
        made = make_judge(judge, **llm) if isinstance(judge, str) else judge
        reward = cls(made, **betas, **said)
        return reward if env is None else reward.of(env)

    def of(self, env: gym.Env[Any, Any] | Mapping[str, Any]) -> Self:
        """The same reward, judge and memory for the turns of this environment, or of one with these options."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        options = (
            env if isinstance(env, Mapping) else dataclasses.asdict(cast(Any, env.unwrapped).config)
        )
        twin.env_options = dict(options)
        return twin

    def describe(self) -> dict[str, Any]:
        """What belongs to a protocol."""
        return {
            "judge": self.judge.name,
            "betas": dict(self.betas),
            "gate": self.gate,
            "weighting": self.weighting,
            "penalty": "paper" if self.penalty else None,
        }

    def prepare(self, env_id: str) -> None:
        """Play the reference of this environment now: seconds in simulators, once in a process."""
        if self.weighting == "contrast":
            contrast = self._contrast(env_id)
            for part in PARTS:
                if (
                    self.betas[part]
                    and max(contrast.norm(part, stage)[0] for stage in (0, 1)) < LEAST
                ):
                    warnings.warn(
                        f"{env_id}: {part} earns nothing here: all of it is known without the picture. Set "
                        f"{part}=0, or choose weighting='plain'",
                        stacklevel=2,
                    )

    # -- paying ------------------------------------------------------------------------------------

    def __call__(self, turn: Turn) -> tuple[RewardTerm, ...]:
        """The reward terms of a turn. Unscored statements add nothing."""
        return tuple([term for term in self.paid(turn)[0].rewards if term.name in _OURS])

    def read(self, turn: Turn) -> list[tuple[Statement, Reading | Score]]:
        """The statements of a turn that are paid for, and what the judge reads in each. Blocks."""
        return [(each, self.judge.read(each)) for each in self._statements(turn)]

    def paid(
        self, turn: Turn, read: Sequence[tuple[Statement, Reading | Score]] | None = None
    ) -> tuple[Turn, TurnScores]:
        """The turn with the reward's terms and metrics, and its scores. Blocks; what was `read` isn't read again."""
        contrast = self.weighting == "contrast"
        if not isinstance(self.judge, RuleJudge) and (read is None or not contrast):
            return wait_for(self.paid_all([turn]))[0]
        if contrast:  # the rules answer at once, so no event loop has to be waited for
            scores = self._weighed(turn, self.read(turn) if read is None else read)
        else:
            scores = TurnScores(
                **{each.part: self.judge.score(each) for each in self._statements(turn)}
            )
        return self.with_scores(turn, scores), scores

    async def paid_all(self, turns: Sequence[Turn]) -> list[tuple[Turn, TurnScores]]:
        """The same of many turns; the judge is given all statements at once."""
        asked = [self._statements(turn) for turn in turns]
        flat = [statement for each in asked for statement in each]
        if self.weighting == "plain":
            found = iter(await self.judge.score_many(flat) if flat else [])
            scored = [TurnScores(**{each.part: next(found) for each in said}) for said in asked]
        else:
            read = iter(await self.judge.read_many(flat) if flat else [])
            scored = [
                self._weighed(turn, [(each, next(read)) for each in said])
                for turn, said in zip(turns, asked, strict=True)
            ]
        return [
            (self.with_scores(turn, scores), scores)
            for turn, scores in zip(turns, scored, strict=True)
        ]

    def _statements(self, turn: Turn) -> list[Statement]:
        if self.gate and not passes(turn):
            return []
        return [
            each for each in statements_of(turn, self.judge.needs_pictures) if self.betas[each.part]
        ]

    def _weighed(self, turn: Turn, read: Sequence[tuple[Statement, Reading | Score]]) -> TurnScores:
        scores: dict[Part, Score] = {}
        for statement, reading in read:
            if isinstance(reading, Score):
                scores[statement.part] = reading
                continue
            facts: list[Fact] = [claim.key for claim in reading.claims]
            held = [fact.holds(statement.state) for fact in facts]
            if held.count(None) == len(held):
                reason = "no claim that can be checked was read"
                unread = reading.unread or ((0, len(statement.text)),)
                scores[statement.part] = Score.unscored(reason, unread)
                continue
            with _PLAYING:
                value = self._contrast(turn.env_id).score(statement.part, facts, turn)
            if value > 0 and not accepts(statement, reading):
                value = 0.0
            reason = f"{held.count(True)} of {len(held)} claims are right; contrast {value:.2f}"
            scores[statement.part] = Score(value, reason, reading.unread)
        return TurnScores(**scores)

    def _contrast(self, env_id: str) -> Contrast:
        return contrast_for(env_id, json.dumps(self.env_options, sort_keys=True, default=str))

    # -- what stands in the turn -------------------------------------------------------------------

    def with_scores(self, turn: Turn, scores: TurnScores) -> Turn:
        """The turn with the scores' reward terms and metrics; earlier ones of these names are replaced."""
        said = {"grounding": turn.parsed.observation, "world_modeling": turn.parsed.prediction}
        terms: list[RewardTerm] = []
        metrics: dict[str, bool | float | str] = {"reasoning_gated": self.gate and not passes(turn)}
        fine = 0.0
        for part, score in scores.by_part():
            text = said[part] or ""
            metrics[f"{part}_reason"] = score.reason
            metrics[f"{part}_unread"] = share_unread(text, score)
            if score.value is None:
                metrics[f"{part}_unscored"] = True
                continue
            metrics[part] = score.value
            terms.append(RewardTerm(part, self.betas[part] * score.value))
            if self.penalty is not None:
                fine += self.penalty.fine(text, score.value)
        if fine:
            terms.append(RewardTerm(REPETITION, fine))
        kept = {name: value for name, value in turn.metrics.items() if name not in _OWN}
        rewards = (*(term for term in turn.rewards if term.name not in _OURS), *terms)
        return dataclasses.replace(turn, rewards=rewards, metrics={**kept, **metrics})


_OWN = frozenset(
    {
        "reasoning_gated",
        *(f"{part}{end}" for part in PARTS for end in ("", "_reason", "_unscored", "_unread")),
    }
)


def passes(turn: Turn) -> bool:
    """The gate: whether the reply's format is correct, and an action of it was executed."""
    return turn.parsed.format_correct and bool(turn.executed)


def share_unread(text: str, score: Score) -> float:
    """The share of a text's characters that its judge didn't understand."""
    return min(1.0, sum(end - start for start, end in score.unread) / len(text)) if text else 0.0
