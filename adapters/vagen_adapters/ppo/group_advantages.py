"""How much better each sampled token was than what others got from the same level, or the same
state: no critic.

    estimator     from                              one advantage per …
    grpo          Shao et al. 2024, GRPO            episode
    rloo          Ahmadian et al. 2024, RLOO        episode
    rloo_turns    RLOO, turn by turn                turn
    gigpo         Feng et al. 2025, GiGPO           episode and turn

Pure functions of a batch of episodes, as in `advantages`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.packing import Advantages, PackedTokens, sum_backwards
from vagen_adapters.ppo.setting_types import Share
from vagen_adapters.ppo.trajectories import Trajectories

ROUNDING = 2e-6
"""Relative difference of equal returns: rewards come in float32, and are divided among turns in
several ways.
"""


def grpo(batch: Trajectories, *, scale: bool = True, eps: float = 1e-6) -> Advantages:
    """An episode's return against the mean of its group, for all its tokens alike. Shao et al. 2024
    (GRPO).

    The return is the sum of all turn and KL rewards. An episode without sampled tokens is not
    counted in its group; an episode alone in its group has nothing to be compared with and gets 0.

    Args:
        batch: The episodes, with `group_ids`; `values` are not used.
        scale: Divide by the group's standard deviation (n - 1 in the denominator) + `eps`; False is
            Dr. GRPO.
        eps: Keeps a group of equal returns at 0.
    """
    tokens, episodes, returns, groups = _returns_in_groups(batch)
    return _spread(tokens, _above_mean(returns, groups, scale, eps)[episodes])


def rloo(batch: Trajectories) -> Advantages:
    """An episode's return against the mean of the others of its group. Ahmadian et al. 2024 (RLOO).

    Returns, episodes without sampled tokens and groups of one are treated as in `grpo`.
    """
    tokens, episodes, returns, groups = _returns_in_groups(batch)
    return _spread(tokens, _above_others(returns, groups)[episodes])


def rloo_turns(batch: Trajectories, *, gamma: Share = 1.0) -> Advantages:
    """RLOO by turn: the return from turn t on, minus the mean of the same over the other episodes
    of the group.

    An episode that ended before turn t counts as 0 there. If it were left out, the number of terms
    in the baseline would depend on when the policy stops, and the gradient would be biased
    (`measure_bias.py` in benchmarks/experiments).

    Args:
        batch: The episodes, with `group_ids`. An episode without others in its group gets 0.
        gamma: Discount from one turn to the next, 0 to 1.
    """
    tokens, of_turns, _, groups = _returns_in_groups(batch)
    groups = groups[of_turns]
    rewards = tokens.turn_rewards_with_kl().double()
    to_go = sum_backwards(rewards, tokens.between_turns(gamma, rewards), tokens.turn_ends_episode)
    total, _ = _sums(to_go, _pairs(groups, tokens.turns))
    episodes = _sums(tokens.turn_ends_episode.to(to_go.dtype), groups)[
        0
    ]  # in the group of each turn
    advantages = torch.where(episodes > 1, to_go - (total - to_go) / (episodes - 1).clamp(min=1), 0)
    return _spread(tokens, advantages)


def gigpo(
    batch: Trajectories,
    *,
    gamma: Share = 0.95,
    step_weight: float = 1.0,
    scale: bool = True,
    eps: float = 1e-6,
) -> Advantages:
    """An episode's advantage in its group, and each turn's among all turns of the group that met
    the same state.

    Feng et al. 2025 (GiGPO): A = A^E + ω·A^S, where A^E is `grpo`'s and A^S the discounted return
    from the turn on against the mean of those from the same state, `turn_states`, divided by their
    standard deviation. A state that was met once tells nothing and gets 0.

    Args:
        batch: The episodes, with `group_ids` and `turn_states`.
        gamma: Discount of the returns from a state, from one turn to the next.
        step_weight: ω.
        scale: Whether both are divided by standard deviations; False is the paper's F_norm = 1.
        eps: Keeps groups of equal returns at 0.
    """
    if batch.turn_states is None:
        raise TrainingDataError(
            "GiGPO compares turns that met the same state; give the batch turn_states"
        )
    tokens, episodes, returns, groups = _returns_in_groups(batch)
    of_episodes = _above_mean(returns, groups, scale, eps)[episodes]
    to_go = sum_backwards(tokens.turn_rewards_with_kl().double(), gamma, tokens.turn_ends_episode)
    states = _pairs(groups[episodes], tokens.of_turns("turn_states", batch.turn_states))
    of_turns = of_episodes + step_weight * _above_mean(to_go, states, scale, eps)
    return _spread(tokens, of_turns)


def _returns_in_groups(batch: Trajectories) -> tuple[PackedTokens, Tensor, Tensor, Tensor]:
    """The tokens; (M,) which of the E episodes each turn is of; (E,) their returns with KL rewards,
    and groups.
    """
    if batch.group_ids is None:
        raise TrainingDataError(
            "this estimator compares the episodes of a group; give the batch group_ids"
        )
    tokens = PackedTokens(batch, with_values=False)
    episodes = tokens.turn_ends_episode.roll(1).cumsum(0) - 1
    rewards = tokens.turn_rewards_with_kl().double()  # in float32, sums of the same rewards differ
    returns = rewards.new_zeros(int(episodes[-1]) + 1 if len(episodes) else 0).index_add(
        0, episodes, rewards
    )
    return tokens, episodes, returns, batch.group_ids[tokens.turn_rows][tokens.turn_ends_episode]


def _pairs(one: Tensor, other: Tensor) -> Tensor:
    """(M,), (M,) → (M,) A number for each pair."""
    numbers: Tensor = torch.unique(torch.stack([one, other]), dim=1, return_inverse=True)[1]
    return numbers


def _sums(x: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and the size of each entry's group."""
    group = torch.unique(group, return_inverse=True)[1]
    sums = torch.zeros_like(x).index_add(0, group, x)
    return sums[group], torch.zeros_like(x).index_add(0, group, torch.ones_like(x))[group]


def _above_mean(x: Tensor, group: Tensor, scale: bool, eps: float) -> Tensor:
    """The difference from the group's mean; in standard deviations (n - 1) + `eps` if `scale`."""
    total, size = _sums(x, group)
    centred = (x - total / size).masked_fill(_alike(x, group), 0)
    if not scale:
        return centred
    squares, _ = _sums(centred.square(), group)
    deviation = (squares / (size - 1).clamp(min=1)).sqrt()
    return centred / (deviation + eps)


def _above_others(x: Tensor, group: Tensor) -> Tensor:
    """The difference from the mean of the group's others; 0 where there are none."""
    total, size = _sums(x, group)
    above = x - (total - x) / (size - 1).clamp(min=1)
    return above.masked_fill(_alike(x, group), 0)


def _alike(x: Tensor, group: Tensor) -> Tensor:
    """(N,) bool. Whether the entries of a group differ by no more than rounding.

    Divided by their own tiny deviation, differences of rounding would become advantages near 1.
    """
    group = torch.unique(group, return_inverse=True)[1]
    groups = int(group.max()) + 1 if len(group) else 0
    low, high = (
        x.new_zeros(groups).scatter_reduce(0, group, x, how, include_self=False)
        for how in ("amin", "amax")
    )
    alike: Tensor = (high - low <= ROUNDING * torch.maximum(low.abs(), high.abs()))[group]
    return alike


def _spread(tokens: PackedTokens, of_turns: Tensor) -> Advantages:
    """(M,) The advantages of turns, for all their tokens, in the batch's type."""
    return tokens.spread(of_turns.to(tokens.turn_rewards.dtype)[tokens.turn_of_token])
