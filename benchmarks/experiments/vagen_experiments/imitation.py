"""A start for a tiny model: imitation of noisy play, so that PPO begins with the format and some
skill.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from vagen_adapters.context import ContextPolicy
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn, PPOEpisode
from vagen_adapters.ppo.generation import TILE, SampledReply, model_inputs
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_envs import VagenEnv, VagenError
from vagen_envs.seeding import HashStream
from vagen_experiments.supervised import Report, fit

Read = tuple[PPOEpisode, ContextPolicy]
"""An episode, and the policy of memory under which its turns are read and written."""
OTHER_LEVEL = 5_000_000
"""Added to a level's seed: the level that false sentences describe."""


@dataclass(eq=False)
class WorthEpisode(PPOEpisode):
    """`worth`: the mean sum of rewards from before each turn on, where it was played on from there;
    empty elsewhere.
    """

    worth: tuple[float, ...] = ()


def demonstrate(
    env: gym.Env[Any, Any],
    encoder: ChatEncoder,
    level: LevelSeed,
    *,
    oracle_share: float = 0.35,
    forks: int = 0,
    aim_noise: int = 0,
    word_noise: float = 0.0,
) -> PPOEpisode:
    """Play a level by rule: each turn the oracle's action with chance `oracle_share`, else any.

    What the replies observe and predict is true but for `word_noise`. Play of the oracle alone
    would teach a policy that is sure of itself and has seen no mistakes; play without it teaches
    actions that don't depend on the picture.

    Args:
        env: the environment.
        encoder: of the model that is shown the episode.
        level: what to play.
        oracle_share: share of turns that the oracle plays.
        forks: how often each state is played on from, in the same way, for what it is worth
            (`WorthEpisode`).
        aim_noise: how far each number of the oracle's actions is off at most, evenly drawn, when
            they are done: in PrimitiveSkill, millimetres. What replies say that they mean to do has
                the right ones.
        word_noise: chance of each sentence that it tells of another level instead.

    Raises:
        TrainingConfigError: it isn't an environment of this package, which plays by rule.
    """
    core: Any = env.unwrapped
    if not isinstance(core, VagenEnv):
        raise TrainingConfigError(
            f"{env} is no VagenEnv, which knows an oracle and what is random; it can't be shown"
        )

    def show() -> Shown:
        return encoder.show(core.system_prompt, observation, core.true_state)

    stream = HashStream("demonstration", level.split, level.seed)
    misspeak = _misspeaker(env, core, level, word_noise) if word_noise else str
    observation, _ = env.reset(seed=level.seed, options={"split": level.split})
    episode = WorthEpisode(level, last_shown=show())
    while not (episode.terminated or episode.truncated):
        if forks:
            number = len(episode.turns)
            streams = [
                HashStream("fork", level.split, level.seed, number, each) for each in range(forks)
            ]
            episode.worth += (_worth_of_here(env, core, streams, oracle_share, aim_noise),)
        text = _said(core, *_noisy_actions(core, stream, oracle_share, aim_noise), misspeak)
        ids = (*encoder.tokenizer(text, add_special_tokens=False)["input_ids"], encoder.end_id)
        shown = episode.last_shown
        assert shown is not None
        observation, _, episode.terminated, episode.truncated, info = env.step(text)
        episode.turns.append(
            PlayedTurn(
                shown, SampledReply(ids, (0.0,) * len(ids)), info["turn"], info["turn"].rewards
            )
        )
        episode.last_shown = None if episode.terminated else show()
    return episode


def _misspeaker(
    env: gym.Env[Any, Any], core: Any, level: LevelSeed, chance: float
) -> Callable[[str], str]:
    """Swaps sentences of a description for those that stand in their places in one of another
    level.
    """
    env.reset(seed=level.seed + OTHER_LEVEL, options={"split": level.split})
    others = sentences(core.true_state.describe(core.config.representation))
    stream = HashStream("misspeaking", level.split, level.seed)

    def misspeak(description: str) -> str:
        places = itertools.zip_longest(own := sentences(description), others[: len(own)])
        return " ".join(
            other if other and stream.random() < chance else true for true, other in places
        )

    return misspeak


def sentences(description: str) -> list[str]:
    """The sentences of a description in plain words; one in another representation is a single
    one.
    """
    return re.split(r"(?<=\.) ", description)


def _noisy_actions(
    core: Any, stream: HashStream, oracle_share: float, aim_noise: int
) -> tuple[list[str], list[str]]:
    """The planned actions, and the executed ones."""

    def aimed(number: re.Match[str]) -> str:
        return str(int(number[0]) + stream.below(2 * aim_noise + 1) - aim_noise)

    actions = list(core.random_actions(stream, 1))
    if stream.random() < oracle_share:
        with contextlib.suppress(VagenError):  # the oracle may see no way from here any more
            if plan := list(core.plan())[: core.config.max_actions_per_turn]:
                return plan, [re.sub(r"-?\d+", aimed, each) for each in plan] if aim_noise else plan
    return actions, actions


def _worth_of_here(
    env: gym.Env[Any, Any],
    core: Any,
    streams: Sequence[HashStream],
    oracle_share: float,
    aim_noise: int,
) -> float:
    """The mean sum of rewards of noisy play from here on, after which the environment is here
    again.
    """
    here, sums = core.snapshot(), []
    for stream in streams:
        rewards, over = [], False
        while not over:
            reply = _said(core, *_noisy_actions(core, stream, oracle_share, aim_noise))
            _, reward, terminated, truncated, _ = env.step(reply)
            rewards.append(float(reward))
            over = terminated or truncated
        sums.append(math.fsum(rewards))
        core.restore(here)
    return math.fsum(sums) / len(sums)


def imitate(
    model: Any,
    encoder: ChatEncoder,
    episodes: Iterable[Read],
    updates: int,
    *,
    batch_size: int = 16,
    learning_rate: float = 2e-3,
    report: Report | None = None,
) -> None:
    """Train a policy on the replies of demonstrations: cross-entropy of their replies, AdamW, a
    cosine to zero.

    Episodes are taken as they come. A model that sees the same few thousand again and again learns
    them by heart: where play by rule costs a tenth of learning from it, let it see each once.

    Args:
        model: the policy, trained in place.
        encoder: its encoder.
        episodes: demonstrations with the policy of memory that each is read under, at least
            `updates * batch_size`.
        updates: how many.
        batch_size: episodes in an update.
        learning_rate: at its highest, after a twentieth of the updates.
        report: is told the number of each update and its loss.
    """
    source = iter(episodes)

    def step() -> tuple[Tensor, float]:
        loss = imitation_loss(model, encoder, list(itertools.islice(source, batch_size)))
        return loss, float(loss.detach())

    model.train()
    fit(list(model.parameters()), updates, learning_rate, step, report)
    model.eval()


def imitation_loss(model: Any, encoder: ChatEncoder, episodes: Sequence[Read]) -> Tensor:
    """The mean cross-entropy of the reply tokens of `episodes`."""
    sequences = [sequence for read in episodes for sequence in training_sequences(*read)]
    inputs = model_inputs(
        [sequence.prompt for sequence in sequences], encoder, model.device, multiple=TILE
    )
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, sequence in enumerate(sequences):
        said = torch.tensor(sequence.turn_ids, device=labels.device) != NOT_SAMPLED
        labels[row, : len(said)][said] = inputs["input_ids"][row, : len(said)][said]
    logits = model(**inputs, use_cache=False).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


def demonstrations(
    env_id: str,
    options: Mapping[str, Any],
    folder: str | Path,
    levels: Sequence[LevelSeed],
    *,
    oracle_share: float = 0.35,
    processes: int = 0,
    forks: int = 0,
    aim_noise: int = 0,
    word_noise: float = 0.0,
) -> Iterator[PPOEpisode]:
    """`demonstrate` on each level, by processes that play while the caller learns. Their number
    changes no episode.

    Args:
        env_id: the environment, as in `gym.make`.
        options: its options.
        folder: of the model whose encoder it is.
        levels: what to play.
        oracle_share: as in `demonstrate`.
        processes: how many; 0 plays in the caller's.
        forks: as in `demonstrate`.
        aim_noise: as in `demonstrate`.
        word_noise: as in `demonstrate`.
    """
    how = {
        "oracle_share": oracle_share,
        "forks": forks,
        "aim_noise": aim_noise,
        "word_noise": word_noise,
    }
    play = _Play(env_id, options, folder, levels, how)
    ahead = (
        16 if processes else None
    )  # an update's worth; the loader refuses a number where nobody plays ahead
    return iter(
        DataLoader(
            play, batch_size=None, collate_fn=_as_is, num_workers=processes, prefetch_factor=ahead
        )
    )


class _Play(IterableDataset[PPOEpisode]):
    """Each of n processes plays every n-th level, and the loader takes one episode of each in
    turn.
    """

    def __init__(
        self,
        env_id: str,
        options: Mapping[str, Any],
        folder: str | Path,
        levels: Sequence[LevelSeed],
        how: dict[str, Any],
    ) -> None:
        self.env_id, self.options, self.folder = env_id, dict(options), str(folder)
        self.levels, self.how = levels, how

    def __iter__(self) -> Iterator[PPOEpisode]:
        worker = get_worker_info()
        levels = self.levels if worker is None else self.levels[worker.id :: worker.num_workers]
        env, encoder = (
            gym.make(self.env_id, **self.options),
            ChatEncoder.from_pretrained(self.folder),
        )
        try:
            for level in levels:
                yield demonstrate(env, encoder, level, **self.how)
        finally:
            env.close()


def _as_is(episode: PPOEpisode) -> PPOEpisode:
    return episode


def _said(
    core: Any, meant: Sequence[str], actions: Sequence[str], misspeak: Callable[[str], str] = str
) -> str:
    """A reply of these actions, which reasons for those meant; it tells the truth before `misspeak`
    changes it.
    """
    representation = core.config.representation
    observed = misspeak(core.true_state.describe(representation))
    foreseen = ""
    if (
        "prediction" in core.grammar.fields
    ):  # to foresee is to play on, which takes a simulator as long as to act
        foreseen = misspeak(core.imagine(actions).describe(representation))
    reply: str = core.grammar.render(
        actions, observation=observed, reasoning=core._reason(meant), prediction=foreseen
    )
    return reply
