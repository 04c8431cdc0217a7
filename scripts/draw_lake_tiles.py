"""Draw vagen_envs/frozen_lake/tiles.png: six tiles of 32 pixels, side by side.

Order: frozen, hole, goal, player, player in a hole, player on the goal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw

SIDE, OVER = 32, 8
Draw = ImageDraw.ImageDraw

ICE, ICE_EDGE, GLINT = (214, 234, 246), (176, 206, 226), (243, 250, 254)
WATER, WATER_EDGE, RIPPLE = (24, 62, 110), (120, 160, 196), (58, 104, 158)
POLE, FLAG, FLAG_DARK, BASE = (92, 74, 58), (222, 52, 44), (176, 30, 30), (240, 196, 60)
COAT, COAT_DARK, SKIN, HAT, EYE = (
    (46, 140, 70),
    (30, 100, 50),
    (246, 206, 170),
    (226, 120, 30),
    (40, 30, 30),
)


def box(*corners: float) -> list[float]:
    """Corners in pixels of the tile, on the large canvas."""
    return [corner * OVER for corner in corners]


def ice(draw: Draw) -> None:
    draw.rectangle(box(0, 0, SIDE, SIDE), ICE)
    for x, y, length in ((5, 9, 6), (20, 6, 5), (9, 24, 5), (22, 21, 6)):
        draw.line(box(x, y, x + length, y - 3), GLINT, 8)
    draw.rectangle(box(0, 0, SIDE, SIDE), outline=ICE_EDGE, width=8)


def hole(draw: Draw) -> None:
    draw.ellipse(box(3, 4, 29, 28), WATER_EDGE)
    draw.ellipse(box(4.5, 6.5, 27.5, 27), WATER)
    draw.arc(box(9, 11, 23, 23), 200, 320, RIPPLE, 10)
    draw.arc(box(11, 15, 21, 24), 30, 150, RIPPLE, 10)


def goal(draw: Draw) -> None:
    draw.ellipse(box(5, 23, 25, 30), BASE)
    draw.rectangle(box(12, 3, 14.5, 27), POLE)
    draw.polygon(box(14.5, 3.5, 28, 9, 14.5, 14.5), FLAG)
    draw.polygon(box(14.5, 9, 28, 9, 14.5, 14.5), FLAG_DARK)


def person(draw: Draw, x: float = 16, y: float = 30, size: float = 1.0) -> None:
    def at(left: float, top: float, right: float, bottom: float) -> list[float]:
        return box(x + left * size, y + top * size, x + right * size, y + bottom * size)

    draw.rounded_rectangle(at(-7, -15, 7, -1), 24 * size, COAT)
    draw.rectangle(at(-7, -6.5, 7, -4.5), COAT_DARK)
    draw.ellipse(at(-6, -25, 6, -13), SKIN)
    draw.pieslice(at(-7, -28, 7, -14), 180, 360, HAT)
    draw.ellipse(at(-2, -30, 2, -26), GLINT)
    draw.ellipse(at(-3.6, -20, -1.8, -17.6), EYE)
    draw.ellipse(at(1.8, -20, 3.6, -17.6), EYE)


def drowned(draw: Draw) -> None:
    hole(draw)
    person(draw, 16, 26, 0.72)
    draw.chord(box(4.5, 6.5, 27.5, 27), 15, 165, WATER)
    draw.arc(box(9, 14, 23, 24), 20, 160, RIPPLE, 12)


def arrived(draw: Draw) -> None:
    goal(draw)
    person(draw, 20, 30.5, 0.72)


def tile(*layers: Callable[[Draw], None]) -> Image.Image:
    """The layers over ice, drawn large and made small, which smooths their edges."""
    image = Image.new("RGB", (SIDE * OVER, SIDE * OVER))
    draw = ImageDraw.Draw(image)
    for layer in (ice, *layers):
        layer(draw)
    return image.resize((SIDE, SIDE), Image.Resampling.BOX)


def main() -> None:
    tiles = [tile(), tile(hole), tile(goal), tile(person), tile(drowned), tile(arrived)]
    strip = Image.new("RGB", (SIDE * len(tiles), SIDE))
    for i, each in enumerate(tiles):
        strip.paste(each, (SIDE * i, 0))
    file = Path(__file__).parent.parent / "vagen_envs" / "frozen_lake" / "tiles.png"
    strip.quantize(128, method=Image.Quantize.MEDIANCUT).save(file, optimize=True)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
