"""The rules of VAGEN's released parsers: which replies they accept and what they execute. Linear in
the text.

Two releases. The paper's (branch `vagen-legacy`, the layout `nested`) checks a reply twice; both
checks let a field hold anything, other tags included: whether the tags stand in order somewhere in
it, adjacent tags with nothing but blanks between them, and whether that sequence is the whole
reply. The second pays the format. The first is enough to execute the answer under the structured
strategies; `no_think` and `free_think` execute nothing without the second. The successor of 2026
(the layout `flat`) asks only the first and pays for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vagen_envs.replies.tags import Span

MARK = "<image>"
Rule = Literal["whole", "either", "anywhere"]


def released_rule(layout: str, strategy: str) -> Rule:
    """The rule by which VAGEN's parser of a layout reads a strategy."""
    if strategy == "no_think" or (strategy == "free_think" and layout == "nested"):
        return "whole"
    return "either" if layout == "nested" else "anywhere"


@dataclass(frozen=True)
class ReferenceParser:
    """A released parser.

    Args:
        tags: the sequence of tags.
        places: `2 * i` for each tag `i` before which a field's text ends, and the field, as in
            `Grammar`.
        rule: `"whole"` executes and pays a reply that is nothing but the sequence, `"anywhere"` one
            that holds it; `"either"` executes the second and pays the first.
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

    def read(self, text: str) -> tuple[dict[str, Span], bool]:
        """Where the text of each field stands, none if nothing is executed, and whether the format
        is paid.
        """
        kept: Sequence[int] = range(len(text))
        if MARK in text:  # these parsers take it out first, which may put a tag together
            kept = _outside_marks(text)
            text = text.replace(MARK, "")
        found = self._search(text)
        whole = (
            bool(found)
            and self._joints[0].match(text.lstrip())
            and text.rstrip().endswith(self.tags[-1])
        )
        if self.rule == "whole" and not whole:
            return {}, False
        # An end is led back through the character before it, so that a mark after it stays outside.
        spans = {}
        for name, (start, end) in found.items():
            last = kept[end - 1] + 1 if end > start else kept[start]
            spans[name] = (kept[start], last)
        return spans, bool(found) and (bool(whole) or self.rule == "anywhere")

    def _search(self, text: str) -> dict[str, Span]:
        """The first place of the sequence, each field as short as can be; what a lazy regular
        expression finds.
        """
        spans = {}
        at = -1
        for joint, name in zip(self._joints, [None, *self.places.values()], strict=True):
            match = joint.search(text, max(at, 0))
            if match is None:
                return {}
            if name is not None:
                spans[name] = (at, match.start())
            at = match.end()
        return spans


def _outside_marks(text: str) -> list[int]:
    """The places of the characters that belong to no mark."""
    kept: list[int] = []
    end = 0
    for mark in re.finditer(MARK, text):
        kept += range(end, mark.start())
        end = mark.end()
    kept += range(end, len(text))
    return kept
