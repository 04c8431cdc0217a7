"""Who is spoken of: the nouns of a sentence about a board, with their articles, numbers and ordinals."""

from __future__ import annotations

from vagen_rewards.rules.relations import Mention, Notes
from vagen_rewards.rules.words import Token

NOTHING: tuple[Mention, ...] = ()


class NounPhrases(Notes):
    """What is kept of a sentence while it is read, and the handlers of the parts of noun phrases."""

    __slots__ = (  # an object with so many attributes takes twice as long to make without
        "adverbial", "attribute", "between", "count", "denial", "determiner", "everyone", "first_person", "frame",
        "front", "inverted", "label", "looked_back", "moving", "none_of", "objects", "onto", "owner", "past_objects",
        "past_subjects", "pending", "recent", "related", "scenery", "strange", "stranger", "subjects", "swallow",
        "wants_frame",
    )  # fmt: skip

    def __init__(self, words: list[Token], subjects: tuple[Mention, ...], objects: tuple[Mention, ...]) -> None:
        super().__init__(words)
        self.past_subjects, self.past_objects = subjects, objects
        self.looked_back = False  # whether the past was asked for
        self.first_person = False  # whether the player is called "I" or "me"
        self.subjects: tuple[Mention, ...] = ()
        self.objects: tuple[Mention, ...] = ()
        self.frame: tuple[Mention, ...] = ()
        self.recent: list[Mention] = []
        self.adverbial = False  # whether it comes after a preposition
        self.scenery = False  # whether the strange noun is a wall or the like
        self._reset_clause()

    def _reset_clause(self) -> None:
        self.pending: list[Token] = []
        self.front: tuple[list[Token], tuple[Mention, ...]] | None = None
        self.owner = self.between = NOTHING
        self.label = self.denial = ""
        self.count = 0
        self.negated = self.hedged = self.related = self.moving = self.wants_frame = self.everyone = False
        self.determiner = self.strange = self.none_of = self.onto = self.swallow = self.inverted = False
        self.stranger = self.attribute = False

    # -- nouns that are no things ------------------------------------------------------------------

    def on_word(self, token: Token) -> None:
        self.scenery = token.value == ("scenery",) or (self.strange and self.scenery)
        self.strange = True

    def _settle_noun(self, token: Token) -> None:
        """After "the wall": it takes the place of a thing, so that nothing is claimed of another."""
        if token.kind in ("thing", "ordinal", "all", "number", "direction", "onto") and not self.strange:
            self.determiner = False
        elif token.kind == "thing" and not token.value[3:]:
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
                self.stranger = not (
                    self.scenery or self.adverbial
                )  # who it is isn't known, so what is said of it isn't either

    def on_the(self, token: Token) -> None:
        self.adverbial = self.words[self.index - 1].kind in ("onto", "frame", "with") and self.index > 0
        self.determiner, self.strange = True, False

    def on_a(self, token: Token) -> None:
        self.determiner, self.strange = True, False
        self.label = self.label or "a"

    # -- things ------------------------------------------------------------------------------------

    def on_number(self, token: Token) -> None:
        value = token.value[0]
        self.count = value if isinstance(value, int) else 0

    def on_all(self, token: Token) -> None:
        following = self._next_but("the", "a", "number").kind  # not "if all goes well"
        self.everyone = following in ("thing", "is", "it", "they") and not self._pairs()

    def _pairs(self) -> bool:
        """Whether one thing and another follow: "both the hole and the goal"."""
        ahead = [token for token in self.words[self.index + 1 :][:6] if token.kind not in ("the", "word")][:3]
        return [token.kind for token in ahead] == ["thing", "and", "thing"] and not ahead[0].value[2]

    def _mentions(self, token: Token) -> tuple[Mention, ...]:
        kind, label, plural = token.value[:3]
        count = min(self.count, 9)
        if self.everyone:
            label = "all"
        elif plural and kind != "player":
            label = "" if count > 1 else ("some" if kind == "hole" else "all")
        label = str(label or self.label)
        if kind == "hole" and not label and not plural and self._previous_but().kind != "the":
            label = "a"  # "hole left; hole lower right" are two
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
