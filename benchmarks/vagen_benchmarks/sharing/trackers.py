"""A finished run in an experiment tracker, by the tracker's own library: a tracker's run for each agent."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.errors import did_you_mean

PROJECT = "vagen"
TASK = ("label", "split", "first_seed", "episodes")
TRACKERS = ("trackio", "wandb", "mlflow")
SCORES = (
    "success", "low", "high", "return", "return_low", "return_high", "turns", "valid", "effective", "well_formed",
    "played", "levels", "failed", "missing", "prompt_tokens", "completion_tokens", "seconds_per_reply",
)  # fmt: skip
"""What of a row of the table is tracked, besides the environment's own metrics."""


def library(kind: str) -> Any:
    """The tracker's library. Raises ProtocolError if there is no such tracker, or if it isn't installed."""
    if kind not in TRACKERS:
        raise ProtocolError(f"unknown tracker {kind!r}.{did_you_mean(kind, TRACKERS)}")
    try:
        return importlib.import_module(kind)
    except ImportError as error:
        raise ProtocolError(
            f'--track {kind} needs the Python module {error.name!r}. Install it with: pip install "vagen-envs[{kind}]"'
        ) from error


def track(kind: str, run: RunFolder) -> None:
    """Write a run to a tracker, where its own settings say (`WANDB_MODE`, `MLFLOW_TRACKING_URI`, `TRACKIO_DIR` …).

    Of each agent: the protocol, each episode's success and return in the order they were played, and the table's row
    for each task. Existing entries stay; a resumed run is written as a new one.
    """
    made = library(kind)
    rows = summarise(run).rows()
    for agent in run.protocol.agents:
        name = str(agent["name"])
        own = [row for row in rows if row["agent"] == name]
        scores = {key: value for row in own for key, value in _scores(row)}
        _WRITERS[kind](made, f"{run.path.resolve().name} {name}", _config(run, agent), _episodes(run, name), scores)


def _config(run: RunFolder, agent: Mapping[str, Any]) -> dict[str, Any]:
    protocol = run.protocol.to_json()
    plan = protocol["plan"]
    return {
        "agent": dict(agent),
        "protocol": plan["name"] if plan else None,
        "protocol_sha256": protocol["sha256"],
        "versions": protocol["versions"],
        "tasks": [{name: task[name] for name in TASK} for task in protocol["tasks"]],
        "repeats": protocol["repeats"],
    }


def _episodes(run: RunFolder, agent: str) -> Iterator[dict[str, float]]:
    """Success and return of each episode, under the name of its task; failed ones only as that."""
    for each in run.episodes():
        if each.agent == agent and each.failure is not None:
            yield {f"{_key(each.task)}/episode_failed": 1.0}
        elif each.agent == agent:
            yield {
                f"{_key(each.task)}/episode_success": float(each.success),
                f"{_key(each.task)}/episode_return": each.score,
            }


def _scores(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    values = {**{name: row[name] for name in SCORES}, **row["metrics"], **row["judged"]}
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            yield f"{_key(row['task'])}/{_key(name)}", float(value)


def _key(name: str) -> str:
    """A name that every tracker takes; MLflow allows no `=`."""
    return name.removeprefix("vagen/").replace("=", " ")


def _to_trackio(
    library: Any, name: str, config: dict[str, Any], episodes: Iterator[dict[str, float]], scores: dict[str, float]
) -> None:
    library.init(project=PROJECT, name=name, config=config)
    for step, values in enumerate(episodes):
        library.log(values, step=step)
    library.log(scores)
    library.finish()


def _to_wandb(
    library: Any, name: str, config: dict[str, Any], episodes: Iterator[dict[str, float]], scores: dict[str, float]
) -> None:
    made = library.init(project=PROJECT, name=name, config=config)
    for step, values in enumerate(episodes):
        made.log(values, step=step)
    made.summary.update(scores)
    made.finish()


def _to_mlflow(
    library: Any, name: str, config: dict[str, Any], episodes: Iterator[dict[str, float]], scores: dict[str, float]
) -> None:
    library.set_experiment(PROJECT)
    with library.start_run(run_name=name):
        library.log_dict(config, "config.json")
        library.log_params(
            {
                "agent": config["agent"]["name"],
                "protocol": config["protocol"] or "",
                "protocol_sha256": config["protocol_sha256"],
            }
        )
        for step, values in enumerate(episodes):
            library.log_metrics(values, step=step)
        library.log_metrics(scores)


_WRITERS = {"trackio": _to_trackio, "wandb": _to_wandb, "mlflow": _to_mlflow}
