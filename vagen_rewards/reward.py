"""The visual reasoning reward (VAGEN, sections 5.1 and 5.3) as a function from a turn to reward
terms.

    reward = ReasoningReward()
    terms = reward(info["turn"])

The wrapper, the trainer, every adapter and the command line use this one object.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, cast

import gymnasium as gym

from vagen_envs.core import RewardTerm, Turn, VagenEnv
from vagen_envs.errors import did_you_mean
from vagen_rewards.bonus import OURS, REPETITION, budget_of, remaining
from vagen_rewards.contrast import Contrast, contrast_for
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.hacking import RepetitionPenalty, penalty_of
from vagen_rewards.judges import make_judge
from vagen_rewards.reader import Reading
from vagen_rewards.rule_judge import RuleJudge
from vagen_rewards.scores import (
    PARTS,
    Judge,
    Part,
    Score,
    Statement,
    TurnScores,
    each_or_unscored,
    passes,
    share_unread,
    statements_of,
    wait_for,
)

_PLAYING = threading.Lock()
"""Levels of comparison are played in one environment of a configuration, which rewards share."""


class ReasoningReward:
    """Pays a turn for what its reply says it sees and foresees: β_g · score(observation) + β_w ·
    score(prediction).

    Args:
        judge: reads the words; `RuleJudge()` by default, or a judge's name (`make_judge`).
        beta_grounding, beta_world_modeling: β_g and β_w; 0.5 each in section 5.3. A part of weight
            0 isn't judged.
        gate: pay only in turns of correct format in which an action was executed, as the released
            code does. Other turns are not judged at all.
        weighting: `"contrast"`: of each fact that a full description has, whether the text is
            right, wrong or silent, minus the mean over states that look the same without the
            picture (`vagen_rewards.contrast`). A full description earns 1 on average, a constant
            statement 0. Needs a judge that reads claims. `"plain"`: the judge's own score, from 0
                to 1; with `RuleJudge()` the paper's F1, by which a constant statement earns 0.2
            to 1.0, depending on the environment.
        penalty: of frequent sentences with a low score, adds the term `repetition`: a
            `RepetitionPenalty`, `True` or `"paper"` for the paper's, `None` for none.
        per_turn: pay each turn the same, as the paper does. By default a budget of more turns than
            the environment's own pays no more in all, and success earns the turns that are left
            (`vagen_rewards.bonus`).
        env_options: options of the environment whose turns are paid, as for `gym.make`; comparison
            states are drawn with them. `of(env)` takes them from an environment.

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
        per_turn: bool = False,
        env_options: Mapping[str, Any] | None = None,
    ) -> None:
        if judge is None:
            self.judge: Judge = RuleJudge()
        else:
            self.judge = make_judge(judge) if isinstance(judge, str) else judge
        if weighting not in ("contrast", "plain"):
            raise JudgeConfigError(
                f"weighting {weighting!r} is not known; use 'contrast' or 'plain'"
            )
        if weighting == "contrast" and not self.judge.reads:
            raise JudgeConfigError(
                f"the judge {self.judge.name} gives verdicts, not claims, so they can't be "
                "weighed by what they tell; use weighting='plain', or a judge that reads: rule "
                "or llm-structured:MODEL"
            )
        self.betas: dict[Part, float] = {
            "grounding": float(beta_grounding),
            "world_modeling": float(beta_world_modeling),
        }
        self.gate = gate
        self.weighting = weighting
        self.per_turn = per_turn
        self.penalty = penalty_of(penalty)
        self.env_options = dict(env_options or {})

    @classmethod
    def from_options(cls, options: Mapping[str, Any], env: VagenEnv | None = None) -> Self:
        """From options as files and command lines give them.

        Args:
            options: those of the class; `grounding` and `world_modeling` are the weights, `llm` a
                table of options of `LLMJudge`.
            env: the environment whose turns are paid.
        """
        said = dict(options)
        known = ("judge", "llm", "gate", "weighting", "penalty", "per_turn", *PARTS)
        for name in said:
            if name not in known:
                raise JudgeConfigError(
                    f"unknown option {name!r} of the reasoning reward.{did_you_mean(name, known)}"
                )
        betas = {f"beta_{part}": said.pop(part) for part in PARTS if part in said}
        if betas and len(betas) < len(PARTS):  # one part alone is named: the other isn't paid
            betas = {f"beta_{part}": betas.get(f"beta_{part}", 0.0) for part in PARTS}
        judge = said.pop("judge", None)
        llm = said.pop("llm", {})
        made = make_judge(judge, **llm) if isinstance(judge, str) else judge
        reward = cls(made, **betas, **said)
        return reward if env is None else reward.of(env)

    def of(self, env: gym.Env[Any, Any] | Mapping[str, Any]) -> Self:
        """The same reward, judge and memory for the turns of this environment, or of one with these
        options.
        """
        twin = copy.copy(self)
        if isinstance(env, Mapping):
            twin.env_options = dict(env)
        else:
            twin.env_options = dataclasses.asdict(cast(Any, env.unwrapped).config)
        return twin

    def describe(self) -> dict[str, Any]:
        """What belongs to a protocol."""
        return {
            "judge": self.judge.name,
            "betas": dict(self.betas),
            "gate": self.gate,
            "weighting": self.weighting,
            "penalty": "paper" if self.penalty else None,
            "per_turn": self.per_turn,
        }

    def prepare(self, env_id: str) -> None:
        """Draw the levels of comparison of this environment now: up to some seconds, once in a
        process.
        """
        if self.weighting == "contrast":
            with _PLAYING:
                self._contrast(env_id).comparisons.prepare()

    # -- paying ------------------------------------------------------------------------------------

    def __call__(self, turn: Turn, earlier: Sequence[Turn] = ()) -> tuple[RewardTerm, ...]:
        """The reward terms of a turn, as `paid` gives them. Unscored statements add nothing."""
        return tuple([term for term in self.paid(turn, earlier)[0].rewards if term.name in OURS])

    def read(self, turn: Turn) -> list[tuple[Statement, Reading | Score]]:
        """The statements of a turn that are paid for, and what the judge reads in each. Blocks."""
        made = self._statements(turn)
        return list(zip(made, self._asked(made, self._readings), strict=True))

    def paid(
        self,
        turn: Turn,
        earlier: Sequence[Turn] = (),
        read: Sequence[tuple[Statement, Reading | Score]] | None = None,
    ) -> tuple[Turn, TurnScores]:
        """The turn with the reward's terms and metrics, and its scores. Blocks.

        Args:
            turn: a turn.
            earlier: the paid turns of its episode before it, the first one first. Their actions and
                feedback are what an agent knows without looking, and their bonuses what success
                earns for the turns that are left.
            read: what `read` gave, which isn't read again.
        """
        if self.weighting == "contrast":
            scores = self._weighed(turn, earlier, self.read(turn) if read is None else read)
        else:
            made = self._statements(turn)
            scored = self._asked(made, self._scores)
            parts = [statement.part for statement in made]
            scores = TurnScores(**dict(zip(parts, scored, strict=True)))
        return self.with_scores(turn, scores, earlier), scores

    async def paid_all(self, turns: Sequence[Turn]) -> list[tuple[Turn, TurnScores]]:
        """The same of the turns of episodes, one after another; the judge is given all statements
        at once.
        """
        asked = [self._statements(turn) for turn in turns]
        flat = [statement for of_turn in asked for statement in of_turn]
        contrast = self.weighting == "contrast"
        answers: Any = await (self._readings(flat) if contrast else self._scores(flat))
        found = iter(answers)
        paid: list[tuple[Turn, TurnScores]] = []
        episode: list[Turn] = []
        for turn, made in zip(turns, asked, strict=True):
            if turn.index != len(episode) or (episode and episode[0].level != turn.level):
                episode = []
            verdicts: Any = [(each, next(found)) for each in made]
            if contrast:
                scores = self._weighed(turn, episode, verdicts)
            else:
                scores = TurnScores(**{each.part: score for each, score in verdicts})
            done = self.with_scores(turn, scores, episode)
            paid.append((done, scores))
            episode = [*episode, done]
        return paid

    def _asked(self, made: list[Statement], ask: Callable[[list[Statement]], Any]) -> list[Any]:
        """What a judge answers. The rules answer at once, so that no event loop has to be waited
        for.
        """
        if isinstance(self.judge, RuleJudge):
            one = self.judge.read if ask == self._readings else self.judge.score
            return [one(each) for each in made]
        return cast(list[Any], wait_for(ask(made)))

    async def _readings(self, made: list[Statement]) -> list[Reading | Score]:
        return await each_or_unscored(self.judge.read_many, made)

    async def _scores(self, made: list[Statement]) -> list[Score]:
        return await each_or_unscored(self.judge.score_many, made)

    def _statements(self, turn: Turn) -> list[Statement]:
        if self.gate and not passes(turn):
            return []
        all_of_turn = statements_of(turn, self.judge.needs_pictures)
        return [statement for statement in all_of_turn if self.betas[statement.part]]

    def _weighed(
        self,
        turn: Turn,
        earlier: Sequence[Turn],
        read: Sequence[tuple[Statement, Reading | Score]],
    ) -> TurnScores:
        scores: dict[Part, Score] = {}
        for statement, reading in read:
            if isinstance(reading, Score):
                scores[statement.part] = reading
                continue
            facts = [claim.key for claim in reading.claims]
            held = [fact.holds(statement.state) for fact in facts]
            if held.count(None) == len(held):
                reason = "no claim that can be checked was read"
                unread = reading.unread or ((0, len(statement.text)),)
                scores[statement.part] = Score.unscored(reason, unread)
                continue
            with _PLAYING:
                contrast = self._contrast(turn.env_id)
                value = contrast.score(statement.part, facts, turn, earlier)
            if reading.matters:  # what wasn't read may be false
                value = min(0.0, value)
            reason = f"{held.count(True)} of {len(held)} claims are right; contrast {value:.2f}"
            scores[statement.part] = Score(value, reason, reading.unread)
        return TurnScores(**scores)

    def _contrast(self, env_id: str) -> Contrast:
        return contrast_for(env_id, json.dumps(self.env_options, sort_keys=True, default=str))

    # -- what stands in the turn -------------------------------------------------------------------

    def with_scores(self, turn: Turn, scores: TurnScores, earlier: Sequence[Turn] = ()) -> Turn:
        """The turn with the scores' reward terms and metrics; those that it had of these names are
        replaced.
        """
        budget = None if self.per_turn else budget_of(turn.env_id, self.env_options)
        share = 1.0 if budget is None else budget.share
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
            terms.append(RewardTerm(part, share * self.betas[part] * score.value))
            if self.penalty is not None:
                fine += self.penalty.fine(text, score.value)
        if fine:
            terms.append(RewardTerm(REPETITION, share * fine))
        if budget is not None:
            terms += remaining(turn, terms, earlier, budget.turns)
        other_metrics = {name: value for name, value in turn.metrics.items() if name not in _OWN}
        other_terms = [term for term in turn.rewards if term.name not in OURS]
        return dataclasses.replace(
            turn, rewards=(*other_terms, *terms), metrics={**other_metrics, **metrics}
        )


_OWN = frozenset(
    {
        "reasoning_gated",
        *(f"{part}{end}" for part in PARTS for end in ("", "_reason", "_unscored", "_unread")),
    }
)
