"""Draw a data set of small pictures, each with one rectangle to find, for the experiment
`sample-iou`.

    .venv/bin/python benchmarks/experiments/draw_boxes.py runs/boxes

The generated samples of `vagen/Sample-v0` are too hard for a model of a million parameters: after
1,250 updates of imitation its boxes overlap the true ones by 3 %. Here a picture has 64 × 64 pixels
and the rectangle's edges are even, so that a model can come near and still be off by an edge: two
pixels at one edge of a middle-sized box cost some 6 % of the overlap.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from vagen_envs.sample.shapes import COLOURS, GROUNDS
from vagen_envs.seeding import HashStream

SIDE, STEP = 64, 2
"""Pixels of a picture's side, and between places where an edge may be."""
SMALLEST, LARGEST = 16, 48
"""Pixels of a rectangle's side."""
SPLITS = {"train": 16_000, "val": 256, "test": 512}
QUESTION = "Find the rectangle. Answer with a list [{'bbox_2d': [x1, y1, x2, y2], 'label': 'it'}]."


def row(stream: HashStream) -> dict[str, Any]:
    """A sample in the schema of V-Triune's figure 9, a pure function of the stream."""
    colour = stream.choice(tuple(COLOURS))
    left, right = _edges(stream)
    top, bottom = _edges(stream)
    image = Image.new("RGB", (SIDE, SIDE), stream.choice(GROUNDS))
    ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), COLOURS[colour])
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    answer = f"[{{'bbox_2d': [{left}, {top}, {right}, {bottom}], 'label': 'it'}}]"
    thousandths = tuple(round(edge * 1000 / SIDE) for edge in (left, top, right, bottom))
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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="the folder of the data set")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for split, count in SPLITS.items():
        stream = HashStream("boxes", split)
        rows = (json.dumps(row(stream.child(number))) for number in range(count))
        (out / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
