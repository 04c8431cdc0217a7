"""`vagen judge rescore`: score the stored turns of a run with a judge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from vagen_benchmarks.commands.printing import make_table, out
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.scoring import RunScoring
from vagen_envs.core import Turn
from vagen_envs.pictures import Picture
from vagen_rewards import RuleJudge, TurnScores
from vagen_rewards.hacking import distinct_responses, entropy, rewarded_sentences
from vagen_rewards.scores import Part, Score, share_unread

Judged = tuple[str, str, Turn, TurnScores]
"""Agent, task, turn and its scores."""
EPISODES_AT_ONCE = 64
"""So many are judged together: one alone has too few statements to keep a server busy."""


def rescored(
    source: RunFolder, episodes: Sequence[Episode], scoring: RunScoring, writer: RunWriter
) -> list[Judged]:
    """Score a few episodes together and write them; return each turn with its agent and task."""
    env_options = {task.label: task.options for task in source.protocol.tasks}
    pictures: list[dict[str, Picture]] = []
    played: list[list[Turn]] = []
    for episode in episodes:
        names = sorted(episode.picture_names())
        own = {name: Picture.from_png(source.pictures.get(name)) for name in names}
        pictures.append(own)
        played.append([Turn.from_json(turn, own) for turn in episode.turns])
    found: dict[int, list[tuple[Turn, TurnScores]]] = {}
    for task in {episode.task for episode in episodes}:
        of_task = [number for number, episode in enumerate(episodes) if episode.task == task]
        turns = list(itertools.chain.from_iterable([played[number] for number in of_task]))
        scored = iter(scoring.scored(turns, env_options.get(task, {})))
        for number in of_task:
            found[number] = list(itertools.islice(scored, len(played[number])))
    judged: list[Judged] = []
    for number, episode in enumerate(episodes):
        written = [turn.to_json() for turn, _ in found[number]]
        rescored_episode = Episode.from_json({**episode.to_json(), "turns": written})
        writer.add(rescored_episode, pictures[number].values())
        task = episode.task.removeprefix("vagen/")
        for turn, (_, scores) in zip(written, found[number], strict=True):
            judged.append((episode.agent, task, Turn.from_json(turn), scores))
    return judged


def print_scores(judged: list[Judged]) -> None:
    """The mean score of each agent, task and part, what is unscored, and how varied the words
    are.
    """
    found: dict[tuple[str, str, Part], list[tuple[str, Score]]] = {}
    unscored = ""
    for agent, task, turn, scores in judged:
        said = {"grounding": turn.parsed.observation, "world_modeling": turn.parsed.prediction}
        for part, score in scores.by_part():
            found.setdefault((agent, task, part), []).append((said[part] or "", score))
            if not score.scored:
                unscored = score.reason
    figures = ["statements", "unscored", "unread", "mean score", "entropy", "distinct"]
    table = make_table(["agent", "task", "part"], figures)
    for key, statements in sorted(found.items()):
        texts = [text for text, _ in statements]
        known = [score.value for _, score in statements if score.value is not None]
        unread = math.fsum(share_unread(*each) for each in statements) / len(statements)
        mean = f"{math.fsum(known) / len(known):.3f}" if known else "–"
        counts = (str(len(statements)), str(len(statements) - len(known)))
        varied = (f"{entropy(texts):.1f} bit", f"{distinct_responses(texts):.0%}")
        table.add_row(*key, *counts, f"{unread:.0%}", mean, *varied)
    out.print(table)
    if not found:
        out.print(
            "no reply of this run has an <observation> or a <prediction>: there is nothing to judge"
        )
    if unscored:
        fix = (
            "if the judge's server failed, check --base-url, key and model, and rescore into a "
            "new folder (--into)"
        )
        out.print(f"the last that went unscored: {unscored}; {fix}")


def print_sentences(judged: list[Judged], count: int) -> None:
    """What was rewarded most. A sentence that is true of most states says little about any."""
    turns = [turn for _, _, turn, _ in judged]
    scores = [of_turn for *_, of_turn in judged]
    table = make_table(
        ["most rewarded sentences"], ["sentence", "score in all", "true of the run's states"]
    )
    for row in rewarded_sentences(turns, scores, RuleJudge("claims"), count):
        table.add_row(row.sentence, str(row.count), f"{row.value:.1f}", f"{row.truth_rate:.0%}")
    if table.row_count:
        out.print(table)
