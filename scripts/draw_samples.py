"""Draw docs/images/samples.png: generated samples of each source, the true boxes framed."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from vagen_envs.sample.generated import SOURCES, generated_samples

EACH, SIDE, GAP, CAPTION = 2, 224, 12, 56


def main() -> None:
    samples = [
        sample for source in SOURCES for sample in generated_samples(EACH, "train", [source])
    ]
    columns = len(SOURCES)
    sheet = Image.new("RGB", (columns * (SIDE + GAP) - GAP, EACH * (SIDE + CAPTION)), "#dddddd")
    pen = ImageDraw.Draw(sheet)
    for i, sample in enumerate(samples):
        picture = Image.fromarray(sample.images[0].pixels)
        answer = sample.reward_model.answer
        if answer.startswith("["):
            for box in json.loads(answer):
                frame = [edge * SIDE / 1000 for edge in box["bbox_2d"]]
                ImageDraw.Draw(picture).rectangle(frame, outline="magenta", width=2)
            answer = ""
        left, top = (i // EACH) * (SIDE + GAP), (i % EACH) * (SIDE + CAPTION)
        sheet.paste(picture, (left, top))
        asked = sample.question.partition(" Put ")[0].partition(" The label")[0]
        words = "\n".join(textwrap.wrap(f"{asked} {answer}", 34))
        pen.multiline_text((left, top + SIDE + 4), words, "black", ImageFont.load_default(13))
    file = Path(__file__).parent.parent / "docs" / "images" / "samples.png"
    sheet.quantize(128).save(file, optimize=True)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
