"""How tables and pages name tasks and agents: with every setting that changes what was played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vagen_benchmarks.agents.factory import HUMAN, SCRIPTED
from vagen_benchmarks.runs.protocol import Protocol, Task


def task_options(task: Task) -> str:
    """The options that the task's label leaves out: `observation=text max_turns=5`."""
    shown = task.label.split()
    options = [f"{name}={value}" for name, value in task.options.items()]
    return " ".join(option for option in options if option not in shown)


def task_titles(protocol: Protocol) -> dict[str, str]:
    """By label, the label without `vagen/` and with the options that it leaves out."""
    return {
        task.label: f"{task.label.removeprefix('vagen/')} {task_options(task)}".strip()
        for task in protocol.tasks
    }


def agent_settings(described: Mapping[str, Any]) -> str:
    """Sampling, memory and profile of an agent that calls a model; empty for others."""
    sampling = described.get("sampling") or {}
    parts = [f"{name} {value}" for name, value in sampling.items() if value not in (None, {})]
    if described.get("context", "all") != "all":
        parts.append(f"context {described['context']}")
    profile = described.get("profile") or {}
    if profile.get("name") not in (None, "tagged"):
        parts.append(f"profile {profile['name']}")
    return ", ".join(parts)


def is_own_code(described: Mapping[str, Any], protocol: Protocol) -> bool:
    """Whether an agent runs code from outside this package, which can read the simulator's
    state.
    """
    if described.get("custom"):
        return True
    name = str(described["name"])
    known = {*SCRIPTED, *(baseline for task in protocol.tasks for baseline in task.baselines)}
    is_model = "sampling" in described or "weights_sha256" in described
    return not (is_model or name in known or name.startswith(HUMAN))
