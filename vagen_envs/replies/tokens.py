"""The tokens of an answer, by the part that each has in it, without its dress: markup, quotes, code
fences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.tags import FIELD_NAMES
from vagen_envs.replies.vocabulary import ARROWS, NUMBERS, PARTS, SYNONYMS

_HIDDEN = re.compile(
    r"(?<!~)~~(?!~).*?(?<!~)~~(?!~)|<(s|del|strike)>.*?</\1>|<!--.*?-->"
    rf"|<(?P<field>{FIELD_NAMES})>.*?</(?P=field)>",
    re.DOTALL | re.IGNORECASE,
)
"""What isn't said: struck out, a comment, or a field within the answer."""
_MARKUP = re.compile(
    r"(?:```|~~~)\w*|\\[,;!: ]|\\[nrt](?!(?-i:[a-z]))"
    r"|\\(?:boxed|quad|operatorname|(?:text|math)[a-z]{0,2})(?![A-Za-z])"
    rf"|</?(?:{FIELD_NAMES}|final|actions?|moves?|step|item|b|i|em|strong|code|pre|p|br|ol|ul|li|span|div|text|center|u)"
    r"(?:\s[^<>]{0,200})?/?>|</answer\s*>"
    r"|\b[a-z_]\w*\.(?=[a-z_]\w*\()",  # as in `env.step("Up")`
    re.IGNORECASE,
)
_TEXT_COMMAND = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,2}\{(\w+)\}")
_LATEX_ARROW = re.compile(r"\\(?:(?:long)?rightarrow|to)(?![A-Za-z])", re.IGNORECASE)
_CALL = re.compile(r"(?<!\w)([A-Za-z]\w*)\s*[:=]?\s*(?=[(\[{])")
_POINT = re.compile(r"\A\s*\w+\s*[=:]\s*([(\[{].*)\Z", re.DOTALL)  # `position=(1, 2, 3)`
_KEYWORD = re.compile(r"\s*[\"']?([A-Za-z_]+?)_?(\d*)[\"']?\s*[=:]\s*(.+?)\s*", re.DOTALL)
_LONGEST_CALL = 300  # characters in brackets

_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)|(?P<number>\d+(?:\.\d+)?)"
    rf"|(?P<arrow>[{''.join(ARROWS)}])"
    r"|(?P<S>[-=]+>|>>+|(?<=[\w )`*])>|[,;|&+、،➜➔⇒↦])|(?P<H>#|//)|(?P<T>(?<!\*)\*(?=\s?\d)|×)"
    r"|(?P<R>\n)|(?P<P>[.。…]|!(?!\w))|(?P<C>:)|(?P<D>-+(?=[\s|]|\Z)|(?:^|(?<=\n))-|[–—])"
    r"|(?P<open>[(\[])|(?P<close>[)\]])|(?P<E>=)"
    r"|(?P<dress>[\s*_`'\"$\\{}>«»‘’‚‛“”„‹›•·「」『』【】])|(?P<other>.)",
    re.DOTALL,
)
_NAME = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*(?:[ _-][^\W\d_]+){0,2}")
_LETTERS = {
    "lead": "L",
    "claim": "Q",
    "order": "X",
    "noun": "W",
    "go": "G",
    "filler": "B",
    "to": "K",
    "because": "J",
    "verb": "V",
    "thing": "M",
    "times": "T",
    "unit": "U",
    "once": "O",
    "number": "N",
    "open": "(",
    "close": ")",
    "other": "?",
}
"""The letters of tokens by the part of a word, or by the kind of another token."""


ActionOf = Callable[[str, int, int], Action | None]
"""Reads the action that stands at a place of an answer."""


@dataclass
class Token:
    """A token with the letter of its part; `action` where it names one."""

    letter: str
    start: int
    end: int
    action: Action | None = None
    number: int = 0


def tokens_of(piece: str, offset: int, separator: str, grammar: ActionGrammar) -> list[Token]:
    """The tokens of an answer that begins at `offset` of the reply, without those of mere dress."""
    piece = _undressed(piece, separator)
    found = list(_tokens(piece, offset, grammar))
    arrows = [token for token in found if token.letter == "→"]
    if any(token.letter == "A" for token in found):
        letter = "S"  # arrows decorate names or stand between them
    else:  # "↑ → ↓" may have one between two others
        marks = {piece[token.start] for token in arrows}
        letter = "?" if "→" in marks and len(marks) > 1 else "A"
    for token in arrows:
        token.letter = letter
    return found


def without_hidden(text: str) -> str:
    """The text with blanks for what it doesn't say: struck out, a comment, a field of its own."""
    return _HIDDEN.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _undressed(piece: str, separator: str) -> str:
    """The answer with blanks for its markup, of the same length."""
    if not separator.strip().replace("-", "").isalnum() and separator.strip(" -_"):
        piece = piece.replace(separator, ",".ljust(len(separator)))
    piece = _TEXT_COMMAND.sub(lambda text: f"{text[1]} ".rjust(len(text[0])), piece)
    piece = _LATEX_ARROW.sub(lambda arrow: "→".ljust(len(arrow[0])), piece)
    return _MARKUP.sub(_blank, piece)


def _tokens(piece: str, offset: int, grammar: ActionGrammar) -> Iterator[Token]:
    def action_of(written: str, start: int, end: int) -> Action | None:
        action = grammar.read(written, offset + start, offset + end)
        return None if isinstance(action, Refused) else action

    calls = _calls(piece, action_of) if isinstance(grammar, Calls) else {}
    at = 0
    while match := _TOKEN.match(piece, at):
        start, at = match.span()
        if match.lastgroup == "word" and isinstance(grammar, Names):
            named = _name(piece, start, action_of)
        else:
            named = calls.get(start)
        if named is not None:
            at = max(at, named.end)
            yield named
        elif match.lastgroup == "arrow":
            yield Token("→", start, at, action_of(ARROWS[match[0]], start, at))
        elif match.lastgroup != "dress":
            yield _without_action(match, grammar)


def _without_action(match: re.Match[str], grammar: ActionGrammar) -> Token:
    kind = str(match.lastgroup)
    if kind == "number":
        number = int(match[0]) if match[0].isdecimal() and len(match[0]) < 3 else 0
        return Token("N" if number else "?", *match.span(), number=number)
    if kind == "word":
        word = match[0].casefold().replace("’", "'")
        broken = isinstance(grammar, Calls) and word in grammar.arity  # a call that isn't read
        letter = "?" if broken else _LETTERS[PARTS.get(word, "other")]
        return Token(letter, *match.span(), number=NUMBERS.get(word, 0))
    return Token(_LETTERS.get(kind, kind), *match.span())


def _name(piece: str, start: int, action_of: ActionOf) -> Token | None:
    """The action whose name begins here, of up to three words."""
    words = _NAME.match(piece, start)
    end = words.end() if words else start
    while end > start:
        parts = re.split("[ _-]", piece[start:end])
        for form in _forms(parts):
            if action := action_of(form, start, end):
                return Token("A", start, end, action)
        end -= len(parts[-1]) + 1
    return None


def _forms(parts: list[str]) -> Iterator[str]:
    """What the words may be called in the grammar."""
    plain = "".join(parts)
    meant = "".join(SYNONYMS.get(part.casefold(), part) for part in parts)
    yield from (" ".join(parts), "_".join(parts), plain, meant)
    if len(parts) == 1:
        yield f"move{meant}"
        for lead in ("move", "go", "arrow"):
            yield plain[len(lead) :] if plain.casefold().startswith(lead) else plain


def _calls(piece: str, action_of: ActionOf) -> dict[int, Token]:
    """Calls by where they begin."""
    found: dict[int, Token] = {}
    for match in _CALL.finditer(piece):
        close = _closing(piece, match.end())
        call = f"{match[1]}({_numbers(piece[match.end() + 1 : close])})"
        if close > 0 and (action := action_of(call, match.start(), close + 1)):
            found[match.start()] = Token("A", match.start(), close + 1, action)
    return found


def _closing(text: str, opened: int) -> int:
    """Where the bracket closes, -1 if it doesn't within some characters."""
    depth = 0
    for at in range(opened, min(len(text), opened + _LONGEST_CALL)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return -1


def _numbers(inside: str) -> str:
    """The numbers of a call in order, from lists, keywords and units; "?" if that isn't known.

    Keywords are ordered as coordinates are: x, y, z, or x1, y1, z1, x2, y2, z2.
    """
    inside = _POINT.sub(r"\1", inside)
    words = [word.strip().strip("[](){}") for word in inside.split(",") if word.strip()]
    keywords = [match for match in map(_KEYWORD.fullmatch, words) if match]
    if keywords:
        found = sorted((match[2], match[1], match[3]) for match in keywords)
        keys = {(number, key) for number, key, _ in found}
        if len(keys) < len(words) or any(len(key) > 1 for _, key in keys):
            return "?"
        words = [value for *_, value in found]
    return ", ".join(re.sub(r"\s*mm\Z", "", word.strip("\"'")) for word in words)
