"""Navigation: directions and distances of objects, seen from the agent (VAGEN, appendix D.1)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, NamedTuple

from vagen_envs.core import State
from vagen_envs.navigation.state import words as spoken
from vagen_rewards.reader.claims import Claim, Marks, Part, Reading, Span, Unclear, every
from vagen_rewards.reader.clauses import parse
from vagen_rewards.reader.relations import Relation
from vagen_rewards.reader.words import Word, is_slip, lexicon, words_of

MOST_VISIBLE, TOLERANCE, ASIDE, CENTRAL = 5, 0.25, 8, 15
"""The most visible objects of a state, the nearest ones: another of a type may be farther off. Share that a distance
may be off (the paper's judge checks none). Degrees from straight ahead: from which on an object is on a side of the
picture, and up to which in its centre."""

_FACING = {"facing": "ahead", "facing away": "back"}
_OTHER = {"left": "right", "right": "left"}
_PICTURE = ("view", "frame", "image", "picture", "scene", "screen")
_SLIGHTLY = ("slightly", "somewhat", "just", "a bit", "a little", "a little bit", "a touch")
_METRES = {"cm": 0.01, "ce": 0.01, "fe": 0.3, "fo": 0.3, "ft": 0.3, "in": 0.0254, "ya": 0.9}
_OF = re.compile(r"(?i)\bof\s+(?:(?:the|my|this)\s+)?$")
_LISTED = re.compile(r"(?i)\{|^[^\n]*(?:\b|_)direction\w*\s*[:=][^\n]*$")
_KEY = re.compile(
    r"""(?i)["']?\b(?:target_obj_type|type|object|target|name|(?:target_)?(?:direction|distance)(?:_to_player)?)["']?\s*[:=]"""
    r"""|,?\s*["']?visible_objects["']?\s*:"""
)
_FAR = re.compile(
    r"""(?i)["']?(target_)?distance(?:_to_player)?["']?\s*[:=]\s*["']?~?(\d+(?:\.\d+)?)\s*(?:m\b)?"""
)
_BRACES = str.maketrans({"{": " ", "}": ".", "[": ".", "]": ".", "'": " ", '"': " "})


@functools.lru_cache(4096)
def _is_called(kind: str, name: str) -> bool:
    """Whether AI2-THOR's type goes by a name, such as `trash can`."""
    own = spoken(kind).lower()
    return name in (
        own,
        kind.lower(),
        *lexicon()["navigation"]["synonyms"].get(kind, ()),
    ) or is_slip(name, own)


class Seen(NamedTuple):
    """An object is in one of some directions."""

    name: str  # as the text names it, in lower case
    # any of `ahead`, `left`, `right`, `back`, as in "ahead to the left"; `slight left`: a little off the middle;
    # `picture left`: a half of the picture; `picture center`: its middle
    ways: frozenset[str] = frozenset()
    metres: float | None = None  # its distance, if stated

    def holds(self, state: Any) -> bool | None:
        """Whether an object of this name is there; `None` if the state has none, or another may be meant."""
        verdicts = [
            every([self._is_there(way, at), self._is_as_far(far)])
            for way, far, at in self._meant(state)
        ]
        if True in verdicts:
            return True
        sought = self.is_target(state)
        if (
            not verdicts
            or None in verdicts
            or (not sought and len(state.visible_objects) >= MOST_VISIBLE)
        ):
            return None
        return False

    def _meant(self, state: Any) -> list[tuple[str, float, int | None]]:
        """Direction, distance and bearing of the objects that may be meant."""
        bearings = state.bearings or [None] * len(state.visible_objects)
        seen = [(*one, at) for one, at in zip(state.visible_objects, bearings, strict=True)]
        found = [(way, far, at) for kind, way, far, at in seen if _is_called(kind, self.name)]
        if self.is_target(state):
            target = (state.target_type, state.target_direction, state.target_distance)
            at = next((at for *one, at in seen if tuple(one) == target), None)
            return [(*target[1:], at), *(found if self.name != "target" else [])]
        return found

    def is_target(self, state: Any) -> bool:
        """Whether the name is the target's."""
        return self.name == "target" or _is_called(state.target_type, self.name)

    def _is_as_far(self, far: float) -> bool | None:
        if self.metres is None or abs(self.metres - far) <= TOLERANCE * far:
            return True
        return False if not 0.5 < self.metres / max(far, 0.01) < 2 else None

    def _is_there(self, way: str, bearing: int | None) -> bool | None:
        plain = {one for one in self.ways if " " not in one}
        sides = {one.split()[-1] for one in self.ways - plain} | (
            plain - {"ahead"} if "ahead" in plain else set()
        )
        if plain and way not in plain | sides:
            return False
        if "center" in sides:
            return way == "ahead" and (
                bearing is None or abs(bearing) <= CENTRAL or (None if abs(bearing) < 30 else False)
            )
        side = next(iter(sides & {*_OTHER}), "")
        if not side or way == side:
            return True
        if way != "ahead":
            return False
        if bearing is None or abs(bearing) < ASIDE:
            return True if bearing is None and "ahead" in plain else None
        return (bearing > 0) == (side == "right")

    def __str__(self) -> str:
        far = "" if self.metres is None else f", {self.metres} m"
        return f"{self.name} {' or '.join(sorted(self.ways)) or 'somewhere'}{far}"


def claims_of(kind: str, text: str, part: Part) -> Reading:
    """Directions of objects in a dictionary or in sentences."""
    plain = text
    if _LISTED.search(text):  # the dictionary of VAGEN, appendix D.1, or one like it
        plain = _FAR.sub(
            lambda far: f"{'target: ' * bool(far[1])}{far[2]} m".rjust(len(far[0])), plain
        )
        plain = _KEY.sub(lambda key: " " * len(key[0]), plain).translate(_BRACES)
    unread: list[tuple[Span, bool]] = []
    joined = _objects(plain, words_of(kind, plain), unread)
    parsed = parse(joined, part, beside=True)
    claims: list[Claim] = []
    for span, matters in parsed.unread:
        # Where objects are beside one another the state doesn't say.
        inside = [
            word
            for word in joined
            if span[0] <= word.span[0] < span[1] and word.kind not in ("filler", "of")
        ]
        beside = [word.kind == "thing" and word.value not in ("player", "wall") for word in inside]
        said = [
            word.kind in ("direction", "unit") and not of
            for word, of in zip(inside, [*beside, False][1:], strict=True)
        ]
        unread.append((span, matters and any(said)))
    for stated in parsed.stated:
        subject, relation = stated.subject, stated.relation
        other, way = relation.other, relation.ways[0] if relation.ways else ""
        if subject.kind == "player" and other and way in _FACING:  # "I am facing the stove"
            subject, relation = other, Relation([] if other.kind == "wall" else [_FACING[way]])
        if (
            len(relation.ways) > 1
            and not _is_from_agent(relation)
            and "," in text[slice(*stated.span)]
        ):
            relation = Relation(
                relation.ways[:-1], far=relation.far
            )  # "ahead, to the left of the sofa"
        meant = [_seen(one.kind, relation) for one in subject.may_be or (subject,)]
        facts = [fact for fact in dict.fromkeys(meant) if fact is not None]
        if facts:
            fact = facts[0] if len(facts) == 1 else Unclear(tuple([(each,) for each in facts]))
            claims.append(Claim(stated.span, fact))
        else:
            unread.append(
                (
                    stated.span,
                    subject.kind != "player" and _is_from_agent(relation) and relation.ways != [],
                )
            )
    return Reading.of(claims, unread)


def _is_from_agent(relation: Relation) -> bool:
    return relation.other is None or relation.other.kind in ("player", "wall")


def _seen(name: str, relation: Relation) -> Seen | None:
    ways = frozenset(
        one for way in relation.ways for one in way.replace("front ", "ahead, ").split(", ")
    )
    unclear = (
        len(ways) > 2
        or ways >= {"left", "right"}
        or ways >= {"ahead", "back"}
        or relation.same
        or relation.near
    )
    if unclear or relation.counts or name in ("player", "wall") or not _is_from_agent(relation):
        return None
    return Seen(name, ways, relation.far) if ways or relation.far else None


def _objects(text: str, words: list[Word], unread: list[tuple[Span, bool]]) -> list[Word]:
    """Runs of unknown words are names of objects; "slightly left" and "left of the image" are directions."""
    found: list[Word] = []
    for word in words:
        before = found[-1] if found else word
        near = [one for one in found[-5:] if one.kind not in ("filler", "mine", "of", "side")]
        if word.kind in ("cell", "here", "unknown") and word.value[:1].isalpha():
            named = before.kind == "thing" and (
                before.label == "-" or before.value == "wall"
            )  # "kitchen counter"
            if named and word.span[0] - before.span[1] <= 1:
                first = (
                    text[slice(*before.span)].lower() if before.value == "wall" else before.value
                )
                found[-1] = Word(
                    "thing", f"{first} {word.value}", (before.span[0], word.span[1]), False, "-"
                )
                continue
            if before.value == "target" and found:  # "the target lamp"
                found.pop()
            found.append(Word("thing", word.value, word.span, False, "-"))
        elif (
            word.value == "wall"
            and near
            and near[-1].kind == "direction"
            and _OF.search(text[: word.span[0]])
        ):
            at = found.index(near[-1])
            side = str(near[-1].value).split()[-1]
            shown = text[slice(*word.span)].lower().split()[-1] in _PICTURE
            found[at:] = (
                [near[-1]._replace(value=f"picture {side}")]
                if shown and side in (*_OTHER, "center")
                else []
            )
        elif (
            word.kind == "direction"
            and word.value in _OTHER
            and any(one.value in _SLIGHTLY for one in found[-4:])
        ):
            found.append(word._replace(value=f"slight {word.value}"))
        elif word.kind == "unit" and before.kind == "number" and word.value != "metre":
            scale = _METRES.get(text[slice(*word.span)][:2].lower(), 0)
            metres = [
                before._replace(value=before.value * scale, label=""),
                word._replace(value="metre"),
            ]
            found[-1:] = metres if scale else []  # "three steps" say little
        else:
            found.append(word)
    for i in range(len(found) - 1, 0, -1):
        if (
            found[i].kind != "with"
            or found[i - 1].kind != "thing"
            or found[i - 1].value in ("wall", "player")
        ):
            continue
        end = next(
            (
                j
                for j in range(i + 1, len(found))
                if found[j].kind not in ("filler", "thing", "and")
            ),
            len(found),
        )
        kinds = [*[word.kind for word in found[end : end + 2]], "end"]
        end += 2 * (kinds[:2] == ["in", "pronoun"])
        if kinds[0] in ("be", "will", "end", "comma") or kinds[:2] == [
            "in",
            "pronoun",
        ]:  # "a desk with a lamp on it"
            unread.append(((found[i].span[0], found[end - 1].span[1]), False))
            del found[i:end]
    return [
        word._replace(label="", value=word.value.replace("_", " ")) if word.label == "-" else word
        for word in found
    ]


def mark(state: State, reading: Reading, _part: Part) -> Marks:
    """The target's direction must be stated; other objects count as claims."""
    facts: list[Any] = [claim.key for claim in reading.claims if claim.holds(state)]
    meant = [
        [read[0] for read in fact.readings] if isinstance(fact, Unclear) else [fact]
        for fact in facts
    ]
    found = any(
        all(isinstance(one, Seen) and one.is_target(state) and one.ways for one in either)
        for either in meant
    )
    return dataclasses.replace(Marks.of(state, reading, 1), found=int(found), essential=found)
