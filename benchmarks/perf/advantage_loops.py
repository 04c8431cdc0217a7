"""The advantage estimators as slow, literal loops over one episode, written line by line from the
papers.

They share no code with `vagen_adapters.ppo.advantages`, whose tests hold it against them and whose
speed is measured against them. All take one row of a batch, as tensors or lists:

    turn_ids      (L,)      turn of each sampled token, -1 elsewhere
    turn_rewards  (T,)      r_t
    values        (L + 1,)  values[i] = V(τ_<i)
    kl            (L,)      r^KL_i
    end_value               V after the last turn: 0, or the bootstrap value of a truncated episode
    seams                   the turns that are summaries, from which the step to the next turn has γ
                            = λ = 1

and give back `(advantages, returns)`, two dictionaries: token index → A_i, and index of a value →
its target.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

Row = Sequence[Any]
Estimate = tuple[dict[int, Any], dict[int, Any]]


def token_gae(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma: float,
    lam: float,
    mask_observations: bool = True,
    seams: Collection[int] = (),
) -> Estimate:
    """VAGEN, Algorithm 1, lines 10 to 23."""
    actions = [i for i in range(len(turn_ids)) if turn_ids[i] >= 0]
    if not mask_observations and actions:
        actions = list(range(actions[0], actions[-1] + 1))
    owners: list[int] = []  # an observation between sampled tokens belongs to the turn before it
    for i in actions:
        owners.append(int(turn_ids[i]) if turn_ids[i] >= 0 else owners[-1])
    trajectory_reward = 0.0
    for t in range(len(turn_rewards)):
        trajectory_reward = trajectory_reward + turn_rewards[t]
    advantages, returns = {}, {}
    next_advantage = 0.0
    for k in range(len(actions) - 1, -1, -1):
        i = actions[k]
        reward = kl[i]
        if k == len(actions) - 1:
            reward = reward + trajectory_reward
            next_value = end_value
        else:
            next_value = values[actions[k + 1]]
        across, trace = gamma, lam
        if owners[k] in seams and (k == len(actions) - 1 or owners[k + 1] != owners[k]):
            across, trace = 1.0, 1.0
        delta = reward + across * next_value - values[i]
        advantages[i] = next_advantage = delta + across * trace * next_advantage
        returns[i] = advantages[i] + values[i]
    return advantages, returns


def dual_discount_gae(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma_turn: float,
    lam_turn: float,
    gamma_token: float,
    lam_token: float,
    seams: Collection[int] = (),
) -> Estimate:
    """Verlog, Dual Discounting GAE: from the last token of the last turn backwards, turn by
    turn.
    """
    turns = _turns(turn_ids)
    advantages, returns = {}, {}
    next_value, next_advantage = end_value, 0.0
    for t in sorted(turns, reverse=True):
        for i in reversed(turns[t]):
            if i == turns[t][-1]:
                gamma, lam, reward = gamma_turn, lam_turn, kl[i] + turn_rewards[t]
            else:
                gamma, lam, reward = gamma_token, lam_token, kl[i]
            if i == turns[t][-1] and t in seams:
                gamma, lam = 1.0, 1.0
            delta = -values[i] + reward + gamma * next_value
            advantages[i] = next_advantage = gamma * lam * next_advantage + delta
            returns[i] = advantages[i] + values[i]
            next_value = values[i]
    return advantages, returns


def bilevel_gae_mixed(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma_turn: float,
    lam_turn: float,
    lam_token: float,
    mix: float,
    seams: Collection[int] = (),
) -> Estimate:
    """VAGEN's main branch: the advantages of two recursions, mixed token by token."""
    turns = _turns(turn_ids)
    advantages, returns = {}, {}
    next_value, next_two, next_one = end_value, 0.0, 0.0
    for t in sorted(turns, reverse=True):
        for i in reversed(turns[t]):
            last = i == turns[t][-1]
            reward = kl[i] + (turn_rewards[t] if last else 0.0)
            gamma, lam = (gamma_turn, lam_turn) if last else (1.0, lam_token)
            lam_one = lam_token
            if last and t in seams:
                gamma, lam, lam_one = 1.0, 1.0, 1.0
            next_two = reward + gamma * next_value - values[i] + gamma * lam * next_two
            next_one = reward + next_value - values[i] + lam_one * next_one
            advantages[i] = (1 - mix) * next_one + mix * next_two
            returns[i] = advantages[i] + values[i]
            next_value = values[i]
    return advantages, returns


def bilevel_gae(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma_turn: float,
    lam_turn: float,
    gamma_token: float,
    lam_token: float,
    seams: Collection[int] = (),
) -> Estimate:
    """VAGEN, Algorithm 2; the targets are `A + V` of whatever a value was used for."""
    turns = _turns(turn_ids)
    order = sorted(turns)
    turn_advantages: dict[int, Any] = {}
    following = 0.0
    for k in range(len(order) - 1, -1, -1):  # stage 1
        t = order[k]
        value = values[turns[t][-1] + 1]
        next_value = end_value if k == len(order) - 1 else values[turns[order[k + 1]][-1] + 1]
        gamma, lam = (1.0, 1.0) if t in seams else (gamma_turn, lam_turn)
        delta = turn_rewards[t] + gamma * next_value - value
        turn_advantages[t] = following = delta + gamma * lam * following
    advantages: dict[int, Any] = {}
    for t in order:  # stage 2
        last = turns[t][-1]
        delta = kl[last] + gamma_token * values[last + 1] - values[last]
        advantages[last] = delta + turn_advantages[t]
        for k in range(len(turns[t]) - 2, -1, -1):
            i, after = turns[t][k], turns[t][k + 1]
            delta = kl[i] + gamma_token * values[after] - values[i]
            advantages[i] = delta + gamma_token * lam_token * advantages[after]
    returns = {turns[t][-1] + 1: turn_advantages[t] + values[turns[t][-1] + 1] for t in order}
    returns |= {i: advantages[i] + values[i] for i in advantages}
    return advantages, returns


def bilevel_gae_released(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma_turn: float,
    gamma_token: float,
    lam: float,
    seams: Collection[int] = (),
) -> Estimate:
    """The released Bi-Level GAE, as VAGEN's project page tells it: first over turn ends, then
    inside turns.
    """
    turns = _turns(turn_ids)
    order = sorted(turns)
    turn_return: dict[int, Any] = {}
    following_advantage, following_value = 0.0, end_value
    for t in reversed(order):
        last = turns[t][-1]
        gamma, lam_turn = (1.0, 1.0) if t in seams else (gamma_turn, lam)
        delta = kl[last] + turn_rewards[t] + gamma * following_value - values[last]
        following_advantage = delta + gamma * lam_turn * following_advantage
        following_value = values[last]
        turn_return[t] = following_advantage + values[last]
    advantages, returns = {}, {}
    for t in order:
        next_value, next_advantage = 0.0, 0.0
        for i in reversed(turns[t]):
            reward = turn_return[t] if i == turns[t][-1] else kl[i]
            delta = reward + gamma_token * next_value - values[i]
            advantages[i] = next_advantage = delta + gamma_token * lam * next_advantage
            returns[i] = advantages[i] + values[i]
            next_value = values[i]
    return advantages, returns


def turn_gae(
    turn_ids: Row,
    turn_rewards: Row,
    values: Row,
    kl: Row,
    end_value: Any,
    *,
    gamma: float,
    lam: float,
    seams: Collection[int] = (),
) -> Estimate:
    """Turn-PPO, section 2.4: the value at the end of each query, the whole reply one action."""
    turns = _turns(turn_ids)
    advantages, returns = {}, {}
    next_value, advantage = end_value, 0.0
    for t in sorted(turns, reverse=True):
        first = turns[t][0]
        reward = turn_rewards[t]
        for i in turns[t]:
            reward = reward + kl[i]
        across, trace = (1.0, 1.0) if t in seams else (gamma, lam)
        advantage = reward + across * next_value - values[first] + across * trace * advantage
        for i in turns[t]:
            advantages[i] = advantage
        returns[first] = advantage + values[first]
        next_value = values[first]
    return advantages, returns


def _turns(turn_ids: Row) -> dict[int, list[int]]:
    """The token indices of each turn that has any."""
    turns: dict[int, list[int]] = {}
    for i in range(len(turn_ids)):
        if turn_ids[i] >= 0:
            turns.setdefault(int(turn_ids[i]), []).append(i)
    return turns
