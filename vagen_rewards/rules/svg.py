"""SVG: elements by shape, colour and place. The paper scores no reasoning here; this is ours."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules import colours
from vagen_rewards.rules.front import prepare
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.matching import matched
from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.readings import Claim, Reading
from vagen_rewards.rules.svg_elements import DRAWN, MAX_CLAIMS, PAINTED, Drawn, claims_in, plainer
from vagen_rewards.rules.svg_facts import NoDrawing, Painted, fitting
from vagen_rewards.scores import Part, Span

_UNDRAWN = re.compile(
    r"\b(?:no drawing|drawing does not exist|nothing (?:is |has been )?drawn"
    r"|(?:drawing|right(?: side| half)?|canvas) is (?:still |currently )?(?:empty|gr[ae]y|blank))\b"
)


def claims_of(text: str, part: Part) -> Reading:
    """Elements of the target and of the drawing. A prediction speaks of the drawing where it doesn't say."""
    said, undrawn, unread, matters = _read(text, "drawing" if part == "world_modeling" else "target")
    claims = [Claim(span, Painted(topic, *claim[:6])) for span, topic, claim in said]
    return Reading((*claims, *[Claim(span, NoDrawing()) for span in undrawn]), unread, matters)


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over elements. Each claim needs a shape and a colour or a place, and an element of its own that fits.

    Words before "drawing" speak of the target, words after it of the drawing. A description must cover
    the target, a prediction the drawing if there is one.
    """
    truth: Any = state
    marks = Marks()
    about = {"target": truth.target, "drawing": truth.drawing or ()}
    aim = "drawing" if part == "world_modeling" and truth.drawing is not None else "target"
    said, undrawn, marks.unread, matters = _read(text, aim)
    marks.matters = bool(matters)
    if undrawn and truth.drawing:
        marks.fault("there is a drawing")
    for name in ("target", "drawing"):
        claims = tuple([claim for _, topic, claim in said if topic == name][:MAX_CLAIMS])
        own, right, faults, doubted = _match(claims, about[name])
        if doubted:
            marks.unread = tuple(sorted({*marks.unread, *[span for span, topic, _ in said if topic == name]}))
            marks.matters = True
        marks.right += right
        marks.found += own
        for fault in faults:
            marks.fault(f"{name}: {fault}")
        if name == aim or claims:
            marks.wanted += len(about[name])
    return marks


_ALIKE = ("match", "identical", "same", "equal", "resembl")
_LIKE_TARGET = re.compile(
    r"\b(?:match(?:es|ed|ing)?|identical|the same|equals?|resembles?)\b.{0,40}\btarget\b|\bdrawing\b.{0,60}\b(?:identical|the same as)\b"
)
"""Target and drawing are said to be alike: how much of it is so isn't read."""

Said = list[tuple[Span, str, "Drawn"]]
"""Where something is said, of which picture, and what."""


@functools.lru_cache(maxsize=8192)
def _read(text: str, aim: str) -> tuple[Said, list[Span], tuple[Span, ...], tuple[Span, ...]]:
    """The claims, where it is said that nothing is drawn, and what wasn't read; words that name neither target nor drawing are about `aim`."""
    if "\n" in text:
        text = _ATTRIBUTE_LINE.sub(lambda match: ",".ljust(len(match[0])), text)
    prepared = prepare("svg", text)
    said: Said = []
    undrawn: list[Span] = []
    unread, matters = {*prepared.left_out}, [*prepared.matters]
    topic = aim
    for words, span in prepared.sentences:
        found = False
        clear = True
        numbers = 0 if "{" in words else len(_NUMBER.findall(words))
        plainly = plainer(words)
        painted = len([each for each in PAINTED.finditer(plainly) if not _NO_OTHER.search(plainly, 0, each.start())])
        for named, claims, known in claims_in(plainly):
            topic = named or topic
            said += [(span, topic, claim) for claim in claims]
            found, clear = found or bool(claims), clear and known
            numbers -= sum(2 * (claim.at is not None) + 2 - claim.size.count(None) for claim in claims)
            painted -= len([claim for claim in claims if claim.colour])
        clear = clear and max(numbers, painted) <= 0
        if (found and not clear) or (found and mentions(words, _ALIKE) and _LIKE_TARGET.search(words)):
            unread.add(span)
            matters.append(span)
        if not found and _UNDRAWN.search(words):
            undrawn.append(span)
        elif not found:
            unread.add(span)
            if (
                PAINTED.search(words)
                or mentions(words, (" same", "identical"))
                or ("target" in words and "drawing" in words)
            ):
                matters.append(span)
    return said, undrawn, tuple(sorted(unread)), tuple(matters)


_NO_OTHER = re.compile(r"(?:[-/(]|\bnot )$")  # before a colour: of a mixture, in brackets, denied
_NUMBER = re.compile(r"(?<![#\w.])\d+\b(?!(?:[a-z ]+)s\b)")
"""Places and sizes; "3 circles" is neither."""

_ATTRIBUTE_LINE = re.compile(
    r"\n[\s\-*•]*(?=[*_]*(?:colou?r|fill|cent(?:er|re)|middle|position|location|size|dimensions?|width|height)\b[*_]*\s*[:=])",
    re.IGNORECASE,
)
"""Before the line after an element's that says more of it."""


@functools.lru_cache(maxsize=4096)
def _match(claims: tuple[Drawn, ...], elements: Any) -> tuple[int, int, tuple[str, ...], bool]:
    """Give as many claims as possible an element of their own.

    "A white symbol" may be several elements, or one that was named before: it needs none of its own.

    Returns:
        How many have one of their own, how many are right, the others in words, and whether of a colour one may differ.
    """
    fits = [[] if claim.hedged else [i for i, each in enumerate(elements) if fitting(claim, each)] for claim in claims]
    exact = [number for number, claim in enumerate(claims) if claim.shape in DRAWN or not fits[number]]
    loose = [number for number in range(len(claims)) if number not in set(exact)]
    owner = matched([(number, fits[number]) for number in (*exact, *loose)])
    given = set(owner.values())
    shared = {claims[number][:5] for number in loose if number not in given}
    missed = [claims[number] for number in exact if number not in given]
    wrong = [
        claim for claim in missed if claim.hedged or not any(fitting(claim, each, loosely=True) for each in elements)
    ]
    doubted = len(wrong) < len(missed) or any(
        claim.colour and number in given and not _surely(claim.colour, elements[owner_of[number]].colour)
        for owner_of in ({number: i for i, number in owner.items()},)
        for number, claim in enumerate(claims)
    )
    return len(given), len(given) + len(shared), tuple([claim.words for claim in wrong]), doubted


def _surely(said: str, colour: str) -> bool:
    from vagen_envs.svg.state import colour_name

    own = colour_name(colour)
    names = said.rpartition(" ")[2].split("/")
    return said in (own, own.split()[-1]) or any(colours.surely_called(colour, name) for name in names)
