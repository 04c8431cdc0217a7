"""Draw docs/images/environments.png: a first observation of each environment, side by side."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
from PIL import Image, ImageDraw, ImageFont

import vagen_envs  # noqa: F401

SHOWN = [
    ("vagen/Sokoban-v0", 3, {"scale": 3}),
    ("vagen/FrozenLake-v0", 11, {"scale": 2}),
    ("vagen/Navigation-v0", 5, {}),
    ("vagen/PrimitiveSkillDrawer-v0", 2, {}),
    ("vagen/SVGReconstruction-v0", 4, {"scorer": "classical"}),
]
SIDE, GAP, CAPTION = 256, 12, 28


def main() -> None:
    sheet = Image.new("RGB", (len(SHOWN) * (SIDE + GAP) - GAP, SIDE + CAPTION), "white")
    draw = ImageDraw.Draw(sheet)
    for i, (env_id, seed, options) in enumerate(SHOWN):
        env = gym.make(env_id, **options)
        picture = Image.fromarray(env.reset(seed=seed)[0]["image"])
        env.close()
        picture = picture.crop((0, 0, picture.height, picture.height))  # of SVG's two halves the target
        left = i * (SIDE + GAP)
        sheet.paste(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (left, 0))
        font = ImageFont.load_default(15)
        draw.text((left + SIDE / 2, SIDE + CAPTION / 2 + 2), env_id.partition("/")[2], "black", font, anchor="mm")
    file = Path(__file__).parent.parent / "docs" / "images" / "environments.png"
    sheet.quantize(256).save(file, optimize=True)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
