"""Play held-out levels and measure success, format, and the truth of statements."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
from vagen_adapters.ppo.rollout import Rollout
from vagen_benchmarks.meter import Meter
from vagen_envs import State, Turn
from vagen_experiments.experiment import Experiment
from vagen_experiments.imitation import demonstrate, sentences
from vagen_experiments.memory import true_summaries
from vagen_rewards import RuleJudge
from vagen_rewards.owed import answers
from vagen_rewards.reader import read
from vagen_rewards.reader.facts import At, Within
from vagen_rewards.scores import PARTS, score_turn, statements_of

OTHER_LEVEL = 4_000_000
"""Added to a level's seed to find the level whose image replaces its own."""

BOXES = ("iou", "iou@50", "iou@75", "iou@95", "iou@99")
"""Metrics of the samples whose answers are boxes."""


def evaluate(
    experiment: Experiment, folder: Path, model: Any = None, context: str = ""
) -> dict[str, Any]:
    """Play the held-out levels.

    Args:
        experiment: whose levels are played.
        folder: of a model and its encoder.
        model: plays instead of the one in `folder`.
        context: the policy of memory; by default the experiment's.

    Returns:
        The figures of replies sampled at temperature 1 (`sampled`), of random play (`random`, only
        for the model in `folder`), and if the experiment asks for it, of the most likely replies
        (`greedy`), of sampled replies to the images of other levels (`shuffled_images`) and of
        sampled replies by policy of memory (`under`). Those under `summary:K` have
        `true_summaries`.
    """
    stored, encoder = load_policy(folder)
    sampler = TransformersSampler(model if model is not None else stored, encoder)
    episodes, settings = experiment.evaluation.episodes, experiment.settings
    context = context or settings.get("context", "all")
    bf16 = settings.get("bf16", False)
    levels = [LevelSeed(seed, "test") for seed in range(episodes)]
    envs = [
        gym.make(experiment.env, **experiment.options)
        for _ in range(min(settings.get("num_envs", 128), episodes))
    ]
    core: Any = envs[0].unwrapped
    representation = (
        core.config.representation if "<observation>" in core.grammar.template() else None
    )
    ways = [("sampled", 1.0, context)]
    ways += [("greedy", 0.0, context)] * experiment.evaluation.greedy
    ways += [("shuffled_images", 1.0, context)] * experiment.evaluation.shuffled_images
    ways += [
        (f"under {other}", 1.0, other)
        for other in experiment.evaluation.contexts
        if other != context
    ]
    found: dict[str, Any] = {}
    with Meter(f"evaluations on {episodes} levels", len(ways)) as meter:
        for name, temperature, shown in meter.over(ways):
            sampling = SampleSettings(
                temperature=temperature, top_p=1.0, max_tokens=settings.get("max_tokens", 64)
            )
            players = [ShuffledImages(env) for env in envs] if name == "shuffled_images" else envs
            threads, policy = settings.get("env_threads", 1), ContextPolicy.parse(shown)
            rollout = Rollout(players, encoder, sampler, sampling, context=policy, threads=threads)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                played = rollout.play(levels, seed=0)
            found[name] = figures(played, representation) | true_summaries(played, encoder)
    under = {
        other: found.pop(f"under {other}", found["sampled"])
        for other in experiment.evaluation.contexts
    }
    found |= {"under": under} if under else {}
    if model is None:  # the same for every training
        random = [demonstrate(envs[0], encoder, level, oracle_share=0.0) for level in levels]
        found["random"] = figures(random, representation)
    for env in envs:
        env.close()
    return found


class ShuffledImages(gym.Wrapper[Any, Any, Any, Any]):
    """Shows the first image of another level of the split in every turn."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to the level of `seed`, which must be given."""
        assert seed is not None
        self.image = self.env.reset(seed=seed + OTHER_LEVEL, options=options)[0]["image"]
        observation, info = self.env.reset(seed=seed, options=options)
        return {**observation, "image": self.image}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the level itself."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return {**observation, "image": self.image}, reward, terminated, truncated, info


def figures(episodes: Sequence[Any], representation: str | None) -> dict[str, Any]:
    """Figures of episodes.

    `idle_moves` is the share of executed actions without effect, such as pushes into walls;
    `fatal_moves` that of actions that lost the level, such as steps into holes. `grounding` and
    `world_modeling` are the rule judge's F1 where it read a statement; `…_exact` those of
    `exact_f1`. `…_by_level` are means over each episode, in which a turn without counts 0.
    """
    played = [episode for episode in episodes if episode.failure is None]
    turns = [turn.turn for episode in played for turn in episode.turns]
    moves = [action for turn in turns for action in turn.executed]
    fatal = sum(episode.terminated and not episode.success for episode in played)
    return {
        "episodes": len(episodes),
        "failed": len(episodes) - len(played),
        "successes": sum(episode.success for episode in played),
        "success": sum(episode.success for episode in played) / len(episodes),
        "return": sum(episode.rewards for episode in played) / len(played),
        "turns": len(turns) / len(played),
        "format": sum(turn.parsed.format_correct for turn in turns) / len(turns),
        "idle_moves": sum(not action.effective for action in moves) / max(1, len(moves)),
        "fatal_moves": fatal / max(1, len(moves)),
        **(_truth(episodes, turns, representation) if representation else {}),
        **_boxes(episodes),
        "solved": "".join("01"[episode.success] for episode in episodes),
    }


def _boxes(episodes: Sequence[Any]) -> dict[str, Any]:
    """IoU of the boxes of samples, and the shares that reach a threshold; by level too."""
    turns = [episode.turns[0].turn.metrics if episode.turns else {} for episode in episodes]
    names = [name for name in BOXES if any(name in metrics for metrics in turns)]
    by_level = {name: [round(metrics.get(name, 0.0), 4) for metrics in turns] for name in names}
    means = {name: statistics.fmean(scores) for name, scores in by_level.items()}
    return means | {f"{name}_by_level": scores for name, scores in by_level.items()}


def _truth(episodes: Sequence[Any], turns: Sequence[Turn], representation: str) -> dict[str, Any]:
    judge, judged = RuleJudge(), dict[str, list[float]]()
    levels = {part: list[float]() for part in PARTS}
    for episode in episodes:
        of_level = dict.fromkeys(PARTS, 0.0)
        for turn in episode.turns:
            for part, score in score_turn(turn.turn, judge).by_part():
                if score.value is not None:
                    judged.setdefault(part, []).append(score.value)
                    of_level[part] += score.value
        for part, total in of_level.items():
            levels[part].append(round(total / max(1, len(episode.turns)), 4))
    found: dict[str, Any] = {
        part: statistics.fmean(scores) for part, scores in sorted(judged.items())
    }
    found |= {f"{part}_by_level": scores for part, scores in levels.items()}

    def exact(turn: Turn, part: str) -> float:
        of_part = [statement for statement in statements_of(turn) if statement.part == part]
        return sum(
            exact_f1(statement.text, statement.state, representation) for statement in of_part
        )

    for part in PARTS:
        by_level = [[exact(turn.turn, part) for turn in episode.turns] for episode in episodes]
        found[f"{part}_exact"] = statistics.fmean(itertools.chain.from_iterable(by_level))
        found[f"{part}_exact_by_level"] = [
            round(statistics.fmean(scores), 4) if scores else 0.0 for scores in by_level
        ]
    return found | _kinds_of_facts(turns)


def _kinds_of_facts(turns: Sequence[Turn]) -> dict[str, float]:
    """Shares of the facts in observations and predictions that are coordinates, and that answer
    nothing that a description owes.
    """
    said = coordinates = useless = 0
    for turn in turns:
        for statement in statements_of(turn):
            claims = read(statement.state.kind, statement.text, statement.part).claims
            facts = [claim.key for claim in claims]
            said += len(facts)
            coordinates += sum(isinstance(fact, At | Within) for fact in facts)
            useless += len(answers(statement.state, facts).others)
    return {"coordinates": coordinates / max(1, said), "useless": useless / max(1, said)}


def exact_f1(text: str | None, state: State, representation: str) -> float:
    """F1 of the sentences of a field with the sentences that describe the state; 0 without the
    field.

    Independent of any judge: a sentence counts if it stands in the state's description word for
    word, and as often as there. The numbers of holes (`Hole3`) are ignored.
    """
    stated, true = _sentence_counts(text or ""), _sentence_counts(state.describe(representation))
    return 2 * (stated & true).total() / (stated.total() + true.total())


def _sentence_counts(description: str) -> Counter[str]:
    return Counter(
        re.sub(r"(?<=[A-Za-z])\d+", "", sentence) for sentence in sentences(description) if sentence
    )
