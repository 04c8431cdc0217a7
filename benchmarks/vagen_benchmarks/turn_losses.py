"""How many actions each turn of an episode lost, compared with the best play."""

from __future__ import annotations

from typing import Any, NamedTuple

from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.stop_reasons import ENDING_STOPS, Stop
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import LevelError
from vagen_rewards import RuleJudge
from vagen_rewards.scores import Part, Statement

_JUDGE = RuleJudge("claims")


class TurnLoss(NamedTuple):
    """The loss of a turn, in actions.

    Attributes:
        lost: actions by which the turn moved the end away, compared with the best play; at most
            those that remained.
        unread: actions that were left out because none could be read.
        saw, foresaw: whether the observation and the prediction are true; `None` if nothing could
            be judged.
    """

    lost: float
    unread: float
    saw: bool | None
    foresaw: bool | None


def turn_losses(env: VagenEnv, episode: Episode) -> list[TurnLoss]:
    """Replay an episode's replies in `env`, with text observations, and return each turn's loss."""
    env.reset(seed=episode.seed)
    left = _left(env)
    losses = []
    for stored in episode.turns:
        turn: Turn = env.step(stored["reply"])[4]["turn"]
        before = left
        left = _left(env)
        losses.append(_loss(env, turn, before, left))
    by_rules = episode.ended.kind in (Stop.SOLVED, Stop.LOST, Stop.BUDGET)
    call = episode.calls[-1] if episode.calls else None
    has_turn = call is not None and ENDING_STOPS.get(call["ending"]) is episode.ended.kind
    if not by_rules and not has_turn:
        # A prompt that didn't fit is the model's own loss: it gave nothing that could be executed.
        # A reply that ended the episode, such as a refusal, is a turn above.
        losses.append(TurnLoss(0, min(left or 0, env.config.max_actions_per_turn), None, None))
    return losses


def _left(env: VagenEnv) -> int | None:
    """Actions to the end; `None` if it can't be reached any more."""
    try:
        return len(env.plan())
    except LevelError:
        return None


def _loss(env: VagenEnv, turn: Turn, before: int | None, after: int | None) -> TurnLoss:
    saw = _is_true("grounding", turn.parsed.observation, turn.before)
    if before is None:  # lost already; nothing more can be
        return TurnLoss(0, 0, saw, None)
    if not turn.executed:
        return TurnLoss(0, min(before, env.config.max_actions_per_turn), saw, None)
    after = 0 if turn.success else after
    lost = before if after is None else len(turn.executed) + after - before
    return TurnLoss(
        min(before, max(0, lost)),
        0,
        saw,
        _is_true("world_modeling", turn.parsed.prediction, turn.after),
    )


def _is_true(part: Part, text: str | None, state: Any) -> bool | None:
    value = _JUDGE.score(Statement(part, text, state)).value if text else None
    return None if value is None else value == 1
