"""The command `vagen`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import vagen_envs
from vagen_benchmarks.commands import (
    bench,
    compare,
    diagnose,
    doctor,
    envs,
    export,
    gif,
    judge,
    leaderboard,
    models,
    play,
    push,
    resume,
    serve,
    track,
    train,
    verify,
    view,
    warmstart,
)
from vagen_benchmarks.commands.options import EXIT_BAD_INPUT, EXIT_STOPPED
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.errors import BenchError, StorageError
from vagen_envs.errors import VagenError
from vagen_envs.extras import explained

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
LIKELY = {"train": "ppo", "warmstart": "ppo", "serve": "serve", "export": "export", "judge": "judge"}
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
    sys.exit(EXIT_STOPPED if isinstance(error, StorageError) else EXIT_BAD_INPUT)


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
    bench.bench, resume.resume, view.view, compare.compare, export.export, gif.gif,
    envs.envs, play.play, doctor.doctor, serve.serve,
    verify.verify, leaderboard.leaderboard, push.push, track.track,
    warmstart.warmstart, train.train,
):  # fmt: skip
    app.command()(command)
app.command("diagnose")(diagnose.diagnose_command)
app.add_typer(judge.app, name="judge")
app.add_typer(models.models, name="models")

if __name__ == "__main__":
    main()
