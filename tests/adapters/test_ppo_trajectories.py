"""What a batch of episodes must be, and what is said when it isn't."""

import pytest
import torch

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.trajectories import Trajectories

YES, NO = torch.tensor([True, True]), torch.tensor([False, False])


def two_rows(**changes):
    fields = {
        "turn_ids": torch.tensor([[-1, 0, 0, -1, 1], [-1, -1, 0, -1, -1]]),
        "turn_rewards": torch.tensor([[1.0, 2.0], [3.0, 0.0]]),
        "terminated": YES,
        "truncated": NO,
        "values": torch.zeros(2, 6),
    }
    return Trajectories(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"turn_ids": torch.zeros(2, 0, dtype=torch.int64)},
            "neither of them 0; skip the update if",
        ),
        ({"values": torch.zeros(2, 5)}, r"values .* must be torch.float32 of shape \(2, 6\)"),
        ({"values": torch.zeros(2, 6, dtype=torch.float64)}, "values is torch.float64"),
        ({"turn_rewards": torch.zeros(2, 2, dtype=torch.bfloat16)}, r"convert with .float\(\)"),
        (
            {"group_ids": torch.zeros(3, dtype=torch.int64)},
            r"group_ids .* must be torch.int64 of shape \(2,\)",
        ),
        (
            {"turn_ids": torch.tensor([[-1, 0, 0, -1, 2], [-1, -1, 0, -1, -1]])},
            "turn_rewards has 2 turns: use 0 to 1, and -1 for",
        ),
        ({"turn_ids": torch.tensor([[-1, 0, 0, -2, 1], [-1, -1, 0, -1, -1]])}, "run from -2"),
        (
            {"turn_ids": torch.tensor([[-1, 0, 1, -1, 0], [-1, -1, 0, -1, -1]])},
            "row 0: a token's turn id falls",
        ),
        (
            {"turn_rewards": torch.tensor([[1.0, 2.0], [3.0, 4.0]])},
            "row 1: a turn without tokens has a reward, .*; add it to",
        ),
        ({"episode_ids": torch.tensor([7, 7])}, "episode 7: two rows hold tokens of the same turn"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_the_reason(changes, message):
    with pytest.raises(TrainingDataError, match=message):
        two_rows(**changes)


def test_rows_that_overlap_are_found_behind_other_episodes():
    with pytest.raises(
        TrainingDataError, match="episode 2: two rows hold tokens of the same turn; a turn belongs"
    ):
        Trajectories(
            turn_ids=torch.tensor([[-1, 0], [-1, 0], [-1, 0]]),
            turn_rewards=torch.zeros(3, 1),
            terminated=torch.ones(3, dtype=torch.bool),
            truncated=torch.zeros(3, dtype=torch.bool),
            episode_ids=torch.tensor([1, 2, 2]),
        )


def test_rows_of_one_episode_share_a_group():
    pieces = {
        "turn_ids": torch.tensor([[-1, 1, 1], [-1, -1, 0]]),
        "turn_rewards": torch.tensor([[0.0, 2.0], [1.0, 0.0]]),
        "values": torch.zeros(2, 4),
        "episode_ids": torch.tensor([3, 3]),
    }
    assert two_rows(**pieces, group_ids=torch.tensor([5, 5])).row_order.tolist() == [1, 0]
    with pytest.raises(
        TrainingDataError, match=r"^the rows of one episode have different group ids; give"
    ):
        two_rows(**pieces, group_ids=torch.tensor([5, 6]))
