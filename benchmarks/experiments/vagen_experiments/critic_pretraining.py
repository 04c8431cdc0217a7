"""What a critic is taught before PPO: what play by rule came to, from its states on."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.family_checks import vision_cache_for
from vagen_adapters.ppo.generation import TILE, model_inputs
from vagen_adapters.ppo.introspection import vision_parameters
from vagen_adapters.ppo.losses import explained_variance
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_experiments.critic_targets import values_at
from vagen_experiments.critics import StudyActorCritic
from vagen_experiments.imitation import Read
from vagen_experiments.supervised import Report, fit

STATES = 512
"""States in an update of a critic's heads: 256 explained a little less in as many seconds."""
SIGHT_MEMORY = 2**30
"""Bytes of the vision features that are kept while a critic is trained: some 100,000 of the tiny
model's.
"""

Step = Callable[[], tuple[Tensor, float]]


def teach_critic(
    model: StudyActorCritic,
    encoder: ChatEncoder,
    episodes: Iterable[Read],
    updates: int,
    *,
    reward_scale: float = 1.0,
    batch_size: int = 16,
    learning_rate: float = 1e-3,
    report: Report | None = None,
) -> None:
    """Teach a critic what play came to, so that PPO's first advantages are no noise.

    Values before and after a turn's tokens learn what its state was worth (`WorthEpisode`), or
    where that isn't known the sum of the rewards from the turn on, in which the worth is mostly
    hidden. Take play that succeeds about as often as the policy will. The vision tower stays as it
    is, and looks at each picture once.

    After the last token the worth of action and state together could be taught; but a few thousand
    episodes are learned by heart there (and little of others explained), and a baseline that knows
    the action leaves no advantage.

    A critic on a backbone of its own is trained whole, by episodes as they come. On the policy's
    backbone only its heads are, on what the backbone says of each episode, once: on FrozenLake
    2,000 episodes whose states were each played on from sixteen times took 35 s to read and 8 s of
    updates, and explained 0.64 to 0.68 of what the states of others were worth; the backbone,
    trained for 120 s with them, 0.51, and on sums of rewards nothing.

    Args:
        model: its critic is trained in place, its policy is not touched.
        encoder: of both.
        episodes: as `imitate` takes them; on a backbone of its own at least `updates * batch_size`;
            else all are read, and a tenth held out.
        updates: how many.
        reward_scale: as in `MultiTurnPPOConfig`.
        batch_size: episodes in an update; on the policy's backbone their like in states is
            `STATES`.
        learning_rate: at its highest, after a twentieth of the updates.
        report: is told the number of each update and how much the critic explained of what values
            learn, on episodes that it hadn't learned.
    """
    teach = _taught_whole if model.critic is not None else _taught_heads
    with _towers_as_they_are(model, encoder):
        step = teach(model, encoder, iter(episodes), reward_scale, batch_size)
        model.train()
        fit(model.trainable(critic=True), updates, learning_rate, step, report)
        model.eval()


def _taught_whole(
    model: StudyActorCritic,
    encoder: ChatEncoder,
    episodes: Iterator[Read],
    reward_scale: float,
    batch_size: int,
) -> Step:
    def step() -> tuple[Tensor, float]:
        batch = list(itertools.islice(episodes, batch_size))
        inputs, targets = _with_targets(model, encoder, batch, reward_scale)
        values = model(inputs, ["values"], temperature=1.0)["values"]
        known = ~targets.isnan()
        loss = (values[known] - targets[known]).square().mean()
        return loss, explained_variance(values[known].detach(), targets[known])

    return step


def _taught_heads(
    model: StudyActorCritic,
    encoder: ChatEncoder,
    episodes: Iterator[Read],
    reward_scale: float,
    batch_size: int,
) -> Step:
    states: list[Tensor] = []
    worth: list[Tensor] = []
    shown: list[Tensor] = []
    pictures: list[Tensor] = []
    sizes: list[Tensor] = []
    counts: list[int] = []
    while batch := list(itertools.islice(episodes, batch_size)):
        inputs, targets = _with_targets(model, encoder, batch, reward_scale)
        known = ~targets[:, 1:].isnan()  # a value stands after the position before
        hidden, seen = model.before_heads(inputs)
        if seen is not None:
            shown.append(seen[2][known] + len(sizes))
            pictures += seen[0].split(seen[1].prod(1).tolist())
            sizes += seen[1]
        states.append(hidden[known])
        worth.append(targets[:, 1:][known])
        counts += known.sum(1).tolist()
    all_states, all_worth = torch.cat(states), torch.cat(worth)
    all_shown = torch.cat(shown) if shown else None
    taught = sum(counts[: len(counts) - max(1, len(counts) // 10)])  # whole episodes are held out
    generator = torch.Generator().manual_seed(0)

    def values_of(drawn: Tensor) -> Tensor:
        seen = None
        if all_shown is not None:
            numbers = all_shown[drawn].tolist()
            tokens = torch.cat([pictures[each] for each in numbers])
            grids = torch.stack([sizes[each] for each in numbers])
            seen = tokens, grids, torch.arange(len(numbers), device=tokens.device)[:, None]
        return model.of_heads(all_states[drawn][:, None], seen).squeeze(1)

    def step() -> tuple[Tensor, float]:
        drawn = torch.randint(taught, (STATES,), generator=generator)
        other = torch.randint(taught, len(all_worth), (STATES // 4,), generator=generator)
        with torch.no_grad():
            explained = explained_variance(values_of(other), all_worth[other])
        return (values_of(drawn) - all_worth[drawn]).square().mean(), explained

    return step


def _with_targets(
    model: StudyActorCritic, encoder: ChatEncoder, batch: Sequence[Read], reward_scale: float
) -> tuple[dict[str, Tensor], Tensor]:
    """A batch of episodes, and what its values, (B, L + 1), are to be; NaN where nothing is
    known.
    """
    head = model.value_head
    assert head is not None
    pairs = [
        (episode, each)
        for episode, context in batch
        for each in training_sequences(episode, context)
    ]
    sequences = [sequence for _, sequence in pairs]
    prompts = [each.prompt for each in sequences]
    inputs = model_inputs(
        prompts, encoder, head.weight.device, multiple=TILE, vision_cache=model.vision_cache
    )
    inputs |= model.critic_inputs([shown for prompt in prompts for shown in prompt.shown])
    rows, length = inputs["input_ids"].shape
    turn_ids = torch.full((rows, length), NOT_SAMPLED)
    worth = torch.zeros(rows, max(len(episode.steps) for episode, _ in batch))
    for row, (episode, sequence) in enumerate(pairs):
        turn_ids[row, : len(sequence.turn_ids)] = torch.tensor(sequence.turn_ids)
        of_steps = getattr(episode, "worth", ()) or _rewards_to_go(episode)
        worth[row, : len(of_steps)] = torch.tensor([reward_scale * each for each in of_steps])
    return inputs, values_at(turn_ids, worth).to(head.weight.device)


@contextlib.contextmanager
def _towers_as_they_are(model: StudyActorCritic, encoder: ChatEncoder) -> Iterator[None]:
    """Neither trained nor asked twice about one picture."""
    held = [each for each in vision_parameters(model.critic or model.policy) if each.requires_grad]
    for each in held:
        each.requires_grad_(False)
    model.vision_cache = vision_cache_for(model, encoder, SIGHT_MEMORY)
    try:
        yield
    finally:
        model.vision_cache = None
        for each in held:
            each.requires_grad_(True)


def _rewards_to_go(episode: PPOEpisode) -> list[float]:
    rewards = [step.reward for step in episode.steps]
    return [math.fsum(rewards[step:]) for step in range(len(rewards))]
