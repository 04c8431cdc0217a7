"""How much better each sampled token was than expected: pure functions of a batch of episodes.

    estimator                 from                                            one value per …
    token_gae                 VAGEN, Algorithm 1 (VAGEN-Base, vanilla PPO)    token
    bilevel_gae               VAGEN, Algorithm 2 (VAGEN-Full)                 token, and end of a
                              turn
    bilevel_gae_released      VAGEN's page, the released code                 token
    turn_gae                  Turn-PPO, section 2.4                           turn
    bilevel_gae_mixed         VAGEN's main branch, August 2026                token
    dual_discount_gae         Verlog, Dual Discounting GAE                    token
    vine                      VinePPO, section 5.1                            turn, by playing on
                              from it

None has a loop over tokens or episodes. The sampled tokens of the whole batch are laid end to end,
so that padding and observations do not exist for the arithmetic, and every recursion is summed by
doubling (`packing`). A summary (`Trajectories.seams`) is a turn like any other whose step to the
next turn is not discounted: credit flows from the turns after it to those before. Each raises
TrainingDataError for a batch that lacks what it needs or has NaN where it counts. Those that
compare episodes with each other are in `group_advantages`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.packing import Advantages, PackedTokens, sum_backwards
from vagen_adapters.ppo.setting_types import Share
from vagen_adapters.ppo.trajectories import Trajectories


def token_gae(
    batch: Trajectories, *, gamma: Share = 1.0, lam: Share = 1.0, mask_observations: bool = True
) -> Advantages:
    """GAE from token to token, with the return of the whole episode paid at its last one.

    VAGEN, Algorithm 1, lines 10 to 23: R(τ) is the plain sum of the turns' rewards. The next token
    of a turn's last token is the first of the next turn. The targets are A_i + V(τ_<i) for V(τ_<i),
    as in line 28 (section 2.2 writes V(τ_<i+1) in the loss, which would give the critic the answer
    it must predict).

    Args:
        batch: The episodes, with `values`.
        gamma: Discount per token, 0 to 1.
        lam: λ of GAE, 0 to 1.
        mask_observations: False is vanilla PPO (table 2): the observations between the first and
            the last sampled token of each row are treated as if the policy had sampled them.
    """
    tokens = PackedTokens(batch, with_observations=not mask_observations)
    rewards = tokens.kl_rewards + torch.where(
        tokens.ends_episode, tokens.episode_returns()[tokens.episode], 0
    )
    deltas = rewards + tokens.between_tokens(gamma, gamma) * tokens.next_values - tokens.values
    advantages = sum_backwards(
        deltas, tokens.between_tokens(gamma * lam, gamma * lam), tokens.ends_episode
    )
    return tokens.spread(advantages, targets=advantages + tokens.values)


def dual_discount_gae(
    batch: Trajectories,
    *,
    gamma_turn: Share = 0.99,
    lam_turn: Share = 0.95,
    gamma_token: Share = 1.0,
    lam_token: Share = 1.0,
) -> Advantages:
    """GAE from token to token, with other discounts from one turn to the next. Verlog, Dual
    Discounting GAE.

    Each turn's reward is paid at its last token. From there the step goes to the first token of the
    next turn, or to the observation after a truncated episode (`bootstrap_values`), with γ_turn and
    λ_turn. The defaults are the paper's.
    """
    tokens = PackedTokens(batch)
    gamma = tokens.between_tokens(gamma_token, gamma_turn)
    lam = tokens.between_tokens(lam_token, lam_turn)
    rewards = tokens.kl_rewards.index_add(0, tokens.turn_ends, tokens.turn_rewards)
    deltas = rewards + gamma * tokens.next_values - tokens.values
    advantages = sum_backwards(deltas, gamma * lam, tokens.ends_episode)
    return tokens.spread(advantages, targets=advantages + tokens.values)


def bilevel_gae(
    batch: Trajectories,
    *,
    gamma_turn: Share = 1.0,
    lam_turn: Share = 1.0,
    gamma_token: Share = 1.0,
    lam_token: Share = 1.0,
) -> Advantages:
    """Bi-Level GAE as written in VAGEN, Algorithm 2.

    A first GAE goes from turn to turn on the values after each action, V(τ_≤a_t). A second goes
    from token to token inside a turn on the KL rewards alone, and the last token's advantage is its
    own δ plus the turn's advantage (line 18; section 5.2 says the turn's advantage alone, which is
    the released form).

    The paper gives the critic no targets. Here V(τ_<i) gets A_i + V(τ_<i) as in Algorithm 1, and
    the values after actions, which no token stands behind, get A_t + V(τ_≤a_t): otherwise the first
    GAE would rest on values that are never trained. Where a turn begins right after another, its
    first token's target stands.
    """
    tokens = PackedTokens(batch)
    after = tokens.values_after_turns()
    deltas_turn = (
        tokens.turn_rewards
        + tokens.between_turns(gamma_turn) * tokens.following_turn(after)
        - after
    )
    advantages_turn = sum_backwards(
        deltas_turn, tokens.between_turns(gamma_turn * lam_turn), tokens.turn_ends_episode
    )

    next_values = tokens.next_values.index_copy(0, tokens.turn_ends, after)
    deltas = tokens.kl_rewards + gamma_token * next_values - tokens.values
    deltas = deltas.index_add(0, tokens.turn_ends, advantages_turn)
    advantages = sum_backwards(deltas, gamma_token * lam_token, tokens.ends_turn)
    return tokens.spread(
        advantages, targets=advantages + tokens.values, targets_after_turns=advantages_turn + after
    )


def bilevel_gae_released(
    batch: Trajectories, *, gamma_turn: Share = 1.0, gamma_token: Share = 1.0, lam: Share = 1.0
) -> Advantages:
    """Bi-Level GAE as in the code released with VAGEN (shown on its page), without the whitening.

    A turn's value is the one before its last token, its reward includes that token's KL reward, one
    λ serves both levels, and the last token's advantage is the turn's. Equal to `bilevel_gae` for λ
    = γ_token = 1 without KL rewards, whatever γ_turn is; else not.
    """
    tokens = PackedTokens(batch)
    values_turn = tokens.values[tokens.turn_ends]
    rewards_turn = tokens.turn_rewards + tokens.kl_rewards[tokens.turn_ends]
    deltas_turn = (
        rewards_turn
        + tokens.between_turns(gamma_turn) * tokens.following_turn(values_turn)
        - values_turn
    )
    advantages_turn = sum_backwards(
        deltas_turn, tokens.between_turns(gamma_turn * lam), tokens.turn_ends_episode
    )

    deltas = tokens.kl_rewards + gamma_token * tokens.next_values - tokens.values
    deltas = deltas.index_copy(0, tokens.turn_ends, advantages_turn)
    advantages = sum_backwards(deltas, gamma_token * lam, tokens.ends_turn)
    return tokens.spread(advantages, targets=advantages + tokens.values)


def bilevel_gae_mixed(
    batch: Trajectories,
    *,
    gamma_turn: Share = 0.95,
    lam_turn: Share = 0.95,
    lam_token: Share = 1.0,
    mix: Share = 0.75,
) -> Advantages:
    """Bi-Level GAE as in VAGEN's main branch since August 2026 (`bi_level_gae`), without the
    whitening.

    A weighted mean of two recursions over tokens: `dual_discount_gae` without a discount inside
    turns, and the same without any discount and with `lam_token` everywhere. The critic's targets
    are A + V. The defaults are VAGEN's.

    Args:
        batch: The episodes, with `values`.
        gamma_turn: Discount between turns, 0 to 1.
        lam_turn: λ between turns, 0 to 1.
        lam_token: λ inside turns, 0 to 1.
        mix: Weight of the first recursion, 0 to 1.
    """
    two_clocks = dual_discount_gae(
        batch, gamma_turn=gamma_turn, lam_turn=lam_turn, lam_token=lam_token
    )
    one_clock = dual_discount_gae(batch, gamma_turn=1.0, lam_turn=lam_token, lam_token=lam_token)
    return replace(
        two_clocks,
        advantages=one_clock.advantages.lerp(two_clocks.advantages, mix),
        returns=one_clock.returns.lerp(two_clocks.returns, mix),
    )


def turn_gae(batch: Trajectories, *, gamma: Share = 1.0, lam: Share = 1.0) -> Advantages:
    """GAE from turn to turn; every token of a turn gets the turn's advantage. Turn-PPO, section
    2.4.

    The whole reply is the action, so a turn's value is the one before its first token, at the end
    of the observation, and only there does the critic have a target, A_t + V_t. KL rewards of a
    turn are summed into its reward. Row "Turn-PPO w/ Mask" of VAGEN, table 2.
    """
    tokens = PackedTokens(batch)
    starts = tokens.starts_turn.nonzero().squeeze(1)
    values = tokens.values[starts]
    deltas = (
        tokens.turn_rewards_with_kl()
        + tokens.between_turns(gamma) * tokens.following_turn(values)
        - values
    )
    advantages = sum_backwards(deltas, tokens.between_turns(gamma * lam), tokens.turn_ends_episode)
    of_tokens = advantages[tokens.turn_of_token]
    return tokens.spread(
        of_tokens, targets=(advantages + values)[tokens.turn_of_token], targeted=tokens.starts_turn
    )


def vine(batch: Trajectories, *, gamma: Share = 1.0) -> Advantages:
    """What a turn changed in the worth of the state, as found by playing on from before and after
    it. VinePPO.

    A_t = r_t + γ·V(s_t+1) - V(s_t) for all tokens of turn t, with `turn_values`, the mean return of
    episodes that the policy played on from the state, in place of a critic's (Kazemnejad et al.
    2024, section 5.1, where a step of reasoning is what a turn is here). Nothing is worth anything
    after an episode's end. KL rewards count with their turn.
    """
    if batch.turn_values is None:
        raise TrainingDataError("vine needs the worth of each state; give the batch turn_values")
    tokens = PackedTokens(batch, with_values=False)
    values = tokens.of_turns("turn_values", batch.turn_values)
    following = values.roll(-1).masked_fill(tokens.turn_ends_episode, 0)
    advantages = tokens.turn_rewards_with_kl() + gamma * following - values
    return tokens.spread(advantages[tokens.turn_of_token])
