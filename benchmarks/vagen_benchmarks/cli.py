"""The command `vagen`."""

from __future__ import annotations

import functools
import json
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import vagen_envs
from vagen_benchmarks import training
from vagen_benchmarks.agents import SCRIPTED, Agent
from vagen_benchmarks.errors import BenchError, ProtocolError
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
out = Console(width=None if sys.stdout.isatty() else 140)  # a file or a pipe has no width; 80 breaks the table
err = Console(stderr=True)


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
    env: Annotated[Names, typer.Option("--env", "-e", help="An environment; may be repeated. All by default.")] = None,
    agent: Annotated[
        Names, typer.Option("--agent", "-a", help="`oracle`, `random`, `openai:MODEL`; may be repeated. The first two.")
    ] = None,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "test",
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="Seeds a task.")] = 50,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="How often each agent plays each seed.")] = 1,
    strategy: Annotated[Names, typer.Option(help="A reasoning strategy; may be repeated.")] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder; a run there is resumed. `runs/<time>` by default.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of a reply.")] = 400,
    temperature: Annotated[float, typer.Option(help="Of sampling.")] = 0.7,
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
    tasks, skipped = make_tasks(
        env or [], strategies=strategy or [], options=parse_options(option or []), split=split,
        first_seed=first_seed, episodes=episodes,
    )  # fmt: skip
    for each in skipped:
        err.print(f"[yellow]skipped[/] {each.env_id}: ", end="", highlight=False)
        err.print(each.reason, markup=False, highlight=False)
    if not tasks:
        raise ProtocolError("no environment can be made here; see above for what each lacks")
    make = functools.partial(
        _make_agent, base_url=base_url, max_tokens=max_tokens, temperature=temperature,
        history=History(history, history_reasoning), timeout=timeout, attempts=attempts,
    )  # fmt: skip
    agents = [make(name) for name in dict.fromkeys(agent or ["oracle", "random"])]
    protocol = Protocol(tuple(tasks), tuple(each.describe() for each in agents), repeats)
    path = folder or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    policy = Policy(concurrency=concurrency, give_up_after=give_up_after)
    raise typer.Exit(_bench(path, protocol, agents, skipped, policy))


def _make_agent(
    name: str,
    *,
    base_url: str | None,
    max_tokens: int,
    temperature: float,
    history: History,
    timeout: float,
    attempts: int,
) -> Agent:
    if name in SCRIPTED:
        return SCRIPTED[name]()
    provider, _, model = name.partition(":")
    if provider != "openai" or not model:
        raise ProtocolError(f"unknown agent {name!r}.{did_you_mean(name, [*SCRIPTED, 'openai:MODEL'])}")
    from vagen_benchmarks.chat_agent import ChatAgent, Sampling  # the SDK takes half a second to import

    sampling = Sampling(max_tokens=max_tokens, temperature=temperature)
    return ChatAgent(model, base_url=base_url, sampling=sampling, history=history, timeout=timeout, attempts=attempts)


def _bench(path: Path, protocol: Protocol, agents: Sequence[Agent], skipped: Sequence[Skipped], policy: Policy) -> int:
    with RunWriter(path, protocol) as folder:
        total = sum(1 for agent in agents for _ in protocol.keys(agent.name))
        done = len(folder.finished)
        if done:
            out.print(f"{path}: {done} of {total} episodes are there already", highlight=False)
        outcome = Outcome()
        interrupted = False
        with _progress(total, done) as told:
            try:
                outcome = run(folder, agents, policy=policy, skipped=skipped, told=told)
            except KeyboardInterrupt:
                interrupted = True
        report = write_report(folder)
        summary = Summary()
        for episode in folder.episodes():
            summary.add(episode)
    _print_table(summary)
    if outcome.failed:
        err.print(f"[red]{outcome.failed} episode(s) failed and have no score[/]; the same command with "
                  f"--out {path} plays them again", highlight=False)  # fmt: skip
    if interrupted or outcome.reason:
        err.print(f"[red]stopped:[/] {outcome.reason or 'interrupted'}; go on with --out {path}", highlight=False)
    out.print(f"report: {report.resolve()}", highlight=False, soft_wrap=True)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_STOPPED if outcome.reason else EXIT_FAILED_EPISODES if outcome.failed else 0


class _progress:  # noqa: N801  (used as a function)
    """A progress bar that is told of each episode."""

    def __init__(self, total: int, done: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"), console=err, transient=not err.is_terminal, disable=not err.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("episodes", total=total, completed=done, note="")
        self._solved = self._played = self._failed = 0

    def __enter__(self) -> Callable[[Episode], None]:
        self._bar.start()
        return self._told

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _told(self, episode: Episode) -> None:
        self._played += 1
        self._solved += episode.success
        self._failed += episode.failure is not None
        failed = f", [red]{self._failed} failed[/]" if self._failed else ""
        self._bar.update(
            self._task, advance=1, description=episode.agent, note=f"{self._solved} of {self._played} solved{failed}"
        )


def _print_table(summary: Summary) -> None:
    rows = summary.rows()
    own = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    table = Table(box=None, header_style="bold")
    table.add_column("environment")
    table.add_column("agent")
    for name in ("success", "95 %", "return", "turns", "valid", "effective", *own, "failed", "episodes"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [_percent(row[name]) for name in ("valid", "effective")]
        table.add_row(
            row["task"], row["agent"], _percent(row["success"]),
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f}" if row["played"] else "–",
            _number(row["return"]), _number(row["turns"], 1), *cells,
            *(_number(row["metrics"].get(name)) for name in own), str(row["failed"]), str(row["played"]),
        )  # fmt: skip
    out.print(table)


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.0f} %"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


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

if __name__ == "__main__":
    main()
