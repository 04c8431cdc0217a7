"""Two-player Sokoban for PettingZoo.

>>> from vagen_adapters import vagen_two_player_sokoban_v0
>>> env = vagen_two_player_sokoban_v0.parallel_env()

Both players push boxes on one board. Each is green in its own picture and writes its own replies;
both receive the task rewards.

Version history:
    v0: first release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vagen_adapters.pettingzoo_env import Agent, SeatsEnv, as_aec
from vagen_adapters.two_player_sokoban.seat import Table, TwoPlayerSokobanSeat

__all__ = ["TwoPlayerSokoban", "env", "parallel_env", "raw_env"]


class TwoPlayerSokoban(SeatsEnv):
    """The parallel environment; agents `player_0` and `player_1`.

    Args:
        render_mode: None, `"rgb_array"`, `"human"` or `"ansi"`; shows the view of `player_0`.
        options: fields of `TwoPlayerSokobanConfig`.
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.table = Table()
        self.players = (
            TwoPlayerSokobanSeat(
                0, self.table, "rgb_array" if render_mode == "human" else render_mode, **options
            ),
            TwoPlayerSokobanSeat(1, self.table, None, **options),
        )
        names = {f"player_{player.player}": player for player in self.players}
        super().__init__("vagen_two_player_sokoban_v0", names, render_mode)

    def _begin_round(self, replies: Mapping[Agent, str]) -> None:
        actions = [
            player.actions_of(replies[agent])
            for agent, player in zip(replies, self.players, strict=True)
        ]
        self.table.play(actions, self.players[0].config.max_steps)

    def oracle_replies(self) -> dict[Agent, str]:
        """Return true replies of both players that solve the level together in the fewest steps.

        Raises:
            LevelError: the position has no solution.
        """
        most = self.players[0].config.max_actions_per_turn
        actions = [plan[:most] for plan in self.table.board.plan_together()]
        return {
            agent: player.reply_within(actions)
            for agent, player in zip(self.possible_agents, self.players, strict=True)
        }


def parallel_env(**options: Any) -> TwoPlayerSokoban:
    """Make the parallel environment: both players reply at once."""
    return TwoPlayerSokoban(**options)


def raw_env(**options: Any) -> Any:
    """Make the AEC environment: players reply one after another, and the round is played when both
    have.
    """
    return as_aec(parallel_env(**options))


env = raw_env
