r"""What an answer says here: a value in `\boxed{…}`, or a list of boxes (V-Triune, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vagen_envs.replies import Action, Refused
from vagen_envs.seeding import HashStream

_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{…}` whose braces are balanced, else `None`. Linear in the text."""
    opened: list[tuple[bool, int]] = []  # whether it is a box's brace, and where its content begins
    last = (-1, -1)
    for match in _BRACES.finditer(text, max(0, text.find("\\boxed"))):
        if match[0] == "}":
            if opened:
                is_box, start = opened.pop()
                last = max(last, (start, match.start())) if is_box else last
        elif match[0].endswith("{") and match[0] != "\\{":
            opened.append((match[0] != "{", match.end()))
    return text[slice(*last)].strip() if last[0] >= 0 else None


class AnswerText:
    r"""A reply's answer: `\boxed{…}`, or from the first `[` to the last `]`; what stands around it is dropped."""

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        value = boxed(piece)
        if value:
            return Action("boxed", (), f"\\boxed{{{value}}}", start, end)
        first, last = piece.find("["), piece.rfind("]")
        if 0 <= first < last:
            return Action("boxes", (), piece[first : last + 1], start, end)
        return Refused("unknown_action", "the answer has neither \\boxed{…} nor a list of boxes […]")

    def summary(self) -> str:
        return "\\boxed{value}, or a list of boxes [{'bbox_2d': …, 'label': …}, …]"

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """Numbers from 0 to 20."""
        return [f"\\boxed{{{stream.below(21)}}}" for _ in range(count)]
