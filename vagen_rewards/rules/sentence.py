"""Relations one English sentence about a board, token by token."""

from __future__ import annotations

import functools
from collections.abc import Callable

from vagen_rewards.rules.clauses import Clauses
from vagen_rewards.rules.relations import Absence, Mention
from vagen_rewards.rules.words import END, LIGHT, Token

_TOGGLES = ("not", "false", "wrong", "untrue", "incorrect")
"""Denials of which two make none."""


class Reader(Clauses):
    """Reads one sentence. Each `on_…` method handles a kind of token."""

    __slots__ = ()

    def run(self) -> None:
        """Read all tokens."""
        handlers = self._handlers()
        for self.index, token in enumerate(self.words):  # noqa: B020
            kind = token.kind
            if kind == "word":
                if self.determiner:
                    self.on_word(token)
                continue
            if self.determiner or self.strange:
                self._settle_noun(token)
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, token)
            if kind not in LIGHT:
                self.solid, self.solid_at = token, self.index
        self.index = len(self.words)
        self._settle_noun(END)
        self._claim_the_rest()

    @classmethod
    @functools.cache
    def _handlers(cls) -> dict[str, Callable[[Reader, Token], None]]:
        """By the kinds of tokens."""
        return {name.removeprefix("on_"): getattr(cls, name) for name in dir(cls) if name.startswith("on_")}

    def on_ordinal(self, token: Token) -> None:
        self.label = str(token.value[0])
        following = self._next_but("a", "the")
        if (
            following.kind in ("is", "has", "direction", "onto", "which", "comma", "end")
            and self._next().kind != "word"
        ):
            kind = next((mention.kind for mention in reversed(self.recent) if mention.kind != "player"), "")
            if kind and self._previous().kind != "not":  # "one is above the player and the other to its right"
                self._thing(self._mentions(Token("thing", (kind, "", False))))

    def on_thing(self, token: Token) -> None:
        if token.value[3:] in (("i",), ("you",), ("one",)) and (
            self._next().kind in ("word", "frame")
            or (self._next().kind == "move" and self._next(2).kind == "comma")
            or (self._next().kind == "has" and self._next(2).kind in ("word", "move"))
        ):
            return  # "I see", "if I do this"
        self.first_person = self.first_person or bool(token.value[3:])
        self._thing(self._mentions(token))

    def on_it(self, token: Token) -> None:
        self.looked_back = True
        candidates = (*reversed(self.recent), *self.past_subjects)
        other = tuple([mention for mention in candidates if mention not in self.subjects][:1])
        of_me = self.first_person and other and self.subjects == (Mention("player", ""),)
        if self.wants_frame and not other:
            self.wants_frame = False  # "looking at it, …"
        elif self.wants_frame or self._binds() or self.onto:
            self._thing(other)
        elif self._next().kind == "direction":  # "its left"
            self.owner = other
        elif of_me:  # "I am next to the box: it is above me"
            self._thing(other)
        else:
            self._thing(self.subjects[:1] or self.past_subjects[:1] or self.past_objects[:1])

    def on_they(self, token: Token) -> None:
        self.looked_back = True
        both = dict.fromkeys(
            (*self.recent[-2:],) if len(self.recent) > 1 else (*self.past_subjects, *self.past_objects)
        )
        self._start_subject(tuple(both))

    def on_owner(self, token: Token) -> None:
        if self._next().kind == "is" or (self._next().kind != "direction" and not self.owner):
            self.on_is(token)

    def on_purpose(self, token: Token) -> None:
        """In "moves to reach the goal" the goal isn't reached."""
        self.swallow = self._next_but("the", "a", "ordinal").kind in ("thing", "it")

    def on_almost(self, token: Token) -> None:
        if self._next().kind == "onto" or self._next().value == (0, 0):
            self.on_hedge(token)

    def on_frame(self, token: Token) -> None:
        self.wants_frame = True

    def on_is(self, token: Token) -> None:
        if token.value:  # a colon
            self.stranger = self.negated = False
            self.between = ()
        if self.everyone:
            self.everyone = False
            self.on_they(token)
        if self.pending:
            bare = self.subjects and self.front is None and not self.related
            bare = bare and True not in [each.relational for each in self.pending]
            if self.moving or (bare and self._previous().kind != "has"):
                self.used += len(self.pending)
                self.pending = []  # "moves up and is …", "the box on the left is …": no place of this clause
        self.moving = False

    def on_move(self, token: Token) -> None:
        self._elide()
        self.moving = True

    def on_has(self, token: Token) -> None:
        if self.subjects and self._next_but("the", "a", "ordinal", "number").kind == "thing":
            self.has_owner = self.subjects

    def on_not(self, token: Token) -> None:
        if self._next_but("a", "ordinal", "the").kind == "thing" and not self.pending:
            self.none_of = True
            self.used -= 1  # until it is known of what there is none, and where
        elif self.negated and self.denial in _TOGGLES and str(token.value[0]) in _TOGGLES and not self.related:
            self.negated = False  # "it is not false that …"
        else:
            self.negated, self.denial = True, str(token.value[0])

    def on_hedge(self, token: Token) -> None:
        self.hedged = True
        self.claims = [claim._replace(hedged=True) for claim in self.claims]

    def on_or(self, token: Token) -> None:
        """In "above or below" there is a doubt; "one or two cells above" isn't."""
        if self._previous_but("the", "a").kind not in ("ordinal", "number", "end"):
            self.on_hedge(token)

    def on_but(self, token: Token) -> None:
        self.negated = False

    def on_which(self, token: Token) -> None:
        self.stranger = False
        if self.recent and self._previous().kind in ("thing", "comma", "it"):
            antecedent = self.recent[-1:]
            self._elide()
            self.subjects, self.related = tuple(antecedent), False

    def on_with(self, token: Token) -> None:
        if self.negated and self.words[self.index - 1].kind == "not":
            return  # "it is not so that …", "not as if …"
        attribute = token.value == ("with",)
        denied = self.negated and attribute and not self.related  # "I don't think the box with the cross is …"
        self._claim_the_rest()
        hedged = self.hedged  # a doubt holds for the rest of the sentence
        self._reset_clause()
        self.hedged = hedged
        self.attribute, self.negated = attribute, denied

    def on_comma(self, token: Token) -> None:
        self.stranger = self.wants_frame = False
        if len(self.subjects) == 2 and self.pending and all(0 in each.value for each in self.pending):
            self._elide()
        if (
            self.pending
            and self.related
            and not self._binds()
            and self._next().kind == "and"
            and self._next(2).relational
        ):
            self._elide()  # "below it to the right, and left of the box"
        if self.pending and self._next_but("number", "a").relational and not self._binds() and self._on_the_board():
            self.used += len(self.pending)
            self.pending = []  # "in the top left, left of the box": the first is a place on the board
        said_now = self.words[self.index - 1].kind == "not"  # "not, in fact, above"
        if self.negated and self._next().kind != "direction" and not self._binds() and not said_now:
            self.negated = False
        if self._next().kind not in ("and", "direction", "comma", "not", "onto"):
            self.moving = False

    def _on_the_board(self) -> bool:
        """Whether the place before the comma is said as one of the board's is."""
        before = [token.kind for token in self.words[max(0, self.index - 3) : self.index]]
        return all(each.absolute for each in self.pending) or (before[-1:] == ["direction"] and "onto" in before)

    def _claim_the_rest(self) -> None:
        """What a clause leaves to be said at its end."""
        alone = self.subjects[:1] == (Mention(self.absent, "none"),) and not self.pending and not self.related
        if self.absent and alone and not self.absences:
            self.absences.append(Absence(self.absent, None, None))
            self.used += 1
        self._elide()
