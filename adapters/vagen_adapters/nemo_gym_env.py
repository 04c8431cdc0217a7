"""NeMo Gym: a resources server, and levels as dataset rows. `nemo_gym_agent` has the agent.

The folders that NeMo Gym's commands expect are in deploy/nemo_gym.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters import rows
from vagen_adapters.env_thread import start
from vagen_adapters.episode_metrics import episode_metrics
from vagen_adapters.errors import not_importable
from vagen_adapters.message_parts import observation_parts
from vagen_adapters.nemo_gym_messages import content_of, reply_of
from vagen_envs.core import Observation, Turn
from vagen_envs.errors import ConfigError
from vagen_envs.seeding import Split

try:
    from fastapi import FastAPI, HTTPException, Request
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.openai_utils import NeMoGymResponse
    from nemo_gym.server_utils import SESSION_ID_KEY
    from pydantic import BaseModel, Field, ValidationError
    from resources_servers.gymnasium import GymnasiumServer
except ImportError as error:
    raise not_importable("vagen_adapters.nemo_gym_env", "nemo-gym", "nemo_gym", error) from error

AGENT = "vagen_agent"
"""The agent's name in deploy/nemo_gym, as rows refer to it."""


class ServerConfig(BaseResourcesServerConfig):
    """Configuration of `VagenServer`."""

    max_sessions: int = Field(256, ge=1)
    """Concurrent episodes; further ones are refused with status 503."""
    session_ttl_s: float = Field(3600.0, gt=0)
    """Seconds without a request after which an episode may be closed to make room."""
    reasoning_in_reply: bool = True
    """NeMo Gym's vLLM model removes `<think>…</think>` from the text; True puts it back before the
    reply is played.
    """


class LevelRow(BaseModel):
    """The fields of a row that the server reads, see `levels`."""

    env_id: str
    seed: int
    split: Split | None = None
    options: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    prompt_hash: str | None = None


class NeMoSession:
    """An episode in its own thread, because some simulators must stay in the thread that made
    them.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.turns: list[Turn] = []
        self.touched = time.monotonic()
        self._env: Any = None
        self._answered: tuple[str | None, dict[str, Any]] = (None, {})

    async def call(self, function: Any, *args: Any) -> Any:
        self.touched = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(self.pool, function, *args)

    def reset(self, row: Mapping[str, Any]) -> Observation:
        """Start the level of a row."""
        try:
            level = LevelRow.model_validate(row)
            self._env = rows.make_from_row(
                level.env_id, level.options, level.reasoning, level.prompt_hash
            )
        except ValidationError as error:
            raise ConfigError(
                f"the row does not describe a level: {error}; make rows with "
                "vagen_adapters.nemo_gym_env.levels"
            ) from error
        return start(self._env, level.seed, level.split)

    def step(self, reply: str, request: str | None) -> dict[str, Any]:
        """Play a turn. A repeated request, whose answer was lost, is answered from memory and not
        played again.
        """
        if request is not None and request == self._answered[0]:
            return self._answered[1]
        if self._env is None:
            raise ConfigError("the episode is over; start another one with /reset")
        *_, terminated, truncated, info = self._env.step(reply)
        turn: Turn = info["turn"]
        self.turns.append(turn)
        content = {}
        if not (terminated or truncated):
            content = {"content": content_of(observation_parts(turn.result))}
        answer = {
            "observation": turn.result.text,
            "reward": float(turn.reward),
            "terminated": terminated,
            "truncated": truncated,
            "info": {**content, "turn": turn.to_json(), "metrics": episode_metrics(self.turns)},
        }
        self._answered = request, answer
        if terminated or truncated:
            self.close()
        return answer

    def close(self) -> None:
        """Close the environment. The last answer stays available."""
        env = self._env
        self._env = None
        if env is not None:
            env.close()


class VagenServer(GymnasiumServer):
    """A Gymnasium-style resources server for all ids; each row names its id and level.

    The observation is text, for NeMo Gym's own agent. `info["content"]` contains the user message
    with its picture, for `VagenAgent`. `info` also contains the turn as JSON and the episode's
    metrics.
    """

    config: ServerConfig

    def setup_webserver(self) -> FastAPI:
        """Extend NeMo Gym's application with `/close`."""
        app: FastAPI = super().setup_webserver()
        app.post("/close")(self._close_endpoint)
        return app

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the level of a row."""
        await self._forget(session_id)
        await self._make_room()
        session = NeMoSession()
        self.session_state[session_id] = session
        try:
            now: Observation = await session.call(session.reset, metadata)
        except BaseException as error:
            await self._forget(session_id)
            if isinstance(error, ConfigError):
                raise HTTPException(422, str(error)) from error
            raise
        info = {
            "content": content_of(observation_parts(now)),
            "supports_explicit_close": True,
            "supports_step_idempotency": True,
        }
        return now.text, info

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play a reply."""
        session: NeMoSession | None = self.session_state.get(session_id)
        if session is None:
            raise HTTPException(409, "this session has no episode; start one with /reset")
        reply = reply_of(action, self.config.reasoning_in_reply)
        try:
            answer = await session.call(session.step, reply, metadata.get("_ng_step_request_id"))
        except ConfigError as error:
            raise HTTPException(409, str(error)) from error
        except Exception as error:
            await self._forget(session_id)
            raise HTTPException(500, f"{type(error).__name__}: {error}") from error
        return (
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            answer["info"],
        )

    async def close_session(self, session_id: str | None) -> None:
        """Keep the session: its last answer may have been lost. `/close` removes it."""

    async def _close_endpoint(self, request: Request) -> dict[str, bool]:
        return {"closed": await self._forget(request.session.get(SESSION_ID_KEY))}

    async def _forget(self, session_id: str | None) -> bool:
        session: NeMoSession | None = self.session_state.pop(session_id, None)
        if session is not None:
            await session.call(session.close)
            session.pool.shutdown(wait=False)
        return session is not None

    async def _make_room(self) -> None:
        now = time.monotonic()
        for name, session in list(self.session_state.items()):
            if now - session.touched > self.config.session_ttl_s:
                await self._forget(name)
        if len(self.session_state) >= self.config.max_sessions:
            raise HTTPException(
                503,
                f"all {self.config.max_sessions} sessions are in use; raise max_sessions or "
                "retry later",
            )


def levels(env_id: str, *, agent: str = AGENT, **settings: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a NeMo Gym dataset, to be played by the agent server `agent`.

    Takes the other arguments of `vagen_adapters.rows.levels`.
    """
    for prompt, level in rows.levels(env_id, **settings):
        agent_ref = {"type": "responses_api_agents", "name": agent}
        yield {"responses_create_params": {"input": prompt}, "agent_ref": agent_ref, **level}
