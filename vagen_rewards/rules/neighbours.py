"""What stands in the cell next to the player: "the tile above me is a hole", "a hole is adjacent on my right".

"A hole is above the player" is true at any distance, as the environments' own words have it, and so is "directly
above", in the same column. But who speaks of the next cell tells what one step meets, and so, as a rule, does who
names nothing but a side ("above is a hole"): where the hole stands further on, it isn't known which was meant.
"""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from vagen_envs.grid import SIDES, Position
from vagen_rewards.rules.modality import denies, hedges, mentions
from vagen_rewards.rules.patterns import BOARD_NOUNS

_ME = r"(?:me|myself|(?:the |my )?(?:player|agent|character|elf|worker|robot)|my (?:current )?(?:position|cell|tile|square))"
_HOW = r"(?:(?:directly|immediately|right|just|straight) )?"
_SIDE = (
    r"(?:(?P<up>above|over|north)|(?P<down>below|under|beneath|underneath|south)"
    r"|(?:(?:to|on|at) )?(?:the |my |the player's )?(?:immediate )?(?:(?P<left>left|west)|(?P<right>right|east))(?:[- ]hand)?(?: side)?)"
)
_SIDE_ALONE = _SIDE.replace("the |my |the player's ", "the ")
_SIDE_WORD = r"(?:(?P<left2>left|west)|(?P<right2>right|east))"
_WAY = r"(?:(?P<up>up(?:wards?)?)|(?P<down>down(?:wards?)?)|(?P<left>left)|(?P<right>right))"
"""Of a list of ways: "- Up: hole"."""
_OF_ME = rf"(?: (?:of |to |from )?{_ME})?"
_CELL = r"(?:tile|cell|square|space|spot|field)"
_IS = r"(?: (?:is|has|contains|holds|will be)(?: (?:now|also|just|actually|still))*)"
_FREE = r"(?:perfectly |completely )?(?:safe|ice|frozen|free|clear|empty|walkable|open)"
_FAR = 16
"""No board has more rows or columns."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """In the cell at this side of the player is one of this kind.

    Attributes:
        kind: box, target, hole, wall, or `free`: nothing that stops or ends the way.
        side: up, down, left or right.
        bare: nothing but the side was named.
        wide: "below me is a hole", where the next cell may be meant, or all that is on this side.
    """

    kind: str
    side: str
    bare: bool = False
    wide: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` where one stands further on and the next cell may not have been meant."""
        (row, column), (down, right) = state.player, SIDES[self.side]
        if self.kind in _kinds_at(state, (row + down, column + right)):
            return True
        if self.wide:
            return None if _is_anywhere(self.kind, state, (down, right)) else False
        further = [self.kind in _kinds_at(state, (row + far * down, column + far * right)) for far in range(2, _FAR)]
        return None if self.bare and any(further) else False


def _is_anywhere(kind: str, state: Any, way: Position) -> bool:
    """Whether one stands anywhere at this side of the player."""
    down, right = way
    for far in range(1, _FAR):
        for aside in range(-_FAR, _FAR):
            at = (state.player[0] + far * down + aside * right, state.player[1] + far * right + aside * down)
            if kind in _kinds_at(state, at):
                return True
    return False


def _kinds_at(state: Any, at: Position) -> set[str]:
    """What a cell holds."""
    if state.kind == "sokoban":
        inside = 0 <= at[0] < state.height and 0 <= at[1] < state.width
        if not inside or not state.floor >> at[0] * state.width + at[1] & 1:
            return {"wall"}
        things = {"box": state.boxes, "target": state.targets}
    else:
        if not (0 <= at[0] < state.size and 0 <= at[1] < state.size):
            return {"wall"}
        things = {"hole": state.holes, "target": (state.target,)}
    found = {kind for kind, places in things.items() if at in places}
    return found if found & {"box", "hole"} else {*found, "free"}


@functools.cache
def _patterns(board: str) -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """What is said of a next cell, each with words of which one is in it: those are looked for first."""
    things = "|".join([rf"(?P<{kind}>(?:{names})\b)" for kind, names in BOARD_NOUNS[board].items() if kind != "player"])
    thing, free = rf"(?:an? |the )?(?:{things})", rf"(?P<free>{_FREE}\b)"
    every = [
        # "Above me: hole" is true at any distance.
        ("tile |cell |square |space |spot |field ", rf"\b{_CELL} {_HOW}{_SIDE}{_OF_ME}{_IS} (?:an? |the )?(?:{things}|{free}|(?P<wall>wall\b))"),
        ("adjacent|next to", rf"{thing}{_IS}? {_HOW}(?:adjacent|next)(?: to {_ME})?,? {_SIDE}(?! of (?!{_ME}))"),
        ("ice|frozen|safe|free|clear|empty|walkable|open", rf"(?:^|(?<=[,;|] )|(?<=- )){_HOW}{_SIDE}(?: of)?{_OF_ME}(?: is|:) {free}"),
        ("immediate", rf"{thing}{_IS}? (?P<bare>)(?:immediately {_SIDE}|(?:to|on|at) (?:the|my) immediate {_SIDE_WORD}){_OF_ME}(?! of (?!{_ME}))"),
        (":", rf"^(?P<bare>)(?:to the |on the )?{_WAY}(?: side)?{_OF_ME} ?: ?(?:an? )?(?:{things}|{free})(?= *(?:[,;|(]|$))"),
    ]  # fmt: skip
    if "hole" in BOARD_NOUNS[board]:
        hole = rf"an?(?:other)? (?P<hole>(?:{BOARD_NOUNS[board]['hole']})\b)"
        start = r"(?:^|(?<=, )|(?<=\band ))"
        every += [
            (" is a", rf"{start}(?P<bare>){_SIDE_ALONE} is {hole}"),
            (" is a", rf"{start}(?P<wide>){_SIDE_ALONE}(?: of)? {_ME} is {hole}"),
            (" my ", rf"{start}(?P<wide>)(?:to|on|at) my (?:immediate )?{_SIDE_WORD}(?: side)?,? (?:there )?(?:is|lies) {hole}"),
        ]  # fmt: skip
    return tuple([(tuple(signs.split("|")), re.compile(pattern)) for signs, pattern in every])


def neighbours_of(board: str, sentence: str) -> list[Neighbour]:
    """What a lower-case sentence says of the cells next to the player; nothing where it doubts or denies something."""
    found: list[Neighbour] = []
    for signs, pattern in _patterns(board):
        if mentions(sentence, signs):
            found += map(_neighbour, pattern.finditer(sentence.strip(" -*")))
    return [] if found and (hedges(sentence) or denies(sentence)) else list(dict.fromkeys(found))


def _neighbour(match: re.Match[str]) -> Neighbour:
    said = {name.removesuffix("2") for name, text in match.groupdict().items() if text is not None}
    (side,) = said & SIDES.keys()
    (kind,) = said - SIDES.keys() - {"bare", "wide"}
    return Neighbour(kind, side, "bare" in said, "wide" in said)
