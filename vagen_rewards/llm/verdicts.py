"""What the model is asked, and what its reply means. Pure and total.

The agent's text is data: its angle brackets are replaced, so that it can't write a tag of ours, and
it stands between two lines marked with a hash of itself, which it can't contain.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from pathlib import Path
from string import Template
from typing import Any

from vagen_envs.replies import TAGS
from vagen_envs.replies.tags import find_thinking, without_tokens
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.llm.extract import OWN_RULES
from vagen_rewards.scores import Score, Statement

MAX_TEXT = 4000
"""Characters of the agent's text that are shown to the model."""

_PROMPTS = Path(__file__).parent / "prompts"
_HARMLESS = str.maketrans({"<": "‹", ">": "›", "\x00": " "})
_SCORES = {
    "yes": 1.0,
    "true": 1.0,
    "correct": 1.0,
    "no": 0.0,
    "false": 0.0,
    "incorrect": 0.0,
}
_WORD = "(?P<word>yes|no|true|false|correct|incorrect)"
_NAME = "(?:final[_ ])?(?:verdict|answer|judge?ment)"
_DRESS = r"[\s*_`#$]*"
"""What may dress a verdict. A quotation (`> YES`), an item of a list or a sign (`~~YES~~`, `!YES`)
may mean something else."""
_QUOTE = """['"\u2018\u201c]?"""
_END = r"""['"\u2019\u201d\s*_`}$.!]*"""
_NAMED = re.compile(
    rf"{_DRESS}(?:{_NAME}[\s*_`]*[:=]{_DRESS}{_QUOTE}|\\boxed\{{(?:\\text\{{)?){_WORD}{_END}",
    re.IGNORECASE,
)
_BARE = re.compile(rf"{_DRESS}{_WORD}[\s*_`$.!]*", re.IGNORECASE)
_HEADING = re.compile(rf"^[ \t*_`#]*{_NAME}[ \t*_`]*:?[ \t*_`]*\n\s*", re.IGNORECASE | re.MULTILINE)
_TAG = "(?:answer|verdict|judge?ment|result)"
_TAGGED = re.compile(
    rf"<\s*{_TAG}\s*>{_DRESS}{_WORD}[\s*_`$.!]*(?:</\s*{_TAG}\s*>|\Z)",
    re.IGNORECASE,
)
_KEY = rf"""["'](?:{_NAME}|(?:is_)?correct)["']\s*:"""
_KEYS = re.compile(_KEY, re.IGNORECASE)
_KEYED = re.compile(rf"""{_KEY}\s*["']?{_WORD}\b""", re.IGNORECASE)
_THOUGHTS = "\n(thoughts)"
"""In the place of thinking that ends a reply: it isn't what was asked for after the verdict."""
_FENCE = re.compile(r"^```\w*$", re.MULTILINE)
_TAGS = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_CONSTANT = re.compile(r"\b(?:null|true|false)\b")
_PYTHON = {"null": "None", "true": "True", "false": "False"}
_COMMA = re.compile(r",\s*([}\]])")


class JudgePrompts:
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
            places = [
                folder / f"{name}.txt" for folder in (self.folder, _PROMPTS) if folder is not None
            ]
            path = next((place for place in places if place.is_file()), None)
            if path is None:
                raise JudgeConfigError(
                    f"there is no prompt {name!r}; put {name}.txt into a folder given as prompts="
                )
            self._texts[name] = path.read_text(encoding="utf-8").strip()
        return self._texts[name]

    def direct(self, statement: Statement) -> list[dict[str, str]]:
        """Messages that ask for YES or NO (VAGEN, appendix D.1.1)."""
        rules = self.text(f"{statement.state.kind}_{statement.part}")
        system = Template(self.text("direct")).substitute(rules=rules)
        state = statement.state
        # As in appendix D.1.
        truth = list(state.sentences()) if hasattr(state, "cells") else state.structured()
        return [
            {"role": "system", "content": system},
            {
                "role": "user",
                "content": f"The truth:\n{truth}\n\nThe agent's text:\n{fenced(statement.text)}",
            },
        ]

    def structured(self, statement: Statement) -> list[dict[str, str]]:
        """Messages that ask for a dictionary of the claims (appendix D.1.2). The truth isn't in
        them.
        """
        kind = statement.state.kind
        cells = getattr(statement.state, "cells", None)
        name = f"{kind}_structured" if cells is None else "board_structured"
        known = getattr(statement.state, "positions", ()) if cells is None else cells
        asked = OWN_RULES.get(kind) or self.text(name)
        rules = Template(asked).safe_substitute(things=", ".join(known))
        return [
            {
                "role": "system",
                "content": Template(self.text("structured")).substitute(rules=rules),
            },
            {"role": "user", "content": f"The agent's text:\n{fenced(statement.text)}"},
        ]


def fenced(text: str) -> str:
    """The agent's text between marker lines, without anything that could be taken for a tag or a
    marker.
    """
    shown = text[:MAX_TEXT].translate(_HARMLESS)
    shown = shown.encode("utf-8", "replace").decode()
    mark = hashlib.blake2b(shown.encode(), digest_size=8).hexdigest()
    return f"=====begin {mark}\n{shown}\n=====end {mark}"


def read_verdict(reply: str) -> Score:
    """YES is 1, NO is 0, true and false alike; unscored if there is no verdict or both.

    A verdict is what the prompts ask for and ends the reply: in its tag, after its name or plain,
    alone on its line, or under its key in a dictionary that stands alone. Whatever else is on the
    line or follows (`YES, but …`) may turn it round.
    """
    text = reply[-100_000:]
    for start, end in reversed(find_thinking(text, TAGS).spans):
        after = text[end:].strip()
        text = f"{text[:start]} {after or _THOUGHTS}"
    text = _FENCE.sub("", without_tokens(text)).strip()
    keyed = [match["word"] for match in _KEYED.finditer(text)]
    plain = _TAGGED.sub(lambda match: _as_named(match["word"]), _with_plain_verdict(text))
    lines = [line for line in _HEADING.sub(_as_named(""), plain).splitlines() if line.strip()]
    before_last = lines[-2] if len(lines) > 1 else "."
    ends_with_verdict = bool(lines) and _is_verdict(lines[-1], before_last)
    alone = [_NAMED.fullmatch(line) or _BARE.fullmatch(line) for line in lines]
    found = [*keyed, *(match["word"] for match in alone if match)]
    verdicts = {_SCORES[word.lower()] for word in found} if ends_with_verdict else set()
    if len(verdicts) != 1:
        how_many = "both verdicts" if verdicts else "no verdict"
        return Score.unscored(f"the judge gave {how_many}: {_short(reply)}")
    words = _TAGS.sub("", _TAGGED.sub("", reply)).strip()
    return Score(verdicts.pop(), _short(words, 1000) or found[0])


def _as_named(word: str) -> str:
    return f"Verdict: {word}"


def _is_verdict(line: str, before: str) -> bool:
    """A plain word may be the end of a sentence, or answer a question, that begins on the line
    before.
    """
    begins = before.rstrip(" *_`").endswith((".", "!", "。"))
    return bool(_NAMED.fullmatch(line) or (begins and _BARE.fullmatch(line)))


def _with_plain_verdict(text: str) -> str:
    """A dictionary that ends the text and has one verdict, under its key, becomes that verdict."""
    start = text.rfind("\n{") + 1
    if not text.startswith("{", start) or len(_KEYS.findall(text, start)) != 1:
        return text
    data = _loaded(text[start:])
    word = None if data is None else _verdict_under_key(data)
    return text if word is None else text[:start] + _as_named(word)


def _verdict_under_key(data: dict[str, Any]) -> str | None:
    """The word under the key of a verdict, in the dictionary itself or the one that is all it
    has.
    """
    while len(data) == 1 and isinstance(inner := next(iter(data.values())), dict):
        data = inner
    for key, value in data.items():
        word = str(value).strip().lower()
        if _KEYS.fullmatch(f'"{key}":') and word in _SCORES:
            return word
    return None


def read_object(reply: str) -> dict[str, Any] | None:
    """The last JSON object of a reply; fences, prose around it, single quotes and trailing commas
    are tolerated.
    """
    # A server may ignore `max_tokens`; the default of 512 are some 2,000 characters.
    text = reply[-100_000:]
    found = None
    start = text.find("{")
    while start >= 0:
        end = _end_of_object(text, start)
        data = _loaded(text[start:end]) if end else None
        found = data or found
        if start >= MAX_STARTS:
            break
        begin = end if data is not None and end else start + 1
        start = text.find("{", begin)
    return found


MAX_STARTS = 20_000
"""Characters in which an object may begin: a reply of nothing but braces isn't searched to its
end.
"""


def _end_of_object(text: str, start: int) -> int | None:
    """The character after the matching brace, outside of double-quoted strings."""
    depth = 0
    quoted = False
    skip = False
    for i in range(start, min(len(text), start + MAX_STARTS)):
        letter = text[i]
        if skip or (quoted and letter == "\\"):
            skip = not skip
        elif letter == '"':
            quoted = not quoted
        elif not quoted and letter in "{}":
            depth += 1 if letter == "{" else -1
            if not depth:
                return i + 1
    return None


def _loaded(text: str) -> dict[str, Any] | None:
    plain = _COMMA.sub(r"\1", text)
    for attempt in (text, plain, _CONSTANT.sub(lambda word: _PYTHON[word[0]], plain)):
        for load in (json.loads, ast.literal_eval):
            try:
                data = load(attempt)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(data, dict):
                return data
    return None


def _short(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"
