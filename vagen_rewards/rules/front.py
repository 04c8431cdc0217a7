"""From a text to its sentences in plain English, as far as they speak of what is.

What was, what is meant to be done, what is only said to be denied, what is a guess: none is a claim about now. Such
sentences are left out, and so are those in a language that isn't known.
"""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from vagen_rewards.rules.lexicon import language, misspelt, spelt
from vagen_rewards.rules.modality import TURNING, mentions, plain, words_of
from vagen_rewards.rules.notation import without_arrows, without_keys
from vagen_rewards.rules.patterns import BOARDS
from vagen_rewards.rules.spans import sentences
from vagen_rewards.rules.tense import DOUBT, HAS_TO, INTENT, PAST, PLANNING, SAID_TO_DENY, is_only_past, speaks_of_now
from vagen_rewards.rules.translate import GERMAN, in_english, language_of
from vagen_rewards.scores import Span

Sentence = tuple[str, Span]
"""A sentence in lower-case English, and where it stands in the text."""


class Prepared(NamedTuple):
    """What is to be read.

    Attributes:
        sentences: that speak of what is.
        left_out: the others.
        matters: those of them that deny or doubt something, rather than tell a plan.
        every: all sentences in full, rightly spelt; in English those in another language, empty if it isn't known.
    """

    sentences: tuple[Sentence, ...]
    left_out: tuple[Span, ...]
    matters: tuple[Span, ...]
    every: tuple[Sentence, ...]


@functools.lru_cache(maxsize=8192)
def prepare(kind: str, text: str) -> Prepared:
    """The sentences of a text about a state of this kind."""
    kept, left_out, matters, every = [], [], [], []
    for span in sentences(text):
        if text.startswith("```", span[0]):
            continue  # the name of a language
        now, cut, denied, said = _of_now(kind, text[span[0] : span[1]])
        every.append((said, span))
        if now:
            kept.append((now, span))
        if cut:
            left_out.append(span)
        if denied:
            matters.append(span)
    return Prepared(tuple(kept), tuple(left_out), tuple(matters), tuple(every))


@functools.lru_cache(maxsize=16384)
def _of_now(kind: str, raw: str) -> tuple[str, bool, bool, str]:
    """What of a sentence speaks of now, whether something of it doesn't, and whether that is more than a plan.

    Last the sentence itself in lower-case English, rightly spelt.
    """
    lower = _begun(raw.lower())
    words = frozenset(words_of(lower))
    if lower.isascii() and _telling(kind).isdisjoint(words) and not _has_telling_signs(lower):
        return lower, False, False, lower
    spoken = language_of(lower, words)
    english = lower if spoken == "en" else in_english(spoken, kind, lower) if spoken else None
    if english is None:
        return "", True, True, ""
    plainly = plain(english)
    if plainly is not lower:
        words = frozenset(words_of(plainly))
    said = spelt(kind, plainly, words)
    now = _in_sentences(kind, said)
    words = words if now is plainly else frozenset(words_of(now))
    predicts = kind == "navigation"  # a way to go says where things will be
    plans = not PLANNING.isdisjoint(words) or HAS_TO.search(now) is not None
    whole, now = now, speaks_of_now(INTENT.sub("", now) if plans and not predicts else now, words)
    if now.isspace():
        now = ""
    cut = now != whole
    denied = not now and not (plans and INTENT.search(whole)) and not _is_idle(kind, whole, words)
    return now, cut, denied, said


_OPENINGS = ("is what", "let me", "let us", "are what", " is to ", "'s ", "i.e", "approx.", "ca.")
_OPENING = re.compile(
    r"^\W*(?:(?:below|above|here|following|this|these) (?:is|are) what (?:i|we) (?:can )?(?:see|observe|notice|know)"
    r"|let (?:me|us) (?:first |now |briefly )?(?:list|describe|state|note|summari[sz]e|write down|give|go over)\b[^:]{0,60}(?=:))[:,]?"
)
"""Words that only announce: "below is what I see: …"."""

_TASKED = re.compile(
    r"\b(?:my|the) (?:task|goal|aim|job|objective) is to (?:get to|go to|walk to|reach|find|push|collect|look for) "
    r"((?:the|a|an) [a-z -]{2,30}?),? (?:and (?:it|that)|which) (?=(?:is|are|lies|sits|stands|appears|will be)\b)"
)
"""In "my task is to reach the mug, and it lies on the left" the mug lies there."""

_THAT_IS = re.compile(r",? ?\bi\.e\.?,?")
_ABOUT = re.compile(r"\b(?:approx|ca)\.")

_HELD_TO = re.compile(
    r"\b(?:the )?(\w+)'s (?:current )?(?:relative )?(?:position|location|relation) (?:relative |in relation |with respect )?to (?:the )?(\w+)"
    r" ?(?:is\b|:)(?: that it is\b)?"
)
"""In "the player's position relative to the goal: above" the player is above."""


def _begun(said: str) -> str:
    """Without what only announces, and with what is spoken of where a sentence begins in a roundabout way."""
    if not mentions(said, _OPENINGS):
        return said
    if "i.e" in said or "approx." in said or "ca." in said:
        said = _THAT_IS.sub(",", _ABOUT.sub("about", said))
    said = _TASKED.sub(r"\1 ", _OPENING.sub("", said))
    return _HELD_TO.sub(r"relative to the \2, the \1 is", said) if "'s " in said else said


def _is_idle(kind: str, said: str, words: frozenset[str]) -> bool:
    """Whether a sentence about the past names nothing but who acted: "I moved last turn"."""
    return _named(kind).isdisjoint(words) and is_only_past(said, words)


def _in_sentences(kind: str, said: str) -> str:
    """With words for arrows and other signs, and without what is to be done with a thing."""
    if mentions(said, (" to ", " i am ")):
        said = _SOUGHT.sub("", said)
    if kind in BOARDS:
        said = without_keys(without_arrows(kind, said))
        if " than " in said or "nstead of " in said:
            said = _NOT_THAT.sub("", said)
        if "be " in said:
            said = _TASK.sub("", said)
        if "expect" in said or "anticipate" in said:
            said = _EXPECT.sub("i will be", said)
    elif "→" in said or "->" in said:
        said = said.replace("->", "→").replace("→", ": ")
    return said if said.isascii() else _signs().sub(_in_words, said)


@functools.cache
def _telling(kind: str) -> frozenset[str]:
    """Words of which one stands in whatever isn't to be read just as it is said."""
    plans = set() if kind == "navigation" else PLANNING
    own = {"expect", "anticipate", "rather", "instead"} if kind in BOARDS else set()
    elsewhere = (DOUBT.heads - {"has", "have"}) | SAID_TO_DENY.heads | PAST.heads
    return frozenset(own | plans | GERMAN | TURNING | misspelt(kind).keys() | elsewhere)


def _has_telling_signs(lower: str) -> bool:
    """Whether a sign, or words of several, stand in a sentence that isn't to be read just as it is said."""
    if mentions(lower, ("'", "?", ">", "_to_")):
        return True
    return mentions(lower, (" to", " be ")) and _TELLING.search(lower) is not None


_TELLING = re.compile(rf"{HAS_TO.pattern}| be (?:pushed|moved|brought|placed|put|reached|avoided)")


@functools.cache
def _named(kind: str) -> frozenset[str]:
    """Words of things other than the player, and of directions."""
    data = language("en")
    nouns = [(name, each) for name, each in data["nouns"][kind].items() if name != "player"]
    things = [word for name, each in nouns for word in (*re.findall("[A-Z]?[a-z]+", name), *each)]
    ways = [way for each in data["directions"].values() for way in each]
    said = " ".join([*things, *ways, "ahead behind front target it"]).lower()
    words = set(re.findall(r"[a-z]+", said))
    return frozenset(words | {f"{word}s" for word in words})


_NOT_THAT = re.compile(r"(?:^|(?<=,)|(?<=and)|(?<=but))\s*(?:rather than|instead of) being [^,;]*,")
"""What isn't so, before what is: "rather than being above, the goal is below"."""

_TASK = re.compile(
    r",? ?\b(?:which|that) (?:has to|ha(?:s|ve) to|needs? to|must|should|is (?:supposed|meant) to|is to) be"
    r" (?:pushed|moved|brought|placed|put|reached|avoided)\b[^,.]*"
)
"""What is to be done with a thing is nothing that is."""

_SOUGHT = re.compile(
    r"(?:,? (?:which|that) is (?:the|my) (?:thing|one|place|object|item|what))?"
    r" (?:(?:that|which) )?(?:i|we) (?:(?:need|want|have|am supposed|am trying) to (?:reach|get to|go to|find|collect|push)"
    r"|am (?:after|looking for|searching for|seeking))"
    r"(?=,? (?:is|are|lies|sits|stands|will be|appears|can be)\b)"
)
"""In "the goal I need to reach is above" it says no more than the goal."""

_EXPECT = re.compile(r"\bi (?:expect|anticipate) (?:to be|myself to be|that i will be)\b")


def _in_words(sign: re.Match[str]) -> str:
    """A sign in words; with nothing after it, it isn't of what comes next: "goal: ↑, hole: ↓"."""
    words: str = language("en")["signs"][sign[0]]
    if _NOTHING_MORE.match(sign.string, sign.end()):
        return words.replace(" of", "").replace("above", "up").replace("below", "down")
    return words


_NOTHING_MORE = re.compile(r"\s*(?:[,;()|]|$)")


@functools.cache
def _signs() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, language("en")["signs"])))
