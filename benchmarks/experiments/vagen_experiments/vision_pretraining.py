"""Eyes that relate: a vision tower learns what is true of each thing in a picture, before its model
speaks of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.introspection import vision_parameters
from vagen_adapters.ppo.shown import Shown
from vagen_experiments.supervised import Report, fit
from vagen_experiments.things import Thing

Seen = tuple[Shown, Sequence[Thing]]
"""What was shown, one picture, and the things in it (`things`)."""


@dataclass(frozen=True)
class Told:
    """How well a relation is read off pictures.

    Attributes:
        explained: share of its variance over the pictures, 1 at best.
        off: how far off on average, in its own unit: cells, mm, m; of what is or isn't, 1 is to be
            always wrong.
        count: of how many things.
    """

    explained: float
    off: float
    count: int


GRID = "image_grid_thw"
"""The input that holds the patches of each picture over time, height and width."""
PARTS = ("pixel_values", GRID)


def teach_sight(
    model: Any,
    encoder: ChatEncoder,
    seen: Sequence[Seen],
    updates: int,
    *,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    keep: float = 1.0,
    seed: int = 0,
    report: Report | None = None,
) -> Reader:
    """Teach a policy's vision tower that the token of a thing tells its relations: squared error,
    AdamW, a cosine.

    To name each tile isn't yet to see: a tower that did so with 1.000 left a language model that
    stepped into holes as often as chance, also after 25,600 exact labels. What a token must tell
    linearly of the things around it, the language model only has to read. Where a state says where
    in the picture a thing is, that token must tell; else a reader looks for it. And each token must
    still tell, linearly, what it told before: taught by the player's token alone, a tower's other
    tokens told a critic half as much.

    Args:
        model: the policy; its vision tower is trained in place, the rest isn't touched.
        encoder: of the model.
        seen: pictures of one size with their things, now more and now fewer.
        updates: how many.
        batch_size: pictures in an update, drawn at random.
        learning_rate: at its highest, after a twentieth of the updates.
        keep: weight of what tokens told before, beside 1 for relations.
        seed: of the reader's weights and of what is drawn.
        report: is told the number of each update and the error of relations, where 1 is to know
            nothing.

    Returns:
        The reader, which is measured on other pictures.

    Raises:
        TrainingConfigError: fewer than two pictures, not one each, several sizes, or no relation
            that differs.
    """
    grids = {
        tuple(shown.sizes[GRID].flatten().tolist()) if shown.pictures else () for shown, _ in seen
    }
    if len(grids) != 1 or {len(grid) for grid in grids} != {3}:
        raise TrainingConfigError(
            f"sight needs one picture each, all of one size; got sizes {sorted(grids)} in patches"
        )
    if len(seen) < 2:
        raise TrainingConfigError(
            "sight needs at least two pictures, as it learns what differs between them; got 1"
        )
    generator = torch.Generator().manual_seed(seed)
    before = torch.cat(
        [
            _look(model, encoder, [shown for shown, _ in seen[i : i + 256]])
            for i in range(0, len(seen), 256)
        ]
    )
    reader = Reader(seen, _size_of(model, seen[0][0]), before.shape[2], generator).to(model.device)
    before = ((before - before.mean(0)) / before.std(0).clamp(min=1e-6)).to(torch.float16)

    def step() -> tuple[Tensor, float]:
        drawn = torch.randint(len(seen), (batch_size,), generator=generator)
        tokens = _look(model, encoder, [seen[int(index)][0] for index in drawn], gradients=True)
        loss = reader.loss(tokens, [seen[int(index)][1] for index in drawn])
        kept = (
            (reader.remembered(tokens) - before[drawn.to(before.device)].to(tokens)).square().mean()
        )
        return loss + keep * kept, float(loss.detach())

    model.train()
    fit([*vision_parameters(model), *reader.parameters()], updates, learning_rate, step, report)
    model.eval()
    return reader


class Reader(nn.Module):
    """Reads relations off a picture's tokens: of a thing in a known place from its token, linearly;
    else it searches.

    Args:
        seen: from which it learns which relations there are, their means and spreads.
        size: rows and columns of tokens in a picture.
        width: of a token.
        generator: of its weights.
    """

    mean: Tensor
    spread: Tensor

    def __init__(
        self, seen: Sequence[Seen], size: tuple[int, int], width: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        known: dict[tuple[str, str], list[float]] = {}
        for thing in (thing for _, things in seen for thing in things):
            for name, value in thing.relations.items():
                known.setdefault((thing.name, name), []).append(value)
        spreads = {
            key: float(torch.tensor(values).std(correction=0)) for key, values in known.items()
        }
        self.numbers = {
            key: number
            for number, key in enumerate(key for key, spread in spreads.items() if spread > 0)
        }
        if not self.numbers:
            raise TrainingConfigError(
                f"no relation differs between {len(seen)} pictures: there is nothing to see"
            )
        self.register_buffer(
            "mean", torch.tensor([math.fsum(known[key]) / len(known[key]) for key in self.numbers])
        )
        self.register_buffer("spread", torch.tensor([spreads[key] for key in self.numbers]))
        self.size, count, scale = size, len(self.numbers), 1 / math.sqrt(width)
        self.kept, self.kept_offset = (
            nn.Parameter(torch.eye(width)),
            nn.Parameter(torch.zeros(width)),
        )
        self.places, self.questions, self.values, self.weights, self.offsets = (
            nn.Parameter(deviation * torch.randn(shape, generator=generator))
            for shape, deviation in (
                ((size[0] * size[1], width), 0.1),
                ((count, width), 0.1),
                ((width, width), scale),
                ((count, width), scale),
                ((count,), 0.0),
            )
        )

    def loss(self, tokens: Tensor, things: Sequence[Sequence[Thing]]) -> Tensor:
        """The mean over relations of each one's mean squared error, in its own spread. (B, tokens,
        width).
        """
        told, numbers, true = self.read(tokens, things)
        errors = (told - (true - self.mean[numbers]) / self.spread[numbers]).square()
        sums, counts = (
            torch.zeros_like(self.mean).index_add(0, numbers, each)
            for each in (errors, errors * 0 + 1)
        )
        return (sums / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)

    def remembered(self, tokens: Tensor) -> Tensor:
        """(B, tokens, width) What tokens told before they were taught, read off them linearly."""
        return tokens @ self.kept + self.kept_offset

    def read(
        self, tokens: Tensor, things: Sequence[Sequence[Thing]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(N,) Predictions of the relations of `things`, in units of the spread; (N,) which
        relation; (N,) truth.
        """
        entries = [
            (row, self._token(thing), number, value)
            for row, of_picture in enumerate(things)
            for thing in of_picture
            for name, value in thing.relations.items()
            if (number := self.numbers.get((thing.name, name))) is not None
        ]
        rows, places, numbers, true = zip(*entries, strict=True) if entries else ((),) * 4
        row, place, number = (
            torch.tensor(each, dtype=torch.int64, device=tokens.device)
            for each in (rows, places, numbers)
        )
        found = tokens[row, place.clamp(min=0)]
        searched = place < 0
        if searched.any():
            found = found.index_put(
                (searched.nonzero().squeeze(1),), self._search(tokens)[row, number][searched]
            )
        told = (found * self.weights[number]).sum(-1) + self.offsets[number]
        return told, number, torch.tensor(true, dtype=told.dtype, device=tokens.device)

    def _search(self, tokens: Tensor) -> Tensor:
        """(B, tokens, width) -> (B, relations, width). For each relation what is found among the
        places.
        """
        placed = tokens + self.places
        shares = (placed @ self.questions.T / math.sqrt(placed.shape[-1])).softmax(1)
        return (shares.transpose(1, 2) @ placed @ self.values).relu()

    def _token(self, thing: Thing) -> int:
        """The token of a thing, -1 where it isn't known."""
        if thing.at is None:
            return -1
        (rows, columns), (x, y) = self.size, thing.at
        return min(max(int(y * rows), 0), rows - 1) * columns + min(
            max(int(x * columns), 0), columns - 1
        )

    @torch.no_grad()
    def measure(
        self, model: Any, encoder: ChatEncoder, seen: Sequence[Seen], batch_size: int = 64
    ) -> dict[str, Told]:
        """How well each relation, such as `player: hole up`, is told of pictures, best of those
        held out.
        """
        found: list[tuple[Tensor, ...]] = []
        for start in range(0, len(seen), batch_size):
            batch = seen[start : start + batch_size]
            told, numbers, true = self.read(
                _look(model, encoder, [shown for shown, _ in batch]), [each for _, each in batch]
            )
            found.append((told * self.spread[numbers] + self.mean[numbers], numbers, true))
        told, numbers, true = (torch.cat(each).cpu() for each in zip(*found, strict=True))
        figures = {}
        for (name, relation), number in self.numbers.items():
            here = numbers == number
            if here.any():
                error, variance = told[here] - true[here], float(true[here].var(correction=0))
                explained = 1 - float(error.square().mean()) / variance if variance else math.nan
                figures[f"{name}: {relation}"] = Told(
                    explained, float(error.abs().mean()), int(here.sum())
                )
        return figures


def _size_of(model: Any, shown: Shown) -> tuple[int, int]:
    merge = model.config.vision_config.spatial_merge_size
    _, height, width = shown.sizes[GRID][0].tolist()
    return height // merge, width // merge


def _look(
    model: Any, encoder: ChatEncoder, shown: Iterable[Shown], *, gradients: bool = False
) -> Tensor:
    """(B, tokens, width) What the language model is given of pictures."""
    each = list(shown)
    with torch.set_grad_enabled(gradients):
        features = model.get_image_features(
            **{
                name: tensor.to(model.device)
                for name, tensor in encoder.pictures.features_of(each, PARTS).items()
            }
        )
        return torch.stack(list(features.pooler_output))
