"""Environments of this package behind OpenEnv's server, and a client for it.

    python -m vagen_adapters.openenv_env --env-id vagen/Sokoban-v0 --port 8000

A session is a WebSocket connection with an environment of its own; one server holds many.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium as gym

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.errors import not_importable
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.permission import permitted_reset
from vagen_envs.pictures import Picture
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

try:
    from fastapi import FastAPI
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server import Action, Environment, Observation, State
    from openenv.core.env_server.http_server import create_fastapi_app
except ImportError as error:
    raise not_importable("vagen_adapters.openenv_env", "openenv", "openenv", error) from error


class Reply(Action):
    """What the model wrote; any text."""

    text: str


class Seen(Observation):
    """An observation. `done` is `terminated or truncated`; `reward` is `None` after a reset."""

    text: str
    """Holds `<image>` where the picture belongs."""
    png: str | None = None
    """The picture as a PNG in base64, `None` for text observations."""
    terminated: bool = False
    truncated: bool = False
    turn: dict[str, Any] | None = None
    """The turn in JSON form, to be read with `Turn.from_json`; `None` after a reset."""

    @property
    def picture(self) -> Picture | None:
        """The decoded picture."""
        return None if self.png is None else Picture.from_png(base64.b64decode(self.png))


class Episode(State):
    """The session's state; `step_count` counts turns."""

    env_id: str
    system_prompt: str
    level: dict[str, Any] | None = None
    """Split, seed and content hash, `None` before the first reset."""
    truth: dict[str, Any] | None = None
    """The environment's state in JSON form: what the agent should have seen."""


class VagenEnvironment(Environment[Reply, Seen, Episode]):
    """One session's environment.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        reasoning: options of `vagen_rewards.ReasoningReward` (`judge`, `gate`, `weighting`, `penalty`, `grounding`,
            `world_modeling`), which then pays what replies say beside the environment's reward. None by default.
        options: for `gym.make`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, reasoning: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__()
        self.env = with_reasoning(gym.make(env_id, **options).unwrapped, reasoning)
        self._core = cast(VagenEnv, self.env.unwrapped)
        self._core.hands_pixels = False
        self._state = Episode(env_id=env_id, system_prompt=self._core.system_prompt)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, split: Split | None = None, **_: Any
    ) -> Seen:
        """Begin an episode at the level of this seed and split, or at the next one of the session's stream.

        Raises ConfigError beyond the bounds of what a client elsewhere may say, see `vagen_envs.permission`.
        """
        seed, split = permitted_reset(self._core.id, seed, split)
        shown, info = self.env.reset(seed=seed, options={"split": split} if split else None)
        self._note(info, episode_id=episode_id, step_count=0)
        picture = self._core.observed.picture
        return Seen(text=shown["text"], png=base64.b64encode(picture.png).decode() if picture else None)

    def step(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Seen:
        """Play one turn."""
        _shown, reward, terminated, truncated, info = self.env.step(action.text)
        turn: Turn = info["turn"]
        self._note(info, step_count=self._state.step_count + 1)
        picture = turn.result.picture
        return Seen(
            text=turn.result.text,
            png=base64.b64encode(picture.png).decode() if picture else None,
            reward=float(reward),
            done=terminated or truncated,
            terminated=terminated,
            truncated=truncated,
            turn=turn.to_json(),
        )

    @property
    def state(self) -> Episode:
        return self._state

    def close(self) -> None:
        self.env.close()

    def _note(self, info: dict[str, Any], **changes: Any) -> None:
        truth = info["state"].to_json()
        self._state = self._state.model_copy(update={"level": info["level"], "truth": truth, **changes})


class VagenClient(EnvClient[Reply, Seen, Episode]):
    """A session: `async with VagenClient(base_url=…) as env`, or `with VagenClient(base_url=…).sync() as env`."""

    def _step_payload(self, action: Reply) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Seen]:
        reward, done = payload.get("reward"), payload.get("done", False)
        return StepResult(Seen(**payload["observation"], reward=reward, done=done), reward, done)

    def _parse_state(self, payload: dict[str, Any]) -> Episode:
        return Episode(**payload)


def create_app(
    env_id: str, *, max_sessions: int = 64, reasoning: Mapping[str, Any] | None = None, **options: Any
) -> FastAPI:
    """The server's application.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        max_sessions: sessions at once; one more is refused with `CAPACITY_REACHED`.
        reasoning: options of `vagen_rewards.ReasoningReward` (`judge`, `gate`, `weighting`, `penalty`, `grounding`,
            `world_modeling`), which then pays what replies say beside the environment's reward. None by default.
        options: for `gym.make`. Wrong ones are reported here, not to the first client.
    """
    factory = functools.partial(VagenEnvironment, env_id, reasoning, **options)
    factory().close()
    return create_fastapi_app(factory, Reply, Seen, max_concurrent_envs=max_sessions)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve one id, on loopback unless told otherwise."""
    import uvicorn

    parser = argparse.ArgumentParser(prog="python -m vagen_adapters.openenv_env", description=main.__doc__)
    parser.add_argument("--env-id", default="vagen/Sokoban-v0")
    parser.add_argument("--options", type=json.loads, default={}, help="a JSON object, as for gym.make")
    parser.add_argument("--reasoning", type=json.loads, help="a JSON object: options of the reward for reasoning")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-sessions", type=int, default=64)
    args = parser.parse_args(arguments)
    app = create_app(args.env_id, max_sessions=args.max_sessions, reasoning=args.reasoning, **args.options)
    uvicorn.run(app, host=args.host, port=args.port)


if __name__ == "__main__":
    main()
