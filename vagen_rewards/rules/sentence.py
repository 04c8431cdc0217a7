"""Reading one English sentence about a board, token by token."""

from __future__ import annotations

from vagen_rewards.rules.claims import Absence, Mention, Notes
from vagen_rewards.rules.words import Cursor, Token

NOTHING: tuple[Mention, ...] = ()

_TOGGLES = ("not", "false", "wrong", "untrue", "incorrect")
"""Denials of which two make none."""


class Reader(Notes, Cursor):
    """Reads one sentence. Each `on_…` method handles a kind of token."""

    def __init__(self, words: list[Token], subjects: tuple[Mention, ...], objects: tuple[Mention, ...]) -> None:
        Notes.__init__(self)
        Cursor.__init__(self, words)
        self.past_subjects, self.past_objects = subjects, objects
        self.looked_back = False  # whether the past was asked for
        self.subjects: tuple[Mention, ...] = ()
        self.objects: tuple[Mention, ...] = ()
        self.frame: tuple[Mention, ...] = ()
        self.recent: list[Mention] = []
        self.clause = 0  # index of the first claim of this clause
        self._reset_clause()

    def _reset_clause(self) -> None:
        self.pending: list[Token] = []
        self.front: tuple[list[Token], tuple[Mention, ...]] | None = None
        self.related = False
        self.negated = self.hedged = self.moving = self.wants_frame = False
        self.label = ""
        self.count = 0
        self.everyone = self.determiner = self.strange = self.none_of = self.onto = False
        self.owner: tuple[Mention, ...] = ()
        self.between: tuple[Mention, ...] = ()
        self.swallow = self.inverted = False
        self.denial = ""
        self.existing = self.attribute = False

    def run(self) -> None:
        for index, token in enumerate(self.words):
            self.index = index
            if token.kind != "word":
                self._settle_noun(token)
            handler = getattr(self, f"on_{token.kind}", None)
            if handler is not None:
                handler(token)
        self.index = len(self.words)
        self._settle_noun(Token("end"))
        self._end_clause()

    # -- nouns that are no things ------------------------------------------------------------------

    def on_word(self, token: Token) -> None:
        if self.determiner:
            self.strange = True

    def _settle_noun(self, token: Token) -> None:
        """After "the wall": it takes the place of a thing, so that nothing is claimed of another."""
        if token.kind in ("thing", "ordinal", "all", "number", "direction", "onto") and not self.strange:
            self.determiner = False
        elif token.kind == "thing":
            self.determiner = self.strange = self.attribute = False  # "the yellow box"
        elif self.strange and token.kind not in ("the", "a", "owner"):
            self.determiner = self.strange = False
            if self.attribute:
                self.attribute = False  # "the box with the cross"
            elif self.wants_frame:
                self.wants_frame = False  # "from the image"
            elif self.pending or self.onto:
                self.pending, self.onto = [], False
            else:
                self.subjects, self.related = NOTHING, False

    def on_the(self, token: Token) -> None:
        self.determiner, self.strange = True, False

    def on_a(self, token: Token) -> None:
        self.determiner, self.strange = True, False
        self.label = self.label or "a"

    # -- things ------------------------------------------------------------------------------------

    def on_ordinal(self, token: Token) -> None:
        self.label = str(token.value[0])
        following = self._next_but("a", "the")
        if following.kind in ("is", "has", "direction", "onto", "which", "comma", "end") and self._next().kind != "word":
            kind = next((mention.kind for mention in reversed(self.recent) if mention.kind != "player"), "")
            if kind and self._previous().kind != "not":  # "one is above the player and the other to its right"
                self._thing(self._mentions(Token("thing", (kind, "", False))))

    def on_number(self, token: Token) -> None:
        value = token.value[0]
        self.count = value if isinstance(value, int) else 0

    def on_all(self, token: Token) -> None:
        self.everyone = self._next_but("the", "a", "number").kind in (
            "thing",
            "is",
            "it",
            "they",
        )  # not "if all goes well"

    def on_thing(self, token: Token) -> None:
        if token.value[3:] in (("i",), ("you",)) and (
            self._next().kind in ("word", "frame")
            or (self._next().kind == "has" and self._next(2).kind in ("word", "move"))
        ):
            return  # "I see", "if I do this"
        self._thing(self._mentions(token))

    def on_it(self, token: Token) -> None:
        self.looked_back = True
        candidates = (*reversed(self.recent), *self.past_subjects)
        other = tuple([mention for mention in candidates if mention not in self.subjects][:1])
        if self.wants_frame or self._binds() or self.onto:
            self._thing(other)
        elif self._next().kind == "direction":  # "its left"
            self.owner = other
        else:
            self._thing(self.subjects[:1] or self.past_subjects[:1] or self.past_objects[:1])

    def on_they(self, token: Token) -> None:
        self.looked_back = True
        both = dict.fromkeys(
            (*self.recent[-2:],) if len(self.recent) > 1 else (*self.past_subjects, *self.past_objects)
        )
        self._start_subject(tuple(both))

    def _mentions(self, token: Token) -> tuple[Mention, ...]:
        kind, label, plural = token.value[:3]
        count = min(self.count, 9)
        if self.everyone:
            label = "all"
        elif plural and kind != "player":
            label = "" if count > 1 else ("some" if kind == "hole" else "all")
        label = str(label or self.label)
        self.label, self.everyone, self.count = "", False, 0
        if plural and count > 1 and label != "all":
            self.new_count += count
            return tuple([Mention(str(kind), f"a:{self.new_count - i}:") for i in range(count)])
        if label == "a":
            self.new_count += 1
            label = f"a:{self.new_count}:"
        elif label == "#1" and not token.value[1]:
            label = "#first"
        return (Mention(str(kind), "" if kind == "player" else label),)

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
            if self.subjects and not self.existing:
                self._relate(mentions)
            else:
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
        joined = (
            self._previous_but("the", "a", "ordinal", "all", "number").kind == "and"
            and self.subjects and not self.related and not self.pending
        )  # fmt: skip
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
            self.emit(self.recent[-1:], [token], self.between)  # "between the target on the left and …"
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
        self.owner = (Mention("player", ""),) if self._next().kind == "direction" else ()

    def on_owner(self, token: Token) -> None:
        if self._next().kind == "is" or (self._next().kind != "direction" and not self.owner):
            self.on_is(token)

    def on_onto(self, token: Token) -> None:
        if self._of_side():
            return
        self.onto = self._next_but("the", "a", "ordinal").kind in ("thing", "it") and bool(
            self.subjects and (not self.pending or self.pending[-1].value == (None, None) or self.moving)
        )

    def _of_side(self) -> bool:
        """Whether "on the player's left" follows, or "on its left"."""
        kinds = [token.kind for token in self.words[self.index + 1 :][:5] if token.kind not in ("the", "word")]
        return kinds[:2] in (["it", "direction"], ["owner_of", "direction"]) or kinds[:3] == ["thing", "owner", "direction"]

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
        if self.pending and reference and self.subjects:
            self.emit(self.subjects, self.pending, reference)
        elif self.pending and len(self.subjects) == 2 and all(0 in token.value for token in self.pending):
            self.emit(self.subjects[:1], self.pending, self.subjects[1:])  # "the two are in the same row"
        elif self.pending and self.subjects and self.subjects[0].label == "none":
            self.emit(self.subjects, self.pending, (Mention("player", ""),))
        self.pending = []

    # -- the little words --------------------------------------------------------------------------

    absent = ""
    has_owner: tuple[Mention, ...] = ()
    last_pending: list[Token] = []  # noqa: RUF012  # never written to

    def on_is(self, token: Token) -> None:
        if self.everyone:
            self.everyone = False
            self.on_they(token)
        bare = self.subjects and self.front is None and not self.related and not any(t.relational for t in self.pending)
        if self.moving or (bare and self._previous().kind != "has"):
            self.pending = []  # "moves up and is …", "the box on the left is …": no place of this clause
        self.moving = False
        if self.front is None and not self.subjects and self.words[self.index - 1].kind == "there":
            self.existing = False

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
        self.claims[self.clause :] = [claim._replace(hedged=True) for claim in self.claims[self.clause :]]

    def on_or(self, token: Token) -> None:
        """In "above or below" there is a doubt; "one or two cells above" isn't."""
        if self._previous_but("the", "a").kind not in ("ordinal", "number", "end"):
            self.on_hedge(token)

    def on_but(self, token: Token) -> None:
        self.negated = False

    def on_which(self, token: Token) -> None:
        if self.recent and self._previous().kind in ("thing", "comma", "it"):
            antecedent = self.recent[-1:]
            self._elide()
            self.subjects, self.related = tuple(antecedent), False

    def on_with(self, token: Token) -> None:
        self._end_clause(keep=True)
        self.attribute = token.value == ("with",)

    def on_comma(self, token: Token) -> None:
        if len(self.subjects) == 2 and self.pending and all(0 in each.value for each in self.pending):
            self._elide()
        if self.negated and self._next().kind != "direction" and not self._binds():
            self.negated = False
        if self._next().kind not in ("and", "direction", "comma", "not", "onto"):
            self.moving = False

    def _end_clause(self, keep: bool = False) -> None:
        alone = self.subjects[:1] == (Mention(self.absent, "none"),) and not self.pending and not self.related
        if self.absent and alone and not self.absences:
            self.absences.append(Absence(self.absent, None, None))
        self._elide()
        subjects, hedged = self.subjects, self.hedged
        self._reset_clause()
        self.hedged = hedged  # a doubt holds for the rest of the sentence
        if keep:
            self.subjects = subjects
