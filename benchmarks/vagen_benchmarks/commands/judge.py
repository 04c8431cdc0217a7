"""`vagen judge`: how good a judge is, and a stored run scored again."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_benchmarks import farm
from vagen_benchmarks.agents.custom import named_judge
from vagen_benchmarks.clients.models import checked_url
from vagen_benchmarks.commands import options
from vagen_benchmarks.commands.judge_rescore import (
    EPISODES_AT_ONCE,
    Judged,
    print_scores,
    print_sentences,
    rescored,
)
from vagen_benchmarks.commands.options import TrustModules
from vagen_benchmarks.commands.printing import err, make_table, out
from vagen_benchmarks.errors import BenchError, RunFolderError
from vagen_benchmarks.farm.words import Share
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.redaction import note_secret
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.scoring import make_scoring
from vagen_benchmarks.runs.tasks import import_environments
from vagen_envs.core import State
from vagen_rewards.scores import Statement
from vagen_rewards.usage import Price

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Check judges, and score stored runs again. Example: `vagen judge rescore runs/a`",
    rich_markup_mode="markdown",
)

JudgeName = Annotated[
    str,
    typer.Option(
        "--judge",
        help="`rule`, `rule-direct`, `llm:MODEL`, `llm-structured:MODEL`, `FILE.py:CLASS`; "
        "several with commas between (`rule,llm:MODEL`): each is asked about what the one "
        "before left unread or unscored.",
    ),
]
# Options of an LLM judge.
Cache = Annotated[
    Path | None, typer.Option(help="File of an LLM judge's replies, kept between calls.")
]
MaxDollars = Annotated[float | None, typer.Option(help="An LLM judge stops asking at this cost.")]
Prices = Annotated[
    tuple[float, float] | None,
    typer.Option("--price", help="Dollars per million prompt and completion tokens."),
]
BaseUrl = Annotated[str | None, typer.Option(help="Of an LLM judge's OpenAI-compatible endpoint.")]
Concurrency = Annotated[int, typer.Option(min=1, help="An LLM judge's requests in flight.")]


def _llm(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an LLM judge among a command's."""
    key_from = given["key_from"]
    price = given["price"]
    if key_from:
        note_secret(key_from, os.environ.get(key_from, ""))
    return {
        **{name: given[name] for name in ("cache", "max_dollars", "concurrency", "key_from")},
        "base_url": checked_url(given["base_url"]),
        "price": Price(*price) if price else None,
    }


@app.command("calibrate")
def calibrate_command(
    file: Annotated[Path, typer.Argument(help="A JSON file of states and labelled statements.")],
    judge: JudgeName = "rule-direct",
    misses: Annotated[int, typer.Option(help="Show so many statements that were misjudged.")] = 0,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = None,
    base_url: BaseUrl = None,
    key_from: options.KeyFrom = None,
    concurrency: Concurrency = 32,
) -> None:
    """Ask a judge about statements whose truth is known; count those that it accepts, refuses and
    leaves unscored.

    The file has `states` (each state's JSON by name) and `statements` with `part`, `state` (a
    name), `text` and `label`: `true`, `false`, `partly` or `vacuous`.

    Example: `vagen judge calibrate statements.json --judge rule --misses 5`
    """
    made = named_judge(judge, **_llm(locals()))
    try:
        rows = _labelled_statements(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(
            f"{file} is no file of labelled statements ({type(error).__name__}: {error}); write "
            "JSON with `states` and `statements`, see docs/judges.md"
        ) from error
    scores = asyncio.run(made.score_many([statement for statement, _ in rows]))
    counts: dict[str, list[int]] = {}
    wrong = []
    for (statement, label), score in zip(rows, scores, strict=True):
        verdict = 2 if score.value is None else int(score.value < 0.5)
        counts.setdefault(label, [0, 0, 0])[verdict] += 1
        if verdict == int(label == "true"):
            wrong.append((label, statement.text, score.reason))
    table = make_table(["label"], ["statements", "accepted", "refused", "unscored"])
    for label, found in sorted(counts.items()):
        table.add_row(label, *map(str, (sum(found), *found)))
    out.print(table)
    if accepted := sum(found[0] for found in counts.values()):
        out.print(f"precision {counts.get('true', [0])[0] / accepted:.3f}")
    for label, text, reason in wrong[:misses]:
        out.print(f"{label}: {text!r}: {reason}", markup=False, soft_wrap=True)


def _labelled_statements(data: dict[str, Any]) -> list[tuple[Statement, str]]:
    states: dict[str, State] = {}
    for name, state in data["states"].items():
        states[name] = State.from_json(state.get("json", state))
    found: list[tuple[Statement, str]] = []
    for row in data["statements"]:
        statement = Statement(row["part"], row["text"], states[row["state"]])
        found.append((statement, row["label"]))
    return found


@app.command("rescore")
def rescore_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    into: Annotated[
        Path | None, typer.Option(help="A new run folder; RUN-JUDGE by default.")
    ] = None,
    judge: JudgeName = "rule",
    gate: options.Gate = True,
    weighting: options.Weighting = "plain",
    penalty: options.Penalty = "",
    beta_grounding: Annotated[
        float, typer.Option(help="What a score of 1 adds to the reward.")
    ] = 0.5,
    beta_world_modeling: Annotated[float, typer.Option(help="The same of the other part.")] = 0.5,
    sentences: Annotated[
        int, typer.Option(help="Show so many of the most rewarded sentences.")
    ] = 5,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = None,
    base_url: BaseUrl = None,
    key_from: options.KeyFrom = None,
    concurrency: Concurrency = 32,
    trust: TrustModules = False,
) -> None:
    """Score the stored turns of a run with a judge, without playing again, into a run folder of
    their own.

    Terms and metrics of an earlier judge are replaced; everything else stays as it was played.

    Example: `vagen judge rescore runs/a --judge rule`
    """
    llm = _llm(locals())
    settings = {"judge": judge, "gate": gate, "weighting": weighting, "penalty": penalty}
    betas = {"grounding": beta_grounding, "world_modeling": beta_world_modeling}
    scoring = make_scoring({**settings, "betas": betas}, **llm)
    assert scoring is not None
    source = RunFolder(run)
    if trust:
        import_environments(source.protocol.tasks)
    if into is None:
        judge_name = re.sub("[^A-Za-z0-9.-]+", "-", scoring.reward.judge.name)
        into = run.with_name(f"{run.name}-{judge_name}")
    found = len(source.index())
    if source.damaged and not found:
        raise RunFolderError(
            f"all lines of {source.episodes_file} are damaged: restore it, or play the run again"
        )
    try:
        into.mkdir(parents=True)
    except OSError as error:
        raise RunFolderError(
            f"{into} can't be made ({error.strerror}); name another with --into"
        ) from error
    judged: list[Judged] = []
    try:
        with (
            RunWriter(into, source.protocol) as writer,
            Meter("judging episodes", found, console=err) as meter,
        ):
            judge = scoring.reward.judge.name
            facts = {**settings, "judge": judge, "betas": betas}
            writer.note("rescore", source=str(run.name), **facts)
            episodes = iter(source.episodes())
            while batch := list(itertools.islice(episodes, EPISODES_AT_ONCE)):
                judged += rescored(source, batch, scoring, writer)
                meter.advance(len(batch))
    except BaseException:
        shutil.rmtree(into)  # nothing goes on with a part
        raise
    if source.damaged:
        err.print(f"{source.damaged} damaged lines of {source.episodes_file} were left out")
    print_scores(judged)
    if sentences > 0:
        print_sentences(judged, sentences)
    out.print(f"report: {write_report(RunFolder(into)).resolve()}", soft_wrap=True)


@app.command("farm")
def farm_command(
    env_ids: Annotated[
        list[str], typer.Option("--env", "-e", help="An environment's id; may be repeated.")
    ] = ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"],  # noqa: B006
    difficulty: Annotated[list[int], typer.Option(help="Rungs; may be repeated.")] = [0],  # noqa: B006
    max_turns: Annotated[list[int], typer.Option(help="Turns; may be repeated.")] = [3, 12],  # noqa: B006
    seeds: Annotated[int, typer.Option(min=2, help="Levels.")] = 8,
    tries: Annotated[int, typer.Option(min=0, help="Constant texts to try.")] = 500,
    per_turn: Annotated[bool, typer.Option(help="Also with the paper's rule.")] = False,
    save: Annotated[Path | None, typer.Option("--out", help="A JSON file of the table.")] = None,
) -> None:
    """What agents earn that solve late or never, and words that don't look, as shares of the
    oracle's.

    Ends with 1 where a share is beyond its bound by two standard errors (docs/judges.md).

    Example: `vagen judge farm -e vagen/Sokoban-v0 --difficulty 1 --max-turns 20`
    """
    beyond = 0
    found: list[dict[str, Any]] = []
    table = make_table(["environment", "setting", "row"], ["γ or part", "share", "bound"])
    for env_id, rung in itertools.product(env_ids, difficulty):
        for row in farm.rows(env_id, rung, max_turns, seeds, tries, per_turn):
            low, high = farm.limit_of(row.name)
            is_over = farm.is_beyond(row.name, row.share) and "per turn" not in row.setting
            beyond += is_over
            bound = f"{low:.2f} to {high:.2f}" if low > -1 else f"≤ {high:.2f}"
            where = (env_id.removeprefix("vagen/"), row.setting, row.name)
            share = f"{_shown(row.share)}{' !' if is_over else ''}"
            table.add_row(*where, row.column, share, bound)
            found.append({"environment": env_id, "difficulty": rung, **_flat(row)})
    out.print(table)
    if save is not None:
        save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if beyond:
        raise BenchError(f"{beyond} shares are beyond their bounds, marked with !")


def _flat(row: farm.Row) -> dict[str, Any]:
    share, error = row.share
    known = None if math.isnan(share) else round(share, 4)  # JSON has no word for not a number
    return {**row._asdict(), "share": known, "error": round(error, 4)}


def _shown(share: Share) -> str:
    if math.isnan(share.value):
        return "–"
    error = f" ± {share.error:.3f}" if share.error else ""
    return f"{share.value:.3f}{error}"
