"""Reading an answer word by word: which actions it has, in which order and how often."""

from __future__ import annotations

import re

from vagen_envs.replies.actions import Action, ActionGrammar, Names
from vagen_envs.replies.mentions import Mention, Mentions
from vagen_envs.replies.vocabulary import ARROWS, NUMBERS, SEVERAL, WORDS, is_rejected, words_of

_LEADS = re.compile(r"[:(]|\s[-–—]+\s|[—–]|\[")
_EMOJI = frozenset("⬆🔼⬇🔽⬅◀➡▶")
_HANDS = frozenset("👆👇👈👉")

_COUNT_WORDS = {**NUMBERS, "once": 1, "twice": 2, "thrice": 3}
_UNITS = r"(?:times?|steps?|cells?|tiles?|squares?|spaces?)"
_REPEAT = re.compile(
    r"(?:\(\))?[\s*_`\"']*?(?:\(?\s*(?:[x×]|(?<!\*)\*)\s*(?P<after>\d{1,2})\b\)?"
    rf"|[(\[]?\s*(?:(?P<times>\d{{1,2}})|(?P<word>{SEVERAL}))\s*(?:x|×|{_UNITS})\b[)\]]?"
    rf"| (?P<bare>\d|{SEVERAL})(?= *(?:[,;\n]|\.?\s*\Z|and\b|then\b))"
    r"|,?\s*(?P<adverb>once|twice|thrice)\b|(?:by\s+)?90\s*(?:°|deg(?:rees)?\b)"
    r"|\(\s*(?:[a-z_]{1,20}\s*=\s*)?(?:90|0?\.\d+)\s*\)"  # an angle or a length, no count
    r"|\(\s*\d+(?:\.\d+)?\s*(?:°|deg(?:rees)?|c?m|met(?:er|re)s?)\s*\)"
    r"| (?:by )?\d+(?:\.\d+)?\s*(?:c?m|met(?:er|re)s?)\b"
    r"|(?<=\w)\((?P<given>[1-9])\))",
    re.IGNORECASE,
)
_KEYWORD_BEFORE = re.compile(r"\b(?:direction|action|move|answer)s?\s*\Z", re.IGNORECASE)
_COUNT_BEFORE = re.compile(  # "2x Up", "two steps to the left", "2 Down"
    rf"(?P<count>\d{{1,2}}|{'|'.join(NUMBERS)})\s*(?P<unit>[x×]|{_UNITS})?\s+(?:to\s+)?(?:the\s+)?",
    re.IGNORECASE,
)
_JOINT = re.compile(r"[\s,;.&+|*_`]*(?:(?:and|then|next)\b[\s,]*)*\Z", re.IGNORECASE)
_DESCRIBED = re.compile(  # "Push the box down: Up", but not "Up, step 2: Left"
    rf"(?:(?!{'|'.join(WORDS.labels | WORDS.order)}|\d)[^:\n])*:\s*\Z", re.IGNORECASE
)
_NEUTRAL_MARKS = frozenset(
    " \t\r\n*_`'\"#$\\[](){},;.:!|&+…«»·‘’‚‛“”„•→⇒↦➜➔、。「」『』【】，：；（）،؛"
)
_PLACE = re.compile(
    r"[\s*_`]*(?::|(?:is|are)\b)?\s*(?:(?:on|to|at)\b\s*)?(?:(?:the|my)\s+)?", re.IGNORECASE
)
_CAPTION_END = re.compile(r"[ *_]*(?:\w+[ *_]*)?:")
_NEXT_ITEM = re.compile(
    r"[,;|]\s*(?:(?:and|then|next)\s+)*|\)\s*[,;|]?\s*(?=\S)|\s(?=\d{1,2}[.)]\s)"
)
_ITEM_END = re.compile(r"[\s*_`]*(?:[:(,;|.\n–—-]|\Z)")
_MOST_REPEATS = 20


class AnswerScanner(Mentions):
    """Reads one answer from left to right."""

    def __init__(self, piece: str, offset: int, separator: str, grammar: ActionGrammar) -> None:
        super().__init__(piece, offset, grammar)
        self.marks = _NEUTRAL_MARKS | set(separator)
        self.found: list[Action] = []
        self.last_end = -1
        self.numbers: list[int] = []
        self.bare_counts: list[int] = []
        self.count = 1  # of the next action

    def actions(self, *, plain: bool = False) -> list[Action]:
        """The actions; none if any part of the answer is unclear.

        Args:
            plain: an explanation counts as unclear too.
        """
        self.plain = plain
        arrows = {token[0] for token in self.tokens if token.lastgroup == "arrow"}
        worded = any(map(self._mention, range(len(self.tokens))))
        walk = frozenset() if worded else arrows & _EMOJI or arrows & _HANDS or arrows
        i = 0
        while 0 <= i < len(self.tokens):
            token = self.tokens[i]
            if token.lastgroup == "word":
                i = self._word(i)
            elif token.lastgroup == "number":
                i = self._number(i)
            elif token[0] in walk:
                action = self._read(ARROWS[token[0]], token.start(), token.end())
                if action is None:
                    return []
                self._take(Mention(action, token.start(), token.end()))
                i += 1
            else:
                i = i + 1 if token.lastgroup == "arrow" or self._is_mark(i) else -1
        if i < 0 or not _counts_up(self.numbers) or len(self.numbers) > len(self.found):
            return []
        if len(self.bare_counts) > 1 and _counts_up(self.bare_counts):
            return []  # "1 Up 2 Left" may count or number
        return self.found

    # -- tokens: each gives the index of the next one, or -1 where the answer is unclear ------------------------------

    def _word(self, i: int) -> int:
        token = self.tokens[i]
        mention = self._mention(i)
        if mention is not None:
            if self.found and _DESCRIBED.fullmatch(self.piece, self.last_end, mention.start):
                return -1
            self._take(mention)
            return self._after(self.last_end)
        word = token[0].casefold().replace("’", "'")
        if word in _COUNT_WORDS and (counted := self._counted(i)) >= 0:
            return counted
        if word in WORDS.things and self._is_described(i):
            return -1
        if word == "one" and self.piece[token.end() :].casefold().startswith(" of "):
            return -1
        if word in ("after", "before") and self._mention_at(
            token.end() + 1
        ):  # the order is another
            return -1
        if word == "with" and not self.found:  # "Let's go with Up"
            return i + 1
        if word in WORDS.neutral and not (word == "to" and self._explains(i)):
            return i + 1
        return self._explained(i)

    def _is_described(self, i: int) -> bool:
        """Whether this thing is located, as in "player left", and doesn't move."""
        token = self.tokens[i]
        place = _PLACE.match(self.piece, token.end())
        sentence = re.split(r"[.;,:\n]", self.piece[: token.start()])[-1]
        moves = not WORDS.moving.isdisjoint(words_of(sentence))
        return place is not None and self._mention_at(place.end()) is not None and not moves

    def _number(self, i: int) -> int:
        token = self.tokens[i]
        before = self.piece[: token.start()].rstrip()
        labels = before[-1:] == "#" or any(
            before.casefold().endswith(word) for word in WORDS.labels
        )
        if (counted := self._counted(i, with_unit=labels)) >= 0:
            return counted
        if labels and before[-1:] != "#":
            return i + 1
        follows = self.piece[token.end() : token.end() + 2].lstrip()[:1]
        starts_item = (
            not before
            or before[-1] in ",;|\n.)*-!>([#"
            or "\n" in self.piece[len(before) : token.start()]
        )
        numbers = (
            follows in (".", ")", ":", "]") and (starts_item or self.last_end >= 0)
        ) or before[-1:] == "#"
        numbers = numbers or (follows == "|" and before[-1:] == "|")  # a table's first column
        if not numbers or self.piece[token.end() + 1 : token.end() + 2].isdigit():
            return -1
        self.numbers.append(int(token[0]))
        return i + 2 if self._next_mention_before_number(i) else -1

    def _counted(self, i: int, *, with_unit: bool = False) -> int:
        """The action that this number counts, as in "two steps left"; -1 if it counts none.

        `with_unit`: only with a unit, because the number may label a step, as in "step 2 left".
        """
        start = self.tokens[i].start()
        match = _COUNT_BEFORE.match(self.piece, start) if isinstance(self.grammar, Names) else None
        if (
            match is None
            or (with_unit and not match["unit"])
            or (self.found and _JOINT.match(self.piece, self.last_end, start) is None)
        ):
            return -1
        j = self._after(match.end())
        mention = self._mention(j)
        if mention is None or self.piece[mention.end : mention.end + 4].casefold() == " of ":
            return -1
        self.count = _count(match["count"])
        if not match["unit"] and match["count"].isdigit():
            self.bare_counts.append(self.count)
        return j

    def _next_mention_before_number(self, i: int) -> bool:
        for j in range(i + 1, len(self.tokens)):
            if self.tokens[j].lastgroup == "arrow" or self._mention(j):
                return True
            if self.tokens[j].lastgroup == "number":
                return False
        return False

    def _is_mark(self, i: int) -> bool:
        token = self.tokens[i]
        mark = token[0]
        at = token.start()
        before = self.piece[at - 1 : at]
        after = self.piece[at + 1 : at + 2]
        if mark == "!" and after.isalpha() and (not before or before.isspace()):  # "!Up" denies
            return False
        if mark in self.marks:
            return True
        if mark in "-–—":
            return (
                not after
                or after.isspace()
                or after in ">-*|"
                or (before in ("", "\n") and after.isalpha())
            )
        if mark == ">":
            return before != "<"
        if mark == "=":  # an arrow, or a keyword
            return (
                after == ">" or _KEYWORD_BEFORE.search(self.piece, max(0, at - 12), at) is not None
            )
        return (
            mark in "✅✔👉"
            or ord(mark) >= 0x1F000
            or (0x2300 <= ord(mark) < 0x2C00 and not mark.isalnum())
        )

    def _take(self, mention: Mention) -> None:
        self.last_end = mention.end
        count = self.count
        self.count = 1
        repeat = _REPEAT.match(self.piece, mention.end) if isinstance(self.grammar, Names) else None
        if repeat is not None:
            written = repeat[repeat.lastgroup] if repeat.lastgroup else "1"
            count = _count(written)
            self.last_end = repeat.end()
            if repeat["given"]:
                self.bare_counts.append(count)
        self.found += [mention.action] * min(count, _MOST_REPEATS)

    def _explains(self, i: int) -> bool:
        """Whether "to" leads to an explanation and not to an action."""
        return self.last_end >= 0 and not any(map(self._mention, range(i + 1, i + 6)))

    def _explained(self, i: int) -> int:
        """Past the explanation that this word belongs to, if it follows an action."""
        if self.last_end < 0 or self.plain:
            return -1
        start, end = self.tokens[i].span()
        word = self.tokens[i][0].casefold()
        gap = self.piece[self.last_end : start]
        if word in WORDS.caption and _CAPTION_END.match(self.piece, end):
            return len(self.tokens)
        leads = _LEADS.search(gap) or not WORDS.reason.isdisjoint((word, *words_of(gap)))
        if not leads and not re.search(r"[.!\n]", gap):
            return -1
        end = self._next_item(start, (self.piece + "\n").index("\n", start))
        if is_rejected(self.piece[start:end]):
            return -1
        if not leads and any(start <= place < end for _, place, _ in self.names()):
            return -1
        return self._after(end)

    def _next_item(self, start: int, end: int) -> int:
        """Where the next action of a list begins: after a separator, alone or with an explanation of its own."""
        for match in _NEXT_ITEM.finditer(self.piece, start, end):
            j = self._after(match.end())
            if j == len(self.tokens) or self.tokens[j].start() >= end:
                break
            mention = self._mention(j)
            if self.tokens[j].lastgroup == "number" or (
                mention and _ITEM_END.match(self.piece, mention.end)
            ):
                return match.end()
        return end


def _counts_up(numbers: list[int]) -> bool:
    return numbers == [*range(1, len(numbers) + 1)]


def _count(written: str) -> int:
    return int(written) if written.isdigit() else _COUNT_WORDS[written.casefold()]
