"""Actions and their grammars: names, calls with numbers, free text.

Each grammar turns one piece of an answer into an action, or gives the reason why it isn't one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vagen_envs.errors import did_you_mean
from vagen_envs.replies.vocabulary import SYNONYMS
from vagen_envs.seeding import HashStream

Number = int | float
_SHORTEST_ECHO = 3  # of two actions, both may well be meant
_LONGEST_CALL = 300  # characters in brackets
_LEADS = ("move", "go", "arrow")
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*(?:[ _-][^\W\d_]+){0,2}")
_BLANKS = re.compile("[ _-]")


@dataclass(frozen=True, slots=True)
class Action:
    """One action as it will be executed.

    Attributes:
        name: canonical name, such as `"Down"` or `"pick"`; `"text"` for free text.
        args: numbers of a call, in the order written; empty otherwise.
        text: canonical text, such as `"pick(62, -55, 20)"`; what `ParsedTurn` and reports show.
        start, end: where it stands in the reply, as a half-open span of code points.
    """

    name: str
    args: tuple[Number, ...]
    text: str
    start: int
    end: int

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary."""
        return {
            "name": self.name,
            "args": self.args,
            "text": self.text,
            "start": self.start,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a piece of an answer isn't an action: a problem code and a sentence."""

    code: str
    message: str


class ActionGrammar(Protocol):
    """What an environment accepts between `<answer>` and `</answer>`."""

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        """Read one stripped, non-empty piece of the answer, which stands at `start:end` of the
        reply.
        """

    def summary(self) -> str:
        """One line for prompts and errors, such as `Up, Down, Left, Right`."""

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """`count` actions that would be read, drawn from `stream`."""


class Names:
    """A fixed vocabulary, matched without regard to case.

    Args:
        names: of the actions, as the environment executes them.
        called: what replies call them, in the same order; by default the same.
        exact: whether case matters after all, as in VAGEN's released grids.
    """

    def __init__(self, *names: str, called: Sequence[str] = (), exact: bool = False) -> None:
        if called and (
            len(called) != len(names) or len({name.lower() for name in called}) < len(names)
        ):
            raise ValueError(
                f"{tuple(called)!r:.200} can't name {', '.join(names)}: give {len(names)} "
                "different names"
            )
        self.names, self.exact = names, exact
        self.called = tuple(called) or names
        self._canonical = {
            written.lower(): (name, written)
            for name, written in zip(names, self.called, strict=True)
        }
        self._written = dict(zip(names, self.called, strict=True))
        self._by_letters = {
            _BLANKS.sub("", lower): written for lower, written in self._canonical.items()
        }

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.names, self.called))

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        found = self._canonical.get(piece.lower())
        if found is None or (self.exact and piece != found[1]):
            return Refused(
                "unknown_action", f"{_short(piece)} is not an action; use one of {self.summary()}"
            )
        return Action(found[0], (), found[1], start, end)

    def find(self, text: str, start: int, offset: int) -> Action | None:
        """The action whose name begins at a place of a text, in up to three words or in other ones
        than the prompt's, such as "go up" or "upward".

        Args:
            text: a part of a reply.
            start: the place in it.
            offset: where the text begins in the reply.
        """
        words = _WORDS.match(text, start)
        parts = _BLANKS.split(words[0]) if words else []
        end = words.end() if words else start
        while parts:
            name, called = self._meant(parts)
            if name and (called == text[start:end] or not self.exact):
                return Action(name, (), called, offset + start, offset + end)
            end -= len(parts.pop()) + 1
        return None

    def _meant(self, words: Sequence[str]) -> tuple[str, str]:
        plain = "".join(words).lower()
        meant = "".join([SYNONYMS.get(word.casefold(), word) for word in words]).lower()
        forms = [plain, meant]
        if len(words) == 1:
            forms += [f"move{meant}", *(plain.removeprefix(lead) for lead in _LEADS)]
        found = filter(None, map(self._by_letters.get, forms))
        return next(found, ("", ""))

    def written(self, name: str) -> str:
        """What replies call an action of the environment."""
        return self._written.get(name, name)

    def echoed(self, names: Sequence[str]) -> bool:
        """Whether these are all actions in the order of the prompt: a list that is repeated, not a
        plan.
        """
        return len(names) == len(self.names) >= _SHORTEST_ECHO and tuple(names) == self.names

    def summary(self) -> str:
        return ", ".join(self.called)

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        return [stream.choice(self.called) for _ in range(count)]


class Calls:
    """Calls with a fixed number of finite numbers, such as `pick(62, -55, 20)`.

    Args:
        arity: how many arguments each call takes.
        integers: refuse numbers with a fractional part.
    """

    _CALL = re.compile(r"([A-Za-z_]\w*)\s*\(([^()]*)\)\s*\.?")  # a sentence may end with a call
    _NUMBER = re.compile(r"[+-]?(\d{1,12}(\.\d{0,12})?|\.\d{1,12})([eE][+-]?\d{1,3})?", re.ASCII)

    _OPENED = re.compile(r"([A-Za-z]\w*)\s*[:=]?\s*(?=[(\[{])")
    _POINT = re.compile(r"\s*\w+\s*[=:]\s*(?=[(\[{])")  # `position=(1, 2, 3)`
    _NAMES = re.compile("(?:xyz?)+|n+", re.IGNORECASE)
    _KEYWORD = re.compile(r"[\"']?([A-Za-z])_?(\d*)[\"']?\s*[=:]\s*(.+)", re.DOTALL)

    def __init__(self, arity: Mapping[str, int], *, integers: bool = True) -> None:
        self.arity = dict(arity)
        self.integers = integers

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        match = self._CALL.fullmatch(piece)
        name = match[1].lower() if match else ""
        if match is None or name not in self.arity:
            hint = did_you_mean(name, self.arity) if name else f" Use one of {self.summary()}."
            return Refused("unknown_action", f"{_short(piece)} is not an action.{hint}")
        inside = match[2].strip()
        words = [word.strip() for word in inside.split(",")] if inside else []
        if len(words) != self.arity[name]:
            return Refused(
                "bad_argument", f"{name} takes {self.arity[name]} numbers, not {len(words)}"
            )
        args: list[Number] = []
        for word in words:
            value = self._number(word)
            if value is None:
                kind = "an integer" if self.integers else "a finite number"
                return Refused("bad_argument", f"{_short(word)} in {name}(…) is not {kind}")
            args.append(value)
        return Action(name, tuple(args), call_text(name, args), start, end)

    def find(self, text: str, start: int, offset: int) -> Action | None:
        """The call that begins at a place of a text, whose numbers may stand in other brackets, be
        named and have a unit.

        Args:
            text: a part of a reply.
            start: the place in it.
            offset: where the text begins in the reply.
        """
        opened = self._OPENED.match(text, start)
        end = _closing(text, opened.end()) if opened else -1
        if opened is None or end < 0:
            return None
        call = f"{opened[1]}({self._plain_numbers(text[opened.end() + 1 : end])})"
        action = self.read(call, offset + start, offset + end + 1)
        return None if isinstance(action, Refused) else action

    def _plain_numbers(self, inside: str) -> str:
        """The numbers of a call; "?" if it isn't known which is which.

        Names are ordered as coordinates are, x, y, z or x1, y1, z1, x2, y2, z2, or as in the
        prompt: n1, n2, n3. Any other name may be of something else, such as a height.
        """
        point = self._POINT.match(inside)
        words = inside[point.end() if point else 0 :].split(",")
        words = [word.strip(" \t\n[](){}") for word in words if word.strip()]
        named = [match.groups() for match in map(self._KEYWORD.fullmatch, words) if match]
        if named:
            named.sort(key=lambda groups: (groups[1], groups[0]))
            letters = "".join([groups[0] for groups in named])
            named_once = {groups[:2] for groups in named}
            if not self._NAMES.fullmatch(letters) or len(named_once) < len(words):
                return "?"
            words = [groups[2] for groups in named]
        return ", ".join([word.strip("\"' ").removesuffix("mm").strip() for word in words])

    def _number(self, word: str) -> Number | None:
        if not self._NUMBER.fullmatch(word):
            return None
        value = float(word)
        if not math.isfinite(value):
            return None
        if value.is_integer():
            return int(value)
        return None if self.integers else value

    def summary(self) -> str:
        return ", ".join(map(self._signature, self.arity))

    def _signature(self, name: str) -> str:
        numbers = [f"n{i + 1}" for i in range(self.arity[name])]
        return f"{name}({', '.join(numbers)})"

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """With whole numbers from -100 to 100."""
        names = [stream.choice(sorted(self.arity)) for _ in range(count)]
        return [self._random_call(stream, name) for name in names]

    def _random_call(self, stream: HashStream, name: str) -> str:
        numbers = [stream.below(201) - 100 for _ in range(self.arity[name])]
        return call_text(name, numbers)


class FreeText:
    """Any non-empty text is one action."""

    def read(self, piece: str, start: int, end: int) -> Action | Refused:
        return Action("text", (), piece, start, end)

    def summary(self) -> str:
        return "free text"

    def random(self, stream: HashStream, count: int) -> Sequence[str]:
        """Eight letters each."""
        letters = [chr(97 + stream.below(26)) for _ in range(8 * count)]
        return ["".join(letters[i : i + 8]) for i in range(0, 8 * count, 8)]


def call_text(name: str, numbers: Sequence[Number]) -> str:
    """A call as an answer has it, such as `pick(62, -55, 20)`."""
    return f"{name}({', '.join(map(str, numbers))})"


def _closing(text: str, opened: int) -> int:
    """Where the bracket closes, -1 if it doesn't within some characters."""
    depth = 0
    for at in range(opened, min(len(text), opened + _LONGEST_CALL)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return -1


def _short(piece: str, limit: int = 40) -> str:
    return repr(piece if len(piece) <= limit else piece[:limit] + "…")
