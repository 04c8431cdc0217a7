"""What a trainer logs of a batch, kept apart by data source (V-Triune, section 3.3)."""

from __future__ import annotations

import contextlib
import io
import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vagen_envs.errors import MissingExtraError, NotBoxesError
from vagen_envs.sample.answer import Box
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.verifiers.detection import (
    REPORTED,
    DetectionVerifier,
    answered_boxes,
    metric_name,
    true_boxes,
)

REFLECTIVE_WORDS = (
    "re-check",
    "re-evaluate",
    "re-examine",
    "re-think",
    "recheck",
    "reevaluate",
    "reexamine",
    "rethink",
    "reevaluation",
    "check again",
    "think again",
    "try again",
    "verify",
    "wait",
    "yet",
)
"""The 15 words and phrases of appendix H."""

_REFLECTIVE = re.compile(
    r"(?<!\w)(?:"
    + "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in REFLECTIVE_WORDS)
    + r")(?!\w)",
    re.IGNORECASE,
)

_LOCK = threading.Lock()
_THOUSAND_SQUARED = (
    1_000_000.0  # of boxes whose picture is 1,000 wide and high, whatever its pixels
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A response with its verdict.

    Attributes:
        truncated: whether the response was cut short by its limit of tokens.
        tokens: of the response; `None` where nobody counted.
    """

    sample: Sample
    response: str
    verdict: VerifierResult
    truncated: bool = False
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Detection:
    """What mAP takes of a response to a sample with boxes.

    Attributes:
        predicted: the answer's boxes, in the unit of the true ones; none where it can't be read.
        truth: the true boxes.
        area: of the picture, in the square of the boxes' unit.
    """

    predicted: tuple[Box, ...]
    truth: tuple[Box, ...]
    area: float

    @classmethod
    def of(cls, sample: Sample, verdict: VerifierResult) -> Detection | None:
        """The boxes of a response that `detection` has scored; None of any other."""
        if not verdict.scored or sample.reward_model.verifier != DetectionVerifier.name:
            return None
        try:
            predicted = tuple(answered_boxes(sample, verdict.answer or ""))
        except NotBoxesError:
            predicted = ()
        return cls(predicted, true_boxes(sample.reward_model.truth), _area(sample))


def is_reflective(response: str) -> bool:
    """Whether the response has one of the 15 words (appendix H), as a whole word, in upper or lower
    case.
    """
    return _REFLECTIVE.search(response) is not None


def source_metrics(scored: Iterable[Scored]) -> dict[str, float]:
    """The metrics of a batch as `"source/name": value`, ready to be logged.

    Of each data source: `count`; `unscored`, a share; and, of what is scored, the means
    `reward/total`, `reward/accuracy` and `reward/format` (weighed, so that the last two add up to
    the first) and `accuracy` and `format` (not weighed); of every response `length/characters`,
    `length/tokens` where counted, `truncated`, a share, and `reflection/ratio` (equation 4); where
    anything scored is reflective, `reflection/correct` (equation 5), by an accuracy above 0. For
    boxes also `iou`, `iou@50`, `iou@75`, `iou@95`, `iou@99`, and `map` and `map@50` over the batch
    (appendix E; each response counts as a picture). What has no value in a batch is left out.

    Raises:
        MissingExtraError: there are boxes, and pycocotools isn't installed.
    """
    by_source: dict[str, list[Scored]] = {}
    for each in scored:
        by_source.setdefault(each.sample.data_source, []).append(each)
    return {
        f"{source}/{name}": value
        for source, batch in sorted(by_source.items())
        for name, value in _of(batch).items()
    }


def _of(batch: Sequence[Scored]) -> dict[str, float]:
    judged = [each for each in batch if each.verdict.scored]
    found = {"count": float(len(batch)), "unscored": 1 - len(judged) / len(batch)}
    parts = {**_parts_of_judged(judged), **_parts_of_all(batch)}
    found.update(
        {name: math.fsum(values) / len(values) for name, values in parts.items() if values}
    )
    detections = [Detection.of(each.sample, each.verdict) for each in judged]
    return {**found, **average_precision([each for each in detections if each is not None])}


def _parts_of_judged(judged: Sequence[Scored]) -> dict[str, list[float]]:
    """The values of each metric that only scored responses have."""
    parts = {
        "reward/total": [each.verdict.reward(each.sample) for each in judged],
        "reward/accuracy": [
            each.sample.reward_model.accuracy_ratio * (each.verdict.accuracy or 0.0)
            for each in judged
        ],
        "reward/format": [
            each.sample.reward_model.format_ratio * each.verdict.format for each in judged
        ],
        "accuracy": [(each.verdict.accuracy or 0.0) for each in judged],
        "format": [each.verdict.format for each in judged],
        "reflection/correct": [
            float(each.verdict.correct) for each in judged if is_reflective(each.response)
        ],
    }
    for name in ("iou", *map(metric_name, REPORTED)):
        parts[name] = [
            each.verdict.metrics[name] for each in judged if name in each.verdict.metrics
        ]
    return parts


def _parts_of_all(batch: Sequence[Scored]) -> dict[str, list[float]]:
    """The values of each metric that every response has."""
    return {
        "length/characters": [float(len(each.response)) for each in batch],
        "length/tokens": [float(each.tokens) for each in batch if each.tokens is not None],
        "truncated": [float(each.truncated) for each in batch],
        "reflection/ratio": [float(is_reflective(each.response)) for each in batch],
    }


def _area(sample: Sample) -> float:
    """Of the picture, in the square of the boxes' unit; 1 where it isn't known."""
    given = sample.reward_model.verifier_parm
    if given.get("det_verifier_normalized") or given.get("coordinates") == "thousandths":
        return _THOUSAND_SQUARED
    return float(sample.images[0].size[0] * sample.images[0].size[1]) if sample.images else 1.0


def average_precision(detections: Sequence[Detection]) -> dict[str, float]:
    """`map` and `map@50` of a batch, see `mean_average_precision`; nothing of nothing."""
    if not detections:
        return {}
    over_all, at_half = mean_average_precision(
        [each.predicted for each in detections],
        [each.truth for each in detections],
        [each.area for each in detections],
    )
    return {"map": over_all, "map@50": at_half}


def mean_average_precision(
    predicted: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], areas: Sequence[float]
) -> tuple[float, float]:
    """COCO's mAP over pictures: COCOeval's, with at most 100 boxes a picture.

    Boxes have no confidence, since a language model's is not to be relied on (appendix D); their
    share of the picture's area ranks them (appendix E), the earlier written first where it is
    equal.

    Args:
        predicted: the boxes of each picture. Those whose label no picture has are passed over.
        truth: the true boxes of each picture.
        areas: of each picture, in the square of the boxes' unit, above 0.

    Returns:
        mAP averaged over IoU 0.50 to 0.95, and mAP at 0.50; both 0 to 1.

    Raises:
        ValueError: there is no true box, or the lengths differ.
        MissingExtraError: pycocotools isn't installed.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise MissingExtraError("mAP", "verify", "pycocotools") from error
    if not any(truth) or not len(predicted) == len(truth) == len(areas):
        raise ValueError(
            f"{len(predicted)}, {len(truth)} and {len(areas)} pictures; give as many of each, "
            "and a box"
        )
    names = sorted({box.label for boxes in truth for box in boxes})
    category = {name: i + 1 for i, name in enumerate(names)}
    annotations: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for i, (asked, boxes, area) in enumerate(zip(truth, predicted, areas, strict=True)):
        for box in asked:
            shown = _as_coco(box, i, category)
            annotations.append(
                {**shown, "id": len(annotations) + 1, "area": box.area, "iscrowd": 0}
            )
        known = [box for box in boxes if box.label in category]
        found += [{**_as_coco(box, i, category), "score": box.area / area} for box in known]
    if not found:
        return 0.0, 0.0
    with _LOCK, contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints, and only so
        data: dict[str, Any] = {
            "info": {},
            "images": [{"id": i} for i in range(len(truth))],
            "annotations": annotations,
            "categories": [{"id": i, "name": name} for name, i in category.items()],
        }
        true = COCO()
        true.dataset = data
        true.createIndex()
        evaluation = COCOeval(true, true.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        precision = evaluation.eval["precision"][
            :, :, :, 0, -1
        ]  # (IoU thresholds, recalls, labels), all areas
    return float(precision.mean()), float(precision[0].mean())


def _as_coco(box: Box, image: int, category: Mapping[str, int]) -> dict[str, Any]:
    corner_and_size = [box.x1, box.y1, max(0.0, box.x2 - box.x1), max(0.0, box.y2 - box.y1)]
    return {"image_id": image, "category_id": category[box.label], "bbox": corner_and_size}
