"""What the human says, in EB-Navigation's five flavours and in our own words."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection
from importlib.resources import files
from typing import Any, Literal, get_args

from vagen_envs.navigation.house import HouseObject
from vagen_envs.navigation.state import words
from vagen_envs.seeding import HashStream

EvalSet = Literal["base", "common_sense", "complex_instruction", "visual_appearance", "long_horizon"]
EVAL_SETS: tuple[EvalSet, ...] = get_args(EvalSet)


@functools.cache
def book() -> dict[str, Any]:
    """Frames by flavour, and needs and looks by type, as in instructions.toml."""
    return tomllib.loads(files("vagen_envs.navigation").joinpath("instructions.toml").read_text("utf-8"))


def candidates(eval_set: EvalSet, target: HouseObject, kinds: Collection[str]) -> list[str]:
    """Every instruction of a flavour that is true of `target` and of no other type among `kinds`."""
    frames, entry = book()["frames"][eval_set], book()[target.kind]
    if eval_set in ("base", "long_horizon"):
        return [frame.format(name=words(target.kind)) for frame in frames]
    slot, phrases = ("look", entry["looks"]) if eval_set == "visual_appearance" else ("need", entry["needs"])
    true = [phrase for phrase in phrases if not set(phrase.get("fits", ())) & set(kinds)]
    texts = [_article(phrase["text"], target.color) for phrase in true]
    return [frame.format(**{slot: text}) for frame in frames for text in texts]


def say(stream: HashStream, eval_set: EvalSet, target: HouseObject, kinds: Collection[str]) -> str | None:
    """One of the `candidates`, or `None` where every one would be true of something else as well."""
    texts = candidates(eval_set, target, kinds)
    return stream.choice(texts) if texts else None


def _article(text: str, color: str) -> str:
    """The colour filled in, with `an` before a vowel."""
    if color[:1] in "aeiou":
        text = text.replace("a {color}", "an {color}")
    return text.format(color=color)
