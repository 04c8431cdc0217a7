"""Answers in another dress than the prompt's: the table in docs/replies.md, as one expression over
an answer's tokens.

Each token gets a letter by the part it has: `A` an action, `N` a number, `S` a separator and so on.
A token without a part makes an answer unclear: English isn't read, so no word can reject an action
that executes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names
from vagen_envs.replies.tags import in_ascii, without_tokens
from vagen_envs.replies.tokens import Token, tokens_of, without_hidden
from vagen_envs.replies.tool_calls import values

_LONGEST = 2_000  # characters of an answer that is read, so that time stays linear
_MOST_REPEATS = 20  # of one action, as "Up x3" has them

_ITEM = re.compile(
    r"""
    (?P<lead>[LQXWGBKSPRCDHE(]*?)
    (?: (?P<label> \(?N[PC)D] | HN | WN(?![TUW])[PCD]? )[)]?
        [LQXWGBKCDHER(]*? )?                            # "1.", "(1)", "#1", "Step 1:"
    (?: (?P<before>N)[TUW]?[KB]* )?                     # "2 Up", "2x Up", "two steps to the left"
    (?P<action>A)(?:[(][)])?
    (?P<count>
        TN | [(]TN[)] | S?N[TUW](?![KB]*A) | S?[(]N[TUW][)]  # "Up x2", "Up (x2)", "Up, 2 times"
      | N(?=[)]*[SR]|[)P]*(?:R|$)) | S?O             # "Up 2", "Up twice"
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
_REMARK = re.compile(r"[HD(][BKJVMGWL]+(?=[)SPRH]|$)[)]*")
"""Beside a call a thing is named alone too, as in "pick(1, 2, 3)  # red cube"."""
_END = re.compile(r"[SPRCDH)]*\Z")
_LAST_LINES = re.compile(r"(?:P[)]*R|RR)[SPRDH(]*(?=[AN])[^LQWGBKJVM?]*\Z")
"""Nothing but actions after a sentence's end or an empty line."""
_AFTER_A_LIST = re.compile(r"N[PCD)]+A[^N]*(?:P[)]*R|RR)[SPRDH(]*A")
_WORDS = re.compile(r"[LQXWGBKJVM]")


def read_table(
    text: str, start: int, end: int, separator: str, grammar: ActionGrammar
) -> list[Action] | None:
    """All actions of the answer `text[start:end]` in their order.

    Returns:
        `None` where the answer has no form of the table; an empty list where it holds no action to
        execute: JSON without one, or the list of all actions from the prompt.
    """
    piece = text[start:end]
    piece = in_ascii(without_tokens(piece if separator == "~~" else without_hidden(piece)))
    if len(piece) > _LONGEST:
        return None

    def reads(value: str) -> bool:
        return bool(_read(value, 0, separator, grammar))

    held = values(piece, reads)
    if held is None:
        found = _read(piece, start, separator, grammar)
        if found is None:
            return None
    else:
        found = []
        for value in held:
            actions = _read(value, 0, separator, grammar)
            if actions is None and names_action(value, grammar):
                return None
            found += [replace(action, start=start, end=end) for action in actions or ()]
    return [] if _is_menu(piece, separator, grammar, found) else found


def names_action(text: str, grammar: ActionGrammar) -> bool:
    """Whether a text, which may say anything else too, names an action."""
    plain = in_ascii(without_tokens(text[:_LONGEST]))
    return any(token.action for token in tokens_of(plain, 0, ",", grammar))


def _is_menu(piece: str, separator: str, grammar: ActionGrammar, found: list[Action]) -> bool:
    """Whether an answer repeats the prompt's list of all actions, or has them all as in
    `Up|Left|Down|Right`.
    """
    if not isinstance(grammar, Names):
        return False
    names = [action.name for action in found]
    listed = "|" not in separator and piece.count("|") == len(names) - 1 > 1
    return grammar.echoed(names) or (listed and sorted(names) == sorted(grammar.names))


def _read(piece: str, offset: int, separator: str, grammar: ActionGrammar) -> list[Action] | None:
    """The actions of an answer that isn't JSON; `None` if it has no form of the table."""
    tokens = tokens_of(piece, offset, separator, grammar)
    letters = "".join(token.letter for token in tokens)
    return None if _says_twice(letters) else _listed(letters, tokens, isinstance(grammar, Calls))


def _says_twice(letters: str) -> bool:
    """Whether bare actions follow sentences or a list, so that it isn't clear which of the two
    count.
    """
    last = _LAST_LINES.search(letters)
    before = letters[: last.start()] if last else ""
    in_words = "A" in before and _WORDS.search(before) is not None
    return in_words or _AFTER_A_LIST.search(letters) is not None


def _listed(letters: str, tokens: list[Token], calls: bool) -> list[Action] | None:
    """The actions of a list; `None` if the letters of its tokens aren't those of one."""
    items: list[_Item] = []
    at = 0
    reasoned = False
    while match := _ITEM.match(letters, at):
        if items and not _parted(letters[at : _begin(match)], reasoned):
            return None
        item = _Item.of(match, tokens)
        if item is None:
            return None
        items.append(item)
        at, reasoned = _past_reasons(letters, match.end(), calls)
    if not items or not _END.fullmatch(letters, at) or not _numbers_fit(items):
        return None
    if calls and any(item.repeats > 1 for item in items):
        return None
    return [item.action for item in items for _ in range(item.repeats)]


class _Item(NamedTuple):
    """An action with its number in a list and its count, 0 where it has none.

    `bare`: the count is a number alone, which might number the item as well.
    """

    action: Action
    label: int
    repeats: int
    bare: int

    @classmethod
    def of(cls, match: re.Match[str], tokens: list[Token]) -> _Item | None:
        """The item, `None` if its count has no sense."""
        action = tokens[match.start("action")].action
        before = _number(tokens, match, "before")
        after = _number(tokens, match, "count")
        senseless = (match["before"] and not before) or (match["count"] and not after)
        if action is None or senseless or (before and after):
            return None
        count = before or after
        written = match["before"] or match["count"] or ""
        bare = count if written.strip("()S") == "N" else 0
        if bare > _MOST_REPEATS:  # rather degrees or centimetres, as in "rotateright 90"
            return None
        return cls(action, _number(tokens, match, "label"), min(count or 1, _MOST_REPEATS), bare)


def _begin(item: re.Match[str]) -> int:
    """Where an item begins, without what leads to it."""
    group = next(name for name in ("label", "before", "action") if item[name])
    return item.start(group)


def _parted(gap: str, reasoned: bool) -> bool:
    """Whether two actions are items of one list: after a reason a separator is due, and a second
    heading takes back what stands before it.
    """
    if reasoned and not gap.strip("()D"):
        return False
    return _GAP.fullmatch(gap) is not None and _HEADING.search(gap) is None


def _numbers_fit(items: list[_Item]) -> bool:
    """Whether numbers of items count up, and counts can't number them too, as in "1 Up 2 Left"."""
    labels = [item.label for item in items if item.label]
    counts = [item.bare for item in items if item.bare]
    if labels != [*range(1, len(labels) + 1)]:
        return False
    return len(counts) < 2 or counts != [*range(1, len(counts) + 1)]


def _past_reasons(letters: str, at: int, calls: bool) -> tuple[int, bool]:
    """Where the reasons after an action end, and whether there are any."""
    begin = at
    while reason := _REASON.match(letters, at) or (calls and _REMARK.match(letters, at)) or None:
        at = reason.end()
    return at, at > begin


def _number(tokens: list[Token], item: re.Match[str], group: str) -> int:
    """The number within a group of an item, 0 if it has none."""
    if item[group] is None:
        return 0
    within = tokens[slice(*item.span(group))]
    return next((token.number for token in within if token.number), 0)
