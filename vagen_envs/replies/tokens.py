"""The tokens of an answer, by the part that each has in it, without its dress: markup, quotes, code
fences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.calls import find_calls
from vagen_envs.replies.tags import FIELD_NAMES
from vagen_envs.replies.vocabulary import ARROWS, COUNTS, PARTS, SYNONYMS

_HIDDEN = re.compile(
    r"(?<!~)~~(?!~).*?(?<!~)~~(?!~)|<(s|del|strike)>.*?</\1>|<!--.*?-->|/\*.*?\*/"
    rf"|<(?P<field>{FIELD_NAMES})>.*?</(?P=field)>",
    re.DOTALL | re.IGNORECASE,
)
"""What isn't said: struck out, a comment, or a field within the answer."""
_MARKUP = re.compile(
    r"(?:```|~~~)\w*|\\[,;!: ]|\\[nrt](?!(?-i:[a-z]))"
    r"|\\(?:boxed|quad|left|right(?=[)\]\\])|operatorname|(?:text|math)[a-z]{0,2})(?![A-Za-z])"
    rf"|</?(?:{FIELD_NAMES}|final|actions?|moves?|step|item|b|i|em|strong|code|pre|p|br|ol|ul|li|span|div|text|center|u)"
    r"(?:\s[^<>]{0,200})?/?>|</answer\s*>"
    r"|\b[a-z_]\w*\.(?=[a-z_]\w*\()",  # as in `env.step("Up")`
    re.IGNORECASE,
)
_TEXT_COMMAND = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,2}\{(\w+)\}")
_LATEX_ARROW = re.compile(r"\\(?:long)?(?:(up|down|left|right)arrow|to)(?![A-Za-z])", re.IGNORECASE)
_LETTERED = re.compile(r"^([ \t]*)(?:([A-Ea-e])|(III|II|IV|I|V))(?=[.)]\s)", re.MULTILINE)
_ROMAN = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5"}
_KEYCAP = re.compile("(\\d)\\s?\u20e3|([①-⑨])\\s")
_ROW = re.compile(r"^(\s*\|\s*\d+\s*)\|", re.MULTILINE)  # a table's first column
_BRACKETED = re.compile(r"<\s*([A-Za-z_ -]{1,30}?)\s*/?>")  # a name in the place of a tag: `<Up>`

_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)|(?P<number>\d+(?:\.\d+)?)"
    rf"|(?P<arrow>[{''.join(ARROWS)}])"
    r"|(?P<S>[-=]+>|>>+|(?<=[\w )`*])>|[,;|&+、،➜➔⇒↦])|(?P<H>#|//)|(?P<T>(?<!\*)\*(?=\s?\d)|×)"
    r"|(?P<R>\n)|(?P<P>[.。…]|!(?!\w))|(?P<C>:)|(?P<D>-+(?=[\s|]|\Z)|(?:^|(?<=\n))-|[–—])"
    r"|(?P<open>[(\[])|(?P<close>[)\]])|(?P<E>=)"
    r"|(?P<dress>[\s*_`'\"$\\{}>«»‘’‚‛“”„‹›•·「」『』【】])|(?P<other>.)",
    re.DOTALL,
)
_NAME_GOES_ON = re.compile(r"[ _-][^\W\d_]+")

_PART_LETTERS = {
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
}
_LETTERS = {
    **{word: _PART_LETTERS[part] for word, part in PARTS.items()},
    **dict.fromkeys(COUNTS["times"], "T"),
    **dict.fromkeys(COUNTS["units"], "U"),
    **dict.fromkeys(COUNTS["once"], "O"),
    **dict.fromkeys(COUNTS["numbers"], "N"),
}
_NUMBERS = {word: number for number, word in enumerate(COUNTS["numbers"], 1)}
_NUMBERS |= {word: number for number, word in enumerate(COUNTS["once"], 1)}


@dataclass
class Token:
    """A token with the letter of its part; `action` where it names one."""

    letter: str
    start: int
    end: int
    action: Action | None = None
    number: int = 0


class Tokens:
    """The tokens of an answer, without those that are mere dress."""

    def __init__(self, piece: str, offset: int, grammar: ActionGrammar) -> None:
        self.piece, self.offset, self.grammar = piece, offset, grammar
        words = [match[0] for match in _TOKEN.finditer(piece) if match.lastgroup == "word"]
        self.broken = grammar.arity if isinstance(grammar, Calls) else ()  # names of calls not read
        self.initials: dict[str, str] = {}
        if isinstance(grammar, Names) and words and all(len(word) == 1 for word in words):
            initials = {name[0].casefold(): name for name in grammar.called}  # "U, D"
            self.initials = initials if len(initials) == len(grammar.called) else {}

    def tokens(self) -> list[Token]:
        found = list(self._all())
        if any(token.letter == "A" for token in found):
            arrows = "S"  # decorates a name or stands between two
        else:
            arrows = "A" if self._arrows_act(found) else "?"
        for token in found:
            if token.letter == "→":
                token.letter = arrows
        return found

    def _arrows_act(self, found: list[Token]) -> bool:
        """Whether arrows can only be actions: "↑ → ↓" may have one between two others."""
        acts = [token.action for token in found if token.letter == "→"]
        names = [action.name for action in acts if action]
        marks = [self.piece[token.start] for token in found if token.letter == "→"]
        parted = len(marks) > 2 and {*marks[1::2]} == {"→"} and "→" not in marks[::2]
        hands = len(_HANDS.intersection(marks))
        return len(names) == len(acts) and not parted and hands in (0, len({*marks}))

    def _all(self) -> Iterator[Token]:
        calls = self._calls() if isinstance(self.grammar, Calls) else {}
        at = 0
        while match := _TOKEN.match(self.piece, at):
            start, at = match.span()
            kind = str(match.lastgroup)
            named = calls.get(start) if calls else self._name(start) if kind == "word" else None
            if named is not None:
                at = max(at, named.end)
                yield named
            elif kind == "arrow":
                action = self._action(ARROWS[match[0]], start, at)
                yield Token("→", start, at, action)
            elif kind == "number":
                yield self._numeral(match)
            elif kind == "word":
                word = match[0].casefold().replace("’", "'")
                letter = "?" if word in self.broken else _LETTERS.get(word, "?")
                yield Token(letter, start, at, number=_NUMBERS.get(word, 0))
            elif kind != "dress":
                letter = {"open": "(", "close": ")", "other": "?"}.get(kind, kind)
                yield Token(letter, start, at)

    def _numeral(self, match: re.Match[str]) -> Token:
        number = int(match[0]) if match[0].isdecimal() and len(match[0]) < 3 else 0
        return Token("N" if number else "?", *match.span(), number=number)

    def _name(self, start: int) -> Token | None:
        """The action whose name begins here, of up to three words."""
        word = _TOKEN.match(self.piece, start)
        ends = [word.end()] if word else []
        while ends and len(ends) < 3 and (more := _NAME_GOES_ON.match(self.piece, ends[-1])):
            ends.append(more.end())
        for end in reversed(ends):
            for form in self._forms(re.split("[ _-]", self.piece[start:end])):
                action = self._action(form, start, end)
                if action is not None:
                    return Token("A", start, end, action)
        return None

    def _forms(self, parts: list[str]) -> Iterator[str]:
        """What the words may be called in the grammar."""
        plain = "".join(parts)
        meant = "".join(SYNONYMS.get(part.casefold(), part) for part in parts)
        yield from (" ".join(parts), "_".join(parts), plain)
        yield self.initials.get(plain.casefold(), meant)
        if len(parts) == 1:
            if meant in ("ahead", "back"):
                yield f"move{meant}"
            for lead in ("move", "go", "arrow"):
                yield plain[len(lead) :] if plain.casefold().startswith(lead) else ""

    def _action(self, written: str, start: int, end: int) -> Action | None:
        if not written:
            return None
        action = self.grammar.read(written, self.offset + start, self.offset + end)
        return None if isinstance(action, Refused) else action

    def _calls(self) -> dict[int, Token]:
        """Calls by where they begin."""
        found: dict[int, Token] = {}
        for start, end, call in find_calls(self.piece):
            action = self._action(call, start, end) if call else None
            if action is not None:
                found[start] = Token("A", start, end, action)
        return found


def without_hidden(text: str) -> str:
    """The text with blanks for what it doesn't say: struck out, a comment, a field of its own."""
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def undressed(piece: str, separator: str, grammar: ActionGrammar) -> str:
    """The answer with blanks for its markup, of the same length."""

    def alike(text: str) -> str:
        return re.sub(r"[^\n]", " ", text)

    if not separator.strip().replace("-", "").isalnum() and separator.strip(" -_"):
        piece = piece.replace(separator, ",".ljust(len(separator)))
    piece = _TEXT_COMMAND.sub(lambda text: f"{text[1]} ".rjust(len(text[0])), piece)
    piece = _LATEX_ARROW.sub(lambda arrow: _arrow(arrow[1]).ljust(len(arrow[0])), piece)
    piece = _MARKUP.sub(lambda markup: alike(markup[0]), piece)
    piece = _KEYCAP.sub(lambda key: f"{key[1] or ord(key[2]) - 0x245F}.".ljust(len(key[0])), piece)
    piece = _LETTERED.sub(_as_number, piece)
    piece = _ROW.sub(r"\1.", piece)
    if isinstance(grammar, Names):
        piece = _BRACKETED.sub(
            lambda tag: (
                tag[0]
                if isinstance(grammar.read(tag[1], 0, 0), Refused)
                else tag[0].translate(_NO_BRACKETS)
            ),
            piece,
        )
    return piece


_HANDS = frozenset("👆👇👈👉")
_NO_BRACKETS = str.maketrans("<>/", "   ")


def _arrow(direction: str | None) -> str:
    """The arrow of a direction; LaTeX's plain one points to the right."""
    name = direction.lower() if direction else "right"
    return next(arrow for arrow, meant in ARROWS.items() if meant == name)


def _as_number(label: re.Match[str]) -> str:
    """A letter or a Roman numeral before an item as a digit."""
    blanks, letter, roman = label.groups()
    digit = _ROMAN[roman] if roman else str("abcde".index(letter.lower()) + 1)
    return blanks + digit.rjust(len(label[0]) - len(blanks))
