"""What goes wrong in an episode: errors of replies, of actions, and of how it ended."""

from __future__ import annotations

from typing import Any

from vagen_benchmarks.runs.episode import Episode

ACCEPTED = 0.5
"""The judge's score from which on a statement counts as right."""
JUDGED_ERRORS = {"grounding wrong": "grounding", "prediction wrong": "world_modeling"}
"""The errors that only a judge can tell, and the part of a reply that it judges."""


STOPS = ("filtered", "refused", "overflow", "empty", "cut", "unclear answer", "format")
"""Stop reasons of episodes and replies that say more of a model's provider or its writing than of
its play.
"""


COUNTED_AS = {
    **dict.fromkeys(STOPS[:3], "the episode ends and counts as not solved"),
    **dict.fromkeys(STOPS[3:6], "the reply counts as it is: a turn without what could not be read"),
    "format": "the turn counts; its actions are executed where they can be read",
}
"""How each of `STOPS` counts."""


ERRORS = (
    *STOPS,
    "invalid action",
    "too many actions",
    *JUDGED_ERRORS,
    "no progress",
    "lost",
    "budget",
    "given up",
)
"""What goes wrong in an episode, as `errors_of` names it."""


def errors_of(episode: Episode) -> set[str]:
    """What went wrong in an episode, read off its end and its turns.

    `filtered`, `refused`, `overflow`, `empty`, `cut`: a reply ended so, or the episode. `unclear
    answer`: an answer says more than the actions to execute. `format`: a reply wasn't well formed.
    `invalid action`: an action was refused, or there was none. `too many actions`: actions beyond
    the maximum were dropped. `grounding wrong`, `prediction wrong`: the judge, if there is one,
    scored the statement below `ACCEPTED`. `no progress`: actions were executed and none changed
    anything. And, unsolved, how it ended, as `Stop` has it.
    """
    found = set() if episode.success else {str(episode.ended.kind)}
    found.update(call["ending"] for call in episode.calls if call and call["ending"] in STOPS)
    for turn in episode.turns:
        codes = {problem["code"] for problem in turn["parsed"]["problems"]}
        refused = codes & {"unknown_action", "bad_argument", "no_action", "no_answer"}
        without_effect = turn["executed"] and not turn["metrics"]["action_is_effective"]
        wrong: dict[str, Any] = {
            "format": not turn["parsed"]["well_formed"],
            "unclear answer": "unclear_answer" in codes,
            "invalid action": refused,
            "too many actions": "too_many_actions" in codes,
            "no progress": without_effect,
        }
        for name, part in JUDGED_ERRORS.items():
            wrong[name] = turn["metrics"].get(part, ACCEPTED) < ACCEPTED
        found.update(name for name, is_so in wrong.items() if is_so)
    return found
