"""DetectionVerifier: boxes against boxes (V-Triune, section 3.2, equations 2 and 3)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vagen_envs.errors import MissingExtraError, NotBoxesError
from vagen_envs.replies import last_answer
from vagen_envs.sample.answer import Box, iou, read_boxes
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers.base import Verifier, tag_format

SIZE_PENALTY = 0.6
"""The released reward falls to this share for each box too many or too few."""
RATIOS = ("iou_max_label_first", "iou_max_iou_first", "iou_completeness", "map", "map50", "map75")
"""The names that `det_reward_ratio` has in the released data; this verifier pays for the first
three.
"""

Pairs = list[tuple[Box, Box, float]]

REPORTED = (0.50, 0.75, 0.95, 0.99)
"""The thresholds at which section 3.3 reports IoU."""


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


class DetectionVerifier(Verifier):
    """For detection and grounding: R_format of equation 2, R_acc of equation 3.

    The answer is the list of boxes in `<answer>`. Labels must be equal but for case. The paper
    defines equation 3 for one box; for several the released code's reward is paid, see
    `released_reward`.

    Keywords of a sample:
        iou_threshold: ε of this sample, above 0 and at most 1, instead of the schedule's.
        det_verifier_normalized: as in the released data: the truth is in thousandths of the
        picture's sides and
            the answer in pixels, which are converted, rounded down. The released code takes the
            size that the model's processor made of the picture; here it is the picture's own.
        coordinates: `"thousandths"` if truth and answer are in thousandths; `"pixels"` (default) if
        in pixels. matching: `"released"` (default), or `"assignment"`: boxes are paired one to one
        as well as can be, and
            the sum of what each pair earns is divided by the larger number of boxes, so that order
            doesn't matter.
        det_reward_ratio: weights of the released reward; those of `map`, `map50` and `map75` must
        be 0.

    Metrics: `iou`, the mean over pairs of the best assignment, and `iou@50`, `iou@75`, `iou@95`,
    `iou@99`.
    """

    name = "detection"
    modules = ("scipy",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        {"iou_threshold", "det_verifier_normalized", "det_reward_ratio", "coordinates", "matching"}
    )

    def check(self, sample: Sample) -> None:
        super().check(sample)
        threshold = sample.reward_model.verifier_parm.get("iou_threshold")
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if threshold is not None and not (number and 0 < threshold <= 1):
            raise VerifierError(
                f"verifier_parm['iou_threshold']={threshold!r} must be above 0 and at most 1; "
                "fix it"
            )
        given = sample.reward_model.verifier_parm
        for name, words in (
            ("coordinates", ("pixels", "thousandths")),
            ("matching", ("released", "assignment")),
        ):
            if given.get(name, words[0]) not in words:
                raise VerifierError(
                    f"verifier_parm[{name!r}]={given[name]!r} must be "
                    f"{' or '.join(map(repr, words))}"
                )
        normalized = given.get("det_verifier_normalized")
        if normalized is not None and not isinstance(normalized, bool):
            raise VerifierError(
                f"verifier_parm['det_verifier_normalized']={normalized!r} must be true or false; "
                "fix it"
            )
        ratios = given.get("det_reward_ratio") or {}
        good = isinstance(ratios, Mapping) and all(_is_share(each) for each in ratios.values())
        if (
            not good
            or not set(ratios) <= set(RATIOS)
            or any(ratios.get(name) for name in RATIOS[3:])
        ):
            raise VerifierError(
                f"verifier_parm['det_reward_ratio']={ratios!r} must have weights from 0 to 1 for "
                f"{', '.join(RATIOS[:3])}, and 0 for {', '.join(RATIOS[3:])}, which aren't paid "
                "for here"
            )

    def verify(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        given = sample.reward_model.verifier_parm
        truth = true_boxes(sample.reward_model.truth)
        threshold = float(given.get("iou_threshold", iou_threshold))
        format_score = tag_format(response)
        answer = last_answer(response)
        zeros = {"iou": 0.0, **dict.fromkeys(map(metric_name, REPORTED), 0.0)}
        if answer is None:
            return VerifierResult(0.0, format_score, None, "there is no <answer>…</answer>", zeros)
        try:
            boxes = answered_boxes(sample, answer)
        except NotBoxesError as error:
            return VerifierResult(
                0.0, format_score, answer, f"the answer is not a list of boxes: {error}", zeros
            )
        found = match(boxes, truth)
        if given.get("matching") == "assignment":
            accuracy = found.reward(threshold)
        else:
            accuracy = released_reward(boxes, truth, threshold, given.get("det_reward_ratio"))
        metrics = {"iou": found.mean, **{metric_name(each): found.at(each) for each in REPORTED}}
        reason = (
            f"mean IoU {found.mean:.3f}, {found.at(threshold):.0%} of the boxes at least "
            f"{threshold:g}"
        )
        return VerifierResult(accuracy, format_score, answer, reason, metrics)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def answered_boxes(sample: Sample, answer: str) -> list[Box]:
    """The boxes of an answer in the unit of the sample's truth. Raises NotBoxesError if it has none
    to read.
    """
    boxes = read_boxes(answer)
    if not sample.reward_model.verifier_parm.get("det_verifier_normalized") or not sample.images:
        return boxes
    width, height = sample.images[0].size

    def told(edge: float, side: int) -> float:
        return math.floor(edge / side * 1000)

    return [
        Box(
            told(box.x1, width),
            told(box.y1, height),
            told(box.x2, width),
            told(box.y2, height),
            box.label,
        )
        for box in boxes
    ]


def metric_name(threshold: float) -> str:
    """Such as `iou@95`."""
    return f"iou@{threshold * 100:.0f}"


@functools.lru_cache(maxsize=4_096)
def true_boxes(text: str) -> tuple[Box, ...]:
    """The boxes of a ground truth. Raises VerifierError if it has none, or one without an area."""
    try:
        boxes = read_boxes(text)
    except NotBoxesError as error:
        raise VerifierError(
            f"the ground truth {text!r:.80} is not a list of boxes ({error}); "
            "write [{'bbox_2d': [x1, y1, x2, y2], 'label': 'name'}]"
        ) from error
    if not boxes or not all(box.area for box in boxes):
        raise VerifierError(
            f"the ground truth {text!r:.80} has no box, or one without an area; leave the sample "
            "out"
        )
    return tuple(boxes)
