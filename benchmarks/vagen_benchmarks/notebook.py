"""A run from Python, for notebooks and scripts: `bench` plays, and gives the run back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.agents.custom import custom_agent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.compare import Pairs, compare, read_side
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.job import baselines_of, make_job
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import Outcome, Policy, run
from vagen_benchmarks.runs.tasks import make_tasks


@dataclass(frozen=True)
class Run:
    """A run that was played.

    Attributes:
        path: its folder, which every command takes.
        outcome: what this call did; the folder may hold episodes of earlier ones.
    """

    path: Path
    outcome: Outcome

    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each task and agent."""
        return summarise(RunFolder(self.path)).rows()

    def episodes(self) -> list[Episode]:
        """Every episode, as it was played last."""
        return list(RunFolder(self.path).episodes())

    def report(self) -> Path:
        """The report, written anew: an HTML file, of a large one in a folder of its own."""
        return write_report(RunFolder(self.path))

    def compare(
        self, other: Run | Path, mine: str | None = None, theirs: str | None = None
    ) -> list[Pairs]:
        """This run and another pair by pair on the same levels; of runs with several agents say
        which.
        """
        other_path = other.path if isinstance(other, Run) else other
        one = read_side(f"{self.path}@{mine or ''}")
        another = read_side(f"{other_path}@{theirs or ''}")
        return compare(one, another)


def bench(
    agents: Any,
    envs: str | Sequence[str],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    episodes: int | None = None,
    split: str = "test",
    first_seed: int = 0,
    repeats: int = 1,
    options: Mapping[str, Any] | None = None,
    judge: str | None = None,
    asked: Asked | None = None,
    policy: Policy | None = None,
) -> Run:
    """Play agents on environments, as `vagen bench` does.

    >>> def up(game):
    ...     return "<think>I always go up.</think><answer>Up</answer>"
    >>> run = bench(up, "frozenlake", episodes=4, options={"strategy": "free_think"}, out=folder)
    >>> [(row["agent"], row["played"]) for row in run.rows()]
    [('up', 4)]

    Args:
        agents: one or several: a name as `--agent` takes it, an `Agent`, an object with
            `reply(game)`, or a function of a game; a reply is a string or a `Reply`.
        envs: one or several, as `--env` takes them.
        out: the run folder, new or empty. `runs/<time>` by default.
        resume: go on with the run in `out`, which must be of the same agents: names, source and
            closures.
        episodes: levels of each environment; its own number by default.
        split: `train`, `val` or `test`.
        first_seed: the first of the seeds.
        repeats: how often each agent plays each seed.
        options: of the environments.
        judge: of what agents say.
        asked: parameters of the models.
        policy: how many episodes in flight, budgets, when to give up.

    Raises:
        ProtocolError: something can't be played, or not by these agents.
        RunFolderError: the folder holds another run.
    """
    several = list(agents) if isinstance(agents, list | tuple) else [agents]
    tasks, _ = make_tasks(
        [envs] if isinstance(envs, str) else list(envs),
        options=options,
        split=split,
        first_seed=first_seed,
        episodes=episodes,
    )
    made: list[Agent] = []
    for each in several:
        named = isinstance(each, str)
        made += (
            make_agents([each], asked or Asked(), None, baselines_of(tasks))
            if named
            else [custom_agent(each)]
        )
    scoring = {"judge": judge} if judge else None
    job = make_job(
        Path(out) if out else None, tasks, made, repeats=repeats, scoring=scoring, policy=policy
    )
    with RunWriter(job.path, job.protocol, new=not resume) as folder:
        return Run(job.path, run(folder, made, policy=job.policy, scoring=job.scoring))
