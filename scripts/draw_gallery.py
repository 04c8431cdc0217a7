"""Draw docs/images/environments.webp: the oracle plays a level of each environment, side by
side.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
from PIL import Image, ImageDraw, ImageFont
from write_environment_pages import oracle_episode, save_moving

import vagen_envs

SHOWN = [
    ("vagen/Sokoban-v0", 3, {"scale": 3, "max_actions_per_turn": 2, "max_turns": 20}),
    ("vagen/FrozenLake-v0", 11, {"scale": 2, "max_actions_per_turn": 1, "max_turns": 20}),
    ("vagen/Navigation-v0", 5, {"max_actions_per_turn": 2, "max_turns": 40}),
    ("vagen/PrimitiveSkillStack-v0", 2, {}),
    ("vagen/SVGReconstruction-v0", 4, {"scorer": "classical"}),
]
SIDE, GAP, CAPTION, MARGIN = 224, 12, 28, 4
SECONDS, LAST = 0.7, 2.0


def main() -> None:
    gym.register_envs(vagen_envs)
    seen = [play(*each) for each in SHOWN]
    names = [env_id.partition("/")[2].rpartition("-v")[0] for env_id, _, _ in SHOWN]
    frames = [
        sheet(
            [
                (name, pictures[min(i, len(pictures) - 1)])
                for name, pictures in zip(names, seen, strict=True)
            ]
        )
        for i in range(max(map(len, seen)))
    ]
    file = Path(__file__).parent.parent / "docs" / "images" / "environments.webp"
    durations = [int(1000 * SECONDS)] * (len(frames) - 1) + [int(1000 * LAST)]
    save_moving(frames, durations, file)


def play(env_id: str, seed: int, options: dict[str, object]) -> list[Image.Image]:
    """What is seen of an episode, square."""
    env = gym.make(env_id, **options)
    seen = oracle_episode(env.unwrapped, seed)
    env.close()
    return [square(Image.fromarray(each)) for each in seen]


def square(picture: Image.Image) -> Image.Image:
    """The middle of a picture, square; SVG's two halves, target and drawing, one above the
    other.
    """
    side = picture.height
    if picture.width < 2 * side:
        left = (picture.width - side) // 2
        kind = Image.Resampling.NEAREST if side < SIDE else Image.Resampling.LANCZOS
        return picture.crop((left, 0, left + side, side)).resize((SIDE, SIDE), kind)
    board, half = Image.new("RGB", (SIDE, SIDE), "white"), SIDE // 2
    for i, left in enumerate((0, picture.width - side)):
        part = picture.crop((left, 0, left + side, side)).resize(
            (half, half), Image.Resampling.LANCZOS
        )
        board.paste(part, (half // 2, i * half))
    return board


def sheet(row: list[tuple[str, Image.Image]]) -> Image.Image:
    image = Image.new(
        "RGB", (len(row) * (SIDE + GAP) - GAP + 2 * MARGIN, SIDE + CAPTION + 2 * MARGIN), "white"
    )
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(15)
    for i, (name, picture) in enumerate(row):
        left = MARGIN + i * (SIDE + GAP)
        image.paste(picture, (left, MARGIN))
        draw.text(
            (left + SIDE / 2, MARGIN + SIDE + CAPTION / 2 + 2), name, "black", font, anchor="mm"
        )
    return image


if __name__ == "__main__":
    main()
