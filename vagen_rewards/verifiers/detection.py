"""DetectionVerifier: boxes against boxes (V-Triune, section 3.2, equations 2 and 3)."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from vagen_envs.bounds import Several, Whole
from vagen_envs.errors import NotBoxesError
from vagen_envs.replies import last_answer
from vagen_envs.sample.answer import Box, read_boxes
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers.base import Verifier, tag_format
from vagen_rewards.verifiers.matching import match, released_reward

RATIOS = ("iou_max_label_first", "iou_max_iou_first", "iou_completeness", "map", "map50", "map75")
"""The names that `det_reward_ratio` has in the released data; this verifier pays for the first
three.
"""
PICTURE_SIZE = "picture_size"
"""Names the size in the `extra_info` of a sample that is sent without its pictures."""
_SIZE = Several(Whole(1, 1 << 20), 2, 2)
REPORTED = (0.50, 0.75, 0.95, 0.99)
"""The thresholds at which section 3.3 reports IoU."""


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

    def reference(self, sample: Sample) -> str:
        """The true boxes, in pixels where answers are."""
        model = sample.reward_model
        if not model.verifier_parm.get("det_verifier_normalized"):
            return model.truth
        sides = picture_size(sample)
        written = [
            {
                # Their rounding down must lead back to the truth.
                "bbox_2d": [
                    round((edge + 0.5) * sides[at % 2] / 1000, 3) for at, edge in enumerate(box[:4])
                ],
                "label": box.label,
            }
            for box in true_boxes(model.truth)
        ]
        return json.dumps(written)

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


def picture_size(sample: Sample) -> tuple[int, int]:
    """Width and height in pixels of a sample's first picture, or as a client says it, which sends
    no pictures. Raises VerifierError if neither is there.
    """
    if sample.images:
        return sample.images[0].size
    told: Any = sample.extra_info.get(PICTURE_SIZE)
    if not _SIZE.admits(told):
        raise VerifierError(
            "verifier_parm['det_verifier_normalized'] needs the picture's size, and the sample "
            'has no picture; use coordinates="thousandths" if answers are in thousandths, too'
        )
    width, height = told
    return width, height


def answered_boxes(sample: Sample, answer: str) -> list[Box]:
    """The boxes of an answer in the unit of the sample's truth. Raises NotBoxesError if it has none
    to read.
    """
    boxes = read_boxes(answer)
    if not sample.reward_model.verifier_parm.get("det_verifier_normalized"):
        return boxes
    width, height = picture_size(sample)

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
