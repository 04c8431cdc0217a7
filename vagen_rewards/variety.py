"""How varied answers are, and which of their sentences earn most: what an eye is to be kept on while training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vagen_envs.core import Turn
from vagen_rewards.hacking import sentences
from vagen_rewards.scores import Judge, Statement, TurnScores


def entropy(texts: Iterable[str]) -> float:
    """Shannon entropy in bits of the distribution of words; falls as answers converge (VAGEN, section 5.5)."""
    counts = Counter(word for text in texts for word in text.lower().split())
    total = sum(counts.values())
    return math.fsum(-n / total * math.log2(n / total) for n in counts.values()) if total else 0.0


def distinct_responses(texts: Sequence[str]) -> float:
    """Share of texts that are different from one another, in one spelling."""
    return len({" ".join(text.lower().split()) for text in texts}) / len(texts) if texts else 0.0


@dataclass(slots=True)
class RewardedSentence:
    """A sentence of the agent's.

    Attributes:
        sentence: in one spelling.
        count: statements it stands in.
        value: sum of those statements' scores.
        truth_rate: share of the turns' states for which the judge finds the sentence by itself right (at
            least 0.7, the paper's threshold). Near 0 is specific to its state; near 1 is a catch-all.
        kinds: the kinds of state it was said of.
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
            text = turn.parsed.observation if part == "grounding" else turn.parsed.prediction
            for sentence in dict.fromkeys(sentences(text or "")):
                row = table.setdefault(sentence, RewardedSentence(sentence))
                row.count += 1
                row.value += score.value or 0.0
                row.kinds.add(turn.before.kind)
    rows = sorted(table.values(), key=lambda row: (-row.value, row.sentence))[:n]
    states = [turn.before for turn in turns]
    for row in rows:
        known = [state for state in states if state.kind in row.kinds]
        sample = known[:: max(1, len(known) // probes)][:probes]
        values = [judge.score(Statement("grounding", row.sentence, state)).value for state in sample]
        row.truth_rate = sum(value is not None and value >= 0.7 for value in values) / len(values) if values else 0.0
    return rows
