"""Run a learning experiment, or print the table of published results.

.venv/bin/python benchmarks/experiments/run.py solve-sokoban --seed 0
.venv/bin/python benchmarks/experiments/run.py solve-sokoban --published
.venv/bin/python benchmarks/experiments/run.py --list
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

# Several threads of a numeric library cost more than they bring for a model of this size. Before
# torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from vagen_experiments.experiment import RESULTS, ExperimentError, experiment_names, load_experiment
from vagen_experiments.report import table


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiment", nargs="?", help="its name, or the path of a TOML file")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument(
        "--published", action="store_true", help="print the table of the results in results/"
    )
    parser.add_argument(
        "--out", type=Path, help="folder of the results; runs/experiments/NAME by default"
    )
    parser.add_argument(
        "--recipe", action="append", default=[], help="only this recipe; may be repeated"
    )
    parser.add_argument(
        "--seed", action="append", default=[], type=int, help="only this seed; may be repeated"
    )
    chosen = parser.parse_args(arguments)
    if chosen.list or chosen.experiment is None:
        for name in experiment_names():
            print(f"{name:24} {load_experiment(name).about}")
        return 0
    try:
        experiment = load_experiment(chosen.experiment)
        if chosen.published:
            results = json.loads((RESULTS / f"{experiment.name}.json").read_text(encoding="utf-8"))
            print(table(results, experiment.baseline))
            return 0
        from vagen_experiments.running import run

        out = chosen.out or Path("runs/experiments") / experiment.name
        written = run(
            experiment,
            out,
            lambda line: print(line, flush=True),
            recipes=chosen.recipe,
            seeds=chosen.seed,
        )
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 2
    print(written.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
