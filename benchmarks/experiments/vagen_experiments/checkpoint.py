"""Make the initial checkpoint: vision pretraining, imitation of scripted play, critic
pretraining.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from vagen_adapters.context import ContextPolicy
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.chat_encoder import ChatEncoder, load_policy
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_benchmarks.meter import Meter
from vagen_experiments import imitation
from vagen_experiments import vision_pretraining as sight
from vagen_experiments.critic_pretraining import teach_critic
from vagen_experiments.critics import StudyActorCritic
from vagen_experiments.experiment import CHECKPOINTS, Experiment
from vagen_experiments.fine_tuning import FineTuning
from vagen_experiments.memory import read_under, texts_of_summaries
from vagen_experiments.things import things
from vagen_experiments.training import has_reading_critic

# First seeds of the scripted play. PPO's training levels have small seeds, so they are new to the
# model.
IMITATED, FOR_CRITIC = 1_000_000, 2_000_000
BATCH = 16
REWARD_SCALE = 0.1  # the tiny recipes'

Report = Callable[[str], None]


def make_checkpoint(experiment: Experiment, out: Path, report: Report) -> None:
    """Write the initial policy and its critic to `out`."""
    how = experiment.checkpoint
    if how.is_pretrained:
        _fine_tune(experiment, out)
        return
    model, encoder = _initial_model(experiment, out)
    report(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    with Meter("episodes of scripted play", how.episodes) as meter:
        played = list(
            meter.over(_scripted_play(experiment, out, IMITATED, how.episodes, how.oracle_share))
        )
    if how.vision_updates:
        _pretrain_vision(model, encoder, played, how.vision_updates, report)
    updates = max(1, how.episodes * how.passes // BATCH)
    passes = itertools.chain.from_iterable(
        _read(experiment, encoder, played, first) for first in range(how.passes)
    )  # each pass reads an episode under the next policy
    with Meter("imitation updates", updates) as meter:
        imitation.imitate(
            model,
            encoder,
            passes,
            updates,
            batch_size=BATCH,
            learning_rate=how.learning_rate,
            report=_progress(meter),
        )
    model.save_pretrained(out)
    if how.critic_episodes and has_reading_critic(experiment):
        _pretrain_critic(experiment, out, out, encoder, privileged=False)


def _fine_tune(experiment: Experiment, out: Path) -> None:
    """A pretrained language model. The weights of its stages stay beside `out`, so that none is
    repeated after an interruption.
    """
    how = experiment.checkpoint
    updates = {"sight": how.sight_updates, "replies": how.replies_updates}
    folder = out.parent / "stages"
    bf16 = experiment.settings.get("bf16", False)
    stages = FineTuning(
        folder, experiment.env, experiment.options, updates, batch=BATCH // 2, bf16=bf16
    )
    stages.save_merged(out, torch.bfloat16 if bf16 else torch.float32)


def make_privileged_critic(experiment: Experiment, checkpoint: Path, out: Path) -> None:
    """Write the policy of `checkpoint` to `out`, with a critic that is given states, trained on the
    same play.
    """
    encoder = ChatEncoder.from_pretrained(str(checkpoint))
    encoder.save_pretrained(out)
    _pretrain_critic(experiment, checkpoint, out, encoder, privileged=True)


def _initial_model(experiment: Experiment, out: Path) -> tuple[Any, ChatEncoder]:
    weights = experiment.checkpoint.weights
    if not weights:
        texts = tiny.texts_of([experiment.env], levels=200, **experiment.options)
        summaries = (
            texts_of_summaries(
                experiment.env, experiment.options, ContextPolicy.parse(context), levels=200
            )
            for context in experiment.checkpoint.contexts
        )
        tiny.save_tiny(out, itertools.chain(texts, *summaries))
        return load_policy(out)
    model, encoder = load_policy(CHECKPOINTS / weights)
    model.float().save_pretrained(out)  # stored in half precision
    encoder.save_pretrained(out)
    return model, encoder


def _scripted_play(
    experiment: Experiment,
    codec_folder: Path,
    first_seed: int,
    count: int,
    oracle_share: float,
    continuations: int = 0,
) -> Iterator[PPOEpisode]:
    how = experiment.checkpoint
    return imitation.demonstrations(
        experiment.env,
        experiment.options,
        codec_folder,
        [LevelSeed(first_seed + number) for number in range(count)],
        oracle_share=oracle_share,
        aim_noise=how.aim_noise,
        word_noise=how.word_noise,
        forks=continuations,
        processes=how.processes,
    )


def _read(
    experiment: Experiment, encoder: ChatEncoder, episodes: Iterable[PPOEpisode], first: int
) -> Iterator[imitation.Read]:
    """The episodes, each under the policy of memory whose turn it is."""
    contexts = [ContextPolicy.parse(context) for context in experiment.checkpoint.contexts]
    with contextlib.closing(gym.make(experiment.env, **experiment.options)) as env:
        system: str = env.unwrapped.system_prompt  # type: ignore[attr-defined]
    for number, episode in enumerate(episodes, first):
        yield read_under(episode, contexts[number % len(contexts)], encoder, system)


def _pretrain_vision(
    model: Any, encoder: ChatEncoder, played: Sequence[PPOEpisode], updates: int, report: Report
) -> None:
    """Train the vision tower on the relations of objects; nine tenths of the images, the others
    measure it.
    """
    seen = [(turn.shown, things(turn.turn.before)) for episode in played for turn in episode.turns]
    held_out = max(1, len(seen) // 10)
    with Meter("updates of the vision tower", updates) as meter:
        probe = sight.teach_sight(
            model, encoder, seen[:-held_out], updates, report=_progress(meter)
        )
    for relation, fit in probe.measure(model, encoder, seen[-held_out:]).items():
        report(
            f"vision: {relation}: R² {fit.explained:.2f}, mean error {fit.off:.2f} ({fit.count} "
            "objects)"
        )


def _pretrain_critic(
    experiment: Experiment, policy: Path, out: Path, encoder: ChatEncoder, *, privileged: bool
) -> None:
    how = experiment.checkpoint
    with torch.random.fork_rng(devices=[]):  # the critic's heads start from random weights
        torch.manual_seed(0)
        heads = {
            "reads": not privileged,
            "told": privileged,
            "convolutions": how.critic_convolutions,
        }
        model = StudyActorCritic.with_heads(**heads).from_pretrained(str(policy), critic="shared")
    play = _scripted_play(
        experiment,
        policy,
        FOR_CRITIC,
        how.critic_episodes,
        how.critic_oracle_share,
        how.critic_continuations,
    )
    episodes = _metered(
        _read(experiment, encoder, play, 0), "episodes read by the critic", how.critic_episodes
    )
    with Meter("critic updates", how.critic_updates) as meter:
        teach_critic(
            model,
            encoder,
            episodes,
            how.critic_updates,
            reward_scale=REWARD_SCALE,
            learning_rate=how.critic_learning_rate,
            report=_progress(meter),
        )
    model.save_pretrained(out)


def _metered(episodes: Iterator[imitation.Read], what: str, count: int) -> Iterator[imitation.Read]:
    with Meter(what, count) as meter:
        yield from meter.over(episodes)


def _progress(meter: Meter) -> Callable[[int, float], None]:
    def report(_: int, figure: float) -> None:
        meter.advance(note=f"{figure:.3f}")

    return report
