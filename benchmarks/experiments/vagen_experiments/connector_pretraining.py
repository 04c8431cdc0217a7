"""Supervised pretraining of SmolVLM's vision tower and connector on the cells of FrozenLake."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import PlayedTurn
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_experiments.pretrained import TOKENS
from vagen_experiments.things import Thing, things
from vagen_experiments.vision_pretraining import Reader

Named = dict[str, nn.Parameter]


def fit(
    groups: Sequence[tuple[Named, float]],
    updates: int,
    step: Callable[[], tuple[Tensor, float]],
    file: Path,
) -> None:
    """Lower a loss by AdamW with a cosine schedule; write the weights to `file`.

    Args:
        groups: parameters by name, and the highest learning rate of each group.
        updates: of the training.
        step: returns the loss of the next batch, and a figure for `log.jsonl` beside `file`.
        file: gets the weights; `FILE.partial` has those of the last 25th update, from which a
            training that was interrupted goes on, without the moments of AdamW. Weights of more
            updates than are asked for are left alone.
    """
    named = {name: each for group, _ in groups for name, each in group.items()}
    parameters = list(named.values())
    optimizer = torch.optim.AdamW(
        [{"params": list(group.values()), "lr": rate} for group, rate in groups], weight_decay=0.01
    )
    log: list[tuple[float, float]] = []
    partial = file.with_name(f"{file.name}.partial")
    before = _resumed(named, partial, updates)
    for number in range(before + 1, updates + 1):
        warm = min(1.0, (number - before) / 20)  # AdamW's moments are new after an interruption
        left = (1 + math.cos(math.pi * (number - 1) / updates)) / 2
        for group, (_, rate) in zip(optimizer.param_groups, groups, strict=True):
            group["lr"] = rate * warm * left
        loss, figure = step()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        log.append((float(loss.detach()), figure))
        if number % 25 == 0 or number == updates:
            loss_now, figure_now = (
                round(sum(each) / len(log), 4) for each in zip(*log, strict=True)
            )
            entry = {
                "stage": file.stem,
                "update": number,
                "loss": loss_now,
                "figure": figure_now,
            }
            with (file.parent / "log.jsonl").open("a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")
            log.clear()
            save_file(
                {name: each.detach() for name, each in named.items()},
                file if number == updates else partial,
                {"updates": str(number)},
            )


@torch.no_grad()
def _resumed(named: Named, partial: Path, updates: int) -> int:
    """Give parameters the weights of an interrupted training of fewer than `updates`, and return
    its own; 0 without one.
    """
    if not partial.is_file():
        return 0
    with safe_open(partial, "pt") as saved:
        before = int(saved.metadata()["updates"])
        if before >= updates:
            return 0
        for name, parameter in named.items():
            parameter.copy_(saved.get_tensor(name))
        return before


def told(state: FrozenLakeState) -> tuple[Thing, ...]:
    """What tokens must tell linearly: the relations of their own contents, and everywhere those of
    the player.

    A language model that hasn't found the player's token yet then still reads what matters off any
    token.
    """
    known = things(state)
    player = next(thing for thing in known if thing.name == "player")
    middles = [(number + 0.5) / TOKENS for number in range(TOKENS)]
    return (
        *known,
        *(Thing("elsewhere", (x, y), player.relations) for y in middles for x in middles),
    )


def learn_sight(
    model: Any,
    encoder: ChatEncoder,
    source: Iterator[PlayedTurn],
    updates: int,
    file: Path,
    *,
    bf16: bool,
) -> None:
    """Teach tower and connector the contents of cells (cross-entropy) and their relations
    (`things`, squared error).
    """
    width = model.config.text_config.hidden_size

    def batch(size: int) -> tuple[list[Any], list[Any], Tensor]:
        played = list(itertools.islice(source, size))
        states: list[Any] = [turn.turn.before for turn in played]
        cells = [
            ["_OGP".index(cell) for cell in state.symbolic().replace("\n", "")] for state in states
        ]
        return (
            [turn.shown for turn in played],
            [told(state) for state in states],
            torch.tensor(cells),
        )

    shown, known, _ = batch(1000)
    generator = torch.Generator().manual_seed(0)
    reader = Reader(list(zip(shown, known, strict=True)), (TOKENS, TOKENS), width, generator)
    names = nn.Linear(width, len("_OGP"))

    def step() -> tuple[Tensor, float]:
        shown, known, cells = batch(64)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            tokens = image_tokens(model, encoder, shown).float()
        named = cross_entropy(names(tokens).flatten(0, 1), cells.flatten())
        related = reader.loss(tokens, known)
        return related + named, float(related.detach())

    readers = {
        f"reader.{name}": each for name, each in nn.ModuleList([reader, names]).named_parameters()
    }
    fit([({**sight_of(model), **readers}, 2e-3)], updates, step, file)


def image_tokens(model: Any, encoder: ChatEncoder, shown: Sequence[Any]) -> Tensor:
    """(B, tokens, width) What the language model is given of pictures. In transformers 5.19 that is
    a tensor, later a list by picture.
    """
    features = encoder.pictures.features_of(shown)
    return torch.stack(list(model.get_image_features(**features).pooler_output))


def sight_of(model: Any) -> Named:
    """The parameters of tower and connector by name."""
    return {
        name: each
        for name, each in model.named_parameters()
        if "vision_model" in name or "connector" in name
    }


@torch.no_grad()
def restart_tower(model: Any) -> None:
    """Weights that keep the variance, and places as sines of row and column.

    With transformers' (all normal with 0.02) 350 updates told whether a hole is beside the player
    with R² 0.1.
    """
    tower = model.model.vision_model
    for module in tower.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.weight.normal_(0, module.weight[0].numel() ** -0.5)
    places = tower.embeddings.position_embedding.weight
    rows = int(len(places) ** 0.5)
    angles = torch.arange(rows)[:, None] * torch.linspace(0, -2, places.shape[1] // 4).exp()
    waves = 0.7 * torch.cat([angles.sin(), angles.cos()], 1)
    pairs = [waves[:, None].expand(rows, rows, -1), waves[None].expand(rows, rows, -1)]
    places.copy_(torch.cat(pairs, -1).flatten(0, 1))


@torch.no_grad()
def as_loud_as_words(model: Any, encoder: ChatEncoder, turns: Sequence[PlayedTurn]) -> None:
    """Scale the connector so that a picture's tokens have the standard deviation of the word
    embeddings.
    """
    tokens = image_tokens(model, encoder, [turn.shown for turn in turns])
    model.model.connector.modality_projection.proj.weight.mul_(
        model.get_input_embeddings().weight.std() / tokens.std()
    )
