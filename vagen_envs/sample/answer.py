"""What an answer says here: a value in `\\boxed{…}`, or a list of boxes (V-Triune, section 3.2)."""

from __future__ import annotations

from vagen_envs.actions import Action, Refused


def boxed(text: str) -> str | None:
    """What stands in the last `\\boxed{…}` whose braces are balanced, else `None`. Linear in the text."""
    start = text.rfind("\\boxed{")
    while start >= 0:
        depth, end = 0, start + len("\\boxed")
        while end < len(text):
            if text[end] == "\\":
                end += 1  # \{ and \} are no braces
            elif text[end] == "{":
                depth += 1
            elif text[end] == "}":
                depth -= 1
                if depth == 0:
                    return text[start + len("\\boxed{") : end].strip()
            end += 1
        if text.count("\\boxed{", 0, start) > _MOST_OPEN:
            return None
        start = text.rfind("\\boxed{", 0, start)
    return None


_MOST_OPEN = 16  # of `\boxed{` without an end, so that a reply of nothing else takes no square of its length


class AnswerText:
    """A reply's answer: `\\boxed{…}`, or from the first `[` to the last `]`; what stands around it is dropped."""

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        value = boxed(piece)
        if value:
            return Action("boxed", (), f"\\boxed{{{value}}}", start, end)
        first, last = piece.find("["), piece.rfind("]")
        if 0 <= first < last:
            return Action("boxes", (), piece[first : last + 1], start, end)
        return Refused("unknown_action", "the answer has neither \\boxed{…} nor a list of boxes […]")

    def summary(self) -> str:
        return "\\boxed{value}, or [{'bbox_2d': [x1, y1, x2, y2], 'label': 'name'}, …]"
