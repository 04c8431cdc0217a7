"""Supervised warm start: fine-tune a vision-language model on the oracle's replies before PPO.

Sequences are laid out as PPO lays them out, so that the model learns the very tokens that it will
sample.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply, model_inputs
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_envs import VagenEnv, VagenError
from vagen_envs.seeding import HashStream

FIRST_SEED = 1_000_000
"""The first seed of the demonstrations: PPO's training levels have small seeds, and stay new to the
model.
"""
BATCH = 16
"""Demonstrations of an update."""
IGNORED = -100
"""The label of tokens that transformers' loss leaves out."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """An episode, and the turns whose replies are imitated."""

    episode: PPOEpisode
    imitated: frozenset[int]


def demonstrate(
    env: gym.Env[Any, Any], encoder: ChatEncoder, level: LevelSeed, noise: float = 0.0
) -> Demonstration:
    """Play a level with the oracle; with probability `noise`, a turn takes random actions instead.

    Noise shows the model how to go on after mistakes. Only the oracle's replies are imitated. An
    episode ends early where the oracle finds no way.

    Raises:
        TrainingConfigError: the environment isn't a `VagenEnv` and has no oracle.
    """
    core: Any = env.unwrapped
    if not isinstance(core, VagenEnv):
        raise TrainingConfigError(
            f"{env} has no oracle to imitate; use an environment derived from VagenEnv"
        )
    stream = HashStream("warm start", level.split, level.seed)
    observation, _ = env.reset(seed=level.seed, options={"split": level.split})
    episode = PPOEpisode(level)
    imitated = set[int]()
    while not (episode.terminated or episode.truncated):
        random = stream.random() < noise
        try:
            text = _random_reply(core, stream) if random else core.oracle_reply()
        except VagenError:
            break
        if not random:
            imitated.add(len(episode.turns))
        shown = encoder.show(core.system_prompt, observation)
        ids = (*encoder.tokenizer(text, add_special_tokens=False)["input_ids"], encoder.end_id)
        observation, _, episode.terminated, episode.truncated, info = env.step(text)
        reply = SampledReply(ids, (0.0,) * len(ids))
        episode.turns.append(PlayedTurn(shown, reply, info["turn"], info["turn"].rewards))
    return Demonstration(episode, frozenset(imitated))


def _random_reply(core: Any, stream: HashStream) -> str:
    """Random actions, with true statements."""
    actions = list(core.random_actions(stream, 1))
    representation = core.config.representation
    prediction = ""
    if "prediction" in core.grammar.fields:
        prediction = core.imagine(actions).describe(representation)
    observation = core.true_state.describe(representation)
    reply: str = core.grammar.render(
        actions, observation=observation, reasoning="I try this.", prediction=prediction
    )
    return reply


def demonstrations(
    env_id: str, options: Mapping[str, Any], encoder: ChatEncoder, count: int, noise: float
) -> list[Demonstration]:
    """Demonstrations of `count` training levels; `options` are the environment's, `noise` as in
    `demonstrate`.
    """
    with contextlib.closing(gym.make(env_id, **options)) as env:
        return [
            demonstrate(env, encoder, LevelSeed(FIRST_SEED + number), noise)
            for number in range(count)
        ]


def batch_of(shown: Sequence[Demonstration], encoder: ChatEncoder) -> dict[str, Tensor]:
    """Model inputs with `labels`, (B, L): the tokens of imitated replies, `IGNORED` elsewhere."""
    sequences = [training_sequences(demonstration.episode)[0] for demonstration in shown]
    inputs = model_inputs([sequence.prompt for sequence in sequences], encoder, "cpu")
    ids = inputs["input_ids"]
    labels = torch.full_like(ids, IGNORED)
    for row, (sequence, demonstration) in enumerate(zip(sequences, shown, strict=True)):
        learned = torch.tensor([turn in demonstration.imitated for turn in sequence.turn_ids])
        width = len(learned)
        labels[row, :width][learned] = ids[row, :width][learned]
    return {**inputs, "labels": labels}


def warm_start(
    model: Any,
    encoder: ChatEncoder,
    shown: Sequence[Demonstration],
    *,
    sequences_per_forward: int = 2,
    learning_rate: float = 1e-5,
) -> float:
    """Train a model in place with transformers' `Trainer`; return the mean loss per token.

    Cross-entropy, AdamW, and a cosine schedule with its peak after a twentieth of the updates. The
    model may have PEFT adapters. What is `shown` is shuffled; every update sees 16 of them, most of
    them once.
    """
    from transformers import Trainer, TrainingArguments

    on_gpu = torch.cuda.is_available()
    updates = max(1, len(shown) // BATCH)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=updates,
            per_device_train_batch_size=sequences_per_forward,
            gradient_accumulation_steps=max(1, BATCH // sequences_per_forward),
            learning_rate=learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=updates // 20,
            bf16=on_gpu,
            use_cpu=not on_gpu,
            logging_steps=max(1, updates // 20),
            save_strategy="no",
            report_to="none",
            remove_unused_columns=False,
            **({"gradient_checkpointing": True} if on_gpu else {}),
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=shown,
            data_collator=lambda batch: batch_of(batch, encoder),
        )
        loss: float = trainer.train().training_loss
    return loss
