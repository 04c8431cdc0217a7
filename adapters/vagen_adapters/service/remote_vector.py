"""Remote environments as a `VectorEnv`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from vagen_adapters.service.client import Service
from vagen_adapters.service.journal import SessionReply
from vagen_adapters.service.remote_env import RemoteEnv, Stepped
from vagen_envs.errors import ConfigError, ReplyTypeError, SimulatorError


class RemoteVectorEnv(SyncVectorEnv):
    """`num_envs` remote environments; a step of all of them is one request.

    An environment whose simulator breaks, or whose session can't be had again, ends its episode:
    `truncated`, reward 0, its last observation again, and the cause in `info["simulator_error"]`;
    such an episode has no score. The others go on, and the next step begins a new episode there, as
    after any end (autoreset mode "next step").

    Arguments are those of `RemoteEnv`, `num_envs` times. The service isn't closed with the
    environments.
    """

    def __init__(self, service: Service, env_id: str, num_envs: int = 1, **options: Any) -> None:
        self._service = service
        # Where one finds no room, those before it don't keep theirs.
        with contextlib.ExitStack() as undo:
            opened = (_Lane(service, env_id, **options) for _ in range(num_envs))
            self._lanes = [undo.enter_context(contextlib.closing(lane)) for lane in opened]
            undo.pop_all()
        super().__init__([lambda lane=lane: lane for lane in self._lanes])  # type: ignore[misc]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin `num_envs` episodes. A single seed is counted up from one environment to the next.

        Raises:
            ConfigError: `seed` is neither an integer nor one for each environment.
        """
        if seed is None or isinstance(seed, int | np.integer):
            seed = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        if not self._is_one_each(seed):
            raise ConfigError(
                f"seed={seed!r:.80} is not valid: it must be an integer, or a list of "
                f"{self.num_envs}"
            )
        self._ask(
            "reset",
            {
                lane: lane.reset_item(one, options)
                for lane, one in zip(self._lanes, seed, strict=True)
            },
        )
        return super().reset(seed=list(seed), options=options)

    def step(self, actions: Sequence[str]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one turn in each environment; one whose episode has ended is reset instead, and its
        reply unread.

        Raises:
            EpisodeOverError: there was no reset yet.
            ReplyTypeError: there are more or fewer replies, or one that is read isn't text.
        """
        over = self._autoreset_envs
        if not self._is_one_each(actions) or not all(
            done or isinstance(action, str) for done, action in zip(over, actions, strict=True)
        ):
            raise ReplyTypeError(
                f"actions={actions!r:.80} can't be played; give a list of text, one reply for "
                f"each of the {self.num_envs} environments"
            )
        lanes = list(zip(self._lanes, actions, over, strict=True))
        self._ask(
            "step",
            {
                lane: lane.step_item(reply)
                for lane, reply, done in lanes
                if not (done or lane.is_broken)
            },
        )
        self._ask("reset", {lane: lane.reset_item(None, None) for lane, _, done in lanes if done})
        return super().step(actions)

    def _ask(self, verb: str, items: Mapping[_Lane, dict[str, Any]]) -> None:
        for lane, reply in zip(items, self._service.ask(verb, list(items.values())), strict=True):
            lane.reply = reply

    def _is_one_each(self, values: Any) -> bool:
        return (
            hasattr(values, "__len__")
            and not isinstance(values, str)
            and len(values) == self.num_envs
        )


class _Lane(RemoteEnv):
    """One environment of a vector. It reads `reply`, its part of the answer to the vector's
    request.
    """

    reply = SessionReply({}, None)

    @property
    def is_broken(self) -> bool:
        """Whether the latest request failed, so that there is no episode to go on with."""
        return self.reply.code is not None

    def reset(self, **asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            return self.take_reset(self.reply)
        except SimulatorError as error:
            if asked:  # by the vector's own reset; between episodes the next step ends this one
                raise
            return self.shown(), {"simulator_error": error.cause}

    def step(self, action: str) -> Stepped:
        try:
            return self.take_step(self.reply)
        except SimulatorError as error:
            return self.shown(), 0.0, False, True, {"simulator_error": error.cause}
