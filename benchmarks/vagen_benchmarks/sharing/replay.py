"""Play a stored episode again by its own replies, and compare."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.playing import is_quick
from vagen_benchmarks.runs.protocol import Task, differing
from vagen_benchmarks.sharing.files import plain
from vagen_benchmarks.stop_reasons import ENDING_STOPS, Stop
from vagen_envs.errors import VagenError
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_rewards.scores import PARTS

JUDGED = frozenset({*PARTS, "repetition"})
"""The reward terms of judges."""
LONGEST_REPLY = 1 << 28
"""Characters beyond which a stored length is taken to be wrong: padding costs memory."""
CLOSE = 1e-5
"""The relative difference up to which another machine's simulator may have computed a number."""


def replay(
    episode: Episode, task: Task, env: gym.Env[dict[str, Any], str], judged: bool
) -> tuple[list[str], list[str]]:
    """What of an episode is wrong, and what is off by no more than another machine's arithmetic."""
    try:
        _, info = env.reset(seed=episode.seed)
    except VagenError as error:
        return [] if episode.failure else [f"its level can't be made: {error}"], []
    if episode.content != info["level"]["content"] and (episode.content or episode.failure is None):
        return ["it was played on another level than its seed makes"], []
    # Without simulator and renderer every byte is the same on every machine.
    exact = is_quick(task.env_id)
    found: list[tuple[str, Any, Any]] = []
    over = False
    for i, stored in enumerate(episode.turns):
        if over:
            return [f"turn {i + 1} comes after the episode's end"], []
        _, _, terminated, truncated, info = env.step(_original_reply(stored))
        over = terminated or truncated
        mine = plain(info["turn"].to_json())
        here = [*differing(mine, _unjudged(stored, mine) if judged else stored, f"turn {i + 1}")]
        found += here
        if any(exact or not _is_close(*each) for each in here):
            break  # what comes after only follows
    lines = [
        f"{path} is {claimed!r:.60} and should be {mine!r:.60}" for path, mine, claimed in found
    ]
    if any(exact or not _is_close(*each) for each in found):
        return lines, []
    return _ending_findings(episode, over), lines


def _original_reply(stored: Mapping[str, Any]) -> str:
    """A stored reply at its original length: of a longer one than is read only the end is
    stored.
    """
    reply: str = stored["reply"]
    messages = [
        str(problem["message"])
        for problem in stored["parsed"]["problems"]
        if problem["code"] == "too_long"
    ]
    length = re.search(r"\d{1,9}", messages[0]) if messages else None
    if length is None or len(reply) != MAX_TEXT_LENGTH or int(length[0]) > LONGEST_REPLY:
        return reply
    return reply.rjust(int(length[0]), "x")


def _ending_findings(episode: Episode, over: bool) -> list[str]:
    """Whether the turns bear the ending out."""
    by_rules = episode.ended.kind in (Stop.SOLVED, Stop.LOST, Stop.BUDGET)
    if by_rules and not over:
        return [f"it is recorded as ended by {episode.ended.kind}, but the environment went on"]
    if not over:
        return []
    last = episode.turns[-1]
    call = episode.calls[-1]
    stop = ENDING_STOPS.get(call["ending"]) if call else None
    if stop is episode.ended.kind and not last["metrics"]["success"]:
        return []
    by_turns = _ending_of(last)
    if by_turns is episode.ended.kind:
        return []
    return [f"it ended as {by_turns}, and {episode.ended.kind} is stored"]


def _ending_of(last: Mapping[str, Any]) -> Stop:
    """How an episode ended by its last turn."""
    if last["metrics"]["success"]:
        return Stop.SOLVED
    return Stop.LOST if last["terminated"] else Stop.BUDGET


def _unjudged(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    """A stored turn of a judged run, with those metrics and reward terms alone that the environment
    gives.
    """
    metrics = {name: value for name, value in stored["metrics"].items() if name in mine["metrics"]}
    rewards = [term for term in stored["rewards"] if term["name"] not in JUDGED]
    return {**stored, "metrics": metrics, "rewards": rewards}


def _is_close(path: str, mine: Any, claimed: Any) -> bool:
    """Whether a difference may be another machine's: a number's last digits, or a picture of
    another renderer.
    """
    if path.endswith("picture.sha256"):
        return True
    numbers = isinstance(mine, float) and isinstance(claimed, float)
    return numbers and math.isclose(mine, claimed, rel_tol=CLOSE, abs_tol=CLOSE)
