"""`vagen judge`: how good a judge is, and a stored run scored again."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.table import Table

from vagen_benchmarks.commands.completion import complete_env
from vagen_benchmarks.commands.options import parse_options
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import make_task, resolve_id
from vagen_benchmarks.runs.run_folder import RunFolder, RunWriter
from vagen_benchmarks.runs.scoring import Scoring, judge_by_name, make_scoring
from vagen_envs.core import Turn
from vagen_envs.pictures import Picture
from vagen_rewards import RuleJudge, TurnScores
from vagen_rewards.audit import audit
from vagen_rewards.calibration import CATEGORIES, INDEPENDENT, Report, calibrate, labelled_file, labelled_set
from vagen_rewards.calibration.report import Counts
from vagen_rewards.reward import share_unread
from vagen_rewards.scores import PARTS, Part
from vagen_rewards.variety import distinct_responses, entropy, rewarded_sentences
from vagen_rewards.worth import Worth, reference_of
from vagen_rewards.worth.reference import SIZE, draw, representation_of

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Check judges, and score stored runs again.")

JudgeName = Annotated[
    str,
    typer.Option(
        "--judge",
        help="`rule`, `rule-direct`, `llm:MODEL`, `llm-structured:MODEL`, `clip`, `clip:FOLDER`; several with commas "
        "between (`rule,llm:MODEL`): each is asked about what the one before left unread or unscored.",
    ),
]
Cache = Annotated[Path | None, typer.Option(help="File of an LLM judge's replies, kept between calls.")]
MaxDollars = Annotated[float | None, typer.Option(help="An LLM judge stops asking at this cost.")]
Prices = Annotated[
    tuple[float, float] | None, typer.Option("--price", help="Dollars per million prompt and completion tokens.")
]
BaseUrl = Annotated[str | None, typer.Option(help="Of an LLM judge's OpenAI-compatible endpoint.")]
Concurrency = Annotated[int, typer.Option(min=1, help="An LLM judge's requests in flight.")]


def _llm(
    cache: Path | None,
    max_dollars: float | None,
    price: tuple[float, float] | None,
    base_url: str | None,
    concurrency: int,
) -> dict[str, Any]:
    """Options of LLMJudge."""
    from vagen_rewards.usage import Price

    cost = Price(*price) if price else None
    return {
        "cache": cache,
        "max_dollars": max_dollars,
        "price": cost,
        "base_url": base_url,
        "concurrency": concurrency,
    }


@app.command("calibrate")
def calibrate_command(
    judge: JudgeName = "rule-direct",
    statements: Annotated[int, typer.Option(min=9, help="So many for each kind of state.")] = 500,
    templates: Annotated[
        str, typer.Option("--set", help="`independent`, `held_out` or `development`.")
    ] = "independent",
    threshold: Annotated[float, typer.Option(help="A score from here on accepts a statement.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the statements.")] = 0,
    labelled: Annotated[Path | None, typer.Option(help="A JSON file of labelled statements instead.")] = None,
    misses: Annotated[int, typer.Option(help="Show so many statements that were misjudged.")] = 0,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = 32,
) -> None:
    """Ask a judge about statements whose truth is known; print agreement, precision, recall and cost."""
    if templates not in ("independent", "held_out", "development"):
        raise BenchError(f"unknown set {templates!r}; use independent, held_out or development")
    made = judge_by_name(judge, **_llm(cache, max_dollars, price, base_url, concurrency))
    skipped: dict[str, str] = {}
    if labelled is not None or templates == "independent":
        items = labelled_file(labelled or INDEPENDENT)
    else:
        with out.status("making statements about real levels of each environment"):
            items, skipped = labelled_set(
                statements,
                seed,
                templates,  # type: ignore[arg-type]
                pictures=made.needs_pictures,
                levels=min(40, max(4, statements // 9)),
            )
    report = calibrate(made, items, threshold)
    _print_report(report, len(items))
    for kind, why in skipped.items():
        out.print(f"{kind} was left out: {why}")
    for item, score in report.misses[:misses]:
        label = "true" if item.label else "false"
        out.print(f"\n{item.category}, {label}: {item.statement.text!r}\n  {score.value}: {score.reason}")


def _print_report(report: Report, count: int) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("", "statements", "agreement", "precision", "accepted", "rejected", "unscored"):
        table.add_column(name, justify="left" if not name else "right")
    rows = [("all but other languages", report.total), *report.by_kind.items()]
    known = [name for name in CATEGORIES if name in report.by_category]
    rows += [(name, report.by_category[name]) for name in dict.fromkeys((*known, *report.by_category))]
    for name, counts in rows:
        table.add_row(name, *_figures(counts))
    out.print(table)
    out.print(
        f"{report.judge}: {count} statements in {report.seconds:.2f} s, {count / report.seconds:,.0f} a second; "
        f"{report.requests} requests, {report.tokens} tokens, ${report.dollars:.4f}"
    )
    if report.unscored_because:
        out.print(f"the last that went unscored: {report.unscored_because}")


def _figures(counts: Counts) -> list[str]:
    shares = [counts.agreement, counts.precision, counts.accepted, counts.rejected]
    said = ["–" if math.isnan(share) else f"{share:.3f}" for share in shares]
    return [str(counts.scored + counts.unscored), *said, str(counts.unscored)]


def _check_always(env_id: str, options: dict[str, Any], always: str) -> None:
    with contextlib.closing(gym.make(env_id, **options)) as env:
        grammar = env.unwrapped.grammar  # type: ignore[attr-defined]
        actions = always.split(grammar.separator)
        read = grammar.parse(grammar.render(actions, observation="a", reasoning="b", prediction="c"))
    if read.problems or not read.actions:
        why = read.problems[0].message if read.problems else "it has no action"
        raise typer.BadParameter(f"--always {always!r} is not valid: {why}")


@app.command("audit")
def audit_command(
    env: Annotated[
        str,
        typer.Argument(
            metavar="ENV", autocompletion=complete_env, help="An environment; `MODULE:ID` imports yours first."
        ),
    ],
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="Of the environment, NAME=VALUE.")] = None,
    bound: Annotated[float, typer.Option(help="Exit with 1 if a constant statement earns more.")] = 0.10,
    tries: Annotated[int, typer.Option(min=1, help="How many statements are tried.")] = 20_000,
    states: Annotated[int, typer.Option(min=8, help="Turns of each stage that they are tried on.")] = 128,
    size: Annotated[int, typer.Option(min=8, help="Turns of each stage that claims are weighed by.")] = SIZE,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    always: Annotated[
        str, typer.Option(help="An action that is taken in each turn, or several with the environment's separator.")
    ] = "",
) -> None:
    """Search for words that earn without looking: the same statement in every turn, paid as `ReasoningReward` does."""
    env_id, options = resolve_id(env), parse_options(option or [])
    make_task(env_id, options, "train", 0, 1)  # what isn't one of ours, or lacks something, is said in a sentence
    if math.isnan(bound):
        raise typer.BadParameter("bound=nan is not valid: nothing is above it")
    if always:
        _check_always(env_id, options, always)
    with out.status(f"playing {env_id}, to know what its states are like; kept for the next time"):
        reference = reference_of(env_id, options, size)
        searched, again = [
            draw(reference.env_id, reference.options, count, first_seed=first, always=always, blind=False)
            for count, first in ((states, OTHER_SEEDS), (max(states, AGAIN), 2 * OTHER_SEEDS))
        ]
    worth = Worth(reference, representation_of(env_id, options))
    with Meter(f"statements tried on {states} other turns of each stage", tries, console=err) as meter:
        found = audit(worth, searched, again, tries, seed=seed, told=meter.advance)
    table = Table(box=None, header_style="bold")
    for name in (
        "",
        "best constant",
        "as it was picked",
        "the truth's own words",
        "turns in which these tell something",
    ):
        table.add_column(name, justify="left" if not name else "right")
    for where, best in found.best.items():
        telling = f"{found.telling[where]:.0%}"
        table.add_row(
            " ".join(where),
            f"{best[0].means[where]:.3f}",
            f"{found.seemed[where]:.3f}",
            f"{found.oracle[where]:.3f}",
            telling,
        )
    out.print(table)
    for each in found.ranked(10):
        out.print(f"{each.most:+.3f}  {' '.join(each.text.split())[:160]}", soft_wrap=True, markup=False)
    out.print(f"{found.tries} statements tried; the best earns {found.most:.3f}, and {bound:.2f} is allowed")
    raise typer.Exit(int(found.most > bound))


OTHER_SEEDS = 1_000_000
"""Statements are tried on other levels than those that claims are weighed by, and the best on others again."""

AGAIN = 256
"""Turns of each stage on which the best are measured again: a mean's standard error is some 0.03 then."""


@app.command("rescore")
def rescore_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    into: Annotated[Path | None, typer.Option(help="A new run folder; RUN-JUDGE by default.")] = None,
    judge: JudgeName = "rule",
    gate: Annotated[bool, typer.Option(help="Judge only turns of correct format with an executed action.")] = True,
    weighting: Annotated[
        str, typer.Option(help="`plain`: the judge's own score. `information`: what is said is worth what it tells.")
    ] = "plain",
    penalty: Annotated[str, typer.Option(help="Fine repeated wrong wordings: `masked`, or `paper`.")] = "",
    beta_grounding: Annotated[float, typer.Option(help="What a score of 1 adds to the reward.")] = 0.5,
    beta_world_modeling: Annotated[float, typer.Option(help="The same of the other part.")] = 0.5,
    sentences: Annotated[int, typer.Option(help="Show so many of the most rewarded sentences.")] = 5,
    cache: Cache = None,
    max_dollars: MaxDollars = None,
    price: Prices = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = 32,
) -> None:
    """Score the stored turns of a run with a judge, without playing again, into a run folder of their own.

    Terms and metrics of an earlier judge are replaced; everything else stays as it was played.
    """
    said = {"judge": judge, "gate": gate, "weighting": weighting, "penalty": penalty}
    betas = {"grounding": beta_grounding, "world_modeling": beta_world_modeling}
    llm = _llm(cache, max_dollars, price, base_url, concurrency)
    scoring = make_scoring({**said, "betas": betas}, **llm)
    assert scoring is not None
    source = RunFolder(run)
    into = into or run.with_name(f"{run.name}-{re.sub('[^A-Za-z0-9.-]+', '-', scoring.judge.name)}")
    judged: list[tuple[str, str, Turn, TurnScores]] = []
    with RunWriter(into, source.protocol) as writer:
        how = {**said, "judge": scoring.judge.name, "betas": betas}
        writer.note("rescore", source=str(run.name), **how)
        episodes = iter(source.episodes())
        while batch := list(itertools.islice(episodes, EPISODES_AT_ONCE)):
            judged += _rescore(source, batch, scoring, writer)
    _print_scores(judged)
    if sentences > 0:
        _print_sentences(judged, sentences)
    out.print(f"report: {write_report(RunFolder(into)).resolve()}", soft_wrap=True)


EPISODES_AT_ONCE = 64
"""So many are judged together: one alone has too few statements to keep a server busy."""


def _rescore(
    source: RunFolder, episodes: Sequence[Episode], scoring: Scoring, writer: RunWriter
) -> list[tuple[str, str, Turn, TurnScores]]:
    options = {task.label: task.options for task in source.protocol.tasks}
    pictures = [
        {name: Picture.from_png(source.picture(name)) for name in sorted(episode.picture_names())}
        for episode in episodes
    ]
    played = [
        [Turn.from_json(turn, own) for turn in episode.turns] for episode, own in zip(episodes, pictures, strict=True)
    ]
    found: dict[int, list[tuple[Turn, TurnScores]]] = {}
    for task in {episode.task for episode in episodes}:
        of_task = [i for i, episode in enumerate(episodes) if episode.task == task]
        scored = iter(scoring.scored([turn for i in of_task for turn in played[i]], options.get(task, {})))
        found |= {i: [next(scored) for _ in played[i]] for i in of_task}
    judged = []
    for i, episode in enumerate(episodes):
        turns = [turn.to_json() for turn, _ in found[i]]
        writer.add(Episode.from_json({**episode.to_json(), "turns": turns}), pictures[i].values())
        names = (episode.agent, episode.task.removeprefix("vagen/"))
        judged += [(*names, Turn.from_json(turn), scores) for turn, (_, scores) in zip(turns, found[i], strict=True)]
    return judged


def _print_scores(judged: list[tuple[str, str, Turn, TurnScores]]) -> None:
    """The mean score of each agent, task and part, what is unscored, and how varied the words are."""
    values: dict[tuple[str, str, Part], list[float | None]] = {}
    texts: dict[tuple[str, str, Part], list[str]] = {}
    unread: dict[tuple[str, str, Part], list[float]] = {}
    unscored = ""
    for agent, task, turn, scores in judged:
        for part, score in scores.by_part():
            key = (agent, task, part)
            values.setdefault(key, []).append(score.value)
            text = (turn.parsed.observation if part == PARTS[0] else turn.parsed.prediction) or ""
            texts.setdefault(key, []).append(text)
            unread.setdefault(key, []).append(share_unread(text, score))
            unscored = unscored if score.scored else score.reason
    table = Table(box=None, header_style="bold")
    for name in ("agent", "task", "part", "statements", "unscored", "unread", "mean score", "entropy", "distinct"):
        table.add_column(name, justify="left" if name in ("agent", "task", "part") else "right")
    for key, all_of_them in sorted(values.items()):
        known = [value for value in all_of_them if value is not None]
        mean = f"{math.fsum(known) / len(known):.3f}" if known else "–"
        left = f"{math.fsum(unread[key]) / len(unread[key]):.0%}"
        varied = (f"{entropy(texts[key]):.1f} bit", f"{distinct_responses(texts[key]):.0%}")
        table.add_row(*key, str(len(all_of_them)), str(len(all_of_them) - len(known)), left, mean, *varied)
    out.print(table)
    if not values:
        out.print("no reply of this run has an <observation> or a <prediction>: there is nothing to judge")
    if unscored:
        out.print(f"the last that went unscored: {unscored}")


def _print_sentences(judged: list[tuple[str, str, Turn, TurnScores]], count: int) -> None:
    """What was rewarded most. A sentence that is true of most states says little about any."""
    turns, scores = [turn for _, _, turn, _ in judged], [each for *_, each in judged]
    table = Table(box=None, header_style="bold")
    for name in ("most rewarded sentences", "said", "score in all", "true of the run's states"):
        table.add_column(name, justify="left" if name.startswith("most") else "right")
    for row in rewarded_sentences(turns, scores, RuleJudge("claims"), count):
        table.add_row(row.sentence, str(row.count), f"{row.value:.1f}", f"{row.truth_rate:.0%}")
    if table.row_count:
        out.print(table)
