"""Remote environments as a `VectorEnv`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from vagen_adapters.service.backends import Backend
from vagen_adapters.service.journal import Reply
from vagen_adapters.service.remote_env import RemoteEnv, Stepped
from vagen_envs.errors import EpisodeOverError, SimulatorError
from vagen_envs.vectors import TurnVectorEnv


class RemoteVectorEnv(TurnVectorEnv):
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

    def __init__(self, backend: Backend, env_id: str, num_envs: int = 1, **options: Any) -> None:
        self._backend = backend
        with contextlib.ExitStack() as undo:  # where one finds no room, those before it don't keep theirs
            opened = (RemoteEnv(backend, env_id, **options) for _ in range(num_envs))
            made = [undo.enter_context(contextlib.closing(env)) for env in opened]
            undo.pop_all()
        self._take_over(made)
        self.render_mode = None
        self._begun = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin `num_envs` episodes. A single seed is counted up from one environment to the next."""
        seeds = self._seeds(seed)
        items = [env.reset_item(one, options) for env, one in zip(self.envs, seeds, strict=True)]
        replies = self._backend.ask("reset", items)
        results = [env.take_reset(reply) for env, reply in zip(self.envs, replies, strict=True)]
        self._ended[:] = False
        self._begun = True
        return self._batch([shown for shown, _ in results]), self._infos([info for _, info in results])

    def step(self, actions: Sequence[str]) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """Play one turn in each environment; one whose episode has ended is reset instead, and its reply unread."""
        if not self._begun:
            raise EpisodeOverError(f"{self.envs[0].id} has no running episodes; call reset() first")
        actions = self._replies(actions)
        over = [i for i in range(self.num_envs) if self._ended[i]]
        on = [i for i in range(self.num_envs) if not self._ended[i]]
        stepped = self._backend.ask("step", [self.envs[i].step_item(actions[i]) for i in on])
        begun = self._backend.ask("reset", [self.envs[i].reset_item(None, None) for i in over])
        results: dict[int, Stepped] = {}
        for i, reply in zip([*on, *over], [*stepped, *begun], strict=True):
            results[i] = self._result(i, reply, self._ended[i])
        return self._together_stepped([results[i] for i in range(self.num_envs)])

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
