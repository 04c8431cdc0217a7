"""From a text to its sentences in plain English, as far as they speak of what is.

What was, what is meant to be done, what is only said to be denied, what is a guess: none is a claim about now. Such
sentences are left out, and so are those in a language that isn't known.
"""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from vagen_rewards.rules.lexicon import known_words, language, spelt
from vagen_rewards.rules.modality import plain
from vagen_rewards.rules.notation import without_arrows
from vagen_rewards.rules.spans import sentences
from vagen_rewards.rules.translate import in_english, language_of
from vagen_rewards.rules.words import BOARDS
from vagen_rewards.scores import Span


class Sentence(NamedTuple):
    """A sentence in lower-case English, and where it stands in the text."""

    words: str
    span: Span


class Prepared(NamedTuple):
    """What is to be read.

    Attributes:
        sentences: that speak of what is.
        left_out: the others.
        matters: those of them that deny or doubt something, rather than tell a plan.
    """

    sentences: tuple[Sentence, ...]
    left_out: tuple[Span, ...]
    matters: tuple[Span, ...]


@functools.lru_cache(maxsize=8192)
def prepare(kind: str, text: str, predicts: bool = False) -> Prepared:
    """The sentences of a text about a state of this kind.

    Args:
        kind: of the state.
        text: the agent's words.
        predicts: whether a way to go says where things will be, as in Navigation's predictions.
    """
    kept, left_out, matters = [], [], []
    for span in sentences(text):
        raw = text[span[0] : span[1]]
        spoken = language_of(raw)
        if spoken != "en":
            english = in_english(spoken, kind, raw) if spoken else None
            if english is None:
                left_out.append(span)
                matters.append(span)
                continue
            raw = english
        said = plain(raw)
        said = spelt(kind, said)
        if kind in BOARDS:
            said = _EXPECT.sub("i will be", without_arrows(kind, said))
        elif "→" in said or "->" in said:
            said = said.replace("->", "→").replace("→", ": ")
        if not said.isascii():
            said = _signs().sub(lambda match: language("en")["signs"][match[0]], said)
        now = said if predicts else _INTENT.sub("", said)
        now = _now(now)
        if now.strip():
            kept.append(Sentence(now, span))
        if now != said:
            left_out.append(span)
            if not now.strip() and not _INTENT.search(said):
                matters.append(span)
    return Prepared(tuple(kept), tuple(left_out), tuple(matters))


@functools.lru_cache(maxsize=8192)
def doubtful(kind: str, text: str) -> tuple[Span, ...]:
    """Sentences with a word that isn't known or of a form that is read by half: they may say something else."""
    known, found = known_words(kind), []
    for span in sentences(text):
        raw = text[span[0] : span[1]]
        said = spelt(kind, plain(raw)) if language_of(raw) == "en" else ""
        if not known.issuperset(_WORD.findall(said)) or _LOOSE.search(said) or ("{" not in said and len(said) > _LONG):
            found.append(span)
    return tuple(found)


_LOOSE = re.compile(
    r"\b(?:between|corners?|opposite|respectively|surround\w*|each other|vice versa|former|latter|other side|its own"
    r"|(?:its|their) (?:target|goal|box|crate)|(?:goal|hole|box|target|player|gift|flag|crate|agent), (?:above|below|to|on|up|down|left|right|directly|straight)"
    r"|one (?:to|on|in|at|above|below|left|right|up|down|two|three|far|directly|diagonally)\b.{2,80}\b(?:one|another|the other|second))\b"
)
"""Constructions that are read by half: what they bind together is understood word by word only."""

_LONG = 320
"""Characters of a sentence in which too much may be bound together."""


_WORD = re.compile(r"(?<![#\w])[a-zà-ÿ]{3,}")


_EXPECT = re.compile(r"\bi (?:expect|anticipate) (?:to be|myself to be|that i will be)\b")


@functools.cache
def _signs() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, language("en")["signs"])))


_WHO = r"(?:i|we|you|(?:the |my |our )?(?:player|agent|robot|plan|goal|aim|task|next (?:step|move)|idea|best (?:move|step)))"
_INTENT = re.compile(
    r"(?:,? ?\b(?:so|therefore|thus|hence|and so|and then|and|then|but|which means(?: that)?|because|since)\b,? *)?"
    rf"\b{_WHO}(?: now| then| just| only| still| first| will| also)*"
    r" (?:needs?|wants?|ha(?:ve|s) to|must|ought|should(?! (?:now |still |then |end up )?(?:be|find|see|have)\b)|plans?|intends?|aims?|tr(?:y|ies)"
    r"|(?:am|is|are) (?:going|planning|trying|about) to(?! be\b)|would like|is to(?! the\b))\b.*?(?=(?:the |my )?[a-z]+(?: [a-z]+)?, (?:which|that|who) (?:is|are|will be)\b|,? (?:since|because|as) (?:it|he|the [a-z]+) (?:is|are)\b|$)"
    r"|(?:,? ?\b(?:so|then|and then|and|therefore)\b,? *)?\b(?:let us|let me|let's)\b.*$"
)
"""A plan, to the end of its sentence."""

_DOUBT = re.compile(
    r"\b(?:might|may|maybe|perhaps|possibly|probable|probably|presumably|supposedly|allegedly|potentially|conceivabl[ey]"
    r"|arguably|(?:un)?likely|unsure|unclear|uncertain|not (?:sure|certain|clear)|i (?:would )?(?:guess|suppose|suspect|wonder)|my guess"
    r"|until(?! now| recently)|(?:is|are|be) elsewhere|hopefully"
    r"|(?:has|have|needs?) to (?:end up|be (?:at|on|in|to|above|below|left|right|north|south|east|west))|i hope|tends? to|imagin(?:e|ing)|pretend|hypothetically|chances? (?:is|are|that)|in theory)\b"
)
"""A guess at one thing. Alternatives ("above or below") are read, and are wrong."""

_PAST = re.compile(
    r"\b(?:last (?:turn|step|time|round|move)|(?:the )?previous (?:turn|step|state|move|frame|image|round)|previously"
    r"|formerly|earlier|(?:moment|turn|step|move|while)s? ago|used to|had been|until (?:now|recently)|back then"
    r"|before (?:that|my (?:last )?(?:move|push|action|turn|step)|(?:the|this|that) (?:last )?(?:move|push|action|turn|step))"
    r"|was|were|stood|sat|lay)\b"
)
_BUT_NOW = re.compile(
    r"\b(?:was|were|had been|used to be|stood|sat|lay)\b.*?"
    r"(?=,? (?:(?:but|and|yet) )?(?:(?:it|they|he) )?(?:(?:is|are) )?(?:now|currently|at present)\b)"
)
_SAID_TO_DENY = re.compile(
    r"\b(?:claim|statement|assertion|idea|notion|assumption|belief|suggestion|hypothesis|allegation|proposition|thought"
    r"|impression|rumou?r)s?\b.*\b(?:not|no|never|false|wrong|untrue|incorrect|fail\w*"
    r"|mistaken|inaccurate|refuted|rejected|outdated|invalid|contradict\w*|disput\w*|den(?:y|ied|ies)|reject\w*|refut\w*"
    r"|disagree\w*)\b"
    r"|\b(?:not|no longer|never) (?:hold|holds|apply|applies|true|so|the case)\b|\bany ?more\b"
    r"|\b(?:fiction\w*|imaginary|wrongly|falsely|mistakenly|incorrectly|erroneously|outdated|obsolete|refuted|debunked|hoax"
    r"|kidding|joking|dream\w*|pretend\w*|untrue|misread|misjudg\w*|mislead\w*|nonsense)\b"
)


def _now(said: str) -> str:
    """What of a sentence speaks of now; empty if nothing does."""
    if _DOUBT.search(said) or _SAID_TO_DENY.search(said):
        return ""
    if _PAST.search(said):
        said = _BUT_NOW.sub("", said)
        if _PAST.search(said):
            return ""
    return said
