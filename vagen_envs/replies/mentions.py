"""The tokens of an answer, and the actions that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.calls import find_calls
from vagen_envs.replies.vocabulary import SEVERAL, SYNONYMS

_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)|(?P<number>\d+)|(?P<arrow>[↑↓←→⬆⬇⬅➡🔼🔽◀▶⇧⇩⇦⇨👆👇👈👉])|(?P<other>.)",
    re.DOTALL,
)
_COUNTS_BEFORE = re.compile(rf"(?:\d|\b(?:{SEVERAL}))\s*\Z", re.IGNORECASE)
_FOLLOWING = re.compile(r"[ _-][^\W\d_]+")


class Mention(NamedTuple):
    """An action in an answer."""

    action: Action
    start: int
    end: int


class Mentions:
    """An answer, or a part of one, whose actions are looked up token by token.

    Args:
        piece: the text.
        offset: where it begins in the reply.
        grammar: what names an action.
    """

    def __init__(self, piece: str, offset: int, grammar: ActionGrammar) -> None:
        self.piece = piece
        self.offset = offset
        self.grammar = grammar
        self.tokens = list(_TOKEN.finditer(piece))
        self.calls = dict(self._calls()) if isinstance(grammar, Calls) else {}
        words = [token[0] for token in self.tokens if token.lastgroup == "word"]
        self.initials: dict[str, str] = {}
        if isinstance(grammar, Names) and words and all(len(word) == 1 for word in words):  # "U, D"
            initials = [name[0].casefold() for name in grammar.called]
            self.initials = (
                {}
                if len({*initials}) < len(initials)
                else dict(zip(initials, grammar.called, strict=True))
            )

    def names(self) -> list[tuple[str, int, int]]:
        """The actions that the text mentions, each with its place."""
        found: list[tuple[str, int, int]] = []
        end = 0
        for i, token in enumerate(self.tokens):
            if token.start() >= end and (mention := self._mention(i)):
                end = mention.end
                found.append((mention.action.text, mention.start, mention.end))
        return found

    def _mention(self, i: int) -> Mention | None:
        """The action that begins with this token, if there is one: up to three words make a name."""
        if isinstance(self.grammar, Calls):
            return self.calls.get(i)
        if i >= len(self.tokens) or self.tokens[i].lastgroup != "word":
            return None
        start, end = self.tokens[i].span()
        ends = [end]
        while len(ends) < 3 and (following := _FOLLOWING.match(self.piece, ends[-1])):
            ends.append(following.end())
        for stop in reversed(ends):
            parts = [self.piece[start:end], *re.findall(r"[^ _-]+", self.piece[end:stop])]
            action = self._read_words(parts, start, stop)
            if action is not None:
                return Mention(action, start, stop)
        return None

    def _mention_at(self, at: int) -> Mention | None:
        """The action whose name begins at this place."""
        mention = self._mention(self._after(at))
        return mention if mention is not None and mention.start == at else None

    def _read_words(self, parts: list[str], start: int, end: int) -> Action | None:
        plain = "".join(parts)
        meant = "".join(SYNONYMS.get(part.casefold(), part) for part in parts)
        forms = ["_".join(parts), plain, self.initials.get(plain.casefold(), meant)]
        if len(parts) == 1:
            forms += (
                [plain[:-1]]
                if plain[-1] in "sS" and _COUNTS_BEFORE.search(self.piece, 0, start)
                else []
            )
            forms += [f"move{meant}"] if meant in ("ahead", "back") else []
            forms += [
                plain[len(lead) :]
                for lead in ("move", "go", "arrow")
                if plain.casefold().startswith(lead)
            ]
        for form in dict.fromkeys(forms):
            action = self._read(form, start, end) if form else None
            if action is not None:
                return action
        return None

    def _read(self, written: str, start: int, end: int) -> Action | None:
        action = self.grammar.read(written, self.offset + start, self.offset + end)
        return None if isinstance(action, Refused) else action

    def _calls(self) -> Iterator[tuple[int, Mention]]:
        """Calls by the index of their first token."""
        index = {token.start(): i for i, token in enumerate(self.tokens)}
        for start, end, read_to, call in find_calls(self.piece):
            action = self._read(call, start, end) if call else None
            if action is not None and start in index:  # not within a word, as in "u'pick(1, 2, 3)"
                yield index[start], Mention(action, start, read_to)

    def _after(self, at: int) -> int:
        return next(
            (j for j, token in enumerate(self.tokens) if token.start() >= at), len(self.tokens)
        )
