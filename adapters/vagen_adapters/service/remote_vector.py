"""Remote environments as a `VectorEnv`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from vagen_adapters.service.backends import Backend
from vagen_adapters.service.journal import Reply
from vagen_adapters.service.remote_env import RemoteEnv, Stepped
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, EpisodeOverError, ReplyTypeError, SimulatorError


class RemoteVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """`num_envs` remote environments; a step of all of them is one request.

    An environment whose simulator breaks, or whose session can't be had again, ends its episode: `truncated`,
    reward 0, its last observation again, and the cause in `info["simulator_error"]`; such an episode has no score.
    The others go on, and the next step begins a new episode there, as after any end (autoreset mode "next step").

    Args:
        backend: a `Service` or a `PoolBackend`. Not closed with the environments.
        env_id: such as `"vagen/Sokoban-v0"`.
        num_envs: how many.
        options: for `gym.make` there.
    """

    metadata: dict[str, Any] = {**VagenEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, backend: Backend, env_id: str, num_envs: int = 1, **options: Any) -> None:
        self._backend = backend
        with contextlib.ExitStack() as undo:  # where one finds no room, those before it don't keep theirs
            opened = (RemoteEnv(backend, env_id, **options) for _ in range(num_envs))
            self.envs = [undo.enter_context(contextlib.closing(env)) for env in opened]
            undo.pop_all()
        self.num_envs = num_envs
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.render_mode = None
        self._ended = np.ones(num_envs, bool)
        self._begun = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin `num_envs` episodes. A single seed is counted up from one environment to the next.

        Raises:
            ConfigError: `seed` is neither an integer nor one for each environment.
        """
        seeds: Sequence[int | None]
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        elif self._is_one_each(seed):
            seeds = seed
        else:
            raise ConfigError(f"seed={seed!r:.80} is not valid: it must be an integer, or a list of {self.num_envs}")
        items = [env.reset_item(one, options) for env, one in zip(self.envs, seeds, strict=True)]
        replies = self._backend.ask("reset", items)
        results = [env.take_reset(reply) for env, reply in zip(self.envs, replies, strict=True)]
        self._ended[:] = False
        self._begun = True
        return self._batch([shown for shown, _ in results]), self._infos([info for _, info in results])

    def step(self, actions: Sequence[str]) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """Play one turn in each environment; one whose episode has ended is reset instead, and its reply unread.

        Raises:
            EpisodeOverError: there was no reset yet.
            ReplyTypeError: there are more or fewer replies, or one that is read isn't text.
        """
        if not self._begun:
            raise EpisodeOverError(f"{self.envs[0].id} has no running episodes; call reset() first")
        if not self._is_one_each(actions) or not all(
            over or isinstance(action, str) for over, action in zip(self._ended, actions, strict=True)
        ):
            raise ReplyTypeError(
                f"actions={actions!r:.80} can't be played; give a list of text, one reply for each of "
                f"the {self.num_envs} environments"
            )
        over = [i for i in range(self.num_envs) if self._ended[i]]
        on = [i for i in range(self.num_envs) if not self._ended[i]]
        stepped = self._backend.ask("step", [self.envs[i].step_item(actions[i]) for i in on])
        begun = self._backend.ask("reset", [self.envs[i].reset_item(None, None) for i in over])
        found: dict[int, Stepped] = {}
        for i, reply in zip([*on, *over], [*stepped, *begun], strict=True):
            found[i] = self._result(i, reply, self._ended[i])
        shown, rewards, terminated, truncated, infos = zip(*(found[i] for i in range(self.num_envs)), strict=True)
        ends = np.array(terminated, bool), np.array(truncated, bool)
        self._ended = ends[0] | ends[1]
        return self._batch(shown), np.array(rewards, np.float64), *ends, self._infos(infos)

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions."""
        for env in self.envs:
            env.close()

    def _result(self, i: int, reply: Reply, reset: bool) -> Stepped:
        env = self.envs[i]
        try:
            if not reset:
                return env.take_step(reply)
            shown, info = env.take_reset(reply)
            return shown, 0.0, False, False, info
        except SimulatorError as error:
            return env.shown(), 0.0, False, True, {"simulator_error": error.cause}

    def _is_one_each(self, values: Any) -> bool:
        return hasattr(values, "__len__") and not isinstance(values, str) and len(values) == self.num_envs

    def _batch(self, observations: Sequence[dict[str, Any]]) -> dict[str, Any]:
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        batch: Any = concatenate(self.single_observation_space, observations, empty)
        return dict(batch)

    def _infos(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        batched: dict[str, Any] = {}
        for i, info in enumerate(infos):
            batched = self._add_info(batched, info, i)
        return batched
