"""Fine-tune a pretrained language model on replies of the oracle: does it then play FrozenLake by
sight?

    .venv-vllm/bin/python benchmarks/experiments/finetune_frozenlake.py --minutes 50 --out
    runs/finetuning

`make test-real` installs what this needs. First the random vision tower and connector of
`vagen_experiments.pretrained` learn to see. Then everything learns the oracle's replies: tower and
connector in full, the language model by LoRA. A control learns them beside pictures of other turns.
A stage whose weights are in the output folder isn't repeated. Time bounds the training, so the
number of updates, and with it the result, differs between machines; `log.jsonl` has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import ChatEncoder, load_policy
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler, model_inputs
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import lay_out
from vagen_adapters.ppo.trajectories import NOT_SAMPLED
from vagen_adapters.ppo.warmstart import FIRST_SEED, demonstrate
from vagen_benchmarks.agents.blind_baselines import search
from vagen_benchmarks.agents.scripted import WORDS
from vagen_benchmarks.agents.trained import CARD
from vagen_benchmarks.results.stats import wilson
from vagen_experiments import imitation
from vagen_experiments.connector_pretraining import (
    as_loud_as_words,
    fit,
    learn_sight,
    restart_tower,
    sight_of,
)
from vagen_experiments.evaluation import ShuffledImages, figures
from vagen_experiments.pretrained import save_smolvlm

ENV = "vagen/FrozenLake-v0"
OPTIONS: dict[str, Any] = {  # those of configs/solve-frozenlake.toml
    "prompt_pack": "terse",
    "strategy": "no_think",
    "max_turns": 6,
    "max_actions_per_turn": 1,
    "min_solution_length": 2,
    "max_solution_length": 5,
}
SIDE = 128
"""Pixels of a picture's side: its 16 tokens are the 16 cells."""
NOISE = 0.5
"""Share of random turns, which lead to states that the oracle avoids. Only the oracle's replies are
learned.
"""
MAX_TOKENS = 16
LORA = LoraConfig(
    r=16, lora_alpha=32, target_modules=r".*text_model.*\.(q|k|v|o|gate|up|down)_proj"
)
SIGHT_RATE = 3e-5
"""Learning rate of tower and connector beside the adapters'. With 1e-3 for all, noise of the first
100 updates had destroyed what the tower had learned (error of its relations 0.001 → 10), and
replies were right as often as chance."""
SHARES = {"sight": 0.2, "replies": 0.5, "replies-blind": 0.13}
"""Of the time. The rest is for evaluations."""


def turns(encoder: ChatEncoder, first: int) -> Iterator[tuple[PlayedTurn, bool]]:
    """Turns on one training level after another, without end, and whether the oracle's reply is
    theirs.
    """
    env = gym.make(ENV, **OPTIONS)
    for seed in itertools.count(first):
        played = demonstrate(env, encoder, LevelSeed(seed), NOISE)
        yield from (
            (turn, number in played.imitated) for number, turn in enumerate(played.episode.turns)
        )


def learn_replies(
    model: Any, encoder: ChatEncoder, minutes: float, file: Path, *, blind: bool
) -> None:
    """Cross-entropy of the oracle's replies; `blind` shows each the picture of another level, half
    a batch away.
    """
    source = (turn for turn, imitated in turns(encoder, 2 * FIRST_SEED) if imitated)

    def step() -> tuple[Tensor, float]:
        sequences = [lay_out((), (turn,), None) for turn in itertools.islice(source, 16)]
        inputs = model_inputs([sequence.prompt for sequence in sequences], encoder, "cpu")
        if blind:
            inputs["pixel_values"] = inputs["pixel_values"].roll(len(sequences) // 2, 0)
        ids = inputs["input_ids"][:, 1:]
        learned = torch.zeros_like(ids, dtype=torch.bool)
        for row, sequence in enumerate(sequences):
            learned[row, : len(sequence.turn_ids) - 1] = (
                torch.tensor(sequence.turn_ids[1:]) != NOT_SAMPLED
            )
        with torch.autocast("cpu", torch.bfloat16):
            states = model.model(**inputs, use_cache=False).last_hidden_state[:, :-1]
            logits = model.lm_head(states[learned]).float()
        wrong = torch.zeros(len(ids)).index_add(
            0, learned.nonzero()[:, 0], (logits.argmax(-1) != ids[learned]).float()
        )
        return cross_entropy(logits, ids[learned]), float((wrong == 0).float().mean())

    adapters = {name: each for name, each in model.named_parameters() if "lora_" in name}
    fit([(adapters, 5e-4), (sight_of(model), SIGHT_RATE)], minutes, step, file)


def play(
    model: Any, encoder: ChatEncoder, levels: Sequence[LevelSeed], *, shuffled: bool = False
) -> dict[str, Any]:
    """Figures of the most likely replies on `levels`."""
    envs = [gym.make(ENV, **OPTIONS) for _ in range(min(64, len(levels)))]
    sampling = SampleSettings(temperature=0.0, top_p=1.0, max_tokens=MAX_TOKENS)
    players = [ShuffledImages(env) for env in envs] if shuffled else envs
    rollout = Rollout(
        players,
        encoder,
        TransformersSampler(model, encoder),
        sampling,
        context=ContextPolicy(turns=0),
    )
    with torch.autocast("cpu", torch.bfloat16):
        return figures(rollout.play(levels, seed=0), None)


def policy(out: Path, stage: str, minutes: float) -> tuple[Any, ChatEncoder]:
    """The model after a stage: `start`, `sight`, `replies` or `replies-blind`. What isn't in `out`
    is made.
    """
    if stage == "start" and not (out / "start" / "config.json").is_file():
        save_smolvlm(out / "start", template="chatml", side=SIDE)
    if stage == "start":
        model, encoder = load_policy(out / "start")
        model.float().set_attn_implementation(
            "eager"
        )  # backwards three times as fast for 50 tokens on a CPU
        return model, encoder
    model, encoder = policy(out, "start" if stage == "sight" else "sight", minutes)
    file = out / f"{stage}.safetensors"
    if stage == "sight":
        seen = (turn for turn, _ in turns(encoder, FIRST_SEED))
        if not file.is_file():
            restart_tower(model)
            learn_sight(model, encoder, seen, minutes * SHARES[stage], file)
        model.load_state_dict(load_file(file), strict=False)
        as_loud_as_words(model, encoder, list(itertools.islice(seen, 64)))
        return model, encoder
    get_peft_model(model, LORA)
    for parameter in sight_of(model).values():
        parameter.requires_grad_(True)
    if not file.is_file():
        learn_replies(model, encoder, minutes * SHARES[stage], file, blind=stage == "replies-blind")
    model.load_state_dict(load_file(file), strict=False)
    return model, encoder


def save_merged(out: Path) -> None:
    """Write the fine-tuned model to `out/model`, for `vagen bench --agent`."""
    model, encoder = policy(out, "sight", 0.0)
    adapted: Any = get_peft_model(model, LORA)
    model.load_state_dict(load_file(out / "replies.safetensors"), strict=False)
    adapted.merge_and_unload().save_pretrained(out / "model")
    encoder.save_pretrained(out / "model")
    card = {
        "environments": [{"id": ENV, "options": OPTIONS}],
        "max_tokens": MAX_TOKENS,
        "context": "last:0",
    }
    (out / "model" / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def play_blind(levels: Sequence[LevelSeed]) -> dict[str, Any]:
    """Success of the best replies that are the same for every level."""
    env, solved = gym.make(ENV, **OPTIONS), 0
    best = search(env.unwrapped)
    for level in levels:
        env.reset(seed=level.seed, options={"split": level.split})
        for actions in best:
            *_, terminated, truncated, info = env.step(
                env.unwrapped.grammar.render(actions, **WORDS)
            )
            if terminated or truncated:
                break
        solved += info["turn"].success
    return {"episodes": len(levels), "successes": solved}


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--minutes", type=float, default=50.0, help="in all, on one core")
    parser.add_argument("--seed", type=int, default=0, help="of the adapters")
    parser.add_argument(
        "--levels", type=int, default=256, help="held-out levels of each evaluation"
    )
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(chosen.seed)
    chosen.out.mkdir(parents=True, exist_ok=True)
    levels = [LevelSeed(seed, "test") for seed in range(chosen.levels)]
    _, encoder = policy(chosen.out, "start", 0.0)
    env = gym.make(ENV, **OPTIONS)
    random = [imitation.demonstrate(env, encoder, level, oracle_share=0.0) for level in levels]
    found = {"random": figures(random, None), "best blind": play_blind(levels)}
    for stage in ("replies", "replies-blind", "start"):
        model, encoder = policy(chosen.out, stage, chosen.minutes)
        found[stage] = play(model, encoder, levels)
        if stage == "replies":
            found["replies, pictures of other levels"] = play(model, encoder, levels, shuffled=True)
        (chosen.out / "results.json").write_text(
            json.dumps(found, indent=1) + "\n", encoding="utf-8"
        )
    save_merged(chosen.out)
    for name, figure in found.items():
        low, high = wilson(figure["successes"], figure["episodes"])
        more = [
            f"{figure[key]:.2f}" if key in figure else "–"
            for key in ("format", "fatal_moves", "idle_moves")
        ]
        rate = figure["successes"] / figure["episodes"]
        sys.stdout.write(f"| {name} | {rate:.3f} | {low:.2f}–{high:.2f} | {' | '.join(more)} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
