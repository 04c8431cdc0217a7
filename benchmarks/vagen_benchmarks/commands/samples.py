"""`vagen filter-samples`: V-Triune's filters over a data set."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_benchmarks.commands.options import writing_out
from vagen_benchmarks.commands.printing import err, make_table, out
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs import tables
from vagen_envs.extras import need
from vagen_envs.sample.env import SampleEnv
from vagen_envs.sample.reading import read_samples
from vagen_envs.sample.schema import Sample
from vagen_envs.seeding import content_hash
from vagen_rewards.verifiers.filters import THRESHOLD, difficulty_fault, rule_fault


def filter_samples(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="Samples, a file or folder.")],
    path: Annotated[Path, typer.Option("--out", help="The Parquet file of what is kept.")],
    run: Annotated[
        Path | None,
        typer.Option(
            help="A run on DATASET, several repeats; keeps what is neither easy nor hard."
        ),
    ] = None,
    rules: Annotated[
        bool, typer.Option(help="Discard what can be guessed, hardly compared or hardly missed.")
    ] = True,
    columns: Annotated[
        str,
        typer.Option(help="Parts of a sample by column, JSON, as the environment's `columns`."),
    ] = "{}",
) -> None:
    """Filter samples as V-Triune does (appendix A): by rules, and by pass@k of a model.

    First let the model play each sample several times: `vagen bench -e sample -o dataset=DATASET
    -o split_by=all -o iou_threshold=0.5 --repeats 8 -n COUNT -a MODEL --out RUN` (16 times for
    boxes in the paper).

    Example: `vagen filter-samples raw.parquet --run runs/pass8 --out kept.parquet`
    """
    need("vagen filter-samples", "verify", "pyarrow")

    if path.suffix != ".parquet":
        raise ProtocolError(f"--out {path}: what is kept is Parquet; let its name end in .parquet")
    _warn_of_splits(dataset)
    rewards = None if run is None else _rewards(RunFolder(run))
    faults = Counter[str]()
    kept = []
    for sample in read_samples(dataset, _columns(columns)):
        fault = rule_fault(sample) if rules else ""
        if not fault and rewards is not None:
            fault = difficulty_fault(sample, rewards.get(content_hash(sample.content), []))
        faults[fault] += 1
        if not fault:
            kept.append(sample)
    table = make_table([""], ["samples"])
    for fault, count in faults.most_common():
        table.add_row(fault or "kept", str(count))
    out.print(table)
    if not kept:
        raise ProtocolError(f"{dataset}: no sample is left, so nothing is written")
    _write(kept, path)
    out.print(f"{len(kept)} samples in {path}", soft_wrap=True)


def _warn_of_splits(dataset: Path) -> None:
    """One file has no splits, and samples of a test would be trained on."""
    files = tables.files_below(dataset) if dataset.is_dir() else []
    splits = {split for file in files if (split := tables.split_of_file(file, dataset))}
    if len(splits) > 1:
        err.print(
            f"{dataset} has the splits {', '.join(sorted(splits))}, which become one in --out; "
            "filter them one by one",
            style="yellow",
            soft_wrap=True,
        )


def _columns(text: str) -> dict[str, str]:
    try:
        columns = json.loads(text)
    except ValueError:
        columns = None
    if not isinstance(columns, dict):
        raise ProtocolError(
            f"""--columns {text!r} is not a JSON object; write '{{"question": "prompt"}}'"""
        )
    return columns


def _rewards(run: RunFolder) -> dict[str, list[float]]:
    """R_acc of the replies to each sample, by its content. Failed episodes don't count."""
    tasks = [task for task in run.protocol.tasks if task.env_id == SampleEnv.id]
    if not tasks or len(run.protocol.agents) > 1:
        agents = ", ".join(agent["name"] for agent in run.protocol.agents)
        played = ", ".join(task.label for task in run.protocol.tasks)
        raise ProtocolError(
            f"--run {run.path}: {agents} played {played}; name a run of one model on {SampleEnv.id}"
        )
    for task in tasks:
        if task.config["iou_threshold"] != THRESHOLD:
            err.print(
                f"{run.path} was played with iou_threshold={task.config['iou_threshold']}; the "
                f"paper's is {THRESHOLD}",
                style="yellow",
                soft_wrap=True,
            )
    found: dict[str, list[float]] = defaultdict(list)
    for episode in run.episodes():
        if episode.failure is None and episode.turns:
            turn = episode.turns[0]
            found[turn["level"]["content"]].append(float(turn["metrics"].get("accuracy", 0.0)))
    return found


def _write(samples: list[Sample], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([_row(each) for each in samples])
    with writing_out(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path)


def _row(sample: Sample) -> dict[str, Any]:
    """A row without free dictionaries, which Arrow doesn't have."""
    row = sample.to_row()
    row["extra_info"] = json.dumps(row["extra_info"])
    model = row["reward_model"]
    row["reward_model"] = {**model, "verifier_parm": json.dumps(model["verifier_parm"])}
    return row
