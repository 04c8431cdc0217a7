"""Metrics of a rollout: pure functions from episodes and scores to named numbers, and where its
time went.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor

from vagen_adapters.ppo.episodes import PlayedTurn, PPOEpisode, groups_of, have_equal_returns
from vagen_adapters.ppo.losses import explained_variance
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.trajectories import Trajectories
from vagen_envs import Turn
from vagen_rewards.scores import PARTS
from vagen_rewards.verifiers.metrics import average_precision, is_reflective


def of_episodes(episodes: Sequence[PPOEpisode], kept: Sequence[PPOEpisode]) -> dict[str, float]:
    """Counts, and means over the episodes that didn't fail; reward terms are summed over an
    episode.
    """
    sound = [episode for episode in episodes if episode.failure is None]
    counts = {
        "rollout/failed": float(len(episodes) - len(sound)),
        "rollout/filtered": float(len(sound) - len(kept)),
    }
    if not sound:
        return counts
    turns = [turn for episode in sound for turn in episode.new_turns]
    cut = [float(episode.truncated and not episode.is_paused) for episode in sound]
    return {
        **counts,
        **_where_there_are_some(sound),
        **{f"rollout/{name}": entry for name, entry in _outcome(sound).items()},
        "rollout/turns": len(turns) / len(sound),
        "rollout/truncated": mean(cut),
        "rollout/reply_tokens": mean([float(len(turn.reply.ids)) for turn in turns]),
        "rollout/cut_replies": mean([float(turn.cut) for turn in turns]),
        "rollout/format": mean([float(turn.turn.parsed.format_correct) for turn in turns]),
        **_reward_terms(sound),
        **_of_reasoning([turn.turn for turn in turns]),
        **_of_turns(sound),
        **_of_sources(sound),
    }


def _where_there_are_some(sound: Sequence[PPOEpisode]) -> dict[str, float]:
    """Means over summaries, thoughts, pauses, moved thresholds and groups, in trainings that have
    them.
    """
    found = _of_summaries_and_thoughts(sound)
    if paused := [episode for episode in sound if episode.is_paused]:
        found["rollout/paused"] = len(paused) / len(sound)
    thresholds = [each.level.iou_threshold for each in sound]
    if moved := [each for each in thresholds if each is not None]:
        found["rollout/iou_threshold"] = mean(moved)
    if groups := [group for group in groups_of(sound) if len(group) > 1]:
        equal = [float(have_equal_returns(group)) for group in groups]
        found["rollout/equal_groups"] = mean(equal)
    return found


def _of_summaries_and_thoughts(sound: Sequence[PPOEpisode]) -> dict[str, float]:
    found: dict[str, float] = {}
    if summaries := [summary for episode in sound for summary in episode.summaries.values()]:
        tokens = [float(len(summary.reply.ids)) for summary in summaries]
        found["rollout/summary_tokens"] = mean(tokens)
    replies = [step.reply for episode in sound for step in episode.new_steps]
    if any(reply.thoughts for reply in replies):
        found["rollout/thought_tokens"] = mean([float(reply.thoughts) for reply in replies])
        found["rollout/cut_thoughts"] = mean([float(any(reply.forced)) for reply in replies])
    return found


def of_evaluation(episodes: Sequence[PPOEpisode]) -> dict[str, float]:
    """Success rate and return of the episodes that didn't fail, of each source if there are
    several, and failures.
    """
    sound = [episode for episode in episodes if episode.failure is None]
    found = {**_outcome(sound), "failed": float(len(episodes) - len(sound))}
    sources = _by_source(sound)
    if len(sources) > 1:
        for source, batch in sources.items():
            found |= {f"{name}/{source}": entry for name, entry in _outcome(batch).items()}
    return found


def _outcome(episodes: Sequence[PPOEpisode]) -> dict[str, float]:
    """Success and return of the episodes that have ended; empty where none has."""
    ended = [episode for episode in episodes if not episode.is_paused]
    if not ended and episodes:
        return {}
    return {
        "success": mean([float(episode.success) for episode in ended]),
        "return": mean([episode.rewards for episode in ended]),
    }


def _of_reasoning(turns: Sequence[Turn]) -> dict[str, float]:
    """`reasoning/…` of a reward for reasoning.

    The share of turns that its gate left unpaid and, of each part that was judged, the mean score,
    the share of statements without one, and the share of the words that weren't understood.
    """
    found: dict[str, float] = {}
    gated = [
        float(turn.metrics["reasoning_gated"])
        for turn in turns
        if "reasoning_gated" in turn.metrics
    ]
    if gated:
        found["reasoning/gated"] = mean(gated)
    for part in PARTS:
        judged = [turn.metrics for turn in turns if f"{part}_reason" in turn.metrics]
        if judged:
            scores = [float(entry[part]) for entry in judged if part in entry]
            if scores:
                found[f"reasoning/{part}"] = mean(scores)
            found[f"reasoning/{part}_unscored"] = 1 - len(scores) / len(judged)
            found[f"reasoning/{part}_unread"] = mean(
                [float(entry[f"{part}_unread"]) for entry in judged]
            )
    return found


def _of_turns(episodes: Sequence[PPOEpisode]) -> dict[str, float]:
    """`turn/…/n`: means over the n-th turns of the episodes that have one."""
    found = {}
    of_number: dict[int, list[PlayedTurn]] = defaultdict(list)
    for episode in episodes:
        for number, turn in enumerate(episode.new_turns, episode.first):
            of_number[number].append(turn)
    for number, turns in sorted(of_number.items()):
        found[f"turn/reward/{number}"] = mean([turn.reward for turn in turns])
        found[f"turn/reply_tokens/{number}"] = mean([float(len(turn.reply.ids)) for turn in turns])
        found[f"turn/share/{number}"] = len(turns) / len(episodes)
    return found


def _of_sources(episodes: Sequence[PPOEpisode]) -> dict[str, float]:
    """`source/…/name`: each environment, difficulty or data source on its own (V-Triune, section
    3.3).

    Of its episodes their number, `success`, `return` and `reward/…` as over all; of its turns
    `reply_tokens`, `cut_replies`, `reflection/ratio` and `reflection/success` (appendix H), and
    `metric/…`, the environment's own, such as `metric/iou@50`; where there are boxes `map` and
    `map@50` (appendix E).
    """
    found: dict[str, float] = {}
    for source, batch in _by_source(episodes).items():
        parts: dict[str, list[float]] = defaultdict(list)
        turns = [turn for episode in batch for turn in episode.new_turns]
        for played in turns:
            reflects = is_reflective(played.turn.reply)
            parts["reply_tokens"].append(float(len(played.reply.ids)))
            parts["cut_replies"].append(float(played.cut))
            parts["reflection/ratio"].append(float(reflects))
            if reflects:
                parts["reflection/success"].append(float(played.turn.success))
            for name, entry in played.turn.metrics.items():
                if name != "success" and not isinstance(entry, str):
                    parts[f"metric/{name}"].append(float(entry))
        means = {name: mean(entries) for name, entries in parts.items()}
        detections = [turn.detection for turn in turns if turn.detection is not None]
        entries = {
            "episodes": float(len(batch)),
            **_outcome(batch),
            **_reward_terms(batch),
            **means,
            **average_precision(detections),
        }
        found |= {f"source/{source}/{name}": entry for name, entry in entries.items()}
    return found


def _by_source(episodes: Sequence[PPOEpisode]) -> dict[str, list[PPOEpisode]]:
    found: dict[str, list[PPOEpisode]] = {}
    for episode in sorted(episodes, key=lambda episode: episode.source):
        found.setdefault(episode.source, []).append(episode)
    return found


def _reward_terms(episodes: Sequence[PPOEpisode]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for episode in episodes:
        for turn in episode.new_turns:
            for term in turn.rewards:
                sums[f"reward/{term.name}"] += term.value
    return {name: whole / len(episodes) for name, whole in sums.items()}


def of_scores(
    batch: Trajectories,
    advantages: Advantages,
    logprobs: Tensor | None,
    reference: Tensor | None,
) -> dict[str, float]:
    """How far the policy is from its reference and the critic from the returns.

    `advantages` are those before whitening; values count where they have targets. Log-probabilities
    are (B, L): the policy's, None if the update computes them; the frozen policy's, or None.
    """
    mask = batch.mask
    trained = advantages.value_mask
    found = {"advantage/std": float(advantages.advantages[advantages.mask].std())}
    if logprobs is not None and reference is not None:
        found["policy/kl_to_reference"] = float((logprobs - reference)[mask].mean())
    if batch.values is not None and bool(trained.any()):
        values = batch.values[trained]
        returns = advantages.returns[trained]
        found["critic/explained_variance"] = explained_variance(values, returns)
        found["critic/value"] = float(values.mean())
    return found


def of_versions(episodes: Sequence[PPOEpisode], step: int) -> dict[str, float]:
    """By how many updates the weights that sampled tokens are older than those of `step`: the mean,
    and the most.
    """
    sampled = [each for episode in episodes for each in episode.steps]
    tokens = sum(len(each.reply.ids) for each in sampled)
    older = sum((step - each.version) * len(each.reply.ids) for each in sampled)
    return {
        "staleness/mean": older / tokens,
        "staleness/max": float(max(step - each.version for each in sampled)),
    }


def mean(numbers: Sequence[float]) -> float:
    """The mean, NaN of nothing."""
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


class Clock:
    """What a rollout and its updates spend their time on in this process: seconds by name, in
    `spent`.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.spent: dict[str, float] = defaultdict(float)

    def take(self, other: Clock) -> None:
        """Add what another clock has counted."""
        for name, seconds in other.spent.items():
            self.spent[name] += seconds

    @contextlib.contextmanager
    def __call__(self, name: str, threads: int = 1) -> Iterator[None]:
        """Count the time of a block, divided by the number of threads that run it beside each
        other.
        """
        started = time.perf_counter()
        yield
        self.spent[name] += (time.perf_counter() - started) / threads

    def shares(self, tokens: int) -> dict[str, float]:
        """`time/…` in seconds, `share/…` of the whole, and how many of the trained `tokens` that
        makes a second.
        """
        whole = time.perf_counter() - self._started
        return {
            "time/whole": whole,
            "tokens_per_second": tokens / whole,
            **{f"time/{name}": seconds for name, seconds in self.spent.items()},
            **{f"share/{name}": seconds / whole for name, seconds in self.spent.items()},
        }
