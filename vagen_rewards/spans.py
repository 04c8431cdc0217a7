"""Parts of a reply that are judged, and pieces of their text."""

from __future__ import annotations

from typing import Literal

Part = Literal["grounding", "world_modeling"]
PARTS: tuple[Part, ...] = ("grounding", "world_modeling")

Span = tuple[int, int]
"""A piece of a text: its first character and the one after its last."""
