"""Against rewards for words that don't look: VAGEN, appendix D.1.2 and finding 4."""

from __future__ import annotations

import heapq
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from vagen_envs.core import State
from vagen_rewards.errors import JudgeConfigError

_SENTENCE_END = re.compile(r"[.;!?\n]+")


def sentences(text: str) -> list[str]:
    """The sentences of a text in one spelling: lower case, single blanks."""
    return [" ".join(piece.split()) for piece in _SENTENCE_END.split(text.lower()) if piece and not piece.isspace()]


class FrequentSentences:
    """The most frequent sentences of an endless stream, in bounded memory (Space-Saving, Metwally 2005).

    A count is never too low, and too high by at most seen / capacity. When the table is full, the
    sentence with the lowest count makes room and leaves its count to the newcomer.

    Args:
        capacity: sentences kept.
    """

    def __init__(self, capacity: int = 1024) -> None:
        if capacity < 1:
            raise JudgeConfigError(f"capacity {capacity} holds nothing; give at least 1")
        self.capacity = capacity
        self.seen = 0
        self.counts: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # with stale entries, rebuilt before it grows beyond 4 × capacity

    def add(self, sentence: str) -> None:
        """Count a sentence."""
        self.seen += 1
        count = self.counts.get(sentence)
        if count is None:
            count = self._evict() if len(self.counts) >= self.capacity else 0
        self.counts[sentence] = count + 1
        heapq.heappush(self._heap, (count + 1, sentence))
        if len(self._heap) > 4 * self.capacity:
            self._heap = [(count, each) for each, count in self.counts.items()]
            heapq.heapify(self._heap)

    def _evict(self) -> int:
        while True:
            count, sentence = heapq.heappop(self._heap)
            if self.counts.get(sentence) == count:
                del self.counts[sentence]
                return count

    def top(self, n: int) -> list[tuple[str, int]]:
        """The `n` most frequent sentences with their counts, most frequent first."""
        return heapq.nsmallest(n, self.counts.items(), key=lambda item: (-item[1], item[0]))


_NUMBER = re.compile(
    r"[^\s,.;:!?()\[\]{}\"']*\d[^\s,;:!?()\[\]{}\"']*|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven"
    r"|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand"
    r"|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|[ivxlcdm]{2,}|[b-hj-z])\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]{1,60}\"|“[^”]{1,60}”|`[^`]{1,60}`")
_CAPITAL = re.compile(r"(?<=[a-z,] )[A-Z][a-z][\w-]*|\b[a-z]+[A-Z]\w*|\b\w+_\w+")


def masked(text: str, names: Iterable[str] = ()) -> list[str]:
    """The sentences of a text as wordings: numbers and names are a mark, so that a running number makes no new one.

    Args:
        text: the statement.
        names: of things that the environment knows, masked beside quoted and capitalized words.
    """
    known = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    text = _CAPITAL.sub("#", _QUOTED.sub("#", text))
    if known:
        text = re.sub(rf"\b(?:{known})\b", "#", text, flags=re.IGNORECASE)
    return sentences(_NUMBER.sub("#", text))


def names_in(state: State) -> frozenset[str]:
    """The names of things in a state: its words, as they are written and as they are said."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, str) and 2 < len(value) <= 40 and value.lower() not in _NO_NAMES:
            parts = _PART.findall(value)
            found.update((value, " ".join(parts).lower()) if len(parts) > 1 else (value.lower(),))
        elif isinstance(value, Mapping):
            for key, each in value.items():
                look(key)
                look(each)
        elif isinstance(value, list | tuple):
            for each in value:
                look(each)

    for field_value in state.to_json().values():
        look(field_value if not isinstance(field_value, str) or field_value != state.kind else "")
    return frozenset(found)


_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NO_NAMES = frozenset({"ahead", "left", "right", "back"})


_counting = threading.Lock()
"""Of all penalties: counting is short, and a lock of its own would keep one from being sent to a worker."""


class RepetitionPenalty:
    """Fines a wrong or empty statement that repeats a frequent wording (VAGEN, appendix D.1.2).

    Wordings are sentences with numbers and names masked. A statement that is right and tells something is never
    fined, however often it is said and however little of the whole it is.

    Args:
        amount: the reward term, -0.1 in the paper.
        threshold: 0.7 in the paper (Sokoban). A statement with this score isn't fined.
        top: how many wordings count as frequent. The paper doesn't say; 10.
        at_least: a wording used fewer times isn't frequent. The paper doesn't say; 8, so that the first
            turns of a training run go free.
        capacity: wordings kept in memory.
        form: `"masked"`, as above, or `"paper"`: sentences as they stand, and any score below the threshold is fined,
            also that of a true statement which doesn't say everything.
    """

    def __init__(
        self,
        amount: float = -0.1,
        threshold: float = 0.7,
        top: int = 10,
        at_least: int = 8,
        capacity: int = 1024,
        form: Literal["masked", "paper"] = "masked",
    ) -> None:
        if amount > 0 or not 0 <= threshold <= 1 or top < 1:
            raise JudgeConfigError(
                f"amount {amount} must not be above 0, threshold {threshold} be from 0 to 1, top {top} at least 1"
            )
        if form not in ("masked", "paper"):
            raise JudgeConfigError(f"form {form!r} is not known; use 'masked' or 'paper'")
        self.amount, self.threshold, self.top, self.at_least = amount, threshold, top, at_least
        self.form = form
        self.frequent = FrequentSentences(capacity)
        self._bar = at_least
        self._age = 0

    def fine(self, text: str, value: float, *, earned: bool = False, names: Iterable[str] = ()) -> float:
        """The penalty for a statement: `amount` or 0. Counts its wordings afterwards.

        Args:
            text: the statement.
            value: its score.
            earned: it is right, and it tells something.
            names: of things, see `masked`.
        """
        said = sentences(text) if self.form == "paper" else masked(text, names)
        with _counting:
            repeated = any(self._is_frequent(each) for each in said)
            for each in said:
                self.frequent.add(each)
        spared = value >= self.threshold or (earned and self.form == "masked")
        return self.amount if repeated and not spared else 0.0

    def _is_frequent(self, sentence: str) -> bool:
        count = self.frequent.counts.get(sentence, 0)
        if count < self.at_least:
            return False
        if self.frequent.seen >= self._age:  # the bar moves slowly: look it up anew now and then
            ranked = self.frequent.top(self.top)
            self._bar = max(self.at_least, ranked[-1][1] if len(ranked) == self.top else self.at_least)
            self._age = self.frequent.seen + 64
        return count >= self._bar
