"""Fine-tune a pretrained language model on replies of the oracle, after its vision tower has
learned to see. A stage whose weights exist isn't repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from vagen_adapters.ppo.chat_encoder import ChatEncoder, load_policy
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn
from vagen_adapters.ppo.generation import model_inputs
from vagen_adapters.ppo.token_sequences import lay_out
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_adapters.ppo.warmstart import FIRST_SEED, demonstrate
from vagen_experiments.connector_pretraining import (
    as_loud_as_words,
    fit,
    learn_sight,
    restart_tower,
    sight_of,
)
from vagen_experiments.pretrained import save_smolvlm

SIDE = 128
"""Pixels of a picture's side: its 16 tokens are the 16 cells."""
NOISE = 0.5
"""Share of random turns, which lead to states that the oracle avoids. Only the oracle's replies are
learned.
"""
LORA = LoraConfig(
    r=16, lora_alpha=32, target_modules=r".*text_model.*\.(q|k|v|o|gate|up|down)_proj"
)
SIGHT_RATE = 3e-5
"""Learning rate of tower and connector beside the adapters'. With 1e-3 for all, noise of the first
100 updates had destroyed what the tower had learned (error of its relations 0.001 → 10), and
replies were right as often as chance."""


@dataclass(frozen=True)
class FineTuning:
    """The stages of a model: `start`, `sight`, and on top of it `replies` or `replies-blind`.

    Attributes:
        out: the folder of their weights and of `log.jsonl`.
        env: the environment's id.
        options: its options.
        updates: of each stage but the start.
        seed: of the adapters.
        batch: replies of an update.
        bf16: compute in bfloat16; on a CPU without fast instructions for it, float32 takes half the
            time.
    """

    out: Path
    env: str
    options: Mapping[str, Any]
    updates: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    batch: int = 16
    bf16: bool = True

    def policy(self, stage: str) -> tuple[Any, ChatEncoder]:
        """The model after a stage. Stages that aren't in `out` are run."""
        if stage == "start":
            return self._start()
        if stage == "sight":
            return self._seeing()
        model, encoder = self.policy("sight")
        self._adapted(model)
        file = self.out / f"{stage}.safetensors"
        if not file.is_file():
            self._learn_replies(model, encoder, file, blind=stage == "replies-blind")
        model.load_state_dict(load_file(file), strict=False)
        return model, encoder

    def save_merged(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Write the model after the stage `replies` to `folder`, adapters merged."""
        self.policy("replies")
        model, encoder = self.policy("sight")
        adapted = self._adapted(model)
        model.load_state_dict(load_file(self.out / "replies.safetensors"), strict=False)
        adapted.merge_and_unload().to(dtype).save_pretrained(folder)
        encoder.save_pretrained(folder)

    def _start(self) -> tuple[Any, ChatEncoder]:
        folder = self.out / "start"
        if not (folder / "config.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            save_smolvlm(folder, template="chatml", side=SIDE)
        model, encoder = load_policy(folder)
        # Backwards is three times as fast for 50 tokens on a CPU.
        model.float().set_attn_implementation("eager")
        return model, encoder

    def _seeing(self) -> tuple[Any, ChatEncoder]:
        model, encoder = self.policy("start")
        file = self.out / "sight.safetensors"
        seen = (turn for turn, _ in self._turns(encoder, FIRST_SEED))
        if not file.is_file():
            restart_tower(model)
            learn_sight(model, encoder, seen, self.updates["sight"], file, bf16=self.bf16)
        model.load_state_dict(load_file(file), strict=False)
        as_loud_as_words(model, encoder, list(itertools.islice(seen, 64)))
        return model, encoder

    def _adapted(self, model: Any) -> Any:
        """Put adapters into the language model; they, tower and connector can learn."""
        torch.manual_seed(self.seed)
        adapted: Any = get_peft_model(model, LORA)
        for parameter in sight_of(model).values():
            parameter.requires_grad_(True)
        return adapted

    def _turns(self, encoder: ChatEncoder, first: int) -> Iterator[tuple[PlayedTurn, bool]]:
        """Turns on one training level after another, without end, and whether the oracle's reply is
        theirs.
        """
        env = gym.make(self.env, **self.options)
        for seed in itertools.count(first):
            played = demonstrate(env, encoder, LevelSeed(seed), NOISE)
            for number, turn in enumerate(played.episode.turns):
                yield turn, number in played.imitated

    def _learn_replies(self, model: Any, encoder: ChatEncoder, file: Path, *, blind: bool) -> None:
        """Cross-entropy of the oracle's replies; `blind` shows each the picture of another level,
        half a batch away.
        """
        if self.bf16:
            _store_frozen_in_bfloat16(model)
        source = (turn for turn, imitated in self._turns(encoder, 2 * FIRST_SEED) if imitated)

        def step() -> tuple[Tensor, float]:
            sequences = [
                lay_out((), (turn,), None) for turn in itertools.islice(source, self.batch)
            ]
            inputs = model_inputs([sequence.prompt for sequence in sequences], encoder, "cpu")
            if blind:
                inputs["pixel_values"] = inputs["pixel_values"].roll(len(sequences) // 2, 0)
            ids = inputs["input_ids"][:, 1:]
            learned = torch.zeros_like(ids, dtype=torch.bool)
            for row, sequence in enumerate(sequences):
                learned[row, : len(sequence.turn_ids) - 1] = (
                    torch.tensor(sequence.turn_ids[1:]) != NOT_SAMPLED
                )
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                states = model.model(**inputs, use_cache=False).last_hidden_state[:, :-1]
                logits = model.lm_head(states[learned]).float()
            wrong = torch.zeros(len(ids)).index_add(
                0, learned.nonzero()[:, 0], (logits.argmax(-1) != ids[learned]).float()
            )
            return cross_entropy(logits, ids[learned]), float((wrong == 0).float().mean())

        adapters = {name: each for name, each in model.named_parameters() if "lora_" in name}
        groups = [(adapters, 5e-4), (sight_of(model), SIGHT_RATE)]
        fit(groups, self.updates[file.stem], step, file)


def _store_frozen_in_bfloat16(model: Any) -> None:
    """The matrices that autocast would round at every use, a sixth of an update's time."""
    for parameter in model.model.text_model.layers.parameters():
        if not parameter.requires_grad and parameter.dim() == 2:
            parameter.data = parameter.data.to(torch.bfloat16)
