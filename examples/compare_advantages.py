"""Print the advantages that several estimators give to the tokens of one episode.

The first of three turns earns -1, the last one 2, and the critic's values increase from token to
token. Token GAE with its default discounts compares the whole return with each token; turn-based
estimators distinguish the turns.
"""

from __future__ import annotations

import torch

from vagen_adapters.ppo.advantages import bilevel_gae, dual_discount_gae, token_gae, turn_gae
from vagen_adapters.ppo.trajectories import Trajectories

TURNS = [
    -1,
    0,
    0,
    0,
    -1,
    1,
    1,
    -1,
    2,
    2,
    -1,
]  # the turn of each token; -1 marks prompt and observation tokens


def main() -> None:
    length = len(TURNS)
    batch = Trajectories(
        turn_ids=torch.tensor([TURNS]),
        turn_rewards=torch.tensor([[-1.0, 0.0, 2.0]]),
        terminated=torch.tensor([True]),
        truncated=torch.tensor([False]),
        values=torch.linspace(0.0, 1.0, length + 1).unsqueeze(0),
    )
    print(f"{'':24}", *(f"{'·' if turn < 0 else f'turn {turn}':>7}" for turn in TURNS))
    for name, found in {
        "token_gae": token_gae(batch),
        "turn_gae λ=0.5": turn_gae(batch, lam=0.5),
        "bilevel_gae λ_turn=0.5": bilevel_gae(batch, lam_turn=0.5),
        "dual_discount λ_turn=0.5": dual_discount_gae(batch, gamma_turn=1.0, lam_turn=0.5),
    }.items():
        row = found.advantages[0].tolist()
        print(
            f"{name:24}",
            *(
                f"{'·' if turn < 0 else f'{value:.2f}':>7}"
                for turn, value in zip(TURNS, row, strict=True)
            ),
        )


if __name__ == "__main__":
    main()
