"""One player's environment. The other player changes the same board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vagen_adapters.two_player_sokoban.board import PLAYERS, Board, Moved, draw_board
from vagen_adapters.two_player_sokoban.state import TwoPlayerSokobanState
from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.grid import ACTIONS, tile_set
from vagen_envs.pictures import Picture
from vagen_envs.replies import Action, ActionGrammar, Names, ParsedTurn
from vagen_envs.seeding import HashStream, Split, content_hash
from vagen_envs.sokoban.env import SokobanConfig
from vagen_envs.sokoban.levels import Level, inside


@dataclass(frozen=True, kw_only=True)
class TwoPlayerSokobanConfig(SokobanConfig):
    """Options of `vagen_two_player_sokoban_v0`: Sokoban's, with other defaults.

    Solution lengths are those of `player_0` alone. Both players receive the task rewards of either.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}

    dim_room: tuple[int, int] = (7, 7)
    """Rows and columns of the grid in cells, the surrounding wall included; 6 to 10 each."""
    num_boxes: int = 2
    min_solution_length: int = 7
    max_solution_length: int = 12
    """The number of actions in four turns of three."""
    max_turns: int = 4
    """Turns of each player in an episode; it is truncated after the last."""

    def __post_init__(self) -> None:
        SokobanConfig.__post_init__(self)
        self.require(
            all(6 <= side <= 10 for side in self.dim_room), "dim_room", "two numbers from 6 to 10"
        )


class Table:
    """The board that both seats share, and the moves of the current round."""

    board: Board

    def __init__(self) -> None:
        self.steps = 0
        self.round: list[Moved] | None = None

    def play(self, actions: Sequence[Sequence[str]], max_steps: int) -> None:
        """Execute both players' actions of a round."""
        self.round = self.board.play(actions, max_steps - self.steps)
        self.steps += len(self.round)


class TwoPlayerSokobanSeat(VagenEnv):
    """Two-player Sokoban for one player. Without `table` the other player stands still.

    The own player is green in the picture, the other one blue. Both players receive the task
    rewards; the format reward is individual. `before` and `after` of a turn are the states before
    and after the whole round.
    """

    id = "vagen_two_player_sokoban_v0"
    config_class = TwoPlayerSokobanConfig
    prompt_folder = "two_player_sokoban"
    looks_when_restored = True
    config: TwoPlayerSokobanConfig

    def __init__(
        self,
        player: int = 0,
        table: Table | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(render_mode, **options)
        self.player = player
        self._alone = table is None
        self.table = table or Table()

    def actions_of(self, reply: str) -> list[str]:
        """Return the names of a reply's actions."""
        return [action.name for action in self._read(reply)[1].actions]

    # -- a round; the table plays it before the seats step ---------------------------------

    def _carry_out(self, actions: Sequence[Action]) -> tuple[Executed, ...]:
        if self._alone:
            own = [action.name for action in actions]
            self.table.play(
                [own if player == self.player else [] for player in PLAYERS], self.config.max_steps
            )
        self._steps = self.table.steps
        return tuple(
            [
                self._executed(moved)
                for moved in self.table.round or ()
                if moved.player == self.player
            ]
        )

    def _executed(self, moved: Moved) -> Executed:
        blocked = f"{moved.action} was blocked." if moved.gained is None else ""
        return Executed(moved.action, moved.gained is not None, (), blocked)

    def _reward_terms(
        self, parsed: ParsedTurn, executed: tuple[Executed, ...]
    ) -> tuple[RewardTerm, ...]:
        config = self.config
        terms = list(super()._reward_terms(parsed, executed))
        played = self.table.round or []
        gained = [moved.gained for moved in played]
        counted = {
            "box_on_target": config.box_on_target_reward * gained.count(1),
            "box_off_target": config.box_off_target_reward * gained.count(-1),
            "step": config.step_reward * (len(played) - self._solved()),
            "success": config.success_reward * self._solved(),
        }
        return (*(RewardTerm(name, value) for name, value in counted.items() if value), *terms)

    def _feedback_text(self, parsed: ParsedTurn, executed: tuple[Executed, ...]) -> str:
        theirs = [moved.action for moved in self.table.round or () if moved.player != self.player]
        others = "The other player did nothing."
        if theirs:
            others = f"The other player did: {', '.join(theirs)}."
        return f"{super()._feedback_text(parsed, executed)} {others}"

    # -- the environment ---------------------------------------------------------------------------

    def _actions(self) -> ActionGrammar:
        return Names(*ACTIONS)

    def _constants(self) -> dict[str, str]:
        legend = (
            "Symbols: # wall, _ floor, O target, X box, P you, Q the other player, * box on a "
            "target, S you on a target, T the other player on a target."
        )
        picture = "You are the green figure, the other player is the blue one."
        return {
            "legend": {"image": picture, "text": legend}.get(
                self.config.observation, f"{picture}\n{legend}"
            )
        }

    def _picture_shape(self) -> tuple[int, int, int]:
        self._tiles = tile_set("vagen_adapters.two_player_sokoban", self.config.scale)
        height, width = self.config.dim_room
        return height * self._tiles.side, width * self._tiles.side, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        if self.player == 0 or self._alone:  # the first seat to reset sets up the board
            config = self.config
            self.table.board = draw_board(
                stream,
                split,
                height=config.dim_room[0],
                width=config.dim_room[1],
                num_boxes=config.num_boxes,
                shortest=config.min_solution_length,
                longest=config.max_solution_length,
            )
            self.table.steps = 0
            self.table.round = None

    def _content(self) -> str:
        return content_hash(self.table.board.level.board)

    def _extract(self) -> TwoPlayerSokobanState:
        return self.table.board.state(self.player)

    def _picture(self) -> Picture:
        return self._tiles.picture(self.table.board.tiles(self.player), self.config.dim_room[1])

    def _view_text(self) -> str:
        return self._state.symbolic()

    def _execute(self, action: Action) -> Executed:
        raise AssertionError("the table plays whole rounds")

    def _solved(self) -> bool:
        return self.table.board.solved

    def _snapshot(self) -> Any:
        """Return the table's position. Restore the seats of one table together."""
        board = self.table.board
        level = self.table.board.level
        drawn = [level.floor, level.targets, level.boxes, level.player, level.board.hex()]
        return [drawn, board.boxes, *board.players]

    def _restore(self, world: Any) -> None:
        drawn, boxes, *players = world
        floor, targets, first_boxes, player, name = drawn
        height, width = self.config.dim_room
        if not 0 <= floor == floor & inside(height, width) or targets & ~floor:
            raise ValueError("the board isn't walled, or a target is in a wall")
        level = Level(height, width, floor, targets, first_boxes, player, bytes.fromhex(name))
        board = Board(level, players[1])
        if content_hash(board.level.board) != self.level["content"]:
            raise ValueError("the board is of another level")
        board.place(boxes, players)
        self.table.board = board
        self.table.steps = self._steps
        self.table.round = None

    def plan(self) -> Sequence[str]:
        """Return a shortest solution while the other player stands still. Raises LevelError if
        there is none.
        """
        return self.table.board.plan_alone(self.player)

    def imagine(self, actions: Sequence[str]) -> TwoPlayerSokobanState:
        """Return the state after these actions while the other player stands still."""
        return self.imagine_round(
            [list(actions) if player == self.player else [] for player in PLAYERS]
        )

    def imagine_round(self, actions: Sequence[Sequence[str]]) -> TwoPlayerSokobanState:
        """Return the state after a round with these actions of both players."""
        ahead = self.table.board.copy()
        ahead.play(actions, self.config.max_steps - self.table.steps)
        return ahead.state(self.player)

    def reply_within(self, actions: Sequence[Sequence[str]]) -> str:
        """Return this player's complete, true reply for a round with these actions."""
        own = actions[self.player]
        return self.grammar.render(
            own,
            observation=self._state.describe(self.config.representation),
            reasoning=self._reason(own),
            prediction=self.imagine_round(actions).describe(self.config.representation),
        )
