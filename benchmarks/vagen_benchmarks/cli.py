"""The command `vagen`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import vagen_envs
from vagen_benchmarks import bench_cli, diagnose_cli, judge_cli, machine_cli, runs_cli, serve_cli, share_cli, train_cli
from vagen_benchmarks.errors import BenchError, StorageError
from vagen_benchmarks.output import err, out
from vagen_envs.errors import VagenError
from vagen_envs.extras import explained

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
LIKELY = {"train": "ppo", "warmstart": "ppo", "prove": "ppo", "serve": "serve", "export": "export", "judge": "judge"}
"""The extra of a command, where several bring what it lacks."""


def main() -> None:
    """Run the command; errors of ours are one message and exit code 2, or 3 if a run couldn't be stored any further."""
    try:
        app()
    except (BenchError, VagenError) as error:
        _fail(error)
    except ModuleNotFoundError as error:
        command = next((each for each in sys.argv[1:] if not each.startswith("-")), "")
        said = explained(f"vagen {command}".strip(), error, LIKELY.get(command, ""))
        if said is None:  # a fault of ours, or of a file of the user's
            raise
        _fail(said)


def _fail(error: Exception) -> None:
    err.print("vagen:", style="bold red", end=" ")
    err.print(str(error), soft_wrap=True)
    sys.exit(bench_cli.EXIT_STOPPED if isinstance(error, StorageError) else bench_cli.EXIT_BAD_INPUT)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"vagen-envs {vagen_envs.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Play, judge and train agents in vision environments. `vagen COMMAND --help` says more of each."""


for command in (
    bench_cli.bench, bench_cli.resume, runs_cli.view, runs_cli.compare, runs_cli.export, runs_cli.gif,
    machine_cli.envs, machine_cli.play, machine_cli.doctor, serve_cli.serve,
    share_cli.verify, share_cli.leaderboard, share_cli.push, share_cli.track,
    train_cli.warmstart, train_cli.train, train_cli.prove,
):  # fmt: skip
    app.command()(command)
app.command("diagnose")(diagnose_cli.diagnose_command)
app.add_typer(judge_cli.app, name="judge")
app.add_typer(machine_cli.models, name="models")

if __name__ == "__main__":
    main()
