"""The true state of PrimitiveSkill, in words and as a dictionary."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vagen_envs.core import State
from vagen_envs.primitive_skill.cabinets import Vector
from vagen_envs.primitive_skill.levels import say

_MOST_PERMUTATIONS = 24


@dataclass(frozen=True, slots=True)
class PrimitiveSkillState(State):
    """Where the things are.

    Attributes:
        task: place, stack, drawer or align.
        positions: (x, y, z) of the centre of each named thing, in whole millimetres. The camera
            looks towards -x, +y is to its right, +z up, and the table's top is z = 0.
        held: the name of what the gripper holds, or nothing.
        drawer_open_value: how far the drawer is pulled out, in whole millimetres; `None` without a
            drawer.
        hand: (x, y, z) of the point between the fingertips, in whole millimetres.
        fingers: how far apart they are, in whole millimetres, 0 to 80.
        turns: of each thing that can be moved its turn about x, y and z (roll, pitch, yaw), in
            whole degrees.

    No description has the hand, the fingers and the turns.
    """

    kind: ClassVar[str] = "primitive_skill"
    reference_turns: ClassVar[int] = 24
    """The simulator takes half a second a turn, and states that look alike are made of the state
    itself.
    """

    task: str
    positions: dict[str, Vector]
    held: str
    drawer_open_value: int | None
    hand: Vector = (0, 0, 0)
    fingers: int = 0
    turns: dict[str, Vector] = dataclasses.field(default_factory=dict)

    def __hash__(self) -> int:
        # The fields' own doesn't exist: dictionaries have none.
        return hash((self.held, frozenset(self.positions.items())))

    @property
    def told(self) -> tuple[dict[str, Vector], str, int | None]:
        """What descriptions say: where things are, what is held, how far the drawer is open."""
        return self.positions, self.held, self.drawer_open_value

    def sentences(self) -> tuple[str, ...]:
        """One for each thing, and what the gripper and the drawer do (VAGEN, appendix D.1)."""
        facts = [f"the {say(name)} is at {at}" for name, at in self.positions.items()]
        if self.drawer_open_value is not None:
            facts.append(f"the drawer is {self.drawer_open_value} mm open")
        facts.append(
            f"the gripper holds the {say(self.held)}" if self.held else "the gripper is empty"
        )
        return tuple(facts)

    def structured(self) -> str:
        """As in VAGEN, appendix C.2: `{red_cube: (100, 100, 40), ...}`."""
        entries = [f"{name}: {at}" for name, at in self.positions.items()]
        if self.drawer_open_value is not None:
            entries.append(f"drawer_open_value: {self.drawer_open_value}")
        return "{" + ", ".join(entries) + "}"

    def alike(
        self, others: Sequence[PrimitiveSkillState], options: Mapping[str, Any]
    ) -> Sequence[PrimitiveSkillState]:
        """The text lists where things are, without names: which of several cubes is where must be
        seen.
        """
        if not options.get("positions_in_text", True):
            return [
                other for other in others if other.positions.keys() == self.positions.keys()
            ] or others
        kinds: dict[str, list[str]] = {}
        for name in self.positions:
            kinds.setdefault(name.rpartition("_")[2], []).append(name)
        orders = [itertools.permutations(names) for names in kinds.values()]
        found = []
        for order in itertools.islice(itertools.product(*orders), _MOST_PERMUTATIONS):
            new = dict(zip(itertools.chain(*kinds.values()), itertools.chain(*order), strict=True))
            positions = {new[name]: at for name, at in self.positions.items()}
            turns = {new[name]: turn for name, turn in self.turns.items()}
            held = new.get(self.held, self.held)
            found.append(dataclasses.replace(self, positions=positions, held=held, turns=turns))
        return found
