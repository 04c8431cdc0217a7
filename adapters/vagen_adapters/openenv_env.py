"""OpenEnv: a server for one environment id, and its client.

    python -m vagen_adapters.openenv_env --env-id vagen/Sokoban-v0 --port 8000

Each session is a WebSocket connection with its own environment.
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
from vagen_adapters.ends import without_checks
from vagen_adapters.errors import not_importable
from vagen_adapters.prompt_check import require_options_of, require_prompt_of
from vagen_adapters.rows import check_names
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture
from vagen_envs.seeding import Split
from vagen_rewards import with_reasoning

try:
    from fastapi import FastAPI
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server import Action, Environment, Observation, State
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.types import ConcurrencyConfig
except ImportError as error:
    raise not_importable("vagen_adapters.openenv_env", "openenv", "openenv", error) from error


class VagenAction(Action):
    """The model's reply; any text."""

    text: str


class VagenObservation(Observation):
    """An observation. `done` is `terminated or truncated`; `reward` is None after a reset."""

    text: str
    """Contains `<image>` at the picture's position."""
    png: str | None = None
    """The picture as a PNG in base64, None for text observations."""
    terminated: bool = False
    truncated: bool = False
    turn: dict[str, Any] | None = None
    """The turn as JSON, to be read with `Turn.from_json`; None after a reset."""

    @property
    def picture(self) -> Picture | None:
        """The decoded picture."""
        return None if self.png is None else Picture.from_png(base64.b64decode(self.png))


class VagenState(State):
    """The session's state; `step_count` counts turns."""

    env_id: str
    system_prompt: str
    level: dict[str, Any] | None = None
    """Split, seed and content hash; None before the first reset."""
    true_state: dict[str, Any] | None = None
    """The environment's state as JSON. Do not show it to the agent."""


class VagenEnvironment(Environment[VagenAction, VagenObservation, VagenState]):
    """One session's environment, made from the arguments of `create_app`."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, env_id: str, reasoning: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.env = with_reasoning(without_checks(gym.make(env_id, **options)), reasoning)
        self._core = cast(VagenEnv, self.env.unwrapped)
        self._state = VagenState(env_id=env_id, system_prompt=self._core.system_prompt)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: Split | None = None,
        level: int | None = None,
        env_id: str | None = None,
        prompt_hash: str | None = None,
        options: dict[str, Any] | str | None = None,
        **_: Any,
    ) -> VagenObservation:
        """Start the level of this seed and split, level number `level` of published data, or the
        session's next one.

        A split or level holds for the session's later resets until another is named.

        A client that plays rows of `vagen_adapters.rows.levels` sends their `env_id`, `options`
        (or these as JSON) and `prompt_hash`, too.

        Raises ConfigError for another seed, split or level than there is, and for a row of another
        environment or of other options.
        """
        require_prompt_of(self.env, env_id, prompt_hash, options)
        if options is not None:
            require_options_of(self.env, options)
        observation, info = self.env.reset(seed=seed, options={"split": split, "level": level})
        self._update_state(info, episode_id=episode_id, step_count=0)
        return VagenObservation(text=observation["text"], png=_base64(self._core.observed.picture))

    def step(
        self, action: VagenAction, timeout_s: float | None = None, **_: Any
    ) -> VagenObservation:
        """Play one turn."""
        _shown, reward, terminated, truncated, info = self.env.step(action.text)
        turn: Turn = info["turn"]
        self._update_state(info, step_count=self._state.step_count + 1)
        return VagenObservation(
            text=turn.result.text,
            png=_base64(turn.result.picture),
            reward=float(reward),
            done=terminated or truncated,
            terminated=terminated,
            truncated=truncated,
            turn=turn.to_json(),
        )

    @property
    def state(self) -> VagenState:
        return self._state

    def close(self) -> None:
        self.env.close()

    def _update_state(self, info: dict[str, Any], **changes: Any) -> None:
        true_state = info["state"].to_json()
        self._state = self._state.model_copy(
            update={"level": info["level"], "true_state": true_state, **changes}
        )


def _base64(picture: Picture | None) -> str | None:
    return None if picture is None else base64.b64encode(picture.png).decode()


class VagenClient(EnvClient[VagenAction, VagenObservation, VagenState]):
    """A session: `async with VagenClient(base_url=…) as env`, or `with
    VagenClient(base_url=…).sync() as env`.
    """

    def _step_payload(self, action: VagenAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[VagenObservation]:
        reward = payload.get("reward")
        done = payload.get("done", False)
        return StepResult(
            VagenObservation(**payload["observation"], reward=reward, done=done), reward, done
        )

    def _parse_state(self, payload: dict[str, Any]) -> VagenState:
        return VagenState(**payload)


def create_app(
    env_id: str,
    *,
    max_sessions: int = 64,
    session_timeout: float = 600.0,
    reasoning: Mapping[str, Any] | None = None,
    **options: Any,
) -> FastAPI:
    """Create the server's application.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        max_sessions: concurrent sessions; further clients are refused with `CAPACITY_REACHED`.
        session_timeout: seconds without a message after which a session ends. A client that
            vanished behind an open connection would otherwise keep its place for good.
        reasoning: options of `vagen_rewards.ReasoningReward`, which adds the reasoning reward to
            the environment's reward. None adds nothing.
        options: for `gym.make`. An unknown id and invalid options raise here and not in the first
            session.
    """
    check_names(env_id, options, create_app)
    factory = functools.partial(VagenEnvironment, env_id, reasoning, **options)
    factory().close()
    # `max_concurrent_envs=` would leave the timeout out
    bounds = ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout)
    return create_fastapi_app(factory, VagenAction, VagenObservation, concurrency_config=bounds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve one id, by default on loopback."""
    import uvicorn

    parser = argparse.ArgumentParser(
        prog="python -m vagen_adapters.openenv_env", description=main.__doc__
    )
    parser.add_argument("--env-id", default="vagen/Sokoban-v0")
    parser.add_argument(
        "--options", type=json.loads, default={}, help="a JSON object, as for gym.make"
    )
    parser.add_argument(
        "--reasoning", type=json.loads, help="a JSON object: options of the reward for reasoning"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-sessions", type=int, default=64)
    args = parser.parse_args(arguments)
    try:
        app = create_app(
            args.env_id, max_sessions=args.max_sessions, reasoning=args.reasoning, **args.options
        )
    except VagenError as error:
        parser.error(str(error))
    uvicorn.run(app, host=args.host, port=args.port)


if __name__ == "__main__":
    main()
