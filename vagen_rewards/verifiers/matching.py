"""Matches of predicted boxes and true ones, and the rewards of V-Triune's releases for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.answer import Box, iou

SIZE_PENALTY = 0.6
"""The released reward falls to this share for each box too many or too few."""
Pairs = list[tuple[Box, Box, float]]


@dataclass(frozen=True)
class Match:
    """Predicted boxes paired with true ones of the same label, each with at most one.

    Attributes:
        ious: of the pairs, above 0.
        of: the larger of the numbers of predicted and of true boxes; at least 1.
    """

    ious: tuple[float, ...]
    of: int

    @property
    def mean(self) -> float:
        """Mean IoU; what is missing and what is too much counts as 0. For one box of each, their
        IoU.
        """
        return sum(self.ious) / self.of

    def at(self, threshold: float) -> float:
        """The share of pairs with an IoU of at least `threshold`."""
        return sum(each >= threshold for each in self.ious) / self.of

    def reward(self, threshold: float) -> float:
        """Equation 3, averaged: an IoU counts where it is at least `threshold`, else 0."""
        return sum(each for each in self.ious if each >= threshold) / self.of


def match(predicted: Sequence[Box], truth: Sequence[Box]) -> Match:
    """Pair boxes of one label so that the sum of their IoU is largest (an assignment; order doesn't
    matter).
    """
    ious: list[float] = []
    for label in {box.label for box in truth}:
        own = [box for box in predicted if box.label == label]
        true = [box for box in truth if box.label == label]
        pairs = _best_pairs(own, true)
        ious += [each for each in pairs if each > 0]
    return Match(tuple(sorted(ious, reverse=True)), max(len(predicted), len(truth), 1))


def _best_pairs(own: Sequence[Box], true: Sequence[Box]) -> list[float]:
    """The overlaps of the assignment with the largest sum."""
    if len(own) == len(true) == 1:
        return [iou(own[0], true[0])]
    table = [_overlaps(one, true) for one in own]
    return [table[i][j] for i, j in zip(*_assignment(table), strict=True)]


def _overlaps(box: Box, others: Sequence[Box]) -> list[float]:
    return [iou(box, other) for other in others]


def _assignment(table: list[list[float]]) -> tuple[list[int], list[int]]:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("matching several boxes", "verify", "scipy") from error
    if not table:
        return [], []
    rows, columns = linear_sum_assignment(table, maximize=True)
    return rows.tolist(), columns.tolist()


def released_reward(
    predicted: Sequence[Box],
    truth: Sequence[Box],
    threshold: float,
    ratios: dict[str, float] | None = None,
) -> float:
    """R_acc for several boxes as the released code computes it
    (`DetectionVerifier.verify_accuracy`); 0 to 1.

    Boxes are paired greedily, those below the threshold not at all. The sum of IoU is divided by
    the number of true boxes, mixed with completeness (1 - half of the share missed and half of the
    share made up), and multiplied by 0.6 for each box too many or too few. Boxes at the same place
    count once, and those turned inside out not at all.

    Args:
        predicted: the answer's boxes.
        truth: the true ones, in the same unit.
        threshold: ε of equation 3.
        ratios: `det_reward_ratio` of a sample: the weights of pairing by label first and by IoU
            first, and the share of completeness. Pairing by label first alone where there are none.
    """
    ratios = ratios or {"iou_max_label_first": 1.0}
    own = _once(predicted)
    true = _once(truth)
    if not own or not true:
        return 0.0
    complete = ratios.get("iou_completeness", 0.0)
    rewards = {}
    for name, pair in _PAIRINGS.items():
        pairs = pair(own, true, threshold)
        missed = 1 - len(pairs) / len(true)
        made_up = 1 - len(pairs) / len(own)
        mean = sum(each for _, _, each in pairs) / len(true)
        rewards[name] = mean * (1 - complete) + (1 - (missed + made_up) / 2) * complete
    weights = {name: ratios.get(name, 0.0) for name in rewards}
    total = sum(weights.values())
    if not total:
        return 0.0
    penalty = SIZE_PENALTY ** abs(len(own) - len(true))
    return float(penalty * sum(weights[name] * reward for name, reward in rewards.items()) / total)


def _once(boxes: Sequence[Box]) -> list[Box]:
    first: dict[tuple[float, ...], Box] = {}
    for box in boxes:
        if box.x1 <= box.x2 and box.y1 <= box.y2:
            first.setdefault(box[:4], box)
    return list(first.values())


def _by_label_first(predicted: Sequence[Box], truth: Sequence[Box], threshold: float) -> Pairs:
    """Each true box in turn takes the best that is left of its label."""
    left = list(range(len(predicted)))
    pairs = []
    for true in truth:
        same = [i for i in left if predicted[i].label == true.label]
        best = max(same, key=lambda i: iou(predicted[i], true), default=None)
        if best is not None and iou(predicted[best], true) >= threshold:
            left.remove(best)
            pairs.append((predicted[best], true, iou(predicted[best], true)))
    return pairs


def _by_iou_first(predicted: Sequence[Box], truth: Sequence[Box], threshold: float) -> Pairs:
    """The best pair of all is taken, then the best that is left; one of two labels counts as a pair
    of IoU 0.

    The released loop means this, but takes the indices of the last pair that it looked at, not the
    best one's.
    """
    table = [
        (iou(own, true), i, j) for i, own in enumerate(predicted) for j, true in enumerate(truth)
    ]
    taken: tuple[set[int], set[int]] = (set(), set())
    pairs: Pairs = []
    for overlap, i, j in sorted(table, key=lambda each: (-each[0], *each[1:])):
        if overlap < threshold:
            break
        if i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            pairs.append(
                (predicted[i], truth[j], overlap if predicted[i].label == truth[j].label else 0.0)
            )
    return pairs


_PAIRINGS: dict[str, Callable[[Sequence[Box], Sequence[Box], float], Pairs]] = {
    "iou_max_label_first": _by_label_first,
    "iou_max_iou_first": _by_iou_first,
}
