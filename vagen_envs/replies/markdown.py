"""Actions in an answer that holds more than actions: markdown, code, JSON, LaTeX, arrows, captions, explanations.

An answer is read only where every word of it has a known part: an action, a word that leads to one, an explanation
after one, a negation before one. Whatever else might be a choice or a retraction executes nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names, Refused
from vagen_envs.replies.deliberation import Deliberation, weighs
from vagen_envs.replies.scanner import AnswerScanner
from vagen_envs.replies.special_tokens import in_ascii, without_tokens
from vagen_envs.replies.tags import TAGS
from vagen_envs.replies.ticks import partly_ticked
from vagen_envs.replies.tool_calls import values
from vagen_envs.replies.vocabulary import (
    ASIDES,
    NUMBERS,
    ONE_ARROW,
    SWAPS,
    TEMPLATES,
    THINKING_TAGS,
    WORDS,
    is_rejected,
)

_FIELDS = "|".join([*TAGS[:-1], *THINKING_TAGS])
_STRAY = re.compile(rf"(?:</?(?:{_FIELDS}|final)>\s*)+\Z", re.IGNORECASE)
_STRUCK = re.compile(
    r"(?<!~)~~(?!~).*?(?<!~)~~(?!~)|<(s|del|strike)>.*?</\1>|<!--.{0,2000}?-->|/\*.{0,2000}?\*/"
    rf"|<({_FIELDS})>.*?</\2>",
    re.DOTALL,
)
_MARKUP = re.compile("|".join(TEMPLATES["markup"]), re.IGNORECASE)
_LATEX_ARROW = re.compile(r"\\(?:long)?(?:(up|down|left|right)arrow|to)(?![A-Za-z])", re.IGNORECASE)
_FINAL = re.compile(TEMPLATES["final"], re.IGNORECASE)
_DENIED = re.compile(r"\s*[#/]+\s*(?:not|never|avoid)\s+", re.IGNORECASE)
"""Begins a comment on another action than the one before it: "Right  # not Down"."""
_CHECKBOX = re.compile(r"\[[ xX]\]|\( \)|[☐☒]")
_COMMENT = re.compile(r"(?<=\S)[ \t]+(?:#(?!\d)|//)[^\n]*")
_COMMENT_LINE = re.compile(r"^[ \t]*(?:#|//)[^\n]*", re.MULTILINE)
_TEXT_COMMAND = re.compile(r"\\(?:text|math|operatorname)[a-z]{0,3}\{(\w+)\}")
_KEYCAP = re.compile(r"(\d)\s?\u20e3")
_CIRCLED = re.compile(r"([①-⑨])\s")
_ROMAN = re.compile(r"(?<!\w)(III|II|IV|I|V)([.)])(?=\s)")
_ROMAN_DIGITS = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5"}
_WORD_NUMBERED = re.compile(
    rf"\b(?:{'|'.join(WORDS.labels)})\s+(?:{'|'.join(NUMBERS)})[ \t]*[:.)-]", re.IGNORECASE
)
_BRACKETED = re.compile(r"<\s*([A-Za-z_ -]{1,30}?)\s*/?>")
_ASIDE = re.compile(rf"\b(?:{'|'.join(ASIDES)})\b", re.IGNORECASE)
_ESCAPED_BREAK = re.compile(r"\\[nrt](?![a-z])")
_LONGEST = 2_000  # characters of an answer that is searched word by word


def read_markdown(
    text: str, start: int, end: int, separator: str, actions: ActionGrammar
) -> list[Action] | None:
    """All actions of the answer `text[start:end]` in their order.

    Returns:
        `None` where what it means would have to be guessed; an empty list where it clearly holds no action to execute:
        JSON without one, or the list of all actions from the prompt.
    """
    piece = (
        text[start:end] if separator == "~~" else _blank(_STRUCK, text[start:end])
    )  # before `<s>` is a token
    piece = _blank(_STRAY, in_ascii(without_tokens(piece)))

    if _CHECKBOX.search(piece):  # which mark chooses isn't known
        return None
    finals = (
        []
        if isinstance(actions, Calls)
        else [match.end() for match in _FINAL.finditer(piece) if match.start()]
    )
    if finals:  # what stands before was a draft
        piece = " " * finals[-1] + piece[finals[-1] :]

    def reads(value: str) -> bool:
        return bool(_scan(value, 0, separator, actions))

    if (held := values(piece, reads)) is not None:
        found = [action for value in held for action in _scan(value, 0, separator, actions)]
        found = [replace(action, start=start, end=end) for action in found]
    else:
        found = _scan(piece, start, separator, actions)
        if not found:
            return None
    return (
        [] if isinstance(actions, Names) and _is_menu(piece, separator, actions, found) else found
    )


def _is_menu(piece: str, separator: str, actions: Names, found: list[Action]) -> bool:
    """Whether an answer repeats the prompt's list of all actions, or has them all as in `Up|Left|Down|Right`."""
    names = [action.name for action in found]
    listed = "|" not in separator and piece.count("|") == len(names) - 1 > 1
    return actions.echoed(names) or (listed and sorted(names) == sorted(actions.names))


def _scan(piece: str, offset: int, separator: str, grammar: ActionGrammar) -> list[Action]:
    if len(piece) > _LONGEST:
        return []
    calls = isinstance(grammar, Calls)
    if calls and any(is_rejected(comment[0]) for comment in _COMMENT.finditer(piece)):
        return []
    piece = _KEYCAP.sub(
        lambda key: f"{key[1]}.".ljust(len(key[0])),
        _blank(_STRUCK, piece) if separator != "~~" else piece,
    )
    piece = _CIRCLED.sub(lambda digit: f"{ord(digit[1]) - ord('①') + 1}.", piece)
    piece = _ROMAN.sub(lambda roman: f"{_ROMAN_DIGITS[roman[1]]}.".rjust(len(roman[0])), piece)
    piece = _blank(_WORD_NUMBERED, piece)
    piece = _TEXT_COMMAND.sub(lambda text: text[1].rjust(len(text[0])), piece)
    piece = _ESCAPED_BREAK.sub("  ", piece)
    piece = _LATEX_ARROW.sub(
        lambda arrow: ONE_ARROW[(arrow[1] or "right").lower()].ljust(len(arrow[0])), piece
    )

    def scan(text: str) -> AnswerScanner:
        return AnswerScanner(text, offset, separator, grammar)

    def remark(comment: re.Match[str]) -> str:
        """A comment as blanks, or as a sentence of its own if it may reject the action before it."""
        blank = " " * len(comment[0])
        if not is_rejected(comment[0]):
            return blank
        if denied := _DENIED.match(comment[0]):
            other = {action.name for action in scan(comment[0][denied.end() :]).actions(plain=True)}
            before = comment.string[: comment.start()].rpartition("\n")[2]
            if len(other) == 1 and other.isdisjoint(name for name, *_ in scan(before).names()):
                return blank
        return f".{comment[0][1:]}".replace("#", " ").replace("//", "  ")

    piece = _COMMENT.sub(remark, _blank(_COMMENT_LINE, piece) if calls else piece)
    piece = _blank(_MARKUP, piece)
    if isinstance(grammar, Names):  # a name in the place of a tag: `<Up>`
        piece = _BRACKETED.sub(
            lambda tag: (
                tag[0]
                if isinstance(grammar.read(tag[1], 0, 0), Refused)
                else re.sub(r"[<>/]", " ", tag[0])
            ),
            piece,
        )
        piece = _blank(_ASIDE, piece)
    for phrase, other in SWAPS:
        for match in phrase.finditer(piece):
            piece = (
                piece[: match.start()]
                + match.expand(other).ljust(len(match[0]))
                + piece[match.end() :]
            )

    doubted = weighs(piece) or partly_ticked(piece, scan(piece).names())
    found = [] if doubted else scan(piece).actions()
    if found or (calls and not doubted):
        return found
    thought = Deliberation(
        piece, scan(piece).names(), lambda text: bool(scan(text).actions(plain=True))
    )
    if calls and "(" in thought.masked:  # a call that can't be read
        return scan(piece).actions()
    plan = thought.plan()
    return [] if plan is None else scan(plan).actions(plain=True)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with blanks for what matches; a line break keeps its place."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
