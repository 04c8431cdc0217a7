"""Many environments that step beside each other: `gym.make_vec("vagen/PrimitiveSkill-v0", num_envs=8)`.

With `device="gpu"` one GPU simulates them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vagen_envs.errors import EpisodeOverError, SimulatorError
from vagen_envs.primitive_skill.batch import Batch
from vagen_envs.primitive_skill.env import PrimitiveSkillEnv
from vagen_envs.vectors import TurnVectorEnv


class PrimitiveSkillVectorEnv(TurnVectorEnv):
    """`num_envs` environments over one pool of worker processes, or in one batch on a GPU.

    An environment whose simulator breaks (its worker was killed, say) ends its episode: `truncated`,
    reward 0, its last observation again, and the cause in `info["simulator_error"]`; such an episode has
    no score. The others go on. The next step begins a new episode there, as after any end (Gymnasium's
    autoreset mode "next step").

    Args:
        num_envs: how many.
        workers: number of processes; by default one per environment, at most 4. A GPU needs none.
        options: of each environment, see `PrimitiveSkillConfig`.
    """

    def __init__(self, num_envs: int = 1, workers: int | None = None, **options: Any) -> None:
        workers = min(num_envs, 4) if workers is None else workers
        self._take_over([PrimitiveSkillEnv(workers=workers, **options) for _ in range(num_envs)])
        self.render_mode = self.envs[0].render_mode
        self._lockstep: Batch | None = None
        if self.envs[0].config.device == "gpu":
            self._lockstep = Batch(num_envs, self.envs[0].rendered_size)
            for env, seat in zip(self.envs, self._lockstep.seats, strict=True):
                env.use(seat)
        # With workers or a batch threads only wait; without, one simulator at a time is all a process can do.
        self._threads = ThreadPoolExecutor(num_envs if workers or self._lockstep else 1, "primitive-skill")
        self._last: list[dict[str, Any]] = []

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin `num_envs` episodes. A single seed is counted up from one environment to the next."""
        seeds = self._seeds(seed)
        for env in self.envs:
            env.spec = self.spec  # turns name the id that was made
        results = self._together(lambda i: self.envs[i].reset(seed=seeds[i], options=options))
        self._last = [observation for observation, _ in results]
        self._ended[:] = False
        return self._batch(self._last), self._infos([info for _, info in results])

    def step(self, actions: Sequence[str]) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """Play one turn in each environment; one whose episode has ended is reset instead, and its reply unread."""
        if not self._last:
            raise EpisodeOverError(f"{PrimitiveSkillEnv.id} has no running episodes; call reset() first")
        replies = self._replies(actions)
        results = self._together(lambda i: self._one(i, replies[i]))
        self._last = [result[0] for result in results]
        return self._together_stepped(results)

    def render(self) -> tuple[Any, ...] | None:
        """What each environment's `render` gives."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the scenes; the workers stay warm for the next environments of this process."""
        self._threads.shutdown()
        for env in self.envs:
            env.close()

    def _together(self, play: Callable[[int], Any]) -> list[Any]:
        """Do something for each environment, in threads."""

        def one(i: int) -> Any:
            try:
                return play(i)
            finally:
                if self._lockstep is not None:
                    self._lockstep.leave(i)

        if self._lockstep is not None:
            self._lockstep.begin()
        return list(self._threads.map(one, range(self.num_envs)))

    def _one(self, i: int, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        try:
            if self._ended[i]:
                observation, info = self.envs[i].reset()
                return observation, 0.0, False, False, info
            return self.envs[i].step(action)
        except SimulatorError as error:
            return self._last[i], 0.0, False, True, {"simulator_error": error.cause}
