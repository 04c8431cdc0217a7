"""Mean average precision of boxes without confidences, by pycocotools (V-Triune, appendix E)."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Sequence
from typing import Any

from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.boxes import Box

_LOCK = threading.Lock()


def mean_average_precision(
    predicted: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], areas: Sequence[float]
) -> tuple[float, float]:
    """COCO's mAP over pictures: COCOeval's, with at most 100 boxes a picture.

    Boxes have no confidence, since a language model's is not to be relied on (appendix D); their share of the
    picture's area ranks them (appendix E), the earlier written first where it is equal.

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
        raise ValueError(f"{len(predicted)}, {len(truth)} and {len(areas)} pictures; give as many of each, and a box")
    names = sorted({box.label for boxes in truth for box in boxes})
    category = {name: i + 1 for i, name in enumerate(names)}
    annotations = [
        {"image_id": i, "category_id": category[box.label], "bbox": _as_coco(box), "area": box.area, "iscrowd": 0}
        for i, boxes in enumerate(truth)
        for box in boxes
    ]
    found = [
        {"image_id": i, "category_id": category[box.label], "bbox": _as_coco(box), "score": box.area / area}
        for i, (boxes, area) in enumerate(zip(predicted, areas, strict=True))
        for box in boxes
        if box.label in category
    ]
    if not found:
        return 0.0, 0.0
    with _LOCK, contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints, and only so
        data: dict[str, Any] = {
            "info": {},
            "images": [{"id": i} for i in range(len(truth))],
            "annotations": [{**each, "id": i + 1} for i, each in enumerate(annotations)],
            "categories": [{"id": i, "name": name} for name, i in category.items()],
        }
        true = COCO()
        true.dataset = data
        true.createIndex()
        evaluation = COCOeval(true, true.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        precision = evaluation.eval["precision"][:, :, :, 0, -1]  # (IoU thresholds, recalls, labels), all areas
    return float(precision.mean()), float(precision[0].mean())


def _as_coco(box: Box) -> list[float]:
    return [box.x1, box.y1, max(0.0, box.x2 - box.x1), max(0.0, box.y2 - box.y1)]
