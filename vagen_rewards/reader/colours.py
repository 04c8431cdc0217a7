"""Which names a colour may go by: those of the nearest colours that have names, by CIEDE2000 distance."""

from __future__ import annotations

import functools
import tomllib
from importlib.resources import files
from typing import Any

from vagen_envs.errors import MissingExtraError

PLAIN = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink", "brown", "gray", "white", "black")
NEIGHBOUR = 5.0
"""CIEDE2000 distance by which a named colour may be further away than the nearest one and still give its name."""

SAME = 13.0
"""CIEDE2000 distance within which a colour is what a particular name ("teal", "#ff8800") says."""

ALIKE = 22.0
"""And within which it is, if it is of the same plain colour: "sky blue" of a bright blue."""

GREY = 6.0
"""Chroma C* below which a colour is white, grey or black and nothing else."""

LIGHT, DARK = 60.0, 50.0
"""L* from which a colour may be called light, and below which dark."""


@functools.cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("vagen_rewards.reader").joinpath("colours.toml").read_text(encoding="utf-8"))


@functools.cache
def names() -> dict[str, str]:
    """`#rrggbb` of every name, CSS's and those of the language's file, spelt without blanks and with "gray"."""
    from PIL import ImageColor

    css = {name: ImageColor.getrgb(name)[:3] for name in ImageColor.colormap}
    found = {name.replace("grey", "gray"): "#" + bytes(parts).hex() for name, parts in css.items()}
    return {**found, **_data()["colours"]}


@functools.cache
def _table() -> tuple[list[str], Any]:
    listed = list(names())
    return listed, _lab([names()[name] for name in listed])


def _lab(colours: list[str]) -> Any:
    import numpy as np

    try:
        from skimage.color import rgb2lab
    except ImportError as error:
        raise MissingExtraError("Reading the names of colours", "svg", "skimage") from error
    return rgb2lab(np.array([[list(bytes.fromhex(each[1:])) for each in colours]], dtype=np.float64) / 255)[0]


@functools.lru_cache(maxsize=4096)
def _seen(colour: str) -> tuple[frozenset[str], frozenset[str], frozenset[str], float]:
    """Names that `#rrggbb` may go by (plain ones, particular ones), those that it could, and its lightness L*."""
    far = _from_named(colour)
    nearest = min(far.values())

    def near(off: float) -> set[str]:
        names = {name for name, each in far.items() if each <= nearest + off}
        return names | {family for name in names for family in families(name)}

    lightness, chroma = float(_place(colour)[0]), float((_place(colour)[1:] ** 2).sum() ** 0.5)
    greys = {"white": lightness > 85, "gray": 20 < lightness < 95, "black": lightness < 25}
    grey = {name for name, fits in greys.items() if fits} if chroma < GREY else None
    plain, doubted = [near(off) if grey is None else grey for off in (NEIGHBOUR, DOUBTED)]
    exact = frozenset(name for name, each in far.items() if each <= SAME)
    return frozenset(plain).intersection(PLAIN), exact, frozenset(doubted), lightness


@functools.cache
def families(name: str) -> frozenset[str]:
    """Return the plain colours that a named colour belongs to."""
    own = {family for family in PLAIN if name.endswith(family)}
    return frozenset(own | {family for family, kinds in _data()["families"].items() if name in kinds})


def may_be_called(colour: str, called: str, tone: str = "") -> bool:
    """Whether `#rrggbb` may go by a name.

    Args:
        colour: as it is.
        called: a name as in `names`, or `#rrggbb`.
        tone: light, dark or nothing.
    """
    if called.startswith("#"):
        return _apart(colour, called) <= SAME
    plain, exact, _, lightness = _seen(colour)
    if tone and f"{tone}{called}" in exact:
        return True
    if (tone == "light" and lightness < LIGHT) or (tone == "dark" and lightness > DARK):
        return False
    if called in PLAIN:
        return called in plain
    return (
        called in exact
        or _data()["loosely"].get(called) in plain
        or (not plain.isdisjoint(families(called)) and _from_named(colour)[called] <= ALIKE)
    )


DOUBTED = 12.0
"""CIEDE2000 distance by which a named colour may be further away than the nearest one so that one may differ."""


@functools.lru_cache(maxsize=8192)
def could_be_called(colour: str, called: str) -> bool:
    """Whether one may differ on it: the name, or a plain one of which it is a kind, isn't far from the colour."""
    if called.startswith("#"):
        return _apart(colour, called) <= 2 * SAME
    return not _seen(colour)[2].isdisjoint(families(called) | {called, _data()["loosely"].get(called, called)})


@functools.lru_cache(maxsize=4096)
def _apart(one: str, other: str) -> float:
    from skimage.color import deltaE_ciede2000

    return float(deltaE_ciede2000(_place(one), _place(other)))


@functools.lru_cache(maxsize=4096)
def _from_named(colour: str) -> dict[str, float]:
    """How far it is from each named colour: to ask for all of them takes twice as long as for one."""
    from skimage.color import deltaE_ciede2000

    listed, lab = _table()
    return dict(zip(listed, deltaE_ciede2000(_lab([colour]), lab).tolist(), strict=True))


@functools.lru_cache(maxsize=4096)
def _place(colour: str) -> Any:
    return _lab([colour])[0]
