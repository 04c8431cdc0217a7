"""Answers that weigh options: "I can't go Left because of the hole, so Down".

An answer is cut into clauses. Each plans (nothing but actions and words that lead to them), rejects the actions it
names, offers them, or explains. The plan executes if no other clause takes it back. After options or where its sense
could be another it must be marked as the choice, by words such as "so" or "I choose".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from vagen_envs.replies.ticks import adorns, lone_tick, ticked_option
from vagen_envs.replies.vocabulary import CROSSES, PHRASES, TICKS, WORDS, words_of

_CAPTION = re.compile(rf"\b(?:{'|'.join(WORDS.caption)})[ *_]*:", re.IGNORECASE)
_CHOSEN = re.compile(
    rf"\bonly\s+(?:\w+\s+){{0,2}}?(?=move|option|action|direction|way|choice|path|one)"
    rf"|\b(?:{'|'.join(WORDS.choice | WORDS.conclusion)})\b",
    re.IGNORECASE,
)
_REFUSES = (WORDS.denial - {"instead"}) | {"no", "neither", "nor", "nope"}
_POINTS = {"that", "that's", "it", "it's", "this"}
_JOINS = WORDS.reason | WORDS.conclusion | WORDS.denial | _REFUSES
_GROUNDS = WORDS.reason - WORDS.conclusion - {"which", "that", "and"}
_OFFERS = WORDS.doubt - _REFUSES - WORDS.condition
_LEADS = [["instead", "of"], ["rather", "than"], ["over"]]
# What may follow in such a clause: "instead of Up was a mistake" and "instead of Up kills me" judge the choice.
_TAIL = WORDS.neutral - WORDS.be - {"next"}

Rejection = Literal["refuses", "replaces", "judged", "judges", "doubts"]
Remark = Literal["hints", "explains", "describes", "unclear", "unread", "conditional"]
Kind = Literal["plans", "remains", "offers"] | Rejection | Remark
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

    def __init__(
        self, piece: str, named: Sequence[tuple[str, int, int]], plans: Callable[[str], bool]
    ) -> None:
        self.piece = piece
        self.named = named
        self._reads = plans
        self.masked = re.sub(r"[*_`\"]", " ", piece)  # without the actions
        for _, start, end in named:
            self.masked = self.masked[:start] + "\0" * (end - start) + self.masked[end:]
        self.masked, self.tick = lone_tick(self.masked)
        self.masked = PHRASES["rejected_list"].sub(
            lambda options: options[0].replace(",", " "), self.masked
        )

    def plan(self) -> str | None:
        """The answer with blanks for all but its plan; `None` if it isn't clear."""
        if PHRASES["exclusion"].search(self.masked):
            return None
        caption = _CAPTION.search(self.masked)
        if caption and self.plans(0, caption.start()):
            span: tuple[int, int] | None = (0, caption.start())
        else:
            ticks = any(tick in self.masked for tick in TICKS)
            span = ticked_option(self.masked, self.named, self.plans) if ticks else self._chosen()
        if span and self.tick is not None:
            planned = [name for name in self.named if span[0] <= name[1] < span[1]]
            if span[0] < self.tick < span[1] or not adorns(self.piece, self.tick, planned):
                return None
        return None if span is None else " " * span[0] + self._without_choice(*span)

    def plans(self, start: int, end: int) -> bool:
        """Whether a part of the answer is nothing but a plan."""
        return self._reads(self._without_choice(start, end))

    def _without_choice(self, start: int, end: int) -> str:
        """A part of the answer with blanks for the words that mark a choice."""
        masked = self.masked[start:end]
        if only := PHRASES["only_one"].fullmatch(masked):
            masked = only["name"].rjust(only.end("name")).ljust(end - start)
        masked = _CHOSEN.sub(lambda word: " " * len(word[0]), masked)
        return "".join(
            own if mask == "\0" else mask
            for own, mask in zip(self.piece[start:end], masked, strict=True)
        )

    def _names(self, start: int, end: int) -> frozenset[str]:
        return frozenset(name for name, left, right in self.named if start <= left and right <= end)

    def _begins_sentence(self, start: int) -> bool:
        return self.masked[:start].rstrip().endswith(tuple(".!?…:()"))

    def _chosen(self) -> tuple[int, int] | None:
        rejected: set[str] = set()
        offered: set[str] = set()
        run: list[_Clause] = []
        needed = 0  # the weight of a plan that follows
        ended = doubted = False  # the run of plans
        last: Kind = "explains"
        clauses = list(self._clauses())
        only = next((clause for clause in clauses if clause.kind == "remains"), None)
        if only and not any(
            each.kind == "plans" and (each.start < only.start or each.weight == 2)
            for each in clauses
        ):
            return self._remaining(clauses, only)
        for clause in clauses:
            kind = clause.kind
            names = clause.names
            contrasts = self.masked.startswith(("but", "But"), clause.start)
            explains = kind in ("explains", "unread")
            if kind == "conditional" or (explains and run and not ended and clause.after_comma):
                return None
            if kind == "plans":
                if (
                    last == "unread"
                    and not clause.weight
                    and not self._begins_sentence(clause.start)
                ):
                    return None
                unmarked = offered and (clause.after_comma or not names <= offered)
                unmarked = (
                    unmarked
                    or last == "judged"
                    or (last in ("refuses", "replaces") and clause.after_comma)
                )
                if clause.weight < max(needed, 2 if run and ended else 0, 1 if unmarked else 0):
                    return None
                run = [clause] if ended or clause.weight == 2 else [*run, clause]
                ended = doubted = False
            elif kind in ("refuses", "replaces", "judged"):
                if run and not ended and clause.after_comma and not run[-1].weight:
                    return None
                rejected |= names
                offered -= names
                if all(each.names <= names for each in run):  # "Right. But Right is a hole"
                    run = []
                    ended = False
            elif (
                kind == "judges"
                and last == "replaces"
                and not PHRASES["place"].search(self.masked, clause.start, clause.end)
            ):
                return None  # the choice or what it replaces
            elif kind == "judges" and last in ("refuses", "replaces", "judged") and not contrasts:
                continue
            elif kind == "judges" or (
                kind == "doubts" and offered and not run
            ):  # about what was named last
                rejected |= offered.union(*(each.names for each in run))
                offered = set()
                run = []
                doubted = False
                needed = needed if needed > 1 else 0
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

    def _remaining(self, clauses: Sequence[_Clause], only: _Clause) -> tuple[int, int] | None:
        """The action that remains now, where all other clauses reject others, give reasons or repeat it."""
        for clause in clauses:
            rejects = clause.kind in ("refuses", "judged") and clause.names.isdisjoint(only.names)
            repeats = clause.kind == "plans" and clause.names == only.names and clause.weight > 0
            explains = PHRASES["explanation"].fullmatch(self.masked, clause.start, clause.end)
            if not (clause is only or rejects or repeats or explains):
                return None
        now = WORDS.elsewhere.isdisjoint(words_of(self.masked))
        return (only.start, only.end) if now and self.plans(only.start, only.end) else None

    def _clauses(self) -> Iterator[_Clause]:
        start = 0
        after_comma = False
        for separator in PHRASES["separator"].finditer(self.masked + "\n"):
            end = separator.start()
            text = self.masked[start:end].strip()
            is_label = text.isdigit() and not self.masked[:start].rstrip(" (").endswith(
                "\0"
            )  # "2) Up", not "Up (2)"
            if text and not is_label:
                lead = PHRASES["instead"].match(self.masked, start, end)
                if lead and self._names(lead.end(), end):
                    yield self._clause(start, lead.end(), False, after_comma)
                    start = lead.end()
                    after_comma = True
                yield self._clause(start, end, "?" in separator[0], after_comma)
                after_comma = True
            after_comma = after_comma and not separator["strong"]
            start = separator.end()

    def _clause(self, start: int, end: int, asks: bool, after_comma: bool) -> _Clause:
        names = self._names(start, end)
        cross = " rejected " if names else " unless "  # apart from an action its sense isn't known
        words = words_of(re.sub(f"[{CROSSES}]", cross, self.masked[start:end]))
        if words[:1] == ["and"] and self.masked[start:end].lstrip().startswith("\0"):
            words.insert(0, "\0")
        held = {*words}
        chooses = held & (WORDS.choice | {"only"}) and words[0] != "then"
        weight = 2 if chooses else 1 if held & (WORDS.conclusion | WORDS.moving) else 0
        after_comma = after_comma and not (words and words[0] in _JOINS)
        weight = weight if names else len(held & _POINTS)
        kind = self._kind(start, end, words, held, bool(names))
        if asks and kind != "conditional":
            kind = "offers" if names else "explains"
        return _Clause(kind, start, end, names, weight, after_comma)

    def _kind(self, start: int, end: int, words: list[str], held: set[str], names: bool) -> Kind:
        if held & WORDS.condition or "except" in held:
            return "conditional"
        refuses = held & _REFUSES
        judged = held & WORDS.verdict
        best = held & (WORDS.choice - {"option"})  # "the best option"
        offers = held & (_OFFERS - {"option"} if best else _OFFERS) and "only" not in held
        reasons = not words or words[0] in (_GROUNDS if held & _POINTS else _GROUNDS | {"and"})
        if not names:
            if reasons or (judged and refuses):
                return "explains"
            if judged or refuses or offers:
                return "judges" if judged else "doubts" if refuses else "hints"
            return "unread" if len(words) <= 2 else "explains"
        if words[:2] in _LEADS or words[:1] in _LEADS:
            tail = self.masked[start:end].rpartition("\0")[2]
            return (
                "replaces"
                if _TAIL.issuperset(words_of(PHRASES["replaced"].sub("", tail)))
                else "unclear"
            )
        if PHRASES["only_one"].fullmatch(self.masked, start, end):
            return "remains"
        if (
            words[0:1] == ["so"] and words[1:2] and words[1] in WORDS.be | {"does", "would"}
        ):  # "so is Up"
            return "judged"
        if refuses:
            before = _REFUSES.intersection(words_of(self.masked[start:end].partition("\0")[0]))
            return "unclear" if judged and before <= {"no"} else "refuses"
        if judged or offers:
            return "judged" if judged else "offers"
        if words[:1] != ["after"] and self.plans(start, end):
            return "plans"
        return "explains" if reasons else "describes" if held & WORDS.be else "unclear"


def weighs(piece: str) -> bool:
    """Whether an answer asks, rejects or offers anything."""
    words = words_of(piece)
    asks = "?" in piece or not (WORDS.doubt | WORDS.denial | WORDS.verdict).isdisjoint(words)
    return (
        asks
        or any(cross in piece for cross in CROSSES)
        or PHRASES["exclusion"].search(piece) is not None
    )
