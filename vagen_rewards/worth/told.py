"""What an agent knows without looking: what its prompts give away of a state, and what its own actions do for sure."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from vagen_envs.core import State, Turn
from vagen_envs.grid import SIDES
from vagen_envs.navigation.state import words


class Told(NamedTuple):
    """What an agent is told without looking, of a kind of state.

    Attributes:
        key: what of it a state was told; equal keys are told the same.
        fit: another state as it would be if the same had been told there; `None` if it couldn't have been.
        unnamed: a state's words with a name that fits what is told of any other, such as "the target object".
        guess: how likely a claim about such a state is guessed right by what is told, under an environment's options.
    """

    key: Callable[[Any], Hashable]
    fit: Callable[[Any, Any], State | None]
    unnamed: Callable[[Any, str], str] | None = None
    guess: Callable[[Any, Any, Mapping[str, Any]], float] | None = None


class Unseen(NamedTuple):
    """What is known without looking, of a kind of state; the functions are those of `register_…`."""

    told: Told | None = None
    done: Callable[[Sequence[str]], Hashable] | None = None
    stood: Callable[[Any], Hashable] | None = None
    made: Callable[[Any], bool] | None = None


_UNSEEN: dict[str, Unseen] = {}


def _of(kind: str) -> Unseen:
    return _UNSEEN.get(kind, Unseen())


def register_told(
    kind: str,
    key: Callable[[Any], Hashable],
    fit: Callable[[Any, Any], State | None],
    unnamed: Callable[[Any, str], str] | None = None,
    guess: Callable[[Any, Any, Mapping[str, Any]], float] | None = None,
) -> None:
    """Say what the prompts of your environment give away of a state, so that to repeat it is worth nothing.

    Args:
        kind: the state's `kind`.
        key: of a state, what is told of it (hashable).
        fit: of a reference state and the state at hand, the reference as it would be under the same prompt; `None`
            leaves it out.
        unnamed: of a state and words about it, the words with a name that fits what is told of any state; the search
            for constant statements tries both.
        guess: of a claim, a state of the same `key` and the environment's options, how likely the claim is guessed
            right by the prompt's text alone, 0 to 1: it is taken to be no rarer than that.
    """
    _UNSEEN[kind] = _of(kind)._replace(told=Told(key, fit, unnamed, guess))


def register_done(kind: str, done: Callable[[Sequence[str]], Hashable]) -> None:
    """Say what actions do that is sure without looking, so that to foretell it is worth nothing.

    Who turns right has the target, that was ahead, on the left; to do so always and to foretell it needs no eyes.

    Args:
        kind: the state's `kind`.
        done: of a turn's executed actions, in their canonical form, a number or a word (it stands in JSON): how common
            a claim is, is also measured among the turns in which as much was done, of play that doesn't look by itself.
    """
    _UNSEEN[kind] = _of(kind)._replace(done=done)


def register_stood(kind: str, stood: Callable[[Any], Hashable]) -> None:
    """Say what one may know of where one stands without looking, so that to say what follows from it is worth less.

    Who went left all the time stands at the left edge, and has the goal on the right.

    Args:
        kind: the state's `kind`.
        stood: of a state, what may be known: how common a claim is, is also measured among states of which it is known.
    """
    _UNSEEN[kind] = _of(kind)._replace(stood=stood)


def register_made(kind: str, made: Callable[[Any], bool]) -> None:
    """Say which claims of a prediction are about what the reply itself makes: to describe it truly is worth nothing.

    Who draws the same circle in every turn knows that there will be a circle.

    Args:
        kind: the state's `kind`.
        made: whether a claim is of that sort.
    """
    _UNSEEN[kind] = _of(kind)._replace(made=made)


def told_of(kind: str) -> Told | None:
    """What is told of states of this kind, if anything is."""
    return _of(kind).told


def unnamed(state: State, text: str) -> str:
    """Words about a state with a name that fits what is told of any other."""
    told = told_of(state.kind)
    return text if told is None or told.unnamed is None else told.unnamed(state, text)


def knows_done(kind: str) -> bool:
    """Whether it matters to states of this kind what was done."""
    return _of(kind).done is not None


def done_in(turn: Turn) -> Hashable:
    """What was done in a turn, as far as it matters to its kind of state."""
    return done_by(turn.before.kind, [each.text for each in turn.executed])


def done_by(kind: str, actions: Sequence[str]) -> Hashable:
    """What actions do, as far as it matters to this kind of state."""
    done = _of(kind).done
    return None if done is None else done(actions)


def stood_in(state: Any) -> Hashable:
    """What may be known of where one stands."""
    stood = _of(getattr(state, "kind", "")).stood
    return None if stood is None else stood(state)


def held_before(claim: Any, before: Any, holds: bool | None) -> bool:
    """Whether a claim that holds, or doesn't, now did so before, or is about what one has made oneself and holds."""
    return claim.holds(before) is True or bool(holds and is_made(claim, before))


def is_made(claim: Any, state: Any) -> bool:
    """Whether a claim is about what one has made oneself."""
    made = _of(getattr(state, "kind", "")).made
    return made is not None and made(claim)


# -- boards ----------------------------------------------------------------------------------------


def _moved(actions: Sequence[str]) -> int:
    """Whether up or down and whether left or right, all moves together: 0 to 8."""
    return _way(actions, "Down", "Up", "Right", "Left")


def _way(actions: Sequence[str], first: str, contrary: str, second: str, its_contrary: str) -> int:
    """Which of two contraries is more often among the actions, of two pairs: 0 to 8, and 4 for none."""
    one, other = (
        actions.count(there) - actions.count(back) for there, back in ((first, contrary), (second, its_contrary))
    )
    return 3 * (1 + (one > 0) - (one < 0)) + 1 + (other > 0) - (other < 0)


def _stopped(state: Any) -> int:
    """At which sides of the player there is nowhere to go, as bits."""
    row, column = state.player
    return sum(1 << i for i, (down, right) in enumerate(SIDES.values()) if _is_wall(state, row + down, column + right))


def _is_wall(state: Any, row: int, column: int) -> bool:
    if state.kind == "sokoban":
        return not state.floor >> row * state.width + column & 1
    return not (0 <= row < state.size and 0 <= column < state.size)


for _board in ("sokoban", "frozen_lake"):
    register_done(_board, _moved)
    register_stood(_board, _stopped)


# -- Navigation ------------------------------------------------------------------------------------


def _gone(actions: Sequence[str]) -> int:
    """Quarters to the right, 0 to 3; without turning which way, 4 more than `_way` says, if any."""
    quarters = (actions.count("rotateright") - actions.count("rotateleft")) % 4
    way = _way(actions, "moveahead", "moveback", "moveright", "moveleft")
    return quarters if quarters or way == 4 else 4 + way


def _turned(state: Any) -> int:
    return cast(int, state.turned)


def _sought(state: Any) -> str:
    return str(state.target_type)


def _seek(state: Any, here: Any) -> State:
    """The instruction names the target, so "the lamp is ahead" says no more than "the target is ahead"."""
    if state.target_type == here.target_type:
        return cast(State, state)
    names = {state.target_type: here.target_type, here.target_type: state.target_type}
    seen = tuple([(names.get(kind, kind), where, far) for kind, where, far in state.visible_objects])
    return cast(State, dataclasses.replace(state, target_type=here.target_type, visible_objects=seen))


def _target(state: Any, text: str) -> str:
    return re.sub(rf"\b{re.escape(words(state.target_type))}\b", "target object", text)


register_told("navigation", _sought, _seek, _target)
register_done("navigation", _gone)
register_stood("navigation", _turned)


# -- PrimitiveSkill and SVG ------------------------------------------------------------------------


def _task(state: Any) -> Hashable:
    return (state.task, tuple(sorted(state.positions)))


def _same_task(state: Any, here: Any) -> State | None:
    return state if _task(state) == _task(here) else None


def _guessed(claim: Any, state: Any, options: Mapping[str, Any]) -> float:
    """The text lists where things are, without names: what has to be seen is which of several cubes is which.

    Else who copies the list, and names what there is but one of, earns 1 in the drawer's task. Where things went, and
    what the gripper holds, follows from that and from one's own actions.
    """
    if not options.get("positions_in_text", True):
        return 0.0
    named = dict.fromkeys(value for value in _values_of(claim) if isinstance(value, str) and value in state.positions)
    left = Counter(_noun(name) for name in state.positions)
    share = 1.0
    for name in named:
        share /= left[_noun(name)]
        left[_noun(name)] -= 1
    return share


def _values_of(claim: Any) -> list[Any]:
    """The values of a claim's fields."""
    return [getattr(claim, field.name) for field in dataclasses.fields(claim)]


def _noun(name: str) -> str:
    return name.rpartition("_")[2]


def _drawn(claim: Any) -> bool:
    return getattr(claim, "where", "") == "drawing"


register_told("primitive_skill", _task, _same_task, guess=_guessed)
# Who wrote a drawing knows it in the next turn: the same one, described in every turn, earned 0.55.
register_told("svg", lambda _: None, lambda state, _: state, guess=lambda claim, *_: float(_drawn(claim)))
register_made("svg", _drawn)
