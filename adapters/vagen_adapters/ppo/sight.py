"""Eyes for a tiny model: its vision tower learns to tell where things are, before the model learns to speak of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.codec import Shown
from vagen_adapters.ppo.fitting import Report, fit
from vagen_adapters.ppo.scoring import sight_of
from vagen_envs import State

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def numbers_of(state: State) -> tuple[float, ...]:
    """The numbers in a state's structured text, in their order: such as (x, y, z) in mm of each thing by name."""
    return tuple(map(float, _NUMBER.findall(state.structured())))


def teach_sight(
    model: Any,
    seen: Sequence[tuple[Shown, Sequence[float]]],
    updates: int,
    *,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int = 0,
    report: Report | None = None,
) -> None:
    """Teach a policy's vision tower to tell numbers that are true of a picture: squared error, AdamW, a cosine to zero.

    A vision tower comes to a large model already trained. One that starts from noise learns places from the words of
    demonstrations hundreds of times as slowly as from this, since a wrong digit doesn't say how far off it is. A small
    reader of what the tower puts out is trained with it and thrown away.

    Args:
        model: the policy; its vision tower is trained in place, the rest isn't touched.
        seen: what was shown, one picture each and all of one size, with its numbers, equally many each.
        updates: how many.
        batch_size: pictures in an update, drawn at random.
        learning_rate: at its highest, after a twentieth of the updates.
        seed: of the reader's weights and of what is drawn.
        report: is told the number of each update and its loss, where 1 is to know nothing.

    Raises:
        TrainingConfigError: pictures or numbers that don't go together, or numbers that are always the same.
    """
    grids = {tuple(shown.grids.flatten().tolist()) for shown, _ in seen}
    counts = {len(numbers) for _, numbers in seen}
    if len(grids) != 1 or len(counts) != 1:
        raise TrainingConfigError(f"sight needs pictures of one size and as many numbers for each; "
                                  f"got sizes {sorted(grids)} in patches, and {sorted(counts)} numbers")  # fmt: skip
    numbers = torch.tensor([numbers for _, numbers in seen])
    spread = numbers.std(0)
    vary = spread > 0
    if not vary.any():
        raise TrainingConfigError(f"no number differs between {len(seen)} pictures: there is nothing to see")
    numbers = ((numbers - numbers.mean(0)) / spread)[:, vary]
    generator = torch.Generator().manual_seed(seed)
    width = model.config.get_text_config().hidden_size
    tokens = _look(model, [seen[0][0]]).shape[1]
    reader = _Reader(tokens, width, numbers.shape[1], generator).to(model.device)
    tower = sight_of(model)

    def step() -> tuple[Tensor, float]:
        drawn = torch.randint(len(seen), (batch_size,), generator=generator)
        told = reader(_look(model, [seen[int(index)][0] for index in drawn]))
        loss = (told - numbers[drawn].to(told)).square().mean()
        return loss, float(loss.detach())

    model.train()
    fit([*tower, *reader.parameters()], updates, learning_rate, step, report)
    model.eval()


class _Reader(nn.Module):
    """Looks for each number among the places of a picture, and tells it."""

    def __init__(self, tokens: int, width: int, count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.places, self.questions, self.values, self.scale, self.offset = (
            nn.Parameter(spread * torch.randn(shape, generator=generator))
            for shape, spread in (
                ((tokens, width), 0.1), ((count, width), 0.1), ((width, width), 1 / math.sqrt(width)),
                ((count, width), 1 / math.sqrt(width)), ((count,), 0.0),
            )
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, tokens, width) -> (B, count)."""
        placed = pictures + self.places
        shares = (placed @ self.questions.T / math.sqrt(placed.shape[-1])).softmax(1)
        found = (shares.transpose(1, 2) @ placed @ self.values).relu()
        return (found * self.scale).sum(-1) + self.offset


def _look(model: Any, shown: Sequence[Shown]) -> Tensor:
    """(B, tokens, width) What the language model is given of pictures."""
    features = model.get_image_features(
        pixel_values=torch.cat([each.pixel_values for each in shown]).to(model.device),
        image_grid_thw=torch.cat([each.grids for each in shown]).to(model.device),
    )
    return torch.stack(list(features.pooler_output))
