"""Answers in another dress than the prompt's: the table in docs/replies.md, as one expression over
an answer's tokens.

Each token gets a letter by the part it has: `A` an action, `N` a number, `S` a separator; the parts
of words stand in vocabulary.toml. A token without a part makes an answer unclear: English isn't
read, so no word can reject an action that executes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from vagen_envs.replies.actions import Action, Calls, Names
from vagen_envs.replies.tags import in_ascii, without_tokens
from vagen_envs.replies.tool_calls import values
from vagen_envs.replies.vocabulary import ARROWS, NUMBERS, PARTS

Dressed = Names | Calls
"""Grammars of the actions that are read in another dress too; texts have none."""

_LONGEST = 2_000  # characters of an answer that is read, so that time stays linear
_MOST_REPEATS = 20  # of one action, as "Up x3" has them

_MARKUP = re.compile(
    r"(?:```|~~~)\w*|~~[^~\n]+~~"  # fences, what is struck out
    r"|\\(?:boxed|quad|operatorname|(?:text|math)[a-z]{0,2}|(?:long)?rightarrow|to)(?![A-Za-z])"
    r"|</?(?:final|actions?|moves?|step|item|b|i|em|strong|code|pre|p|br|ol|ul|li|span|text|u)\s*/?>|</answer\s*>"
    r"|\b[a-z_]\w*\.(?=[a-z_]\w*\()",  # as in `env.step("Up")`
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)|(?P<number>\d+(?:\.\d+)?)"
    rf"|(?P<arrow>[{''.join(ARROWS)}])"
    r"|(?P<S>[-=]+>|>>+|(?<=[\w )`*])>|[,;|&+、،➜➔⇒↦])|(?P<H>#|//)|(?P<T>(?<!\*)\*(?=\s?\d)|×)"
    r"|(?P<R>\n)|(?P<P>[.。…]|!(?!\w|\s*=))|(?P<C>:)|(?P<D>-+(?=[\s|]|\Z)|(?:^|(?<=\n))-|[–—])"
    r"|(?P<open>[(\[])|(?P<close>[)\]])|(?P<E>=)"
    r"|(?P<dress>[\s*_`'\"$\\{}>«»‘’‚‛“”„‹›•·「」『』【】])|(?P<other>.)",
    re.DOTALL,
)
_ARROW, _OTHER_ARROW = f"[{''.join(ARROWS)}]", f"[{''.join(ARROWS.keys() - {'→'})}]"
_MAY_PART = re.compile(rf"{_OTHER_ARROW}\s*→\s*{_OTHER_ARROW}|{_ARROW}\s+→|→\s+{_ARROW}")
"""An arrow that may stand between two others."""
_LETTERS = {"open": "(", "close": ")", "other": "?"}

_ITEM = re.compile(
    r"""
    [LQXWGBKSPRDCHE(]*?
    (?: (?P<label> \(?N[PC)D] | HN | WN(?![TUW])[PCD]? )[)]? [LQXWGBKCDHER(]*? )?
                                                    # "1.", "(1)", "#1", "Step 1:"
    (?: (?P<before>N)[TUW]?[KB]* )?                 # "2 Up", "2x Up", "two steps to the left"
    (?P<action>A)(?:[(][)])?
    (?P<count>
        TN | [(]TN[)] | S?N[TUW](?![KB]*A) | S?[(]N[TUW][)]    # "Up x2", "Up (x2)", "Up, 2 times"
      | N(?=[)]*[SR]|[)P]*(?:R|$)) | S?O            # "Up 2", "Up twice"
    )?
    """,
    re.VERBOSE,
)
_GAP = re.compile(  # between two actions: no word where a comma or the like is missing
    r"[)]*(?: [DH]*[SPR][SPRDH(]* | D | X[LXWGBKCDESR(]* | S[SRPD(]*[XWG][LXWGBKCDESR(]*"
    r" | [SDH]*[PR][SPRDH(]*[LXWGBKCDESPR(]* )?",
    re.VERBOSE,
)
_HEADING = re.compile(r"[LWGBK]C")
_REASON = re.compile(
    r"(?:[CDPRHS(]+|(?=[JK]))(?=[BGLXWKJM]*[VJKG])(?=[BGLXWKJV]*[VM])[BKJVMGWLX]+(?=[)SPRH]|$)[)]*"
)
"""What an action is for, as "to reach the goal": a verb and words that can't reject it."""
_REMARK = re.compile(rf"{_REASON.pattern}|[HD(][BKJVMGWL]+(?=[)SPRH]|$)[)]*")
"""Beside a call a thing is named alone too, as in "pick(1, 2, 3)  # red cube"."""
_END = re.compile(r"[SPRCDH)]*\Z")
_LAST_LINES = re.compile(r"(?:P[)]*R|RR)[SPRDH(]*(?=[AN])[^LQWGBKJVM?]*\Z")
"""Nothing but actions after a sentence's end or an empty line."""
_AFTER_A_LIST = re.compile(r"N[PCD)]+A[^N]*(?:P[)]*R|RR)[SPRDH(]*A")
_WORDS = re.compile(r"[LQXWGBKJVM]")


def read_table(
    text: str, start: int, end: int, separator: str, grammar: Dressed
) -> list[Action] | None:
    """All actions of the answer `text[start:end]` in their order.

    Returns:
        `None` where the answer has no form of the table; an empty list where it holds no action to
        execute: JSON without one, or the list of all actions from the prompt.
    """
    piece = in_ascii(without_tokens(text[start:end]))
    if len(piece) > _LONGEST:
        return None

    def reads(value: str) -> bool:
        return bool(_read(value, 0, separator, grammar))

    held = values(piece, reads)
    if held is None:
        found = _read(piece, start, separator, grammar)
    else:
        found = []
        for value in held:
            actions = _read(value, 0, separator, grammar)
            if actions is None:
                return None
            found += [replace(action, start=start, end=end) for action in actions]
    return [] if found and _is_menu(piece, separator, grammar, found) else found


def names_action(text: str, grammar: Dressed) -> bool:
    """Whether a text, which may say anything else too, names an action."""
    plain = in_ascii(without_tokens(text[:_LONGEST]))
    return any(token.action for token in _tokens_of(plain, 0, ",", grammar))


def _is_menu(piece: str, separator: str, grammar: Dressed, found: list[Action]) -> bool:
    """Whether an answer repeats the prompt's list of all actions, or has them all as in
    `Up|Left|Down|Right`.
    """
    if not isinstance(grammar, Names):
        return False
    names = [action.name for action in found]
    listed = "|" in piece and "|" not in separator
    return grammar.echoed(names) or (listed and sorted(names) == sorted(grammar.names))


class _Token(NamedTuple):
    """The letter of a token's part, with the action that it names or the number it stands for."""

    letter: str
    action: Action | None = None
    number: int = 0


def _tokens_of(piece: str, offset: int, separator: str, grammar: Dressed) -> list[_Token]:
    """The tokens of an answer that begins at `offset` of the reply, without those of mere dress."""
    if re.search(r"[^\w\s-]", separator):
        piece = piece.replace(separator, ",".ljust(len(separator)))
    piece = _MARKUP.sub(lambda markup: " " * len(markup[0]), piece)
    found = list(_tokens(piece, offset, grammar))
    if any(token.letter == "A" for token in found):
        letter = "S"  # arrows decorate names or stand between them
    else:  # "↑ → ↓" may have one between two others
        marks = ARROWS.keys() & set(piece)
        letter = "?" if len(marks) > 1 and _MAY_PART.search(piece) else "A"
    return [token._replace(letter=letter) if token.letter == "→" else token for token in found]


def _tokens(piece: str, offset: int, grammar: Dressed) -> Iterator[_Token]:
    at = 0
    while match := _TOKEN.match(piece, at):
        at = match.end()
        kind = str(match.lastgroup)
        action = grammar.find(piece, match.start(), offset) if kind == "word" else None
        if action is not None:
            at = action.end - offset
            yield _Token("A", action)
        elif kind == "word":
            yield _word(match[0].casefold().replace("’", "'"), grammar)
        elif kind == "arrow":
            meant = grammar.find(ARROWS[match[0]], 0, 0)
            start, end = offset + match.start(), offset + at
            yield _Token("→", meant and replace(meant, start=start, end=end))
        elif kind == "number":
            number = int(match[0]) if match[0].isdecimal() and len(match[0]) < 3 else 0
            yield _Token("N" if number else "?", number=number)
        elif kind != "dress":
            yield _Token(_LETTERS.get(kind, kind))


def _word(word: str, grammar: Dressed) -> _Token:
    is_broken_call = isinstance(grammar, Calls) and word in grammar.arity
    letter = "?" if is_broken_call else PARTS.get(word, "?")
    return _Token(letter, number=NUMBERS.get(word, 0))


def _read(piece: str, offset: int, separator: str, grammar: Dressed) -> list[Action] | None:
    """The actions of an answer that isn't JSON; `None` if it has no form of the table."""
    tokens = _tokens_of(piece, offset, separator, grammar)
    letters = "".join([token.letter for token in tokens])
    return None if _says_twice(letters) else _listed(letters, tokens, isinstance(grammar, Calls))


def _says_twice(letters: str) -> bool:
    """Whether bare actions follow sentences or a list, so that it isn't clear which of the two
    count.
    """
    last = _LAST_LINES.search(letters)
    before = letters[: last.start()] if last else ""
    in_words = "A" in before and _WORDS.search(before) is not None
    return in_words or _AFTER_A_LIST.search(letters) is not None


def _listed(letters: str, tokens: list[_Token], calls: bool) -> list[Action] | None:
    """The actions of a list; `None` if the letters of its tokens aren't those of one."""
    items: list[_Item] = []
    beside = _REMARK if calls else _REASON
    at = 0
    while match := _ITEM.match(letters, at):
        item = _Item.of(match, tokens)
        if item is None or (items and not _parts(letters[at : item.begin])):
            return None
        items.append(item)
        at = match.end()
        while reason := beside.match(letters, at):
            at = reason.end()
    if not items or not _END.fullmatch(letters, at) or not _numbers_fit(items):
        return None
    if calls and any(item.repeats > 1 for item in items):
        return None
    return [item.action for item in items for _ in range(item.repeats)]


class _Item(NamedTuple):
    """An action with its number in a list and its count, 0 where it has none.

    Attributes:
        begin: where it begins among the tokens, without what leads to it.
        bare: the count where it is a number alone, which might number the item as well.
        spoken: the count where it stands apart, as in "(2 steps)", which might count all items.
    """

    begin: int
    action: Action
    label: int
    repeats: int
    bare: int
    spoken: int

    @classmethod
    def of(cls, match: re.Match[str], tokens: list[_Token]) -> _Item | None:
        """The item, `None` if its count has no sense."""
        first = next(group for group in ("label", "before", "action") if match[group])
        action = tokens[match.start("action")].action
        before, after = _number(tokens, match, "before"), _number(tokens, match, "count")
        if action is None or (before and after):
            return None
        count = before or after
        written = match["before"] or match["count"] or ""
        bare = count if written.strip("()S") == "N" else 0
        spoken = after if written not in ("N", "TN", "O") else 0
        if bare > _MOST_REPEATS:  # rather degrees or centimetres, as in "rotateright 90"
            return None
        label = _number(tokens, match, "label")
        return cls(match.start(first), action, label, min(count or 1, _MOST_REPEATS), bare, spoken)


def _number(tokens: list[_Token], item: re.Match[str], group: str) -> int:
    """The number within a group of an item, 0 if it has none."""
    if item[group] is None:
        return 0
    return sum(token.number for token in tokens[slice(*item.span(group))])


def _parts(gap: str) -> bool:
    """Whether what stands between two actions makes them items of one list: a second heading takes
    back what stands before it.
    """
    return _GAP.fullmatch(gap) is not None and _HEADING.search(gap) is None


def _numbers_fit(items: list[_Item]) -> bool:
    """Whether numbers of items count up, and counts can't number them too, as in "1 Up 2 Left", nor
    count all of them, as in "Up, Left (2 steps)".
    """
    labels = [item.label for item in items if item.label]
    counts = [item.bare for item in items if item.bare]
    if labels != [*range(1, len(labels) + 1)]:
        return False
    if items[-1].spoken == len(items) > 1 and not any(item.spoken for item in items[:-1]):
        return False
    return len(counts) < 2 or counts != [*range(1, len(counts) + 1)]
