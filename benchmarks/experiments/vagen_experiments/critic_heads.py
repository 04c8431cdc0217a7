"""What a critic reads beside the last state: the latest picture's tokens in their places, or the
state's things.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.shown import Shown
from vagen_envs.seeding import HashStream
from vagen_experiments.things import things

GRID = 8
"""Rows and columns of places that a reader tells apart, so that one head fits any picture."""
QUESTIONS, ANSWER, WIDTH, RELATED = 8, 32, 256, 64
THINGS, COUNTS = "critic_things", "critic_counts"
"""By these names what critics are told stands among a model's inputs."""
FEW = 16
"""Whole numbers up to this are told each by itself, too."""


class ReadingHead(nn.Module):
    """Adds to a value head what learned questions, each asked of all tokens, find in the latest
    picture.

    A value head on the last state alone learns to count turns: on FrozenLake it explained 0.06 of
    returns, the turn's number alone 0.05, and exact values of the same policy 0.25 to 0.28. A
    reader of all tokens end to end, taught on exact values, explained 0.95 of them, but learns few
    pictures by heart: of play that it hadn't seen it explained 0.08 after 675 episodes, where eight
    questions, which look for things wherever they are, explained 0.46.

    A question sees each token by itself: what lies beside what has to stand in the tokens. Where
    the tower doesn't say it, convolutions of 3 x 3 places, whose layers add to what they read, let
    tokens hear of their neighbours before they are asked: after 12,000 episodes three explained
    0.76 of unseen play, where none explained 0.68 to 0.74.

    Args:
        width: of tokens and states.
        convolutions: how many; so many places further a token can hear. 0 for none.
    """

    def __init__(self, width: int, convolutions: int = 0) -> None:
        super().__init__()
        asked = 2 * QUESTIONS * ANSWER
        placed = RELATED if convolutions else asked
        self.token = nn.Linear(width, placed)
        self.place = nn.Parameter(torch.zeros(placed, GRID, GRID))
        self.beside = nn.ModuleList(
            nn.Conv2d(placed, placed, 3, padding=1) for _ in range(convolutions)
        )
        self.related = nn.Linear(placed, asked) if convolutions else nn.Identity()
        self.question = nn.Parameter(
            torch.randn(QUESTIONS, ANSWER) / math.sqrt(ANSWER)
        )  # at first all are looked at
        self.picture = nn.Linear(QUESTIONS * ANSWER, WIDTH)
        self.state = nn.Linear(width, WIDTH, bias=False)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, 1)
        nn.init.normal_(
            self.place, std=0.3
        )  # at 0.02 it takes twice as long to learn where things are
        nn.init.zeros_(self.value.weight)  # nothing is added before it has seen a return
        nn.init.zeros_(self.value.bias)

    def forward(self, hidden: Tensor, tokens: Tensor, sizes: Tensor, latest: Tensor) -> Tensor:
        """The addition to the value after each position, 0 where no picture has been seen. (B, L).

        Args:
            hidden: (B, L, width) the last states.
            tokens: (N, width) of all P pictures end to end, as the language model was given them.
            sizes: (P, 2) rows and columns of tokens of each.
            latest: (B, L) the number of the latest whole picture at each position, -1 before the
                first.
        """
        seen = self.token(_levelled(tokens.to(self.token.weight.dtype)))
        read = self.picture(self._answers(seen, sizes))
        # One row more, which positions without a picture take.
        of_position = torch.cat([read, read.new_zeros(1, WIDTH)])[latest]
        mixed = (self.state(_levelled(hidden.to(self.state.weight.dtype))) + of_position).relu()
        added = self.value(self.mixed(mixed).relu()).squeeze(2)
        return torch.where(latest < 0, 0, added).float()

    def _answers(self, seen: Tensor, sizes: Tensor) -> Tensor:
        """(P, questions x answer) What each question finds in each picture; those of one size
        together.
        """
        pictures = seen.split(sizes.prod(1).tolist())
        found = seen.new_zeros(len(pictures), QUESTIONS * ANSWER)
        alike: dict[tuple[int, int], list[int]] = {}
        for number, (rows, columns) in enumerate(sizes.tolist()):
            alike.setdefault((rows, columns), []).append(number)
        for size, numbers in alike.items():
            places = nn.functional.interpolate(
                self.place[None], size, mode="bilinear", align_corners=False
            )[0]
            placed = torch.stack([pictures[number] for number in numbers]) + places.flatten(1).T
            asked = self.related(self._beside(placed, size))
            keys, values = asked.unflatten(2, (2, QUESTIONS, ANSWER)).unbind(
                2
            )  # of pictures, tokens, questions
            shares = ((keys * self.question).sum(3) / math.sqrt(ANSWER)).softmax(1)
            answers = (shares[..., None] * values).sum(1).flatten(1)
            found = found.index_put((torch.tensor(numbers, device=seen.device),), answers)
        return found

    def _beside(self, placed: Tensor, size: tuple[int, int]) -> Tensor:
        """(pictures, tokens, channels) What each token has heard of those beside it; as it is
        without convolutions.
        """
        grid = placed.transpose(1, 2).unflatten(2, size)
        for layer in self.beside:
            grid = grid + layer(grid.relu())
        return grid.flatten(2).transpose(1, 2)


class Watched:
    """Sees what a language model is given: `with Watched(decoder) as seen: …` and then
    `seen.given`.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.given: Tensor | None = None

    def __enter__(self) -> Self:
        self._hook = self._decoder.register_forward_pre_hook(self._see, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _see(self, _: Any, positional: Any, named: dict[str, Any]) -> None:
        self.given = named["inputs_embeds"]


def pictures_in(
    inputs: dict[str, Tensor], embeddings: Tensor, merge: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens, the sizes and the latest of the pictures in a batch, as `ReadingHead` takes them.

    Args:
        inputs: see `generation.model_inputs`.
        embeddings: (B, L, width) what the language model is given.
        merge: rows, and columns, of patches that make a token.

    Raises:
        TrainingConfigError: the inputs don't say how large pictures are.
    """
    if not {"image_grid_thw", "mm_token_type_ids"} <= inputs.keys():
        raise TrainingConfigError(
            "a critic that reads needs pictures whose sizes and tokens the inputs name, as those "
            "of the Qwen-VL families do; leave critic_reads out"
        )
    sizes = inputs["image_grid_thw"][:, 1:] // merge
    mask = inputs["mm_token_type_ids"] == 1
    last = sizes.prod(1).cumsum(0) - 1
    rows, columns = mask.nonzero(as_tuple=True)
    whole = torch.zeros_like(mask, dtype=torch.int64).index_put(
        (rows[last], columns[last]), torch.ones_like(last)
    )
    in_row = whole.sum(1, keepdim=True)
    before = in_row.cumsum(0) - in_row
    so_far = whole.cumsum(1)
    return embeddings[mask], sizes, torch.where(so_far > 0, before + so_far - 1, -1)


def told_of(shown: Sequence[Shown], width: int) -> dict[str, Tensor]:
    """The true state of observations with pictures, for privileged critics: `things`, one token
    each.

    Returns:
        `THINGS`, (N, width), all things end to end, and `COUNTS`, (P,), how many each observation
        has.

    Raises:
        TrainingConfigError: a state isn't known, or has no things.
    """
    told = [things(each.state) if each.state is not None else () for each in shown if each.pictures]
    if not all(told):
        raise TrainingConfigError(
            "critic_told needs environments whose states name their things "
            "(vagen_experiments.things)"
        )
    tokens = [
        _token_of(thing.name, thing.at, tuple(thing.relations.items()), width)
        for each in told
        for thing in each
    ]
    return {
        THINGS: torch.stack(tokens) if tokens else torch.zeros(0, width),
        COUNTS: torch.tensor([len(each) for each in told], dtype=torch.int64),
    }


@functools.lru_cache(maxsize=65_536)
def _token_of(
    name: str, at: tuple[float, float] | None, relations: tuple[tuple[str, float], ...], width: int
) -> Tensor:
    """(width,) The sum of fixed random directions, one for each fact: name, place and relations."""
    token = _direction(name, width)
    for axis, share in zip("xy", at or (), strict=False):
        token = token + share * _direction(axis, width)
    for relation, value in relations:
        token = token + math.asinh(value) * _direction(f"{name}: {relation}", width)
        if value == int(value) and abs(value) <= FEW:
            token = token + _direction(f"{name}: {relation} {int(value)}", width)
    return token


@functools.lru_cache(maxsize=4096)
def _direction(of: str, width: int) -> Tensor:
    """(width,) Of plus and minus 1, the same for the same words wherever it is asked for."""
    bits = HashStream("direction", of).bits(width)
    return torch.tensor([1.0 if bits >> each & 1 else -1.0 for each in range(width)])


def _levelled(states: Tensor) -> Tensor:
    """With mean square 1: a tower's tokens may be as small as 0.05, and a network would learn their
    size first.
    """
    return states * torch.rsqrt(states.square().mean(-1, keepdim=True) + 1e-8)
