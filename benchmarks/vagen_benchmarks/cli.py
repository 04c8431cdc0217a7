"""The command `vagen`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

import vagen_envs
from vagen_benchmarks.commands import (
    bench,
    diagnose,
    doctor,
    export,
    judge,
    merge,
    models,
    new,
    play,
    results,
    samples,
    serve,
    setup,
    sharing,
    table,
    train,
    train_report,
    warmstart,
)
from vagen_benchmarks.commands.options import EXIT_BAD_INPUT, EXIT_STOPPED
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.commands.train_help import train_epilog
from vagen_benchmarks.errors import BenchError, StorageError
from vagen_benchmarks.extras import explained
from vagen_benchmarks.redaction import RedactingFormatter, note_environment, traceback_of
from vagen_envs.errors import VagenError

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
EXTRAS = {
    "train": "ppo",
    "train-report": "ppo",
    "filter-samples": "verify",
    "warmstart": "ppo",
    "merge": "ppo",
    "serve": "serve",
    "export": "export",
    "judge": "judge",
}
"""The extra to install for a command where several extras provide a missing module."""


def main() -> None:
    """Run the command. Errors of this package are one message and exit code 2, or 3 if a run can't
    be stored.
    """
    logging.lastResort = _log_handler()
    note_environment()
    try:
        app()
    except (BenchError, VagenError) as error:
        _fail(error)
    except ModuleNotFoundError as error:
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        _fail(explained(f"vagen {command}".strip(), error, EXTRAS.get(command, "")))
    except Exception as error:
        sys.stderr.write(traceback_of(error))
        sys.exit(1)


def _log_handler() -> logging.Handler:
    """The handler of log records where none was set up: to stderr, without secrets."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(RedactingFormatter())
    return handler


def _fail(error: Exception) -> None:
    err.print("vagen:", style="bold red", end=" ")
    err.print(str(error), soft_wrap=True)
    sys.exit(EXIT_STOPPED if isinstance(error, StorageError) else EXIT_BAD_INPUT)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"vagen-envs {vagen_envs.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Benchmark, judge and train vision-language agents. Example: `vagen bench -e frozenlake -a
    oracle -a random`.
    """


BENCHMARK, RESULTS, SHARE = "Benchmark models", "Look at results", "Check and share runs"
TRAIN, ENVIRONMENTS = "Train", "Environments and setup"

for panel, commands in {
    BENCHMARK: (bench.bench, bench.resume),
    RESULTS: (results.view, results.compare, table.table, export.export),
    SHARE: (sharing.verify,),
    TRAIN: (warmstart.warmstart, merge.merge),
    ENVIRONMENTS: (doctor.envs, play.play, serve.serve, doctor.doctor),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command(rich_help_panel=TRAIN, epilog=train_epilog())(train.train)
app.command("filter-samples", rich_help_panel=TRAIN)(samples.filter_samples)
app.command("train-report", rich_help_panel=TRAIN)(train_report.train_report)
app.command("diagnose", rich_help_panel=RESULTS)(diagnose.diagnose_command)
app.add_typer(models.models, name="models", rich_help_panel=BENCHMARK)
app.add_typer(judge.app, name="judge", rich_help_panel=RESULTS)
app.add_typer(sharing.board, name="leaderboard", rich_help_panel=SHARE)
app.add_typer(new.new, name="new", rich_help_panel=ENVIRONMENTS)
app.add_typer(setup.setup, name="setup", rich_help_panel=ENVIRONMENTS)

if __name__ == "__main__":
    main()
