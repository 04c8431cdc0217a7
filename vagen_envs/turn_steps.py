"""The steps of a turn: read the reply, carry its actions out, reward them, show what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from vagen_envs.forking import Forkable
from vagen_envs.replies import Action, ParsedTurn, Problem
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_envs.turn import IMAGE_PLACEHOLDER, Executed, Observation, RewardTerm


class TurnSteps(Forkable):
    """The part of `VagenEnv` between a reply and the observation after it."""

    def _read(self, reply: str) -> tuple[str, ParsedTurn]:
        if len(reply) <= MAX_TEXT_LENGTH:
            return reply, self.grammar.parse(reply)
        cut = reply[-MAX_TEXT_LENGTH:]  # the answer stands at the end, after long visible thoughts
        parsed = self.grammar.parse(cut)
        message = (
            f"the reply has {len(reply)} characters; only the last {MAX_TEXT_LENGTH} were read"
        )
        problems = (*parsed.problems, Problem("too_long", message, 0, 0))
        return cut, dataclasses.replace(parsed, well_formed=False, problems=problems)

    def _carry_out(self, actions: Sequence[Action]) -> tuple[Executed, ...]:
        executed: list[Executed] = []
        for action in actions:
            executed.append(self._guarded(self._execute, action))
            self._played.append(action.text)
            self._steps += 1
            if self._solved() or self._lost() or self._steps >= self.config.max_steps:
                break
        return tuple(executed)

    def _reward_terms(
        self, parsed: ParsedTurn, executed: tuple[Executed, ...]
    ) -> tuple[RewardTerm, ...]:
        sums: dict[str, float] = {}
        for action in executed:
            for term in action.rewards:
                sums[term.name] = sums.get(term.name, 0.0) + term.value
        config = self.config
        formed = parsed.format_correct if config.format_needs_actions else parsed.well_formed
        if config.format_reward and formed:
            share = 1.0 if config.format_per_turn else config.bonus_share
            sums["format"] = share * config.format_reward
            left = config.max_turns - self._turns
            # Solved, the episode goes on in an absorbing state, as in DAC (arXiv:1809.02925).
            over = left > 0 and not self._running
            if over and not config.format_per_turn and self._solved():
                sums["remaining_format"] = left * sums["format"]
        return tuple([RewardTerm(name, value) for name, value in sums.items()])

    def _feedback_text(self, parsed: ParsedTurn, executed: tuple[Executed, ...]) -> str:
        done = "Nothing was executed."
        if executed:
            done = f"Executed: {', '.join([action.text for action in executed])}."
        feedback = [action.feedback for action in executed if action.feedback]
        notes = [f"Note: {problem.message}." for problem in parsed.problems]
        return " ".join([done, *feedback, *notes])

    def _observe(self, feedback: str | None) -> Observation:
        picture = self._look() if self._looks else None
        mode = self.config.observation
        view = IMAGE_PLACEHOLDER if mode == "image" else self._view_text()
        if mode == "both":
            view = f"{IMAGE_PLACEHOLDER}\n{view}"
        fields = self._fields()
        fields["view"] = view
        if feedback is not None:
            # Quoted from a reply, a placeholder would stand for a picture.
            fields["feedback"] = feedback.replace(IMAGE_PLACEHOLDER, "")
        text = self.prompts.observe(fields, over=not self._running)
        return Observation(text[:MAX_TEXT_LENGTH], picture)

    def _as_dict(self, observation: Observation) -> dict[str, Any]:
        if observation.picture is None:
            return {"text": observation.text}
        return {"image": observation.picture.pixels.copy(), "text": observation.text}
