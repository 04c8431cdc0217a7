"""An agent of your own around a model, with a memory (ReAct).

It is shown the latest picture only and, in words, what it has done in the episode and whether that changed anything:

    vagen bench -e sokoban -a examples/agent_with_memory.py:ReAct -n 8
    VAGEN_MODEL=claude-sonnet-5.5 vagen bench -e sokoban -a examples/agent_with_memory.py:ReAct -n 8

`Forgetful` has the same memory and no model: it acts by chance, and leaves out what has changed nothing. Run as a
script, this plays it from Python.
"""

from __future__ import annotations

import os

from vagen_benchmarks.agents import Agent, Game, Reply
from vagen_benchmarks.agents.chat import Around
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.notebook import bench
from vagen_envs.context import ContextPolicy
from vagen_envs.seeding import HashStream


class ReAct(Around):
    """Asks its model with notes instead of the past."""

    def __init__(self) -> None:
        (model,) = make_agents([os.environ.get("VAGEN_MODEL", "gpt-6-luna")], Asked(context=ContextPolicy(turns=0)))
        super().__init__(model)

    async def areply(self, game: Game) -> Reply:
        messages = self.model.messages(game)
        messages[-1]["content"].append({"type": "text", "text": "\n".join(["What I remember:", *notes(game)])})
        return await self.model.answer(game, messages)


class Forgetful(Agent):
    """Acts by chance, but not as has changed nothing."""

    name = "forgetful"

    def reply(self, game: Game) -> str:
        notes(game)
        stream = HashStream(self.name, game.task, game.seed, game.repeat, len(game.turns))
        steps = [step for step in game.env.random_actions(stream, 8) if step not in game.memory["useless"]]
        said = f"I haven't seen that {steps[0]} is useless." if steps else "I have tried everything."
        return game.env.grammar.render(steps[:1] or ["Up"], observation=said, reasoning=said, prediction=said)


def notes(game: Game) -> list[str]:
    """What the episode has taught so far. `game.memory` is the episode's: another one begins with an empty one."""
    known = game.memory.setdefault("notes", [])
    useless = game.memory.setdefault("useless", set())
    if game.turns:
        last = game.turns[-1]
        did = [each.text for each in last.executed]
        changed = last.metrics["action_is_effective"]
        effect = "something" if changed else "nothing"
        known.append(f"Turn {len(game.turns)}: {', '.join(did) or 'nothing'}, which changed {effect}.")
        useless.clear() if changed else useless.update(did[:1])
    return known


if __name__ == "__main__":
    run = bench(Forgetful(), "frozenlake", episodes=32)
    for row in run.rows():
        print(f"{row['agent']} solved {row['successes']} of {row['played']} levels")
    print(f"report: {run.report()}")
