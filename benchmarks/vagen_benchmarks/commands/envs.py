"""`vagen envs`."""

from __future__ import annotations

import gymnasium as gym
from rich.text import Text

import vagen_envs
from vagen_benchmarks.commands.printing import make_table, out, visible
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError


def envs() -> None:
    """List the environments, their image sizes, turns and actions, and whether they can be made here.

    Example: `vagen envs`
    """
    table = make_table(["id", "picture", "turns", "actions", "state"])
    for env_id in vagen_envs.ENV_IDS:
        try:
            env = gym.make(env_id, disable_env_checker=True)
        except (VagenError, ImportError) as error:
            table.add_row(env_id, "", "", "", Text(visible(" ".join(str(error).splitlines())), "yellow"))
            continue
        inner = env.unwrapped
        assert isinstance(inner, VagenEnv)
        height, width, _ = inner.observation_space["image"].shape or (0, 0, 0)
        size = f"{width}×{height}"
        turns = f"{inner.config.max_turns} × {inner.config.max_actions_per_turn}"
        table.add_row(env_id, size, turns, inner.grammar.actions.summary(), Text("ready", "green"))
        env.close()
    out.print(table)
