"""Things as a text names them: "the box", "two holes", "another one", "it"."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from vagen_rewards.reader.words import Word

T = TypeVar("T")
ALL = "all"
"""The label of all things of a kind, as in "both holes"."""

NONE = "none"
"""The label of "no hole"."""


class Mention(NamedTuple):
    """A thing as a clause names it."""

    kind: str
    label: str = ""  # tells several of a kind apart; empty for "the box"
    plural: bool = False
    may_be: tuple[Mention, ...] = ()  # what a pronoun may stand for; empty for a name


class Things:
    """Reads things from words by recursive descent; `at` is the next word."""

    def __init__(self, words: list[Word], known: list[Mention]) -> None:
        self.words = words
        self.kinds = [*[word.kind for word in words], "", "", ""]
        self.known = known
        self.at = 0
        self.names = len(words)
        self.several, self.beside, self.looking, self.single, self.first_person = (
            "",
            False,
            False,
            False,
            False,
        )
        self.begin = 0
        self.topic: list[Mention] = []
        self.subjects: list[Mention] = []

    def things(self) -> list[Mention]:
        """Read things joined by "and" or commas; "two holes" are two of them."""
        found: list[Mention] = []
        begin, whole = (
            self.at,
            self.take("whole") or (self._value() == "they" and self.take("pronoun")),
        )
        while True:
            here = self.at
            if found and (self._is_colon() or not (self.take("and") or self.take("comma"))):
                return found
            thing = self.thing()
            if thing is not None:
                found.append(
                    Mention(thing.kind, ALL) if whole and thing.plural and not found else thing
                )
                continue
            counted = self.counted() or (self._group() if whole and not found else [])
            if not counted:
                self.at = here if found else begin
                return found
            found += counted

    def _group(self, *, several: bool = True) -> list[Mention]:
        """The last subjects, which "both" or "they" stand for."""
        if several and self.several:
            return [Mention(self.several, ALL)]
        kinds = {subject.kind for subject in self.subjects}
        named = self.topic if not kinds else [*self.topic, *reversed(self.known)]
        found = {mention.kind: mention for mention in reversed(named) if mention.kind not in kinds}
        return [*reversed(found.values())][:2] if len(found) > 1 else []

    def _is_colon(self) -> bool:
        return self.kind() == "comma" and self.words[self.at].value != ","

    def counted(self) -> list[Mention]:
        """Read "two holes" as two holes."""
        here = self.at
        self.skip("filler")
        if self.kind() == "number" and self.peek(1) == "thing":
            count, word = self.words[self.at].value, self.words[self.at + 1]
            if not count or (word.plural and count in (2, 3, 4, 5, 6)):
                self.at += 2
                self.several = word.value if count else self.several
                return [self._named(word.value) for _ in range(int(count))] or [
                    Mention(word.value, NONE)
                ]
        self.at = here
        return []

    def thing(self) -> Mention | None:
        """Read one thing: "the box", "box 1", "another hole", "one" of several, "it"."""
        here, number, another, single, word = self.at, None, False, False, self.words[-1]
        while self.kind() in ("filler", "another", "number") or (
            self._value() == "that" and self.peek(1) == "thing"
        ):
            word = self.words[self.at]
            another = (
                another
                or word.kind == "another"
                or (number == 1 and word.value in ("diagonal", "diagonally"))
            )
            number = word.value if word.kind == "number" else number
            single = single or (number == 1 and word.label == "word")
            self.at += 1
        if self.kind() == "mine" and self.peek(1) == "thing":  # "my target"
            self.at += 1
        if self.kind() == "pronoun":
            self.at += 1
            meant = self._meant(self.words[self.at - 1].value)
            self.at = here if meant is None else self.at
            return meant
        if (
            another
            and not self.several
            and self.known
            and self.known[-1].kind not in ("player", "wall")
        ):
            self.several = "" if self.kind() == "thing" else self.known[-1].kind
        if self.several and (another or single) and self.kind() not in ("thing", "unit", "of"):
            # "one to the right" or "one further down", but not "one right, two up"
            end = (
                self.words[self.at].span if self.kind() == "direction" else (0, len("to the left"))
            )
            if another or end[1] - end[0] >= len("to the left") or word.kind == "filler":
                return self._named(self.several)
        if self.kind() != "thing" or number not in (None, 1):
            self.at = here
            return None
        word = self.words[self.at]
        article = self._before()
        self.at += 1
        if word.plural and not another:
            self.several = word.value
        mention = Mention(word.value, word.label, word.plural and not another)
        if (
            not word.label
            and word.value not in ("free", "wall")
            and (another or article in ("a", "an") or number == 1)
        ):
            mention = self._named(word.value)
            self.several = word.value
        self.known.append(mention)
        return mention

    def _named(self, kind: str) -> Mention:
        self.names += 1
        mention = Mention(kind, f"a{self.names}")
        self.known.append(mention)
        return mention

    def _meant(self, pronoun: str) -> Mention | None:
        """The things that a pronoun may stand for: the last subject and the last ones that were named."""
        kinds, last = (
            {"player"} if self.first_person and pronoun == "it" else set[str](),
            list[Mention](),
        )
        here = {
            mention.kind: mention
            for mention in self.known[self.begin :]
            if mention.kind not in kinds
        }
        meant = here.keys() - {subject.kind for subject in self.subjects}
        if self.subjects and len(meant) == 1 and "pronoun" not in self.kinds[: self.at - 1]:
            return here[meant.pop()]  # "a hole is below the player, and another one to its left"
        for mention in (*self.topic[:1], *reversed(self.known)):
            if mention.kind not in kinds and not mention.plural:
                kinds.add(mention.kind)
                last.append(mention)
        return Mention("it", "", False, tuple(last[:3])) if last else None

    def _value(self) -> str:
        return str(self.words[self.at].value) if self.at < len(self.words) else ""

    def kind(self) -> str:
        """The class of the next word; empty at the end."""
        return self.kinds[self.at]

    def _before(self) -> str:
        return str(self.words[self.at - 1].value) if self.at else ""

    def ahead(self, read: Callable[[], T]) -> T:
        """What would be read next; everything stays as it was."""
        here, names, several, looking = self.at, len(self.known), self.several, self.looking
        self.looking = True
        found = read()
        self.at, self.several, self.looking = here, several, looking
        del self.known[names:]
        return found

    def peek(self, ahead: int) -> str:
        """The class of a later word."""
        return self.kinds[self.at + ahead]

    def skip(self, *kinds: str) -> None:
        """Go past words of these classes."""
        while self.kinds[self.at] in kinds:
            self.at += 1

    def take(self, kind: str) -> bool:
        """Go past a word of this class and the fillers around it."""
        at = self.at
        while self.kinds[at] == "filler":
            at += 1
        if self.kinds[at] != kind:
            return False
        self.at = at + 1
        while (
            self.kind() == "filler" and kind != "thing" and self._value() not in ("a", "an", "the")
        ):
            self.at += 1
        return True

    def _back(self, here: int) -> bool:
        self.at = here
        return False
