"""Commands about what is here: environments, models, what they lack, and playing oneself."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import vagen_envs
from vagen_benchmarks.bench_cli import OptionPairs, parse_options
from vagen_benchmarks.doctor import examine
from vagen_benchmarks.fitting import fit
from vagen_benchmarks.models import Model, Registry
from vagen_benchmarks.output import err, out, print_table, visible
from vagen_benchmarks.play import Human
from vagen_benchmarks.play import play as play_episode
from vagen_benchmarks.protocol import Protocol, make_task, resolve_id
from vagen_benchmarks.report import write_report
from vagen_benchmarks.run_folder import RunWriter
from vagen_benchmarks.runner import run
from vagen_benchmarks.summary import summarise
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError


def envs() -> None:
    """List the environments, and whether each can be made here."""
    table = Table(box=None, header_style="bold")
    for name in ("id", "picture", "turns", "actions", "state"):
        table.add_column(name, overflow="fold")
    for env_id in vagen_envs.ENV_IDS:
        try:
            env = gym.make(env_id, disable_env_checker=True)
        except (VagenError, ImportError) as error:
            table.add_row(env_id, "", "", "", Text(visible(" ".join(str(error).splitlines())), "yellow"))
            continue
        inner = env.unwrapped
        assert isinstance(inner, VagenEnv)
        space = inner.observation_space["image"]  # type: ignore[index]
        size = f"{space.shape[1]}×{space.shape[0]}"
        turns = f"{inner.config.max_turns} × {inner.config.max_actions_per_turn}"
        table.add_row(env_id, size, turns, inner.grammar.actions.summary(), Text("ready", "green"))
        env.close()
    out.print(table)


models = typer.Typer(no_args_is_help=False, rich_markup_mode="markdown", help="The models that are known.")


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    own: Annotated[Path | None, typer.Option("--models", help="A TOML file of your own models.")] = None,
) -> None:
    """List the models that `vagen bench --agent` knows, and whether their keys are set."""
    if context.invoked_subcommand is not None:
        return
    table = Table(box=None, header_style="bold")
    for name in ("name", "id", "tokens", "temperature", "profile", "$/M in, cached, out", "ends", "key"):
        table.add_column(name, overflow="fold")
    for name, model in Registry(own).models.items():
        sampling = model.sampling()
        provider = model.provider
        key = "set" if os.environ.get(provider.key) else f"{provider.key} missing" if provider.key_required else "–"
        heat = "–" if sampling.temperature is None else f"{sampling.temperature:g}"
        tokens = f"{sampling.max_tokens} + {sampling.reasoning_tokens}" if sampling.reasoning_tokens else "400"
        end = str(model.end.date) if model.end else ""
        over = model.end is not None and model.end.date <= date.today()
        table.add_row(
            name, f"{provider.name}:{model.id}", tokens, heat, model.profile.name, _price(model),
            Text(f"{end} (over)" if over else end, "red" if over else ""), key,
        )  # fmt: skip
    out.print(table)


def _price(model: Model) -> str:
    if model.price is None:
        return "unknown" if model.provider.key_required else ""
    cached = "?" if model.price.cached is None else f"{model.price.cached:g}"
    return f"{model.price.input:g}, {cached}, {model.price.output:g} ({model.price.date})"


@models.command("try")
def try_model(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A model of the registry, or PROVIDER:MODEL.")],
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    own: Annotated[Path | None, typer.Option("--models", help="A TOML file of your own models.")] = None,
    env: Annotated[str, typer.Option("--env", "-e", help="The environment to play.")] = "frozenlake",
    strategy: Annotated[str, typer.Option(help="The reasoning strategy.")] = "free_think",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 120.0,
) -> None:
    """Ask a model for two turns as the paper does, and say which profile fits what it writes.

    Where the paper's doesn't, the one that fits best is asked for two turns, too. Exit code 1 if none fits.
    """
    registry = Registry(own)
    model = registry.find(name, base_url)
    tried = fit(model, list(registry.profiles.values()), resolve_id(env), strategy, base_url=base_url, timeout=timeout)
    for each in tried:
        out.print(f"\nprofile {each.profile.name}:", style="bold")
        for turn in each.turns:
            out.print(f"  {turn.seen}", markup=False, highlight=False)
            paid = "paid" if turn.paid else f"not paid: {turn.problem}"
            out.print(f"  → {turn.executed} action(s) executed, the format is {paid}", markup=False, highlight=False)
    best = tried[-1]
    if best.fits:
        out.print(f"\nThe profile that fits {name} is {best.profile.name}:", style="green", end=" ")
        out.print(f"vagen bench -a {name} --profile {best.profile.name}", soft_wrap=True, markup=False)
        raise typer.Exit(0)
    err.print(f"\nNo profile fits what {name} writes.", style="red", end=" ")
    err.print("It may need a larger --max-tokens, or another way to serve it.", soft_wrap=True)
    raise typer.Exit(1)


def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, such as `sokoban`.")],
    seed: Annotated[int | None, typer.Option(help="The level's seed; a new one each time by default.")] = None,
    split: Annotated[
        str | None, typer.Option(help="`train`, `val` or `test`; `test` with --out, else `train`.")
    ] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A run folder to play into, as models do; a run there goes on.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many, with --out.")] = 8,
    name: Annotated[str, typer.Option(help="Who plays, with --out.")] = "me",
) -> None:
    """Play an episode yourself: by actions, or by whole replies as a model would write them.

    With `--out` the episodes become a run like a model's: `vagen view`, `compare`, `verify` and `leaderboard` take it.
    """
    if folder is not None:
        _play_into(folder, env, split or "test", seed or 0, episodes, parse_options(option or []), name)
        return
    options: dict[str, Any] = {"split": split or "train", **parse_options(option or [])}
    made = gym.make(resolve_id(env), disable_env_checker=True, render_mode="ansi", **options)
    try:
        play_episode(made, seed, Console())
    finally:
        made.close()


def _play_into(
    folder: Path, env: str, split: str, seed: int, episodes: int, options: dict[str, Any], name: str
) -> None:
    player = Human(name, Console())
    task = make_task(resolve_id(env), options, split, seed, episodes)
    with RunWriter(folder, Protocol((task,), (player.describe(),))) as writer:
        try:
            run(writer, [player])
        except KeyboardInterrupt:
            err.print("\nstopped; the same command goes on")
        report = write_report(writer)
        print_table(summarise(writer))
    out.print(f"report: {report.resolve()}", soft_wrap=True)


def doctor() -> None:
    """Check what every environment and model needs here, and say what mends what is missing.

    Exit code 1 if an environment that is installed can't be played; an extra that isn't installed is no fault.
    """
    table = Table(box=None, show_header=False)
    for name in ("", "what", "found", "mend"):
        table.add_column(name, overflow="fold")
    well = True
    for finding in examine():
        well &= finding.ok or not finding.needed
        mark = Text("✓", "green") if finding.ok else Text("✗", "red") if finding.needed else Text("–", "yellow")
        table.add_row(mark, finding.what, finding.found, "" if finding.ok else finding.mend)
    out.print(table)
    raise typer.Exit(0 if well else 1)
