"""Gradient norms of vision tower and language model, layer by layer (V-Triune, figure 5)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from vagen_adapters.ppo.introspection import vision_parameters


def gradient_norms(policy: Any) -> dict[str, float]:
    """`gradient/vision`, `gradient/language`, and `gradient/vision/n` of their n-th layers.

    Norms are L2, of the gradients as they are, before clipping. The tower's projector counts with
    the tower; weights outside the layers count in the totals only. Frozen parts are left out.
    """
    seen = {id(parameter) for parameter in vision_parameters(policy)}
    named = dict(policy.named_parameters())
    tower_of = {
        name: "vision" if id(parameter) in seen else "language" for name, parameter in named.items()
    }
    stacks = {}
    for tower in ("vision", "language"):
        stacks[tower] = _longest_stack(name for name in named if tower_of[name] == tower)
    squares: dict[str, float] = defaultdict(float)
    for name, parameter in named.items():
        if parameter.grad is None:
            continue
        tower = tower_of[name]
        square = float(parameter.grad.float().square().sum())
        squares[f"gradient/{tower}"] += square
        stack, number = _layer(name)
        if number is not None and stack == stacks[tower]:
            squares[f"gradient/{tower}/{number}"] += square
    return {name: math.sqrt(square) for name, square in squares.items()}


def _layer(name: str) -> tuple[str, int | None]:
    """The stack of layers that a parameter is in, and the layer's number; None outside of any."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.isdecimal():
            return ".".join(parts[:place]), int(part)
    return "", None


def _longest_stack(names: Iterable[str]) -> str:
    """The stack with the most layers: a projector's two are none of the tower's."""
    layers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        stack, number = _layer(name)
        if number is not None:
            layers[stack].add(number)
    return max(layers, key=lambda stack: len(layers[stack]), default="")
