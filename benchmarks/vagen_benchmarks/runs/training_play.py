"""The play of a training as run folders: a few episodes of each rollout, and all of each
evaluation.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vagen_benchmarks.agents.base import Call
from vagen_benchmarks.errors import RunFolderError, StorageError
from vagen_benchmarks.runs.episode import Ended, Episode
from vagen_benchmarks.runs.protocol import Protocol, Task, episode_key
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.tasks import make_task
from vagen_benchmarks.stop_reasons import Stop

if TYPE_CHECKING:
    from vagen_adapters.ppo.environments import TrainingTask
    from vagen_adapters.ppo.episodes import PlayedTurn, PPOEpisode
    from vagen_envs import Turn
    from vagen_envs.pictures import Picture

PLAY = "play"
"""The folder of a training that holds the run folders, such as `rollout-000012`."""


class TrainingPlay:
    """Writes what a training plays below its folder; see `vagen_adapters.ppo.watching.Watch`.

    Evaluations play the same levels by one protocol, so that two of them can be compared.
    """

    def __init__(self, out: Path, tasks: Sequence[TrainingTask], eval_episodes: int) -> None:
        self._out = out / PLAY
        self._name = out.name
        self._tasks = {task.name: task for task in tasks}
        self._eval_episodes = eval_episodes
        self._made: dict[tuple[str, str], Task] = {}

    def __call__(
        self,
        kind: str,
        number: int,
        episodes: Mapping[str, PPOEpisode],
        turns_of: Callable[[PPOEpisode], list[Turn]],
    ) -> None:
        folder = self._out / f"{kind}-{number:06d}"
        shutil.rmtree(folder, ignore_errors=True)  # of a training that was resumed before it
        agent = f"{self._name} {kind} {number}"
        if kind == "evaluation":
            owners = {name: self._whole(each) for name, each in episodes.items()}
        else:
            owners = {name: self._single(each, name) for name, each in episodes.items()}
        tasks = {task.label: task for task in owners.values()}
        protocol = Protocol(tuple(tasks.values()), ({"name": agent},))
        try:
            with RunWriter(folder, protocol) as writer:
                writer.note("start", at=_now())
                for name, episode in episodes.items():
                    _add(writer, agent, owners[name], episode, turns_of(episode))
                writer.note("end", at=_now(), scored=writer.scored)
        except RunFolderError as error:  # which tells how benchmarks go on
            reason = str(error.__cause__ or error)
            raise StorageError(
                f"{folder} can't be written: {reason}. Make room there, and repeat the command "
                "with --resume auto"
            ) from error

    def _base(self, episode: PPOEpisode) -> Task:
        level = episode.level
        known = (level.environment, level.split)
        if known not in self._made:
            task = self._tasks[level.environment]
            made = make_task(task.environment.id, task.options, level.split, 0, 1)
            self._made[known] = dataclasses.replace(made, label=task.name)
        return self._made[known]

    def _whole(self, episode: PPOEpisode) -> Task:
        return dataclasses.replace(self._base(episode), episodes=self._eval_episodes)

    def _single(self, episode: PPOEpisode, name: str) -> Task:
        base = self._base(episode)
        return dataclasses.replace(
            base, label=f"{base.label} {name}", first_seed=episode.level.seed
        )


def _add(writer: RunWriter, agent: str, task: Task, episode: PPOEpisode, turns: list[Turn]) -> None:
    seed = episode.level.seed
    key = (episode_key(agent, task, seed, 0), agent, task.label, task.split, seed, 0)
    calls = [_thoughts(each) for each in episode.turns]
    stored = Episode.played(key, turns, calls, _end_of(episode, turns))
    writer.add(stored, _pictures(turns))


def _end_of(episode: PPOEpisode, turns: Sequence[Turn]) -> Ended | None:
    """How an episode ended where its environment's rules didn't end it."""
    if episode.failure is not None:
        return Ended(Stop.ENVIRONMENT, episode.failure)
    return None if turns else Ended(Stop.ENVIRONMENT, "no turn was played")


def _thoughts(turn: PlayedTurn) -> Call | None:
    """A model's own thoughts before a reply, as a benchmark stores those of an endpoint."""
    if not turn.thoughts:
        return None
    return Call("cut" if turn.cut else "stop", 0.0, 0, reasoning=turn.thoughts)


def _pictures(turns: Sequence[Turn]) -> list[Picture]:
    shown = [seen for turn in turns for seen in (turn.observed, turn.result)]
    return [seen.picture for seen in shown if seen.picture is not None]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
