"""Against rewards for words that don't look: a penalty, and how varied answers are (VAGEN, D.1.2
and finding 4).
"""

from __future__ import annotations

import heapq
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vagen_envs.core import Turn
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.scores import Judge, Statement, TurnScores

CAPACITY = 1024
"""Sentences that are counted. Rare ones are forgotten, so that a long training needs no more
memory.
"""

_SENTENCE_END = re.compile(r"[.;!?\n]+")

_counting = threading.Lock()
"""One lock for all penalties: counting takes little time, and a penalty with a lock of its own
couldn't be sent to a worker.
"""


def sentences(text: str) -> list[str]:
    """The sentences of a text in one spelling: lower case, single blanks."""
    return [
        " ".join(piece.split())
        for piece in _SENTENCE_END.split(text.lower())
        if piece and not piece.isspace()
    ]


class RepetitionPenalty:
    """Fines a statement with a low score that repeats a frequent sentence (VAGEN, appendix D.1.2).

    Args:
        amount: the reward term, -0.1 in the paper.
        threshold: 0.7 in the paper (Sokoban). A statement with this score isn't fined.
        top: how many sentences count as frequent. The paper doesn't say; 10.
        at_least: a sentence used fewer times isn't frequent. The paper doesn't say; 8, so that the
            first turns of a training run go free.
    """

    def __init__(
        self, amount: float = -0.1, threshold: float = 0.7, top: int = 10, at_least: int = 8
    ) -> None:
        if amount > 0 or not 0 <= threshold <= 1 or top < 1:
            raise JudgeConfigError(
                f"amount {amount} must not be above 0, threshold {threshold} be from 0 to 1, top "
                f"{top} at least 1"
            )
        self.amount = amount
        self.threshold = threshold
        self.top = top
        self.at_least = at_least
        self.counts = Counter[str]()

    def fine(self, text: str, value: float) -> float:
        """The penalty for a statement with this score: `amount` or 0. Counts its sentences
        afterwards.
        """
        said = sentences(text)
        with _counting:
            ranked = heapq.nlargest(self.top, self.counts.values())
            bar = self.at_least
            if len(ranked) == self.top:
                bar = max(bar, ranked[-1])
            repeated = any(self.counts[each] >= bar for each in said)
            self.counts.update(said)
            if len(self.counts) > 2 * CAPACITY:
                self.counts = Counter(dict(self.counts.most_common(CAPACITY)))
        return self.amount if repeated and value < self.threshold else 0.0


def penalty_of(penalty: RepetitionPenalty | bool | str | None) -> RepetitionPenalty | None:
    """The penalty that an option says. Raises JudgeConfigError for an unknown one."""
    if isinstance(penalty, RepetitionPenalty):
        return penalty
    if penalty in (None, False, ""):
        return None
    if penalty in (True, "paper"):
        return RepetitionPenalty()
    raise JudgeConfigError(
        f"penalty {penalty!r} is not known; use 'paper' (or True), or a RepetitionPenalty"
    )


def entropy(texts: Iterable[str]) -> float:
    """Shannon entropy in bits of the distribution of words; falls as answers converge (VAGEN,
    section 5.5).
    """
    counts = Counter(word for text in texts for word in text.lower().split())
    total = sum(counts.values())
    return math.fsum(-n / total * math.log2(n / total) for n in counts.values())


def distinct_responses(texts: Sequence[str]) -> float:
    """Share of texts that are different from one another, in one spelling."""
    return len({" ".join(text.lower().split()) for text in texts}) / len(texts) if texts else 0.0


@dataclass(slots=True)
class RewardedSentence:
    """How much a sentence of the agent was rewarded.

    Attributes:
        sentence: in one spelling.
        count: statements it stands in.
        value: sum of those statements' scores.
        truth_rate: share of the turns' states for which the judge finds the sentence by itself
            right (at least 0.7, the paper's threshold). Near 0 is specific to its state; near 1 is
            a catch-all.
        kinds: the kinds of state that it describes.
    """

    sentence: str
    count: int = 0
    value: float = 0.0
    truth_rate: float = 0.0
    kinds: set[str] = field(default_factory=set)


def rewarded_sentences(
    turns: Sequence[Turn], scores: Sequence[TurnScores], judge: Judge, n: int = 20, probes: int = 50
) -> list[RewardedSentence]:
    """The `n` sentences with the highest sum of scores, and how state-specific each is.

    Args:
        turns: scored turns.
        scores: their scores, in the same order.
        judge: asked about each sentence alone, against `probes` states spread over the turns.
        n: how many sentences.
        probes: how many other states.
    """
    table: dict[str, RewardedSentence] = {}
    for turn, scored in zip(turns, scores, strict=True):
        for part, score in scored.by_part():
            is_grounding = part == "grounding"
            text = turn.parsed.observation if is_grounding else turn.parsed.prediction
            for sentence in dict.fromkeys(sentences(text or "")):
                row = table.setdefault(sentence, RewardedSentence(sentence))
                row.count += 1
                row.value += score.value or 0.0
                row.kinds.add(turn.before.kind)
    rows = sorted(table.values(), key=lambda row: (-row.value, row.sentence))[:n]
    states = [turn.before for turn in turns]
    for row in rows:
        known = [state for state in states if state.kind in row.kinds]
        every = max(1, len(known) // probes)
        sample = known[::every][:probes]
        true_of = 0
        for state in sample:
            score = judge.score(Statement("grounding", row.sentence, state))
            true_of += (score.value or 0.0) >= 0.7
        row.truth_rate = true_of / len(sample)
    return rows
