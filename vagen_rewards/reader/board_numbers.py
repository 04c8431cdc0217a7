"""What the numbers of a text are counted from: one thing for all of its claims."""

from __future__ import annotations

import itertools

from vagen_envs.grid import Position
from vagen_rewards.reader.claims import Claim, Fact, Unclear
from vagen_rewards.reader.facts import At, Between, Where, Within
from vagen_rewards.reader.labels import Labelled

_LABELLED = (At, Between, Where, Within)


def counted_alike(claims: list[Claim], base: int | None) -> list[Claim]:
    """The claims, each with what the others say of how the text counts.

    Args:
        claims: of a whole text.
        base: what the text says that rows and columns are counted from, if it does.
    """
    claims = _labelled_alike(claims)
    said = [claim.key for claim in claims if isinstance(claim.key, At) and claim.key.in_words]
    along = tuple([(fact.kind, fact.cell) for fact in said])
    claims = [claim._replace(key=_along(claim.key, along)) for claim in claims]
    numbered = [
        claim.key for claim in claims if isinstance(claim.key, Within) and _numbers(claim.key)
    ]
    if base is None and any("0" in _numbers(fact) for fact in numbered):
        base = 0
    if base is None:
        return claims
    return [claim._replace(key=_counted_from(claim.key, base)) for claim in claims]


def _labelled_alike(claims: list[Claim]) -> list[Claim]:
    among = sorted({label for claim in claims for label in _labels_of(claim.key)})
    if not among:
        return claims
    return [claim._replace(key=_labelled(claim.key, tuple(among))) for claim in claims]


def _labels_of(fact: Fact) -> list[Labelled]:
    if isinstance(fact, Unclear):
        inner = itertools.chain.from_iterable(fact.readings)
        return list(itertools.chain.from_iterable(map(_labels_of, inner)))
    return list(fact.labels.numbers) if isinstance(fact, _LABELLED) else []


def _labelled(fact: Fact, among: tuple[Labelled, ...]) -> Fact:
    if isinstance(fact, Unclear):
        return Unclear(tuple([_all_labelled(reading, among) for reading in fact.readings]))
    if isinstance(fact, _LABELLED) and fact.labels.numbers:
        return fact._replace(labels=fact.labels._replace(among=among))
    return fact


def _all_labelled(facts: tuple[Fact, ...], among: tuple[Labelled, ...]) -> tuple[Fact, ...]:
    return tuple([_labelled(fact, among) for fact in facts])


def _along(fact: Fact, cells: tuple[tuple[str, Position], ...]) -> Fact:
    return fact._replace(along=cells) if isinstance(fact, At) and fact.in_words else fact


def _counted_from(fact: Fact, base: int) -> Fact:
    numbered = isinstance(fact, Within) and _numbers(fact)
    return fact._replace(bases=(base,)) if numbered else fact  # type: ignore[attr-defined]


def _numbers(fact: Within) -> list[str]:
    return [place for _, place in fact.places if isinstance(place, str) and place.isdigit()]
