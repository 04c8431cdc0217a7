"""Runs of `vagen bench` without its command line."""

from __future__ import annotations

from vagen_benchmarks.agents import Agent, Reply
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run
from vagen_benchmarks.runs.tasks import make_tasks


def protocol(agents, envs=("sokoban",), *, repeats=1, scoring=None, **tasks):
    """Of these agents on these environments; `tasks` are options of `make_tasks`."""
    described = tuple(agent.describe() for agent in agents)
    return Protocol(
        tuple(make_tasks(envs, **tasks)[0]),
        described,
        repeats,
        scoring=scoring and scoring.describe(),
    )


def play(path, agents, envs=("sokoban",), *, policy=None, scoring=None, skipped=(), **asked):
    """Play into a folder, or go on there; what came of it."""
    with RunWriter(path, protocol(agents, envs, scoring=scoring, **asked)) as folder:
        return run(folder, agents, policy=policy, scoring=scoring, skipped=skipped)


def episodes(path):
    """All that is stored, as it was played last."""
    return list(RunFolder(path).episodes())


def rows(path):
    """The table's."""
    return summarise(RunFolder(path)).rows()


class Liar(Agent):
    """Places the target on the wrong side in both directions, also after the move, and walks up."""

    name = "liar"

    def reply(self, game):
        state = game.env.true_state
        vertical = "below" if state.target[0] < state.player[0] else "above"
        horizontal = "right" if state.target[1] < state.player[1] else "left"
        lie = f"The target is {vertical} and on the {horizontal} side of the player."
        return Reply(
            game.env.grammar.render(["Up"], observation=lie, reasoning="-", prediction=lie)
        )
