"""Against rewards for words that don't look: VAGEN, appendix D.1.2 and finding 4."""

from __future__ import annotations

import heapq
import re
import threading
from collections import Counter

from vagen_rewards.errors import JudgeConfigError

CAPACITY = 1024
"""Sentences that are counted. Rare ones are forgotten, so that a long training needs no more memory."""

_SENTENCE_END = re.compile(r"[.;!?\n]+")

_counting = threading.Lock()
"""Of all penalties: counting is short, and a lock of its own would keep one from being sent to a worker."""


def sentences(text: str) -> list[str]:
    """The sentences of a text in one spelling: lower case, single blanks."""
    return [" ".join(piece.split()) for piece in _SENTENCE_END.split(text.lower()) if piece and not piece.isspace()]


class RepetitionPenalty:
    """Fines a statement with a low score that repeats a frequent sentence (VAGEN, appendix D.1.2).

    Args:
        amount: the reward term, -0.1 in the paper.
        threshold: 0.7 in the paper (Sokoban). A statement with this score isn't fined.
        top: how many sentences count as frequent. The paper doesn't say; 10.
        at_least: a sentence used fewer times isn't frequent. The paper doesn't say; 8, so that the first
            turns of a training run go free.
    """

    def __init__(self, amount: float = -0.1, threshold: float = 0.7, top: int = 10, at_least: int = 8) -> None:
        if amount > 0 or not 0 <= threshold <= 1 or top < 1:
            raise JudgeConfigError(
                f"amount {amount} must not be above 0, threshold {threshold} be from 0 to 1, top {top} at least 1"
            )
        self.amount, self.threshold, self.top, self.at_least = amount, threshold, top, at_least
        self.counts = Counter[str]()

    def fine(self, text: str, value: float) -> float:
        """The penalty for a statement with this score: `amount` or 0. Counts its sentences afterwards."""
        said = sentences(text)
        with _counting:
            ranked = heapq.nlargest(self.top, self.counts.values())
            bar = max(self.at_least, ranked[-1] if len(ranked) == self.top else 0)
            repeated = any(self.counts[each] >= bar for each in said)
            self.counts.update(said)
            if len(self.counts) > 2 * CAPACITY:
                self.counts = Counter(dict(self.counts.most_common(CAPACITY)))
        return self.amount if repeated and value < self.threshold else 0.0
