"""Relations one English sentence about a board, token by token."""

from __future__ import annotations

import functools
from collections.abc import Callable

from vagen_rewards.rules.nouns import NounPhrases
from vagen_rewards.rules.relations import Absence, Mention
from vagen_rewards.rules.words import END, LIGHT, Token

_TOGGLES = ("not", "false", "wrong", "untrue", "incorrect")
"""Denials of which two make none."""


class Reader(NounPhrases):
    """Reads one sentence. Each `on_…` method handles a kind of token."""

    __slots__ = ("absent", "has_owner", "last_pending", "left_open")

    def __init__(self, words: list[Token], subjects: tuple[Mention, ...], objects: tuple[Mention, ...]) -> None:
        super().__init__(words, subjects, objects)
        self.absent = ""
        self.left_open = False  # whether a thing is at some place on the board
        self.has_owner: tuple[Mention, ...] = ()
        self.last_pending: list[Token] = []

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

    def _thing(self, mentions: tuple[Mention, ...]) -> None:
        if not mentions:
            return
        if self.swallow:
            self.swallow = False
            self.recent += mentions
            return
        if self.none_of and mentions[0].kind == "hole":
            self.absent = mentions[0].kind
            self.none_of = False
            self.subjects = (Mention(mentions[0].kind, "none"),)
            self.recent += mentions
            return
        if self.none_of:  # "I don't see the box": a relation of it is denied, and so none that follows is claimed
            self.none_of, self.negated = False, True
        following = self._next()
        if following.kind == "owner" and self._next(2).kind == "direction":
            self.owner = mentions
        elif self.wants_frame:
            self.wants_frame = False
            if self.pending:
                self._relate(mentions)
            else:
                self.frame = mentions
        elif self.onto:
            self.onto = False
            self.pending = [Token("direction", (0, 0), True)]
            self._relate(mentions)
        elif self._binds() and not (self.frame and self._previous_but("the", "a", "ordinal").kind == "and"):
            if self.subjects:
                self._relate(mentions)
            else:
                self.unknown = self.unknown or self.stranger
                self.front, self.pending = (self.pending, mentions), []
                self.objects = mentions
        elif self._previous().kind == "and" and self.related and self._ends_list():
            if self.inverted:  # "above the player are the box and the target"
                self.emit(mentions, self.last_pending, self.objects)
            else:
                self.emit(self.subjects, self.last_pending, mentions)
        else:
            self._start_subject(mentions)
        self.recent += mentions

    def _binds(self) -> bool:
        return bool(self.pending) and self.pending[-1].relational

    def _ends_list(self) -> bool:
        if self._previous_but().kind in ("a", "ordinal"):
            return False  # "… the player, and a box that is …"
        if self._next().kind == "comma" and self._next(2).kind in ("direction", "loose"):
            return False  # "… the player, and the box, two up"
        return self._next().kind in ("end", "comma", "with", "and", "which")

    def _start_subject(self, mentions: tuple[Mention, ...]) -> None:
        if self.front is not None:
            directions, others = self.front
            self.front = None
            self.subjects = mentions
            self.last_pending = directions
            self.emit(mentions, directions, others)
            self.objects, self.related, self.inverted = others, True, True
            return
        joined = self.subjects and not self.related and not self.pending and self._previous().kind == "and"
        if joined:
            self.subjects = (*self.subjects, *mentions)
            return
        if self.has_owner:
            self.frame = self.has_owner
            self.has_owner = ()
        if self.pending or self.related:
            self._elide()
            self.moving = False if self._next().kind in ("is", "direction", "comma", "and") else self.moving
            if not self.moving or self.related:
                self.negated = False
        self.subjects, self.related, self.pending = mentions, False, []

    # -- directions --------------------------------------------------------------------------------

    def on_direction(self, token: Token) -> None:
        if self.moving and not token.relational and self._next().kind != "and":
            return
        if not token.relational and self._next().kind == "thing" and not self.owner:
            self.label = f"side:{token.value}"  # "the lower target"
            return
        if self.owner:  # "the player's left"
            self._of_owner(token)
            return
        if self.between and not token.relational and self._previous_but("onto").kind == "thing":
            self.emit((self.recent[-1],), [token], self.between)  # "between the target on the left and …"
            return
        if token.value == (None, None) and self.pending:
            return  # "right next to"
        self.pending.append(token)

    def _of_owner(self, token: Token) -> None:
        owner, self.owner = self.owner, ()
        if self._next().kind in ("is", "there") or not self.subjects:  # "to the player's left is the box"
            self._elide()
            self.front, self.objects = ([token], owner), owner
            return
        self.pending.append(token)
        self._relate(owner)

    def on_between(self, token: Token) -> None:
        self.between = self.subjects
        self.pending.append(Token("direction", (None, None), True))

    def on_loose(self, token: Token) -> None:
        """In "left to the target": a place after "is", a way after "push"."""
        if not self.moving:
            self.on_direction(token)

    def on_owner_of(self, token: Token) -> None:
        me = (Mention("player", ""),)
        self.owner = me if self._next().kind == "direction" else ()
        if self.wants_frame and not self.owner:  # "from my perspective"
            self.frame, self.wants_frame = me, False

    def on_owner(self, token: Token) -> None:
        if self._next().kind == "is" or (self._next().kind != "direction" and not self.owner):
            self.on_is(token)

    def on_onto(self, token: Token) -> None:
        if self._of_side() or self._of_time():
            return
        self.onto = self._next_but("the", "a", "ordinal").kind in ("thing", "it") and bool(
            self.subjects and (not self.pending or self.pending[-1].value == (None, None) or self.moving)
        )

    def _of_side(self) -> bool:
        """Whether "on the player's left" follows, or "on its left"."""
        kinds = [token.kind for token in self.words[self.index + 1 :][:5] if token.kind not in ("the", "word")]
        return kinds[:2] in (["it", "direction"], ["owner_of", "direction"]) or kinds[:3] == [
            "thing",
            "owner",
            "direction",
        ]

    def _of_time(self) -> bool:
        """Whether another noun comes first: "at this stage the box is …"."""
        kinds = [token.kind for token in self.words[self.index + 1 :][:5]]
        kinds = kinds[: kinds.index("thing")] if "thing" in kinds else kinds
        return len(kinds) > 2 and "word" in kinds and sum(kind in ("the", "a") for kind in kinds) > 1

    def on_purpose(self, token: Token) -> None:
        """In "moves to reach the goal" the goal isn't reached."""
        self.swallow = self._next_but("the", "a", "ordinal").kind in ("thing", "it")

    def on_almost(self, token: Token) -> None:
        if self._next().kind == "onto" or self._next().value == (0, 0):
            self.on_hedge(token)

    def on_frame(self, token: Token) -> None:
        self.wants_frame = True

    def _relate(self, others: tuple[Mention, ...]) -> None:
        self.last_pending = self.pending
        self.emit(self.subjects, self.pending, others)
        self.objects, self.pending, self.related = others, [], True

    def _elide(self) -> None:
        """Directions whose reference was named just before: "below the player and to the left"."""
        reference = self.objects if self.related else self.frame
        if self.related and [token.value for token in self.last_pending] == [(0, 0)]:
            self.pending = []  # "on a target at the lower left"
        if self.pending and reference and self.subjects:
            self.emit(self.subjects, self.pending, reference)
        elif self.pending and len(self.subjects) == 2 and all(0 in token.value for token in self.pending):
            self.emit(self.subjects[:1], self.pending, self.subjects[1:])  # "the two are in the same row"
        elif self.pending and self.subjects:
            self._from_player()
        self.pending = []

    def _from_player(self) -> None:
        """With nothing else to go by, sides are seen from the player: "the goal is up and to the right"."""
        nothing = self.subjects[0].label == "none"
        others = tuple([each for each in self.subjects if each.kind != "player"])
        if nothing or (others and not any(token.absolute for token in self.pending)):
            self.emit(others, self.pending, (Mention("player", ""),))
        elif others:
            self.left_open = True

    # -- the little words --------------------------------------------------------------------------

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
        said_now = self.words[self.index - 1].kind == "not"  # "not, in fact, above"
        if self.negated and self._next().kind != "direction" and not self._binds() and not said_now:
            self.negated = False
        if self._next().kind not in ("and", "direction", "comma", "not", "onto"):
            self.moving = False

    def _claim_the_rest(self) -> None:
        """What a clause leaves to be said at its end."""
        alone = self.subjects[:1] == (Mention(self.absent, "none"),) and not self.pending and not self.related
        if self.absent and alone and not self.absences:
            self.absences.append(Absence(self.absent, None, None))
        self._elide()
