"""Where a reply goes over into a message of the other side that the model makes up."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from vagen_envs.replies.tags import SPECIAL_TOKEN, TAGS, Span, within
from vagen_envs.replies.vocabulary import BESIDE_SPEAKERS, OTHERS, SPEAKERS, words_of

_TURN_MARK = re.compile(
    r"!\[|\{\s*\"role\"|(?<=/answer>)\s*<observation>"
    r"|(?:^|(?<=>)[ \t]*)Nothing was executed\.",  # our own
    re.MULTILINE,
)
_HEADING = re.compile(  # "[Turn 2]", "<turn 2>", "Turn 2:", a line "### Turn 2", "user<|message|>"
    r"(?:^|(?<=>)|(?=<[|｜]))[^\w\n]{0,9}(?P<words>[^\W_][\w #/.-]{0,40}?)"
    r"[ \t.)#*=_~|｜-]*(?:[\]:>]|$|(?=<\|))",
    re.MULTILINE,
)


def end_of_reply(text: str, answered: int, thoughts: Sequence[Span], first: str = "") -> int:
    """Where a reply whose first complete answer ends at `answered` goes over into another's
    message; its length if it doesn't.

    A conversation that is quoted within `thoughts` doesn't end it, nor does the tag that is `first`
    in a reply of its own.
    """
    headings = filter(_is_anothers, _HEADING.finditer(text))
    marks = itertools.chain(
        template_tokens(text, answered),
        (mark for mark in _TURN_MARK.finditer(text, answered) if mark[0].lstrip() != first),
        (heading for heading in headings if heading.start() >= answered or _names_other(heading)),
    )
    places = (mark.start() for mark in marks if not within(mark.start(), thoughts))
    return min(places, default=len(text))


def template_tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """A chat template's tokens, without characters that have no width."""
    return (token for token in SPECIAL_TOKEN.finditer(text, start) if len(token[0]) > 1)


def _is_anothers(heading: re.Match[str]) -> bool:
    """Whether a heading names who writes the other messages, or what they are, and nothing else."""
    opener = {"]": "[", ">": "<"}.get(heading[0][-1], "")
    if opener not in heading[0] or (opener == "<" and heading["words"] in TAGS):
        return False
    words = _words_in(heading)
    others = [word for word in words if word not in SPEAKERS]
    return len(others) < len(words) and all(
        word.isdigit() or word in BESIDE_SPEAKERS for word in others
    )


def _names_other(heading: re.Match[str]) -> bool:
    """Whether a heading names whom a model never is; `<tool>` alone is a call's, `[/INST]` ends
    what another says.
    """
    words = _words_in(heading)
    return "/" not in heading[0] and words != ["tool"] and not OTHERS.isdisjoint(words)


def _words_in(heading: re.Match[str]) -> list[str]:
    return words_of(heading["words"].replace("_", " "))
