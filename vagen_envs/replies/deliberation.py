"""Answers that weigh options: "I can't go Left because of the hole, so Down".

An answer is cut into clauses. Each plans (nothing but actions and words that lead to them), rejects the actions it
names, offers them, or explains. The plan executes if no other clause takes it back. After options or where its sense
could be another it must be marked as the choice, by words such as "so" or "I choose".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from vagen_envs.replies.vocabulary import (
    BE,
    CAPTIONS,
    CHOICE,
    CONCLUSION,
    CONDITION,
    CROSSES,
    DENIAL,
    DOUBT,
    MOVING,
    REASON,
    TICKS,
    VERDICTS,
    words_of,
)

_SEPARATOR = re.compile(
    r"(?P<strong>(?:\s*(?:(?<!\d)\.|[;?…()\n—–]|!(?![\w\0])|->|[→⇒])|\s-+(?=\s))+)\s*|,\s*"
    r"|\s+(?=(?:so|but|because|since|as|therefore|thus|hence|while|whereas|yet|which|to avoid|avoiding|towards?"
    r"|away from|instead of|rather than|and not)\b(?!\s+(?:is|are|does)\b))",
    re.IGNORECASE,
)
_MARK = re.compile(rf"[{CROSSES}{TICKS}]")
_CAPTION = re.compile(rf"\b(?:{'|'.join(CAPTIONS)})[ *_]*:", re.IGNORECASE)
_EXCLUSION = re.compile(
    r"\b(?:(?:any\w*|every\w*|all|no|none|nothing)(?:\s+\w+){0,2}\s+but|but first|second thoughts?|my mind)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"\b(?:not|never)\b", re.IGNORECASE)
_CHOSEN = re.compile(
    rf"\bonly\s+(?:\w+\s+){{0,2}}?(?=move|option|action|direction|way|choice|path|one)"
    rf"|\b(?:{'|'.join(CHOICE | CONCLUSION)})\b",
    re.IGNORECASE,
)
_REFUSES = (DENIAL - {"instead"}) | {"no", "neither", "nor", "nope"}
_POINTS = {"that", "that's", "it", "it's", "this"}
_OFFERS = DOUBT - _REFUSES - CONDITION

Kind = Literal[
    "plans",
    "refuses",
    "judged",
    "offers",
    "judges",
    "doubts",
    "hints",
    "explains",
    "describes",
    "unclear",
    "unread",
    "conditional",
]
"""`unread`: one or two words that name nothing, which may be an item of a list as in "Jump, Left"."""


class _Clause(NamedTuple):
    """A part of an answer, at `start:end`.

    Attributes:
        names: the actions that it names.
        weight: of its plan: 1 after "so", 2 after "I choose", else 0; of a verdict: whether it says what it is about.
        after_comma: whether no more than a comma parts it from the clause before it.
    """

    kind: Kind
    start: int
    end: int
    names: frozenset[str]
    weight: int
    after_comma: bool


class Deliberation:
    """The clauses of an answer and what they come to.

    Args:
        piece: the answer.
        named: the actions that it names, with their places.
        plans: whether a text names actions to execute, and holds nothing else.
    """

    def __init__(self, piece: str, named: Sequence[tuple[str, int, int]], plans: Callable[[str], bool]) -> None:
        self.piece, self.named, self._reads = piece, named, plans
        self.masked = piece  # without the actions
        for _, start, end in named:
            self.masked = self.masked[:start] + "\0" * (end - start) + self.masked[end:]

    def plan(self) -> str | None:
        """The answer with blanks for all but its plan; `None` if it isn't clear."""
        if _EXCLUSION.search(self.masked):
            return None
        caption = _CAPTION.search(self.masked)
        if caption and self.plans(0, caption.start()):
            span: tuple[int, int] | None = (0, caption.start())
        else:
            span = self._ticked() if _MARK.search(self.masked) else self._chosen()
        return None if span is None else " " * span[0] + _without_choice(self.piece[slice(*span)])

    def plans(self, start: int, end: int) -> bool:
        """Whether a part of the answer is nothing but a plan."""
        return self._reads(_without_choice(self.piece[start:end]))

    def _names(self, start: int, end: int) -> frozenset[str]:
        return frozenset(name for name, left, right in self.named if start <= left and right <= end)

    def _begins_sentence(self, start: int) -> bool:
        return self.masked[:start].rstrip().endswith(tuple(".!?…:()"))

    def _ticked(self) -> tuple[int, int] | None:
        """The one option with a tick among others with crosses."""
        marks = list(_MARK.finditer(self.masked))
        starts, ends = [0, *(mark.end() for mark in marks)], [*(mark.start() for mark in marks), len(self.piece)]
        parts = list(zip(starts, ends, strict=True))
        before_names = not self._names(*parts[0])
        if len(marks) < 2 or (not before_names and self._names(*parts[-1])):
            return None
        options = parts[1:] if before_names else parts[:-1]
        ticked = [option for mark, option in zip(marks, options, strict=True) if mark[0] in TICKS]
        crossed = frozenset[str]().union(*(self._names(*option) for option in options if option not in ticked))
        clear = len(ticked) == 1 and crossed and not crossed & self._names(*ticked[0])
        return ticked[0] if clear and self.plans(*ticked[0]) else None

    def _chosen(self) -> tuple[int, int] | None:
        rejected: set[str] = set()
        offered: set[str] = set()
        run: list[_Clause] = []
        needed = 0  # the weight of a plan that follows
        ended = doubted = False  # the run of plans
        last: Kind = "explains"
        for clause in self._clauses():
            kind, names = clause.kind, clause.names
            explains = kind in ("explains", "unread")
            if kind == "conditional" or (explains and run and not ended and clause.after_comma):
                return None
            if kind == "plans":
                if last == "unread" and not clause.weight and not self._begins_sentence(clause.start):
                    return None
                unmarked = offered and (clause.after_comma or not names <= offered)
                unmarked = unmarked or last == "judged" or (last == "refuses" and clause.after_comma)
                if clause.weight < max(needed, 2 if run and ended else 0, 1 if unmarked else 0):
                    return None
                run = [clause] if ended or clause.weight == 2 else [*run, clause]
                ended = doubted = False
            elif kind in ("refuses", "judged"):
                if run and not ended and clause.after_comma and not run[-1].weight:
                    return None
                rejected |= names
                offered -= names
                if all(each.names <= names for each in run):  # "Right. But Right is a hole"
                    run, ended = [], False
            elif kind == "judges" and last in ("refuses", "judged"):
                continue
            elif kind == "judges" or (kind == "doubts" and offered and not run):  # about what was named last
                rejected |= offered.union(*(each.names for each in run))
                offered, run, doubted, needed = set(), [], False, needed if needed > 1 else 0
            elif kind == "offers":
                offered |= names
                doubted = bool(run)
            elif kind in ("doubts", "hints", "unclear"):
                doubted = bool(run)
            needed = max(needed, {"describes": 1, "hints": 1, "unclear": 2}.get(kind, 0))
            ended = ended or (kind != "plans" and bool(run))
            last = "judged" if kind == "judges" and not clause.weight else kind
        chosen = frozenset[str]().union(*(each.names for each in run))
        if not run or doubted or chosen & rejected:
            return None
        span = run[0].start, run[-1].end
        return span if self.plans(*span) else None

    def _clauses(self) -> Iterator[_Clause]:
        start, after_comma = 0, False
        for separator in _SEPARATOR.finditer(self.masked + "\n"):
            end = separator.start()
            if not self.masked[start:end].isspace() and start < end:
                denial = _DENIAL.search(self.masked, start, end)
                if denial and self._names(denial.end(), end) and self.plans(start, denial.start()):  # "Down not Up"
                    yield self._clause(start, denial.start(), False, after_comma)
                    start = denial.start()
                yield self._clause(start, end, "?" in separator[0], after_comma)
                after_comma = True
            after_comma = after_comma and not separator["strong"]
            start = separator.end()

    def _clause(self, start: int, end: int, asks: bool, after_comma: bool) -> _Clause:
        words = words_of(self.masked[start:end])
        held = {*words}
        weight = 2 if held & (CHOICE | {"only"}) else 1 if held & (CONCLUSION | MOVING) else 0
        after_comma = after_comma and not (words and words[0] in REASON | CONCLUSION | DENIAL | _REFUSES)
        names = self._names(start, end)
        weight = weight if names else len(held & _POINTS)
        kind = self._kind(start, end, words, held, bool(names))
        if asks and kind != "conditional":
            kind = "offers" if names else "explains"
        return _Clause(kind, start, end, names, weight, after_comma)

    def _kind(self, start: int, end: int, words: list[str], held: set[str], names: bool) -> Kind:
        if held & CONDITION or "except" in held:
            return "conditional"
        refuses, judged = held & _REFUSES, held & VERDICTS
        offers = held & _OFFERS and "only" not in held
        reasons = not words or words[0] in REASON - CONCLUSION - {"which", "that"}
        if not names:
            if reasons or (judged and refuses):
                return "explains"
            if judged or refuses or offers:
                return "judges" if judged else "doubts" if refuses else "hints"
            return "unread" if len(words) <= 2 else "explains"
        if words[:2] == ["instead", "of"]:
            return "refuses"
        if words[0:1] == ["so"] and words[1:2] and words[1] in BE | {"does", "would"}:  # "so is Up"
            return "judged"
        if refuses:
            before = _REFUSES.intersection(words_of(self.masked[start:end].partition("\0")[0]))
            return "unclear" if judged and before <= {"no"} else "refuses"
        if judged or offers:
            return "judged" if judged else "offers"
        if self.plans(start, end):
            return "plans"
        return "explains" if reasons else "describes" if held & BE else "unclear"


def _without_choice(text: str) -> str:
    return _CHOSEN.sub(lambda word: " " * len(word[0]), text)


def weighs(piece: str) -> bool:
    """Whether an answer asks, rejects or offers anything."""
    words = words_of(piece)
    asks = "?" in piece or not (DOUBT | DENIAL | VERDICTS).isdisjoint(words)
    return asks or _MARK.search(piece) is not None or _EXCLUSION.search(piece) is not None
