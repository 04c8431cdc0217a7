"""Which names a colour may go by.

Plain ones by hue, lightness and chroma, others by their CIEDE2000 distance.
"""

from __future__ import annotations

import functools
import math
import tomllib
from importlib.resources import files
from typing import Any

from vagen_envs.errors import MissingExtraError

PLAIN = (
    "red",
    "orange",
    "yellow",
    "green",
    "cyan",
    "blue",
    "purple",
    "pink",
    "brown",
    "gray",
    "white",
    "black",
)
SAME = 13.0
"""CIEDE2000 distance within which a colour is what a particular name ("teal", "#ff8800") says."""

ALIKE = 22.0
"""CIEDE2000 distance within which it is so if both are of the same plain colour."""

LIGHT = 60.0
"""L* from which on a colour may be called light."""

DARK = 50.0
"""L* below which a colour may be called dark."""


@functools.cache
def _data() -> dict[str, Any]:
    return tomllib.loads(
        files("vagen_rewards.reader").joinpath("colours.toml").read_text(encoding="utf-8")
    )


@functools.cache
def names() -> dict[str, str]:
    """`#rrggbb` of CSS's names and of those of `colours.toml`, without blanks and with "gray"."""
    from PIL import ImageColor

    css = {name: ImageColor.getrgb(name)[:3] for name in ImageColor.colormap}
    found = {name.replace("grey", "gray"): "#" + bytes(parts).hex() for name, parts in css.items()}
    return {**found, **_data()["colours"]}


@functools.cache
def _lab(colour: str) -> Any:
    import numpy as np

    try:
        from skimage.color import rgb2lab
    except ImportError as error:
        raise MissingExtraError("Reading the names of colours", "svg", "skimage") from error
    return rgb2lab(np.array(list(bytes.fromhex(colour[1:])), dtype=np.float64) / 255)


@functools.lru_cache(maxsize=65536)
def _apart(one: str, other: str) -> float:
    from skimage.color import deltaE_ciede2000

    return float(deltaE_ciede2000(_lab(one), _lab(other)))


@functools.lru_cache(maxsize=8192)
def plain(colour: str, slack: int = 0) -> frozenset[str]:
    """Plain names of `#rrggbb`; with the slack those too on which observers may differ."""
    lightness, a, b = _lab(colour).tolist()
    chroma = math.hypot(a, b)
    hue = math.degrees(math.atan2(b, a))
    turn = slack * (1 + 30 / (1 + chroma))

    def is_within(
        first: float, last: float, dark: float, light: float, dull: float, strong: float
    ) -> bool:
        has_hue = (hue - first + turn) % 360 <= (last - first) % 360 + 2 * turn
        has_strength = dull - slack / 2 <= chroma <= strong + slack / 2
        has_lightness = dark - slack / 2 <= lightness <= light + slack / 2
        return has_hue and has_strength and has_lightness

    def has(boxes: list[list[float]]) -> bool:
        return any(is_within(*box) for box in boxes)

    return frozenset(name for name, boxes in _data()["bounds"].items() if has(boxes))


def may_be_called(colour: str, called: str, tone: str = "") -> bool:
    """Whether `#rrggbb` may go by a name as in `names`, or by `#rrggbb`.

    The tone is light, dark or nothing.
    """
    if called.startswith("#"):
        return _apart(colour, called) <= SAME
    lightness = _lab(colour)[0]
    wrong_tone = (tone == "light" and lightness < LIGHT) or (tone == "dark" and lightness > DARK)
    own = plain(colour)
    if called in PLAIN and called in own and not wrong_tone:
        return True  # before the distances, which take a hundred times as long
    exact = names().get(f"{tone}{called}") if tone else None
    if exact and _apart(colour, exact) <= SAME:
        return True
    if wrong_tone or called in PLAIN:
        return False
    far = _apart(colour, names().get(called, called))
    alike = far <= ALIKE and not own.isdisjoint(plain(names()[called]))
    return far <= SAME or alike or _data()["loosely"].get(called) in own


@functools.lru_cache(maxsize=8192)
def could_be_called(colour: str, called: str) -> bool:
    """Whether a name is arguable: a plain one that nearly fits, or one of the same plain colour."""
    if called in PLAIN:
        return called in plain(colour, 15)
    named = names().get(called, called)
    return _apart(colour, named) <= 2 * SAME or not plain(colour, 15).isdisjoint(plain(named))
