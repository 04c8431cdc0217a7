"""Labelled statements from a file: the independent set that comes with the package, and your own.

    {"states": {"S1": {"kind": "sokoban", "json": {…}}, …},
     "statements": [{"environment": "sokoban", "state": "S1", "part": "grounding", "style": "terse", "label": "true",
                     "text": "box: above player"}, …]}

`label` is `true` (right, and says what matters), `false`, `partly` (part of it is wrong) or `vacuous` (right of nearly
every state, or beside the point); only `true` ones should be accepted. `language` may be given, English being the rule.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vagen_envs.core import State
from vagen_rewards.calibration.labelled import Labelled
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.scores import PARTS, Statement

INDEPENDENT = Path(__file__).parent / "sets" / "independent.json"
"""366 statements in the styles that models use, by an author who hadn't seen the judge."""

LABELS = ("true", "false", "partly", "vacuous")


def labelled_file(path: Path = INDEPENDENT) -> list[Labelled]:
    """The labelled statements of a file.

    Args:
        path: to a JSON file of the form above.

    Raises:
        JudgeConfigError: it can't be read, or isn't of that form.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        states = {name: _state(each) for name, each in data["states"].items()}
        return [_labelled(each, states, i) for i, each in enumerate(data["statements"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise JudgeConfigError(
            f"{path} is no file of labelled statements: {type(error).__name__}: {error}; "
            "vagen_rewards/calibration/file.py shows the form"
        ) from error


def _state(data: Mapping[str, Any]) -> State:
    if data["kind"] in ("sokoban", "frozen_lake", "navigation", "primitive_skill", "svg"):
        importlib.import_module(f"vagen_envs.{data['kind']}.state")
    return State.from_json(data["json"])


def _labelled(data: Mapping[str, Any], states: Mapping[str, State], number: int) -> Labelled:
    if data["label"] not in LABELS or data["part"] not in PARTS:
        raise ValueError(f"statement {number} has label {data['label']!r} and part {data['part']!r}; "
                         f"use one of {LABELS} and of {PARTS}")  # fmt: skip
    category = "other_language" if data.get("language", "en") != "en" else data["label"]
    statement = Statement(data["part"], str(data["text"]), states[data["state"]])
    return Labelled(statement, data["label"] == "true", category)
