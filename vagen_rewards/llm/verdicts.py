"""What the model is asked, and what its reply means. Pure and total.

The agent's text is data: its angle brackets are replaced, so that it can't write a tag of ours, and it
stands between two lines marked with a hash of itself, which it can't contain.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

from vagen_envs.core import State
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.scores import Score, Statement

MAX_TEXT = 4000
"""Characters of the agent's text that are shown to the model."""

_PROMPTS = Path(__file__).parent / "prompts"
_HARMLESS = str.maketrans({"<": "‹", ">": "›", "\x00": " "})
_VERDICT = re.compile(r"<answer>\s*(yes|no)\s*</answer>", re.IGNORECASE)
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_SIDES = {
    "vertical": {"above": "above", "below": "below", "same": "in the same row as"},
    "horizontal": {"left": "to the left of", "right": "to the right of", "same": "in the same column as"},
}
_BOARD_THINGS = {"sokoban": ("player", "box", "target"), "frozen_lake": ("player", "target", "hole")}


class Prompts:
    """The prompts of the judge.

    Args:
        folder: of text files that replace ours by name; names missing there are taken from ours.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None and not self.folder.is_dir():
            raise JudgeConfigError(f"there is no folder of prompts {str(folder)!r}")
        self._texts: dict[str, str] = {}

    def text(self, name: str) -> str:
        """The prompt of this name. Raises JudgeConfigError if there is none."""
        if name not in self._texts:
            places = [folder / f"{name}.txt" for folder in (self.folder, _PROMPTS) if folder is not None]
            path = next((place for place in places if place.is_file()), None)
            if path is None:
                raise JudgeConfigError(f"there is no prompt {name!r}; put {name}.txt into a folder given as prompts=")
            self._texts[name] = path.read_text(encoding="utf-8").strip()
        return self._texts[name]

    def direct(self, statement: Statement, as_json: bool) -> list[dict[str, str]]:
        """Messages that ask for YES or NO (VAGEN, appendix D.1.1)."""
        rules = self.text(f"{statement.state.kind}_{statement.part}")
        system = Template(self.text("direct_json" if as_json else "direct")).substitute(rules=rules)
        truth = truth_of(statement.state)
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": f"The truth:\n{truth}\n\nThe agent's text:\n{fenced(statement.text)}"},
        ]

    def structured(self, statement: Statement) -> list[dict[str, str]]:
        """Messages that ask for a dictionary of the claims (appendix D.1.2). The truth isn't in them."""
        kind = statement.state.kind
        name = "board_structured" if kind in _BOARD_THINGS else f"{kind}_structured"
        known = _BOARD_THINGS.get(kind) or tuple(getattr(statement.state, "positions", ()))
        asked = _OWN_RULES.get(kind) or self.text(name)
        rules = Template(asked).safe_substitute(things=", ".join(known))
        return [
            {"role": "system", "content": Template(self.text("structured")).substitute(rules=rules)},
            {"role": "user", "content": f"The agent's text:\n{fenced(statement.text)}"},
        ]


def truth_of(state: State) -> str:
    """The truth in the form of VAGEN, appendix D.1: sentences for boards, else a dictionary."""
    return str(list(state.sentences())) if state.kind in _BOARD_THINGS else state.structured()


def fenced(text: str) -> str:
    """The agent's text between marker lines, without anything that could be taken for a tag or a marker."""
    shown = text[:MAX_TEXT].translate(_HARMLESS)
    shown = shown.encode("utf-8", "replace").decode()
    mark = hashlib.blake2b(shown.encode(), digest_size=8).hexdigest()
    return f"=====begin {mark}\n{shown}\n=====end {mark}"


def read_verdict(reply: str, as_json: bool) -> Score:
    """YES is 1, NO is 0. Anything else is unscored: no verdict, both verdicts, or words after the verdict."""
    if as_json:
        data = read_object(reply)
        verdict = str(data.get("verdict", "")).strip().upper() if data is not None else ""
        why = str(data.get("think", "")) if data is not None else ""
    else:
        found = list(_VERDICT.finditer(reply))
        verdicts = {match[1].upper() for match in found}
        if len(verdicts) != 1:
            return Score.unscored(f"the judge gave {'both verdicts' if verdicts else 'no verdict'}: {_short(reply)}")
        if reply[found[-1].end() :].strip():
            return Score.unscored(f"the judge went on after its verdict: {_short(reply)}")
        verdict = verdicts.pop()
        why = reply[: found[0].start()].replace("<think>", "").replace("</think>", "").strip()
    if verdict not in ("YES", "NO"):
        return Score.unscored(f"the judge gave no verdict: {_short(reply)}")
    return Score(1.0 if verdict == "YES" else 0.0, _short(why, 1000) or verdict)


def read_object(reply: str) -> dict[str, Any] | None:
    """The JSON object of a reply, with or without a fence around it; `None` if there is none."""
    # A server may ignore `max_tokens`; the default of 512 are some 2,000 characters.
    match = _OBJECT.search(reply[:100_000])
    if match is None:
        return None
    try:
        data = json.loads(match[0])
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def claims_text(kind: str, data: dict[str, Any]) -> str | None:
    """An extracted dictionary as sentences that `RuleJudge` reads; `None` if it isn't of the asked-for form."""
    if kind not in _CLAIMS:
        return None
    name, write = _CLAIMS[kind]
    rows = data.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    return ". ".join(filter(None, map(write, rows[:100])))


def _relation(row: dict[str, Any]) -> str:
    sides = [_SIDES[axis].get(str(row.get(axis, "")).lower(), "") for axis in _SIDES]
    said = " and ".join(filter(None, sides))
    subject, other = _plain(row.get("subject")), _plain(row.get("other"))
    return f"the {subject} {_is(row)} {said} the {other}" if said and subject and other else ""


def _object(row: dict[str, Any]) -> str:
    way = _plain(row.get("direction"))
    return f"the {_plain(row.get('object'))} {_is(row)} {way.replace(' ', '-')}" if way else ""


def _position(row: dict[str, Any]) -> str:
    at = row.get("at")
    if not isinstance(at, list) or len(at) != 3 or not all(isinstance(number, int | float) for number in at):
        return ""
    return f"the {_plain(row.get('object'))} is {'maybe ' if row.get('hedged') else ''}at ({at[0]}, {at[1]}, {at[2]})"


def _element(row: dict[str, Any]) -> str:
    words = [_plain(row.get(name)) for name in ("colour", "shape", "place")]
    return " ".join(["maybe" if row.get("hedged") else "", "a", *filter(None, words)]).strip()


_CLAIMS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "sokoban": ("relations", _relation),
    "frozen_lake": ("relations", _relation),
    "navigation": ("objects", _object),
    "primitive_skill": ("positions", _position),
    "svg": ("elements", _element),
}
"""Of each kind of state what the dictionary's list is called, and how an entry of it is said."""

_OWN_RULES: dict[str, str] = {}


def register_structured(kind: str, rules: str, entries: str, write: Callable[[dict[str, Any]], str]) -> None:
    """Teach `LLMJudge(model, "structured")` what is claimed about states of your own kind.

    Args:
        kind: the state's `kind`. Its reader (`rules.register_reader`) reads what `write` gives.
        rules: tells the model which dictionary to write: `Write {"sky": [{"what": …, "hedged": …}, …]}: …`.
        entries: what the list in it is called, here `sky`.
        write: an entry as a sentence that the reader understands; empty if it is none. The model's words are a
            stranger's: pass on only those that you know.

    Raises:
        JudgeConfigError: the rules don't name the list.
    """
    if entries not in rules:
        raise JudgeConfigError(
            f"the rules for states of kind {kind!r} don't tell the model to write a list {entries!r}"
        )
    _CLAIMS[kind] = (entries, write)
    _OWN_RULES[kind] = rules


def _is(row: dict[str, Any]) -> str:
    return "may be" if row.get("hedged") is True else "is"


def _plain(value: object) -> str:
    return re.sub(r"[^a-z0-9 ]+", " ", str(value or "").lower())[:40].strip()


def _short(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"
