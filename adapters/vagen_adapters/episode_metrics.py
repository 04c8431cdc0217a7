"""One number per metric or reward term and episode, for libraries that average numbers over
episodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from vagen_envs.core import Turn


def episode_metrics(turns: Sequence[Turn]) -> dict[str, float]:
    """Return `success` (0 or 1), `turns`, and the mean of each numeric or boolean turn metric."""
    found: dict[str, list[float]] = {}
    for turn in turns:
        for name, value in turn.metrics.items():
            if not isinstance(value, str):
                found.setdefault(name, []).append(float(value))
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return {
        **means,
        "success": float(bool(turns) and turns[-1].success),
        "turns": float(len(turns)),
    }


def reward_terms(turns: Sequence[Turn]) -> dict[str, float]:
    """Return each reward term's sum over the turns."""
    terms: dict[str, float] = {}
    for term in (term for turn in turns for term in turn.rewards):
        terms[term.name] = terms.get(term.name, 0.0) + term.value
    return terms
