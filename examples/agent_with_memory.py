"""An agent around a model that replaces earlier turns by notes (ReAct).

The model receives the latest picture, a list of its earlier actions, and whether they changed
anything:

    vagen bench -e sokoban -a examples/agent_with_memory.py:ReAct -n 8
    VAGEN_MODEL=claude-sonnet-5.5 vagen bench -e sokoban -a examples/agent_with_memory.py:ReAct -n 8

`RandomWithMemory` keeps the same notes without a model: it acts at random and avoids actions that
changed nothing. This script plays it from Python.
"""

from __future__ import annotations

import os

from vagen_adapters.context import ContextPolicy, Message
from vagen_benchmarks.agents import Agent, Game
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.notebook import bench
from vagen_envs.seeding import HashStream


class ReAct(ChatAgent):
    """Sends notes to the model instead of earlier turns."""

    def __init__(self) -> None:
        model = Registry().find(os.environ.get("VAGEN_MODEL", "gpt-6-luna"))
        super().__init__(model, context=ContextPolicy(turns=0))

    def messages(self, game: Game) -> list[Message]:
        messages = super().messages(game)
        messages[-1]["content"].append(
            {"type": "text", "text": "\n".join(["What I remember:", *notes(game)])}
        )
        return messages


class RandomWithMemory(Agent):
    """Draws random actions and avoids those that changed nothing."""

    name = "random-with-memory"

    def reply(self, game: Game) -> str:
        notes(game)
        stream = HashStream(self.name, game.task, game.seed, game.repeat, len(game.turns))
        steps = [
            step
            for step in game.env.random_actions(stream, 8)
            if step not in game.memory["useless"]
        ]
        text = f"I have not tried {steps[0]} here." if steps else "I have tried everything."
        return game.env.grammar.render(
            steps[:1] or ["Up"], observation=text, reasoning=text, prediction=text
        )


def notes(game: Game) -> list[str]:
    """Return the notes of the episode so far. `game.memory` is empty when an episode begins."""
    known = game.memory.setdefault("notes", [])
    useless = game.memory.setdefault("useless", set())
    if game.turns:
        last = game.turns[-1]
        did = [action.text for action in last.executed]
        changed = last.metrics["action_is_effective"]
        effect = "something" if changed else "nothing"
        known.append(
            f"Turn {len(game.turns)}: {', '.join(did) or 'nothing'}, which changed {effect}."
        )
        useless.clear() if changed else useless.update(did[:1])
    return known


if __name__ == "__main__":
    run = bench(RandomWithMemory(), "frozenlake", episodes=32)
    for row in run.rows():
        print(f"{row['agent']} solved {row['successes']} of {row['played']} levels")
    print(f"report: {run.report()}")
