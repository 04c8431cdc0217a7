"""`vagen judge`: how good a judge is, and a stored run scored again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.run_folder import Episode, RunFolder, RunWriter
from vagen_envs.core import Turn
from vagen_envs.pictures import Picture
from vagen_rewards import Judge, RuleJudge, Tally, score_turns
from vagen_rewards.calibration import CATEGORIES, Report, calibrate, labelled_set
from vagen_rewards.calibration.report import Counts
from vagen_rewards.wrapper import with_scores

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Check judges, and score stored runs again.")
out = Console()

JudgeName = Annotated[
    str,
    typer.Option("--judge", help="rule, rule-direct, llm:MODEL, llm-structured:MODEL (endpoint from OPENAI_BASE_URL)"),
]
Cache = Annotated[Path | None, typer.Option(help="file of an LLM judge's replies, kept between calls")]
MaxDollars = Annotated[float | None, typer.Option(help="an LLM judge stops asking at this cost")]
Prices = Annotated[
    tuple[float, float], typer.Option("--price", help="dollars per million prompt and completion tokens")
]


def make_judge(
    name: str, cache: Path | None = None, max_dollars: float | None = None, price: tuple[float, float] = (0.0, 0.0)
) -> Judge:
    """The judge of this name. Raises BenchError for an unknown one."""
    kind, _, model = name.partition(":")
    if name == "rule":
        return RuleJudge()
    if name == "rule-direct":
        return RuleJudge("direct")
    if kind in ("llm", "llm-structured") and model:
        from vagen_rewards.llm import LLMJudge, Price

        if max_dollars is not None and not any(price):
            raise BenchError("--max-dollars needs the model's --price, in dollars per million tokens")
        mode = "direct" if kind == "llm" else "structured"
        return LLMJudge(model, mode, cache=cache, price=Price(*price), max_dollars=max_dollars)  # type: ignore[arg-type]
    raise BenchError(f"unknown judge {name!r}; use rule, rule-direct, llm:MODEL or llm-structured:MODEL")


@app.command("calibrate")
def calibrate_command(
    judge: JudgeName = "rule-direct",
    statements: Annotated[int, typer.Option(min=9, help="a kind of state")] = 500,
    templates: Annotated[str, typer.Option("--set", help="held_out or development")] = "held_out",
    threshold: Annotated[float, typer.Option(help="a score from here on accepts a statement")] = 0.5,
    seed: int = 0,
    misses: Annotated[int, typer.Option(help="show so many statements that were misjudged")] = 0,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = (0.0, 0.0),
) -> None:
    """Ask a judge about statements whose truth is known; print agreement, precision, recall and cost."""
    if templates not in ("held_out", "development"):
        raise BenchError(f"unknown set {templates!r}; use held_out or development")
    items, skipped = labelled_set(statements, seed, templates)  # type: ignore[arg-type]
    report = calibrate(make_judge(judge, cache, max_dollars, price), items, threshold)
    _print_report(report, len(items))
    for kind, why in skipped.items():
        out.print(f"{kind} was left out: {why}", markup=False)
    for item, score in report.misses[:misses]:
        label = "true" if item.label else "false"
        out.print(f"\n{item.category}, {label}: {item.statement.text!r}\n  {score.value}: {score.reason}", markup=False)


def _print_report(report: Report, count: int) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("", "statements", "agreement", "precision", "recall", "unscored"):
        table.add_column(name, justify="left" if not name else "right")
    rows = [("all but other languages", report.total), *report.by_kind.items()]
    rows += [(name, report.by_category[name]) for name in CATEGORIES if name in report.by_category]
    for name, counts in rows:
        table.add_row(name, *_figures(counts))
    out.print(table)
    out.print(
        f"{report.judge}: {count} statements in {report.seconds:.2f} s, {count / report.seconds:,.0f} a second; "
        f"{report.requests} requests, {report.tokens} tokens, ${report.dollars:.4f}"
    )


def _figures(counts: Counts) -> list[str]:
    shares = [counts.agreement, counts.precision, counts.recall]
    said = ["–" if math.isnan(share) else f"{share:.3f}" for share in shares]
    return [str(counts.scored + counts.unscored), *said, str(counts.unscored)]


@app.command("rescore")
def rescore_command(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    into: Annotated[Path | None, typer.Option(help="a new run folder; RUN-JUDGE by default")] = None,
    judge: JudgeName = "rule",
    beta_grounding: float = 0.5,
    beta_world_modeling: float = 0.5,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = (0.0, 0.0),
) -> None:
    """Score the stored turns of a run with a judge, without playing again, into a run folder of their own.

    Terms and metrics of an earlier judge are replaced; everything else stays as it was played.
    """
    made = make_judge(judge, cache, max_dollars, price)
    source = RunFolder(run)
    into = into or run.with_name(f"{run.name}-{made.name.replace(':', '-').replace('/', '-')}")
    betas = {"grounding": beta_grounding, "world_modeling": beta_world_modeling}
    sums: dict[tuple[str, str, str], list[float]] = {}
    tally = Tally()
    with RunWriter(into, source.protocol) as writer:
        writer.note("rescore", source=str(run.name), judge=made.name, betas=betas)
        for episode in source.episodes():
            scored = asyncio.run(_rescored(episode, made, betas, sums, tally))
            writer.add(scored, _pictures(source, episode))
    table = Table(box=None, header_style="bold")
    for name in ("agent", "task", "part", "turns", "mean score"):
        table.add_column(name, justify="right" if name in ("turns", "mean score") else "left")
    for key, values in sorted(sums.items()):
        table.add_row(*key, str(len(values)), f"{math.fsum(values) / len(values):.3f}")
    out.print(table)
    if tally.unscored:
        out.print(
            f"{tally.unscored} statements are unscored, the last for this reason: {tally.last_reason}", markup=False
        )
    out.print(f"report: {write_report(RunFolder(into)).resolve()}", soft_wrap=True, markup=False)


async def _rescored(
    episode: Episode, judge: Judge, betas: dict[str, float], sums: dict[tuple[str, str, str], list[float]], tally: Tally
) -> Episode:
    turns = [Turn.from_json(turn) for turn in episode.turns]
    scores = await score_turns(turns, judge)
    rescored: list[dict[str, Any]] = []
    for turn, each in zip(turns, scores, strict=True):
        for part, score in each.by_part():
            tally.add(score)
            if score.value is not None:
                sums.setdefault((episode.agent, episode.task, part), []).append(score.value)
        rescored.append(with_scores(turn, each, betas).to_json())
    data = {**episode.to_json(), "turns": rescored}
    return Episode.from_json(data)


def _pictures(source: RunFolder, episode: Episode) -> Iterator[Picture]:
    for name in sorted(episode.picture_names()):
        yield Picture.from_png(source.picture(name))
