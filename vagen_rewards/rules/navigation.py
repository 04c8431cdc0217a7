"""Navigation: where the target is, seen from the agent (VAGEN, appendix D.1)."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.front import Prepared, Sentence, prepare
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.navigation_clauses import (
    ANY_TARGET,
    EVERYWHERE,
    NAME,
    NOWHERE,
    Candidates,
    candidates_of,
    clauses_of,
    directions_of,
    turns_of,
)
from vagen_rewards.rules.navigation_facts import Seen, Sought, kinds_of, named_by
from vagen_rewards.rules.readings import Claim, Reading, read
from vagen_rewards.scores import Part, Span

_TURNED = re.compile(
    r"\b(?:after|once|when|by|upon)\b[^.]{0,20}\b(?:turn|rotat)\w*\b.*\b(?:fac(?:e|ing)|look(?:ing)? at)\b"
    r"|\b(?:fac(?:e|ing)|look(?:ing)? at)\b.*\b(?:after|once|when|by|upon)\b[^.]{0,20}\b(?:turn|rotat)\w*\b"
)
"""Who faces a thing after a turn has it ahead then, and at that side now: which of the two is told isn't known."""

_DIRECTION_LINE = re.compile(
    r"\n[\s\-*]*(?=[*_]*(?:direction|position|location|where|distance)\b[*_]*\s*[:=-])", re.IGNORECASE
)
"""The line after a thing's that says where it is."""

_FACT = re.compile(r"[\"']?target_direction(?:_to_player)?[\"']?\s*[:=]\s*[\"']?(\w+)", re.IGNORECASE)
_TYPE = re.compile(r"[\"']?target_obj_type[\"']?\s*[:=]\s*[\"']?([^\W_]+(?:[ _]?[^\W_]+)*)", re.IGNORECASE)
_ENTRY = re.compile(r"\{[^{}]*\}")
_ENTRY_TYPE = re.compile(r"[\"'](?:obj(?:ect)?_)?type[\"']\s*:\s*[\"']([^\"']{1,40})", re.IGNORECASE)
_ENTRY_WAY = re.compile(r"[\"']direction(?:_to_player)?[\"']\s*:\s*[\"'](\w+)", re.IGNORECASE)
_MOST_ENTRIES = 50
_MOST_SEEN = 5  # things in view that a state has, the nearest ones
_LISTED = re.compile(
    r"\s*(?:[-*] ?)?(?P<where>(?:to |on |in )?(?:the |my )?(?:straight |directly )?(?:ahead|forward|front|in front|left|right|behind"
    r"|back)(?: of me| me)?(?:[- ]hand)?(?: side)?) ?(?::| -) ?(?P<what>[^:]+)"
)
"""In "ahead: a cup and a plate" what is listed is there."""


def claims_of(text: str, part: Part) -> Reading:
    """Directions of things, seen from the agent. Raises nothing."""
    fact = _FACT.search(text) if "target" in text else None
    if fact is not None:
        return _structured(text, fact)
    if "\n" in text:
        text = _DIRECTION_LINE.sub(lambda match: ",".ljust(len(match[0])), text)
    prepared = prepare("navigation", text)
    if " turn" in text.lower() or " rotat" in text.lower():
        prepared = _without_turns(prepared)
    claims: list[Claim] = []
    unread, matters = set(prepared.left_out), list(prepared.matters)
    for span, candidates, said, denied in _read(prepared.sentences, part):
        claims += [Claim(span, Seen(candidates, each)) for each in said]
        claims += [Claim(span, Seen(candidates, each, True)) for each in denied]
    read_of = {claim.span for claim in claims}
    for words, span in prepared.sentences:
        if span not in read_of:
            unread.add(span)
            _, _, clauses = clauses_of(turns_of(words))
            if any(candidates and any(where) for candidates, where, *_ in clauses):
                matters.append(span)
    return Reading(tuple(claims), tuple(sorted(unread)), tuple(matters))


def _without_turns(prepared: Prepared) -> Prepared:
    """With the sentences left out that tell what will be faced after a turn."""
    turned = [span for words, span in prepared.sentences if _TURNED.search(words)]
    kept = tuple([each for each in prepared.sentences if each[1] not in turned])
    return prepared._replace(
        sentences=kept, left_out=(*prepared.left_out, *turned), matters=(*prepared.matters, *turned)
    )


def _structured(text: str, fact: re.Match[str]) -> Reading:
    whole, kind = (0, len(text)), _TYPE.search(text)
    found: list[Seen | Sought] = [] if kind is None else [Sought(re.sub("[ _]", "", kind[1].lower()))]
    found.append(Seen(((ANY_TARGET, False),), frozenset({fact[1].lower()})))
    claims, unread = [Claim(whole, each) for each in found], list[Span]()
    start = text.find("visible_objects")
    entries = _ENTRY.finditer(text, start) if start >= 0 else ()
    for entry in itertools.islice(entries, _MOST_ENTRIES):
        name, way = _ENTRY_TYPE.search(entry[0]), _ENTRY_WAY.search(entry[0])
        meant = tuple(candidates_of(_spaced(name[1]))) if name else ()
        if meant and way:
            claims.append(Claim(entry.span(), Seen(meant, frozenset({way[1].lower()}))))
        else:
            unread.append(entry.span())
    return Reading(tuple(claims), tuple(unread))


def _spaced(name: str) -> str:
    """A type as words: `TVStand` and `tv_stand` are `tv stand`."""
    parts = NAME.findall(name)
    return (" ".join(parts) if "".join(parts) == name else name.replace("_", " ")).lower()


def compare(state: State, text: str, part: Part) -> Marks:
    """The target must be named with its direction; what is said of other visible objects counts as claims.

    Combined directions ("forward-left") are right if they hold the true one; a slight turn is right for
    what is ahead. A prediction must use a direction word: "in front of" and "closer to" don't do.
    """
    truth: Any = state
    marks = Marks(wanted=1, essential=False)
    kinds = kinds_of(truth)
    said: list[frozenset[str]] = []
    denied: list[frozenset[str]] = []
    reading = read("navigation", text, part)
    marks.unread, marks.matters = reading.unread, bool(reading.matters)
    for span, fact in reading.claims:
        if isinstance(fact, Sought):
            if not fact.holds(truth):
                marks.fault(f"the target is no {fact.kind}")
            continue
        assert isinstance(fact, Seen)  # noqa: S101 - there are no other facts of this kind
        name = named_by(fact.kinds, kinds)
        if name == truth.target_type:
            (denied if fact.negated else said).append(fact.ways)
        elif name and not fact.negated:
            if fact.holds(truth):
                marks.right += 1
            elif len(truth.visible_objects) < _MOST_SEEN:
                marks.fault(f"{name} {'-'.join(sorted(fact.ways))}")
            else:  # there may be another, further away
                marks.unread, marks.matters = tuple(sorted({*marks.unread, span})), True
    _judge(marks, truth.target_type, said, truth.target_direction, denied)
    if far := _far_off(truth, text, reading, kinds):
        marks.unread, marks.matters = tuple(sorted({*marks.unread, *far})), True
    marks.essential = marks.found > 0
    return marks


_METRES = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d{1,3})?) ?m(?:et(?:er|re)s?)?\b", re.IGNORECASE)
_STEPS = re.compile(r"\b(?:mov|go|walk|step|forward by|advanc|com(?:e|ing) )", re.IGNORECASE)


def _far_off(truth: Any, text: str, reading: Reading, kinds: tuple[str, ...]) -> set[Span]:
    """Sentences of nothing but the target, with one distance, less than half or more than twice the true one.

    Half of what they say is right, so that they are neither accepted nor refused. A robot's own steps are no distance.
    """
    named: dict[Span, set[str]] = {}
    for span, fact in reading.claims:
        if isinstance(fact, Seen) and not fact.negated:
            named.setdefault(span, set()).add(named_by(fact.kinds, kinds))
    found = set()
    for span, names in named.items():
        metres = _METRES.findall(text, *span) if names == {truth.target_type} else []
        if len(metres) == 1 and not _STEPS.search(text, *span):
            said, far = float(metres[0]), truth.target_distance
            if said > 2 * far + _NEAR or far > 2 * said + _NEAR:
                found.add(span)
    return found


_NEAR = 0.3
"""Metres that a guess may be off beside its factor of two."""


def _read(
    said_in: tuple[Sentence, ...], part: Part
) -> Iterator[tuple[Span, Candidates, list[frozenset[str]], list[frozenset[str]]]]:
    """Where it is said, what is spoken of, where it is, and where it isn't, clause by clause."""
    spoken: Candidates = ()
    below = NOWHERE  # where the thing is on which others may stand
    for words, span in said_in[:100]:
        listed = _LISTED.fullmatch(words) if ":" in words or " - " in words else None
        if listed is not None:
            ways, _, _ = directions_of(listed["where"], True)
            for item in re.split(r",|\band\b", listed["what"]):
                candidates = tuple(candidates_of(item))
                if candidates and ways:
                    yield span, candidates, [ways], []
            continue
        begins_with_it, hedged, clauses = clauses_of(turns_of(words))
        named_here, waiting = begins_with_it, NOWHERE
        for candidates, (seen, foreseen, no), moving, alone, resting in clauses:
            yes = seen if part == "grounding" else foreseen
            if resting and not yes and not no:
                yes = below  # "on my right is a desk, and the lamp is on it"
            elif not candidates and not moving:
                below = yes
            if candidates:
                spoken, named_here = candidates, True
                below = yes
            elif not spoken or not (named_here or moving):
                if moving or alone:  # "going left, I get to the …"
                    waiting |= yes
                continue
            if waiting and not yes and not no:
                yes, waiting = waiting, NOWHERE
            if yes or no:
                yield span, spoken, [EVERYWHERE if hedged else yes] if yes else [], [no] if no else []


def _judge(
    marks: Marks, name: str, said: Sequence[AbstractSet[str]], truth: str, denied: Sequence[AbstractSet[str]]
) -> None:
    together = set().union(*said) if said else set()
    if len(together) > 2 or together >= {"left", "right"} or together >= {"ahead", "back"}:
        marks.fault(f"{name}: {' and '.join(sorted(together))} exclude one another", max(1, len(together)))
        return
    for directions in said:
        if truth in directions:
            marks.right += 1
            marks.found = 1
        else:
            marks.fault(f"{name} {'-'.join(sorted(directions))}")
    for directions in denied:
        if truth in directions:
            marks.fault(f"{name} not {truth}")
