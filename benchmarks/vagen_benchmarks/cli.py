"""The command `vagen`."""

from __future__ import annotations

import json
import os
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.table import Table

import vagen_envs
from vagen_benchmarks import judge_cli, training
from vagen_benchmarks.agents import Agent
from vagen_benchmarks.animation import find_episode, write_gif
from vagen_benchmarks.compare import compare as compare_sides
from vagen_benchmarks.compare import read_side
from vagen_benchmarks.doctor import examine
from vagen_benchmarks.errors import BenchError, ProtocolError
from vagen_benchmarks.export import export
from vagen_benchmarks.lineup import Asked, make_agents
from vagen_benchmarks.models import Registry
from vagen_benchmarks.output import Bar, err, out, print_plan, print_table
from vagen_benchmarks.plans import load_plan
from vagen_benchmarks.play import play as play_episode
from vagen_benchmarks.protocol import Protocol, Skipped, make_tasks, resolve_id
from vagen_benchmarks.report import write_report
from vagen_benchmarks.run_folder import Episode, RunFolder, RunWriter
from vagen_benchmarks.runner import Outcome, Policy, run
from vagen_benchmarks.summary import Summary
from vagen_envs.chat import History
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError, did_you_mean

EXIT_FAILED_EPISODES, EXIT_BAD_INPUT, EXIT_STOPPED, EXIT_INTERRUPTED = 1, 2, 3, 130

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)


def main() -> None:
    """Run the command; errors of ours are one message and exit code 2."""
    try:
        app()
    except (BenchError, VagenError) as error:
        err.print("[bold red]vagen:[/] ", end="")
        err.print(str(error), markup=False, highlight=False)
        sys.exit(EXIT_BAD_INPUT)


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`["max_turns=5", "split=val"]` to keyword options; values are JSON where they can be read as such.

    Raises:
        ProtocolError: one has no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise ProtocolError(f"option {pair!r} is not valid: write NAME=VALUE, such as max_turns=5")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options


Names = list[str] | None
OptionPairs = Annotated[
    Names, typer.Option("--option", "-o", help="An option of the environments, NAME=VALUE; may be repeated.")
]


@app.command()
def bench(
    context: typer.Context,
    protocol: Annotated[
        str | None, typer.Option("--protocol", "-p", help="`paper`, `paper-representations`, `strategies` or a file.")
    ] = None,
    env: Annotated[Names, typer.Option("--env", "-e", help="An environment; may be repeated. All by default.")] = None,
    agent: Annotated[
        Names, typer.Option("--agent", "-a", help="`oracle`, `random`, `tracer` (SVG), a model, or PROVIDER:MODEL.")
    ] = None,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "test",
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", "-n", min=1, help="Seeds a task; each environment's own number by default."),
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="How often each agent plays each seed.")] = 1,
    strategy: Annotated[Names, typer.Option(help="A reasoning strategy; may be repeated.")] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder; a run there is resumed. `runs/<time>` by default.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a reply; 400 unless the registry says.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of sampling; 0.7 unless the registry says.")] = None,
    max_dollars: Annotated[float | None, typer.Option(min=0.0, help="Begin no episode once so much is spent.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Begin no episode once so many are used.")] = None,
    history: Annotated[int | None, typer.Option(min=0, help="Earlier turns in a prompt; all by default.")] = None,
    history_reasoning: Annotated[bool, typer.Option(help="Whether earlier replies keep their reasoning.")] = True,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes in flight of an agent that calls a model.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 120.0,
    attempts: Annotated[int, typer.Option(min=1, help="Requests for one reply before its episode fails.")] = 6,
    give_up_after: Annotated[int, typer.Option(min=1, help="Stop when so many episodes in a row have failed.")] = 20,
) -> None:
    """Play agents on environments and write a report.

    Exit codes: 0 all played; 1 some episodes failed and have no score; 2 bad input; 3 stopped early; 130 interrupted.
    A run that stopped goes on when the same command is given its `--out` folder.
    """
    plan = load_plan(protocol) if protocol else None
    if plan is not None:
        _refuse_beside_protocol(context)
        tasks, skipped = plan.tasks()
    else:
        tasks, skipped = make_tasks(
            env or [], strategies=strategy or [], options=parse_options(option or []), split=split,
            first_seed=first_seed, episodes=episodes,
        )  # fmt: skip
    for each in skipped:
        err.print(f"[yellow]skipped[/] {each.env_id}: ", end="", highlight=False)
        err.print(each.reason, markup=False, highlight=False)
    if not tasks:
        raise ProtocolError("no environment can be made here; see above for what each lacks")
    asked = Asked(
        base_url=base_url, timeout=timeout, attempts=attempts,
        history=plan.history if plan else History(history, history_reasoning),
        **(plan.data.get("sampling", {}) if plan else {"max_tokens": max_tokens, "temperature": temperature}),
    )  # fmt: skip
    own = list(dict.fromkeys(name for task in tasks for name in task.baselines))
    agents = make_agents(agent or ["oracle", *own, "random"], asked, models, own)
    named = {"name": plan.name, **plan.data} if plan else None
    made = Protocol(tuple(tasks), tuple(each.describe() for each in agents), repeats, named)
    path = folder or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    policy = Policy(concurrency, give_up_after=give_up_after, max_dollars=max_dollars, max_tokens=max_total_tokens)
    raise typer.Exit(_bench(path, made, agents, skipped, policy))


SAID_BY_PROTOCOL = ("env", "split", "episodes", "first_seed", "strategy", "option", "max_tokens", "temperature",
                    "history", "history_reasoning")  # fmt: skip


def _refuse_beside_protocol(context: typer.Context) -> None:
    """Raise ProtocolError if an option is given that the protocol file says."""
    for name in SAID_BY_PROTOCOL:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            option = "--" + name.replace("_", "-")
            raise ProtocolError(f"{option} is said by the protocol; leave it out, or copy the file and change it there")


def _bench(path: Path, protocol: Protocol, agents: Sequence[Agent], skipped: Sequence[Skipped], policy: Policy) -> int:
    with RunWriter(path, protocol) as folder:
        total = sum(1 for agent in agents for _ in protocol.keys(agent.name))
        done = len(folder.finished)
        if done:
            out.print(f"{path}: {done} of {total} episodes are there already", highlight=False)
        outcome = Outcome()
        interrupted = False
        with Bar(total, done) as told:
            try:
                outcome = run(folder, agents, policy=policy, skipped=skipped, told=told)
            except KeyboardInterrupt:
                interrupted = True
        report = write_report(folder)
        summary = Summary()
        for episode in folder.episodes():
            summary.add(episode)
    print_table(summary)
    if protocol.plan:
        print_plan(protocol.plan, summary)
    if outcome.failed:
        err.print(f"[red]{outcome.failed} episode(s) failed and have no score[/]; the same command with "
                  f"--out {path} plays them again", highlight=False)  # fmt: skip
    if interrupted or outcome.reason:
        err.print(f"[red]stopped:[/] {outcome.reason or 'interrupted'}; go on with --out {path}", highlight=False)
    out.print(f"report: {report.resolve()}", highlight=False, soft_wrap=True)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_STOPPED if outcome.reason else EXIT_FAILED_EPISODES if outcome.failed else 0


@app.command()
def envs() -> None:
    """List the environments, and whether each can be made here."""
    table = Table(box=None, header_style="bold")
    for name in ("id", "picture", "turns", "actions", "state"):
        table.add_column(name, overflow="fold")
    for env_id in vagen_envs.ENV_IDS:
        try:
            env = gym.make(env_id, disable_env_checker=True)
        except (VagenError, ImportError) as error:
            table.add_row(env_id, "", "", "", f"[yellow]{_one_line(error)}[/]")
            continue
        inner = env.unwrapped
        assert isinstance(inner, VagenEnv)
        space = inner.observation_space["image"]  # type: ignore[index]
        size = f"{space.shape[1]}×{space.shape[0]}"
        turns = f"{inner.config.max_turns} × {inner.config.max_actions_per_turn}"
        table.add_row(env_id, size, turns, inner.grammar.actions.summary(), "[green]ready[/]")
        env.close()
    out.print(table)


@app.command()
def models(
    own: Annotated[Path | None, typer.Option("--models", help="A TOML file of your own models.")] = None,
) -> None:
    """List the models that `vagen bench --agent` knows, and whether their keys are set."""
    table = Table(box=None, header_style="bold")
    for name in ("name", "provider", "id", "max tokens", "temperature", "$/M in, out", "key"):
        table.add_column(name, overflow="fold")
    for name, model in Registry(own).models.items():
        sampling = model.sampling(None, None)
        price = f"{model.price[0]:g}, {model.price[1]:g} ({model.price_date})" if model.price else ""
        provider = model.provider
        key = "set" if os.environ.get(provider.key) else f"{provider.key} missing" if provider.key_required else "–"
        heat = "–" if sampling.temperature is None else f"{sampling.temperature:g}"
        table.add_row(name, provider.name, model.id, str(sampling.max_tokens), heat, price, key)
    out.print(table)


def _one_line(error: Exception) -> str:
    return str(error).replace("[", r"\[").replace("\n", " ")


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, such as `sokoban`.")],
    seed: Annotated[int | None, typer.Option(help="The level's seed; a new one each time by default.")] = None,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "train",
    option: OptionPairs = None,
) -> None:
    """Play an episode yourself: by actions, or by whole replies as a model would write them."""
    options: dict[str, Any] = {"split": split, **parse_options(option or [])}
    made = gym.make(resolve_id(env), disable_env_checker=True, render_mode="ansi", **options)
    try:
        play_episode(made, seed, out)
    finally:
        made.close()


@app.command()
def compare(
    one: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="A run folder, and which of its agents.")],
    other: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="The other.")],
) -> None:
    """Compare two agents pair by pair on the levels that both played, under one protocol."""
    first, second = read_side(one), read_side(other)
    lines = compare_sides(first, second)
    table = Table(box=None, header_style="bold", title=f"1: {first.name}\n2: {second.name}", title_justify="left")
    table.add_column("environment")
    for name in ("pairs", "both", "only 1", "only 2", "neither", "McNemar p", "return 2 − 1", "95 %"):
        table.add_column(name, justify="right")
    for line in lines:
        counts = [str(count) for count in (line.count, line.both, line.one, line.other, line.neither)]
        table.add_row(
            line.task, *counts, f"{line.p_value:.3g}", f"{line.gain:+.2f}", f"{line.low:+.2f} to {line.high:+.2f}"
        )
    out.print(table)


@app.command(name="export")
def export_run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[Path, typer.Argument(metavar="OUT", help="A file that ends with .parquet or .jsonl.")],
    form: Annotated[str, typer.Option(help="`chat`: samples to fine-tune on; `turns`: a table for analysis.")] = "chat",
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Only this agent's episodes.")] = None,
    solved: Annotated[bool, typer.Option("--solved", help="Only episodes that were solved.")] = False,
    min_return: Annotated[float | None, typer.Option(help="Only episodes of at least this return.")] = None,
    history: Annotated[int | None, typer.Option(min=0, help="Earlier turns in a chat sample; a sample a turn.")] = None,
) -> None:
    """Write a run's scored episodes as chat samples (Hugging Face form) or as a table of turns."""
    if form not in ("chat", "turns"):
        raise ProtocolError(f"unknown form {form!r}.{did_you_mean(form, ['chat', 'turns'])}")

    def keep(episode: Episode) -> bool:
        enough = min_return is None or episode.score >= min_return
        return enough and (not solved or episode.success) and agent in (None, episode.agent)

    count = export(RunFolder(run_folder), path, form, keep=keep, history=History(history))  # type: ignore[arg-type]
    out.print(f"{count} rows in {path}", highlight=False)


@app.command()
def gif(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    seed: Annotated[int, typer.Option(help="The episode's seed.")] = 0,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Its agent; the run's first by default.")] = None,
    env: Annotated[str | None, typer.Option("--env", "-e", help="Its environment; the run's first by default.")] = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each picture stays.")] = 1.5,
) -> None:
    """Write an episode as an animated GIF."""
    run_read = RunFolder(run_folder)
    count = write_gif(run_read, find_episode(run_read, agent, env, seed), path, seconds)
    out.print(f"{count} pictures in {path}", highlight=False)


@app.command()
def doctor() -> None:
    """Check what every environment and model needs here, and say what mends what is missing.

    Exit code 1 if an environment can't be played.
    """
    table = Table(box=None, show_header=False)
    for name in ("", "what", "found", "mend"):
        table.add_column(name, overflow="fold")
    well = True
    for finding in examine():
        well &= finding.ok or not finding.needed
        mark = "[green]✓[/]" if finding.ok else "[red]✗[/]" if finding.needed else "[yellow]–[/]"
        mend = "" if finding.ok else finding.mend
        table.add_row(mark, finding.what, finding.found, mend.replace("[", r"\["))
    out.print(table)
    raise typer.Exit(0 if well else 1)


@app.command()
def view(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    browser: Annotated[bool, typer.Option(help="Open it in a browser, or only write it.")] = True,
) -> None:
    """Write a run's report anew and open it."""
    report = write_report(RunFolder(run_folder)).resolve()
    out.print(f"report: {report}", highlight=False, soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; copy the file to where one is", highlight=False)


training.register(app, parse_options)
app.add_typer(judge_cli.app, name="judge")

if __name__ == "__main__":
    main()
