"""Who is where in a sentence about a board: things, directions, and what binds them to a claim."""

from __future__ import annotations

from vagen_rewards.rules.nouns import NounPhrases
from vagen_rewards.rules.relations import Mention
from vagen_rewards.rules.words import Token


class Clauses(NounPhrases):
    """What is kept of the clauses, and the handlers of things and directions."""

    __slots__ = ("absent", "has_owner")

    def __init__(self, words: list[Token], subjects: tuple[Mention, ...], objects: tuple[Mention, ...]) -> None:
        super().__init__(words, subjects, objects)
        self.absent = ""
        self.has_owner: tuple[Mention, ...] = ()

    # -- things --------------------------------------------------------------------------------------

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
            self.used += 1
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
            self.emit(mentions, directions, others)
            self.last_pending = directions
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

    # -- directions ----------------------------------------------------------------------------------

    def on_direction(self, token: Token) -> None:
        if self.moving and not token.relational and self._next().kind != "and":
            self.used += 1
            return
        if not token.relational and self._next().kind == "thing" and not self.owner:
            self.label = f"side:{token.value}"  # "the lower target"
            return
        if self.owner:  # "the player's left"
            self._of_owner(token)
            return
        if self.between and not token.relational and self._previous_but("onto").kind == "thing":
            self.used += 1
            self.emit((self.recent[-1],), [token], self.between)  # "between the target on the left and …"
            return
        if token.value == (None, None) and self.pending:
            return  # "right next to"
        if token.absolute and not token.relational and self.pending and not self.pending[-1].absolute:
            return  # "on the left, in the top row": a place on the board beside
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

    def _relate(self, others: tuple[Mention, ...]) -> None:
        self.emit(self.subjects, self.pending, others)
        self.last_pending = self.pending
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
