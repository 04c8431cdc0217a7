"""Draw data sets of small pictures, each with one rectangle to find, for the experiment
`sample-iou`.

    .venv/bin/python benchmarks/experiments/draw_boxes.py runs/boxes

`runs/boxes` is trained and tested on. `runs/boxes-careless` has other pictures, which the initial
checkpoint imitates. Its last answers are off by a few pixels.

The generated samples of `vagen/Sample-v0` are too hard for a model of a million parameters: after
1,250 updates of imitation its boxes overlap the true ones by 3 %. Here a picture has 64 × 64 pixels
and the rectangle's edges are even, so that a model can come near and still be off by an edge: two
pixels at one edge of a middle-sized box cost some 6 % of the overlap. Careless answers are off by
odd numbers of pixels, so that what there is to learn is the same in every picture. Where a model is
only unsure of single pictures, GRPO's gradients of different pictures have next to nothing in
common.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from vagen_envs.sample.shapes import COLOURS, GROUNDS
from vagen_envs.seeding import HashStream

SIDE, STEP = 64, 2
"""Pixels of a picture's side, and between places where an edge may be."""
SMALLEST, LARGEST = 16, 48
"""Pixels of a rectangle's side."""
CARELESS = (0,) * 14 + (-1, -1, 1, 1, -3, 3)
"""Pixels by which an edge of a careless answer is off, all equally likely."""
SPLITS = {"train": 6000, "val": 256, "test": 512}
IMITATED = 10_000
EXACT = 7_000
"""Of the imitated answers the first are right, so that the model knows the places well before it
learns to be careless."""
QUESTION = "Find the rectangle. Answer with a list [{'bbox_2d': [x1, y1, x2, y2], 'label': 'it'}]."


def row(stream: HashStream, *, careless: bool = False) -> dict[str, Any]:
    """A sample in the schema of V-Triune's figure 9, a pure function of the stream."""
    colour = stream.choice(tuple(COLOURS))
    left, right = _edges(stream)
    top, bottom = _edges(stream)
    image = Image.new("RGB", (SIDE, SIDE), stream.choice(GROUNDS))
    ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), COLOURS[colour])
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    edges = (left, top, right, bottom)
    thousandths = tuple(round(edge * 1000 / SIDE) for edge in edges)
    told = [_careless(edge, stream) for edge in edges] if careless else list(edges)
    answer = f"[{{'bbox_2d': {told}, 'label': 'it'}}]"
    return {
        "data_source": "boxes",
        "images": [base64.b64encode(encoded.getvalue()).decode()],
        "prompt": [{"role": "user", "content": f"<image>\n{QUESTION}"}],
        "ability": "grounding",
        "reward_model": {
            "answer": answer,
            "ground_truth": answer,
            "accuracy_ratio": 0.9,
            "format_ratio": 0.1,
            "verifier": "detection",
        },
        "extra_info": {"facts": [f"the picture has a {colour} square at {thousandths}"]},
    }


def _edges(stream: HashStream) -> tuple[int, int]:
    length = SMALLEST + STEP * stream.below((LARGEST - SMALLEST) // STEP + 1)
    first = STEP * stream.below((SIDE - length) // STEP + 1)
    return first, first + length


def _careless(edge: int, stream: HashStream) -> int:
    return min(max(edge + stream.choice(CARELESS), 0), SIDE)


def write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a split of a data set."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="of the data set; the other is beside it")
    out: Path = parser.parse_args().out
    for split, count in SPLITS.items():
        stream = HashStream("boxes", split)
        write(out / f"{split}.jsonl", (row(stream.child(number)) for number in range(count)))
    stream = HashStream("careless boxes")
    imitated = (row(stream.child(number), careless=number >= EXACT) for number in range(IMITATED))
    write(out.with_name(f"{out.name}-careless") / "train.jsonl", imitated)


if __name__ == "__main__":
    main()
