"""What the human says, in EB-Navigation's five flavours and in our own words."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from vagen_envs.navigation.house import HouseObject
from vagen_envs.navigation.state import words

EvalSet = Literal[
    "base", "common_sense", "complex_instruction", "visual_appearance", "long_horizon"
]

BOOK = tomllib.loads(Path(__file__).with_name("instructions.toml").read_text("utf-8"))
"""Frames by flavour, and needs and looks by type."""


def candidates(eval_set: EvalSet, target: HouseObject, kinds: Collection[str]) -> list[str]:
    """Every instruction of a flavour that is true of `target` and of no other type among
    `kinds`.
    """
    frames = BOOK["frames"][eval_set]
    entry = BOOK[target.kind]
    if eval_set in ("base", "long_horizon"):
        return [frame.format(name=words(target.kind)) for frame in frames]
    slot, phrases = (
        ("look", entry["looks"]) if eval_set == "visual_appearance" else ("need", entry["needs"])
    )
    article = "an" if target.color[0] in "aeiou" else "a"
    texts = [
        phrase["text"].replace("a {color}", article + " {color}").format(color=target.color)
        for phrase in phrases
        if not set(phrase.get("fits", ())) & set(kinds)
    ]
    return [frame.format(**{slot: text}) for frame in frames for text in texts]
