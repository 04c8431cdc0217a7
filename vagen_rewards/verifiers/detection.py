"""DetectionVerifier: boxes against boxes (V-Triune, section 3.2, equations 2 and 3)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.boxes import Box, NotBoxesError, iou, read_boxes
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import Verdict
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers.base import Verifier, answer_text, tag_format

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
        """Mean IoU; what is missing and what is too much counts as 0. For one box of each, their IoU."""
        return sum(self.ious) / self.of

    def at(self, threshold: float) -> float:
        """The share of pairs with an IoU of at least `threshold`."""
        return sum(each >= threshold for each in self.ious) / self.of

    def reward(self, threshold: float) -> float:
        """Equation 3, averaged: an IoU counts where it is at least `threshold`, else 0."""
        return sum(each for each in self.ious if each >= threshold) / self.of


def match(predicted: Sequence[Box], truth: Sequence[Box]) -> Match:
    """Pair boxes of one label so that the sum of their IoU is largest (an assignment; order doesn't matter)."""
    ious: list[float] = []
    for label in {box.label for box in truth}:
        own = [box for box in predicted if box.label == label]
        true = [box for box in truth if box.label == label]
        if len(own) == len(true) == 1:
            pairs = [iou(own[0], true[0])]
        else:
            table = _iou_table(own, true)
            pairs = [float(table[i, j]) for i, j in zip(*_assignment(table), strict=True)]
        ious += [each for each in pairs if each > 0]
    return Match(tuple(sorted(ious, reverse=True)), max(len(predicted), len(truth), 1))


def _iou_table(own: Sequence[Box], true: Sequence[Box]) -> NDArray[np.float64]:
    """IoU of each predicted with each true box, float64 (predicted, true)."""
    one, other = (np.array([box[:4] for box in boxes], np.float64).reshape(-1, 4) for boxes in (own, true))
    low, high = np.maximum(one[:, None, :2], other[:, :2]), np.minimum(one[:, None, 2:], other[:, 2:])
    areas = [np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=1) for boxes in (one, other)]
    shared = np.prod(np.clip(high - low, 0, None), axis=2) * (areas[0][:, None] > 0) * (areas[1] > 0)
    union = areas[0][:, None] + areas[1] - shared
    table: NDArray[np.float64] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return table


def _assignment(table: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("matching several boxes", "verify", "scipy") from error
    rows, columns = linear_sum_assignment(table, maximize=True)
    return rows.tolist(), columns.tolist()


class DetectionVerifier(Verifier):
    """For detection and grounding: R_format of equation 2, R_acc of equation 3.

    The answer is the list of boxes in `<answer>`. Labels must be equal but for case. The paper defines
    equation 3 for one box; for several, the boxes are paired one to one by the best assignment, and the sum of
    what each pair earns is divided by the larger number of boxes, so that neither missing nor superfluous
    boxes pay. (The released code pairs greedily and weighs completeness by `det_reward_ratio`.)

    Parameters:
        iou_threshold: ε of this sample, above 0 and at most 1, instead of the schedule's.
        det_verifier_normalized: whether coordinates are thousandths of the picture's sides, as in the released
            data; only the pseudo-confidence of mAP needs to know.
        det_reward_ratio: stands in the released data; accepted and not used, since the paper has no such weights.

    Metrics: `iou`, the mean over pairs, and `iou@50`, `iou@75`, `iou@95`, `iou@99`.
    """

    name = "detection"
    modules = ("scipy",)
    parameters: ClassVar[frozenset[str]] = frozenset({"iou_threshold", "det_verifier_normalized", "det_reward_ratio"})

    def check(self, sample: Sample) -> None:
        super().check(sample)
        threshold = sample.reward_model.verifier_parm.get("iou_threshold")
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if threshold is not None and not (number and 0 < threshold <= 1):
            raise VerifierError(f"verifier_parm['iou_threshold']={threshold!r} must be above 0 and at most 1; mend it")

    def verify(self, sample: Sample, response: str, iou_threshold: float) -> Verdict:
        truth = true_boxes(sample.reward_model.truth)
        threshold = float(sample.reward_model.verifier_parm.get("iou_threshold", iou_threshold))
        format_score = tag_format(response)
        answer = answer_text(response)
        zeros = {"iou": 0.0, **dict.fromkeys(map(metric_name, REPORTED), 0.0)}
        if answer is None:
            return Verdict(0.0, format_score, None, "there is no <answer>…</answer>", zeros)
        try:
            found = match(read_boxes(answer), truth)
        except NotBoxesError as error:
            return Verdict(0.0, format_score, answer, f"the answer is not a list of boxes: {error}", zeros)
        metrics = {"iou": found.mean, **{metric_name(each): found.at(each) for each in REPORTED}}
        reason = f"mean IoU {found.mean:.3f}, {found.at(threshold):.0%} of the boxes at least {threshold:g}"
        return Verdict(found.reward(threshold), format_score, answer, reason, metrics)


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
        raise VerifierError(f"the ground truth {text!r:.80} has no box, or one without an area; leave the sample out")
    return tuple(boxes)
