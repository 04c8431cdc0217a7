"""CSS colours as red, green, blue and alpha in sRGB."""

from __future__ import annotations

import functools
import re

import numpy as np
import tinycss2.color5

Rgba = tuple[float, float, float, float]
"""Red, green, blue and alpha, from 0 to 1."""

_MIX = re.compile(
    r"color-mix\(\s*in\s+srgb\s*,"
    r"\s*((?:[^(),%\s]|\([^()]*\))+)(?:\s+([\d.]+)%)?\s*,\s*((?:[^(),%\s]|\([^()]*\))+)(?:\s+([\d.]+)%)?\s*\)",
    re.IGNORECASE,
)
_LINEAR_OF_XYZ = {
    "xyz-d65": (
        (12831 / 3959, -329 / 214, -1974 / 3959),
        (-851781 / 878810, 1648619 / 878810, 36519 / 878810),
        (705 / 12673, -2585 / 12673, 705 / 667),
    ),
    "xyz-d50": (
        (3.1341359, -1.6173864, -0.4906620),
        (-0.9787955, 1.9162543, 0.0334423),
        (0.0719554, -0.2289768, 1.4053860),
    ),
}
"""From XYZ to linear sRGB (CSS Color 4, section 17), with D50 by the Bradford adaptation of its
section 12.3.
"""
_SRGB_OF_P3 = (
    (1.2249401763, -0.2249401763, 0.0),
    (-0.0420569547, 1.0420569547, 0.0),
    (-0.0196375546, -0.0786360456, 1.0982736001),
)
"""From linear Display P3 to linear sRGB, both with the white point D65 (CSS Color 4, section
17).
"""
_XYZ_OF_LAB = {"oklab": "xyz-d65", "oklch": "xyz-d65", "lab": "xyz-d50", "lch": "xyz-d50"}


def hexadecimal(channels: tuple[float, ...]) -> str:
    """Channels from 0 to 1 as `#rrggbb` or `#rrggbbaa`."""
    return "#" + "".join(f"{round(255 * min(max(channel, 0.0), 1.0)):02x}" for channel in channels)


@functools.lru_cache(maxsize=1024)
def colour(text: str, current: str = "black") -> Rgba | None:
    """What a CSS colour is; `None` if it isn't one."""
    word = text.strip()
    if (mix := _MIX.fullmatch(word)) is not None:
        return _mixed(mix, current)
    try:
        parsed = tinycss2.color5.parse_color(current if word.lower() == "currentcolor" else word)
        if white := _XYZ_OF_LAB.get(parsed.space):  # CSS Color 4, section 17
            linear = np.array(_LINEAR_OF_XYZ[white]) @ parsed.to(white).coordinates
            red, green, blue = map(_encoded, linear.tolist())
        elif parsed.space == "display-p3":
            linear = np.array(_SRGB_OF_P3) @ [decoded(c) for c in parsed.coordinates]
            red, green, blue = map(_encoded, linear.tolist())
        elif parsed.space == "srgb-linear":
            red, green, blue = map(_encoded, parsed.coordinates)
        else:
            red, green, blue = parsed.to("srgb").coordinates
    except (
        AttributeError,
        NotImplementedError,
        TypeError,
        ValueError,
    ):
        # No colour, or of an unknown space.
        return None
    return red, green, blue, parsed.alpha


def _encoded(linear: float) -> float:
    """A channel with sRGB's transfer function, which Display P3 shares."""
    if linear <= 0.0031308:
        return 12.92 * linear
    encoded: float = 1.055 * linear ** (1 / 2.4) - 0.055
    return encoded


def decoded(channel: float) -> float:
    """A channel of sRGB or Display P3 in linear light."""
    if channel <= 0.04045:
        return channel / 12.92
    decoded: float = ((channel + 0.055) / 1.055) ** 2.4
    return decoded


def _mixed(mix: re.Match[str], current: str) -> Rgba | None:
    """A mixture in sRGB with premultiplied alpha (CSS Color 5, section 3)."""
    one = colour(mix[1], current)
    other = colour(mix[3], current)
    first = float(mix[2] or (100 - float(mix[4]) if mix[4] else 50))
    second = float(mix[4] or 100 - first)
    whole = first + second
    if one is None or other is None or whole <= 0:
        return None
    weights = np.array([first * one[3], second * other[3]]) / whole
    alpha = float(weights.sum())
    premultiplied = weights @ [one[:3], other[:3]]
    red, green, blue = (premultiplied / (alpha or 1)).tolist()
    return red, green, blue, alpha * min(1.0, whole / 100)
