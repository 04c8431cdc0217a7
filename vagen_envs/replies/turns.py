"""What stands beside an answer: words that take it back, and a next turn that the model makes
up.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from vagen_envs.replies.tags import SPECIAL_TOKEN, TAGS, Span, within
from vagen_envs.replies.vocabulary import (
    ACTION_NOUNS,
    DENIALS,
    JUDGED,
    OWN,
    SECOND_THOUGHTS,
    SPEAKERS,
    words_of,
)

_LEADING = 4  # words right before an answer that are read
_NEAR = 80  # characters on either side of an answer that are read
_MOST_WORDS = 4  # of a heading

_BLANK = " \t\"'`(*_-"
_AFTER = re.compile(r"[\s\"'`)*_.,;:…–—-]*(?:</\w+>\s*)*")
_SENTENCE_GOES_ON = re.compile(r"[ \t\"'`)*_,;:.…–—-]*(?P<next>\?|[^\W\d_])")
_JOINS = re.compile(r"[ \t,;]*(?:and|then|next)\b[^<\n]{0,20}<", re.IGNORECASE)
_LAST_CLAUSE = re.compile(r"(?:\A|[.!?,;:>\n]|\b(?:so|thus|therefore|hence)\b)([^.!?,;:>\n]*)\Z")
_POINTS_BACK = frozenset(("that", "this", "it", "which", "that's", "it's"))
_TURN_MARK = re.compile(
    r"</?tool_response>|<image>|!\[|\{\s*\"role\"|</?(?:user|human|system|environment|turn)\b[^<>]{0,20}>"
    r"|(?<=/answer>)\s*<observation>|(?:^|(?<=>)[ \t]*)Nothing was executed\.",  # our own
    re.IGNORECASE | re.MULTILINE,
)
_HEADING = re.compile(
    r"(?:^|(?<=>))[ \t>#*=_(~|-]*(?:\[(?P<bracketed>[^\[\]\n]{1,60})\](?!\()"
    r"|<(?P<tag>[^\W\d_][\w -]{1,40})>"
    r"|(?P<label>[^\W_][^\n:\[\]<>.!?。]{0,38}):"
    r"|(?P<line>[^\W_][\w #/.]{0,20}?)[ \t.)#*=_~-]*$)",
    re.MULTILINE,
)
_NEUTRAL = frozenset(("next", "new"))
"""Words of a line beside those of the other side, as in "Next turn"."""


def is_taken_back(text: str, start: int, end: int, begin: int = 0) -> bool:
    """Whether an answer, with its tags at `text[start:end]`, is no more than a part of what a
    sentence speaks of.

    So it is where the sentence goes on after it, and where the words right before or after it take
    it back. What stands before it is read from `begin`.
    """
    before = text[max(begin, start - _NEAR) : start].rstrip(_BLANK)
    if before.rstrip("\n").endswith(":"):
        before = before.rstrip(f"{_BLANK}\n:")
    clause = _LAST_CLAUSE.search(before)
    if clause and not DENIALS.isdisjoint(words_of(clause[1])[-_LEADING:]):
        return True
    after = text[end : end + _NEAR]
    if _JOINS.match(after):
        return False
    goes_on = _SENTENCE_GOES_ON.match(after)  # in a script without capitals none shows
    return (goes_on is not None and not goes_on["next"].isupper()) or _is_judged(after)


def _is_judged(after: str) -> bool:
    """Whether the sentence after an answer takes it back: "Wait, no", "That is a hole"."""
    gap = _AFTER.match(after)
    sentence = re.split(r"[.!?\n<]", after[gap.end() :] if gap else after, maxsplit=1)[0]
    words = words_of(sentence)
    if not words:
        return False
    return words[0] in DENIALS or (words[0] in _POINTS_BACK and not JUDGED.isdisjoint(words))


def corrects(gap: str) -> bool:
    """Whether what stands between two answers can only be a second thought, which the last one
    follows, and not another's: nothing, or words that begin with a denial or a second thought.
    """
    words = words_of(re.sub(r"<[^<>]{0,40}>", " ", gap))
    if not words:
        return True
    begins = words[0] in DENIALS or words[0] in SECOND_THOUGHTS
    return begins and SPEAKERS.isdisjoint(words)


def end_of_reply(text: str, answered: int, thoughts: Sequence[Span]) -> int:
    """Where a reply whose first complete answer ends at `answered` goes over into another's
    message; its length if it doesn't.

    A conversation that is quoted within `thoughts` doesn't end it.
    """
    marks = itertools.chain(
        (token for token in SPECIAL_TOKEN.finditer(text, answered) if len(token[0]) > 1),
        _TURN_MARK.finditer(text, answered),
        filter(_is_anothers, _HEADING.finditer(text, answered)),
    )
    places = (mark.start() for mark in marks if not within(mark.start(), thoughts))
    return min(places, default=len(text))


def _is_anothers(heading: re.Match[str]) -> bool:
    """Whether a heading can only be that of another's message."""
    words = words_of(heading[str(heading.lastgroup)].replace("_", " "))
    named = not SPEAKERS.isdisjoint(words)
    own = not OWN.isdisjoint(words)
    if heading["line"]:
        others = [word for word in words if word not in SPEAKERS and word not in _NEUTRAL]
        return named and all(map(str.isdigit, others))
    if heading["bracketed"]:
        return bool(words) and (not own or any(map(str.isdigit, words)))
    if heading["tag"]:
        return named and heading["tag"] not in TAGS and "call" not in words
    if len(words) > _MOST_WORDS or not named:
        return False
    return not own or (words[0] in SPEAKERS and OWN.intersection(words) <= ACTION_NOUNS)
