"""The rules of VAGEN's released parsers: which replies they accept and what they execute. Linear in the text.

Two releases. The paper's (branch `vagen-legacy`, the layout `nested`) checks a reply twice; both checks let
a field hold anything, other tags included: whether the tags stand in order somewhere in it, adjacent tags with nothing
but blanks between them, and whether that sequence is the whole reply. The second pays the format. The first is enough
to execute the answer under the structured strategies; `no_think` and `free_think` execute nothing without the second.
The successor of 2026 (the layout `flat`) asks only the first and pays for it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

MARK = "<image>"
Rule = Literal["whole", "either", "anywhere"]
_RULES: dict[str, dict[str, Rule]] = {
    "nested": {"no_think": "whole", "free_think": "whole", "others": "either"},
    "flat": {"no_think": "whole", "others": "anywhere"},
}


def released_rule(layout: str, strategy: str) -> Rule:
    """The rule by which VAGEN's parser of a layout reads a strategy."""
    return _RULES[layout].get(strategy, _RULES[layout]["others"])


@dataclass(frozen=True, slots=True)
class ReleasedParse:
    """The result of such a parser.

    Attributes:
        spans: where the text of each field stands, by its name; none if nothing is executed.
        well_formed: whether the format is paid.
    """

    spans: Mapping[str, tuple[int, int]]
    well_formed: bool


@dataclass(frozen=True)
class ReferenceParser:
    """A released parser.

    Args:
        tags: the sequence of tags.
        places: `2 * i` for each tag `i` before which a field's text ends, and the field, as in `Grammar`.
        rule: `"whole"` executes and pays a reply that is nothing but the sequence, `"anywhere"` one that holds it;
            `"either"` executes the second and pays the first.
    """

    tags: Sequence[str]
    places: Mapping[int, str]
    rule: Rule
    _joints: tuple[re.Pattern[str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        joints: list[list[str]] = [[]]
        for i, tag in enumerate(self.tags):
            if 2 * i in self.places:
                joints.append([])
            joints[-1].append(tag)
        patterns = tuple(re.compile(r"\s*".join(map(re.escape, joint))) for joint in joints)
        object.__setattr__(self, "_joints", patterns)

    def read(self, text: str) -> ReleasedParse:
        """The fields of a reply. Never raises."""
        if MARK not in text:
            return self._read(text)
        # These parsers take the mark out first, which may put a tag together: the spans are led back.
        pieces = text.split(MARK)
        starts, lost = [0], [0]
        for i, piece in enumerate(pieces[:-1], start=1):
            starts.append(starts[-1] + len(piece))
            lost.append(i * len(MARK))
        found = self._read("".join(pieces))

        def back(at: int) -> int:
            return at + lost[bisect_right(starts, at) - 1]

        # An end is led back through the character before it, so that a mark after it stays outside.
        spans = {tag: (back(a), back(b - 1) + 1 if b > a else back(a)) for tag, (a, b) in found.spans.items()}
        return ReleasedParse(spans, found.well_formed)

    def _read(self, text: str) -> ReleasedParse:
        found = self._search(text)
        whole = found is not None and self._is_whole(text.strip())
        if found is None or (self.rule == "whole" and not whole):
            return ReleasedParse({}, False)
        return ReleasedParse(found, whole or self.rule == "anywhere")

    def _search(self, text: str) -> dict[str, tuple[int, int]] | None:
        """The first place of the sequence, each field as short as can be; what a lazy regular expression finds."""
        spans = {}
        at = -1
        for joint, name in zip(self._joints, [None, *self.places.values()], strict=True):
            match = joint.search(text, max(at, 0))
            if match is None:
                return None
            if name is not None:
                spans[name] = (at, match.start())
            at = match.end()
        return spans

    def _is_whole(self, text: str) -> bool:
        """Whether the stripped text is the sequence with nothing around it."""
        first, inner = self._joints[0], self._joints[1:-1]
        match = first.match(text)
        for joint in inner:
            if match is None:
                return False
            match = joint.search(text, match.end())
        closing = self.tags[-1]
        return match is not None and text.endswith(closing) and len(text) - len(closing) >= match.end()
