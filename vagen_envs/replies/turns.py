"""What stands beside an answer: words that take it back, and a next turn that the model makes
up.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from vagen_envs.replies.tags import SPECIAL_TOKEN, TAGS, in_ascii
from vagen_envs.replies.thinking import Span, within
from vagen_envs.replies.vocabulary import (
    ACTION_NOUNS,
    DENIALS,
    JUDGED,
    OWN,
    PARTS,
    SECOND_THOUGHTS,
    SPEAKERS,
    words_of,
)

_LEADING = 4  # words right before an answer that are read
_NEAR = 80  # characters on either side of an answer that are read

_BLANK = " \t\"'`(*_-"
_AFTER = re.compile(r"[\s\"'`)*_.,;:…–—-]*(?:</\w+>\s*)*")
_SENTENCE_GOES_ON = re.compile(r"[ \t\"'`)*_,;:.…–—-]*(?P<next>\?|[^\W\d_])")
_JOINS = re.compile(r"[ \t,;]*(?:and|then|next)\b[^<\n]{0,20}<", re.IGNORECASE)
_LAST_CLAUSE = re.compile(r"(?:\A|[.!?,;:>\n]|\b(?:so|thus|therefore|hence)\b)([^.!?,;:>\n]*)\Z")
_POINTS_BACK = frozenset(("that", "this", "it", "which", "that's", "it's"))


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
    return _sentence_goes_on(after) or _is_judged(after)


def _sentence_goes_on(after: str) -> bool:
    """Whether what follows on the line isn't a new sentence; in a script without capitals none
    shows.
    """
    goes_on = _SENTENCE_GOES_ON.match(after)
    return goes_on is not None and not goes_on["next"].isupper()


def _is_judged(after: str) -> bool:
    """Whether the sentence after an answer takes it back: "Wait, no", "That is a hole"."""
    gap = _AFTER.match(after)
    sentence = re.split(r"[.!?\n<]", after[gap.end() :] if gap else after, maxsplit=1)[0]
    words = words_of(sentence)
    if not words:
        return False
    return words[0] in DENIALS or (words[0] in _POINTS_BACK and not JUDGED.isdisjoint(words))


_TURN_MARK = re.compile(
    r"</?tool_response>|<image>|!\[|\{\s*\"role\"|</?(?:user|human|system|environment|turn)\b[^<>]{0,20}>"
    r"|(?<=/answer>)\s*<observation>|(?:^|(?<=>)[ \t]*)Nothing was executed\.",  # our own
    re.IGNORECASE | re.MULTILINE,
)
_DRESS = r"[ \t>#*=_(~|-]*"
_HEADING = re.compile(
    rf"(?:^|(?<=>)){_DRESS}(?:\[(?P<bracketed>[^\[\]\n]{{1,60}})\](?!\()"
    rf"|<(?P<tag>[^\W\d_][\w -]{{1,40}})>"
    rf"|(?P<label>[^\W_][^\n:\[\]<>.!?。]{{0,38}}):"
    rf"|(?P<line>[^\W_][\w #/.]{{0,20}}?)[ \t.)#*=_~-]*$)",
    re.MULTILINE,
)
_SENTENCE_END = re.compile(r"[.!?:\n]")
_CLAUSE_END = re.compile(r"[.!?:\n,;–—]")
_NEUTRAL = frozenset(("next", "new"))
"""Words of a line beside those of the other side, as in "Next turn"."""
_MOST_WORDS = 4  # of a label


def corrects(gap: str) -> bool:
    """Whether what stands between two answers can only be a second thought, which the last one
    follows, and not another's: a sentence that begins with a denial, or a clause with a word for a
    second thought that begins with it or as a model speaks of itself.
    """
    plain = re.sub(r"<[^<>]{0,40}>", ".", gap)  # a tag ends a sentence
    words = words_of(plain)
    if not words:
        return True
    if "executed" in words or not SPEAKERS.isdisjoint(words):
        return False
    sentences = filter(None, map(words_of, _SENTENCE_END.split(plain)))
    clauses = filter(None, map(words_of, _CLAUSE_END.split(plain)))
    denied = any(first in DENIALS for first, *_ in sentences)
    return denied or any(map(_is_second_thought, clauses))


def _is_second_thought(clause: Sequence[str]) -> bool:
    own = PARTS.get(clause[0]) == "lead" and not SECOND_THOUGHTS.isdisjoint(clause)
    return own or clause[0] in SECOND_THOUGHTS


class Ending(NamedTuple):
    """Where a reply ends.

    Attributes:
        end: where the other side's next message begins, else the length of the text.
        doubtful: where a line has a label that may be the other side's or the model's own, if one
            does.
    """

    end: int
    doubtful: int | None


def end_of_reply(text: str, answered: int, thoughts: Sequence[Span]) -> Ending:
    """Where a reply whose first complete answer ends at `answered` goes over into another's
    message.

    A conversation that is quoted within `thoughts` doesn't end it.
    """
    plain = in_ascii(text)
    ends = [_first_token(text, answered, thoughts)]
    labels: list[tuple[int, str]] = []
    for heading in _HEADING.finditer(plain, answered):
        if within(heading.start(), thoughts):
            continue
        if _is_anothers(heading):
            ends.append(heading.start())
            break
        words = words_of(heading["label"] or "")
        if words and len(words) <= _MOST_WORDS and OWN.isdisjoint(words):
            labels.append((heading.start(), " ".join(words)))
    if len({label for _, label in labels}) > 1:  # two take turns
        ends.append(labels[0][0])
    end = min((at for at in ends if at is not None), default=len(text))
    doubtful = labels[0][0] if labels and labels[0][0] < end else None
    return Ending(end, doubtful)


def _first_token(text: str, answered: int, thoughts: Sequence[Span]) -> int | None:
    """The first of a chat template's tokens, which stand between messages."""
    tokens = itertools.chain(
        SPECIAL_TOKEN.finditer(text, answered), _TURN_MARK.finditer(text, answered)
    )
    places = [
        token.start()
        for token in tokens
        if len(token[0]) > 1 and not within(token.start(), thoughts)
    ]
    return min(places, default=None)


def _is_anothers(heading: re.Match[str]) -> bool:
    """Whether a heading can only be that of another's message."""
    words = words_of(heading[str(heading.lastgroup)].replace("_", " "))
    named = not SPEAKERS.isdisjoint(words)
    own = not OWN.isdisjoint(words)
    if heading["line"]:
        rest = SPEAKERS.union(words).difference(SPEAKERS, _NEUTRAL)
        return named and all(word.isdigit() for word in rest)
    if heading["bracketed"]:
        return bool(words) and (not own or any(word.isdigit() for word in words))
    if heading["tag"]:
        return named and heading["tag"] not in TAGS and "call" not in words
    if len(words) > _MOST_WORDS or not named:
        return False
    return not own or (words[0] in SPEAKERS and OWN.intersection(words) <= ACTION_NOUNS)
