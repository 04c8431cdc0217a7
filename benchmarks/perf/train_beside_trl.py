"""This package's trainer beside TRL's GRPO, on the same model, environment and sequence length.

    .venv/bin/python -m perf.train_beside_trl [--episodes 16] [--steps 4] [--rounds 3]

A tiny Qwen3-VL with random weights plays FrozenLake, three turns of sixteen tokens, and is updated
once per rollout: GRPO without a KL term in both, groups of four, one process on one thread. TRL
plays through `vagen_adapters.trl_env`; its prompts hold the tool's schema, so ours are lengthened
until the sequences that are trained on have equal length. The two run in turns in processes of
their own; the first step of each is left out. Prints CPU seconds per 1,000 tokens read in updates,
and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vagen_envs

ENV, TURNS, REPLY_TOKENS, GROUP = "vagen/FrozenLake-v0", 3, 16, 4
OPTIONS: dict[str, Any] = {"strategy": "no_think", "max_turns": TURNS, "is_slippery": False}
FILLER = "z"  # the tokenizer has never seen two in a row, so each is one token


def main() -> None:
    """Measure both and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--episodes", type=int, default=16, help="in each rollout, a multiple of four"
    )
    parser.add_argument(
        "--steps", type=int, default=4, help="rollouts with one update each, after the first"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=["trl", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(
            json.dumps(
                {"trl": train_trl, "ours": train_ours}[asked.side](
                    asked.folder, asked.episodes, asked.steps
                )
            )
        )
        return
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_model(folder / "model")
        make_prompts(folder, 0)
        lengths = {
            side: measure(side, folder, GROUP, 1)["tokens_per_episode"] for side in ("trl", "ours")
        }
        make_prompts(folder, round(lengths["trl"] - lengths["ours"]))
        found: dict[str, list[dict[str, float]]] = {"trl": [], "ours": []}
        for _ in range(asked.rounds):
            for side, rounds in found.items():
                rounds.append(measure(side, folder, asked.episodes, asked.steps))
    print(f"TRL {version('trl')}, transformers {version('transformers')}, torch {version('torch')}")
    print(
        f"{asked.episodes} episodes of {TURNS} turns, {asked.steps} steps, median of "
        f"{asked.rounds} rounds\n"
    )
    print(f"{'':24} {'TRL':>9} {'ours':>9} {'ratio':>7}")
    for name, unit in (
        ("tokens_per_episode", "tokens per episode"),
        ("cpu_per_1000", "CPU s per 1,000 tokens"),
        ("peak_gib", "peak memory, GiB"),
    ):
        theirs, ours = (
            statistics.median(one[name] for one in found[side]) for side in ("trl", "ours")
        )
        print(f"{unit:24} {theirs:9.3f} {ours:9.3f} {ours / theirs:7.2f}")


def measure(side: str, folder: Path, episodes: int, steps: int) -> dict[str, float]:
    """Train in a process of its own, for the sake of its memory."""
    command = [
        sys.executable,
        "-m",
        "perf.train_beside_trl",
        "--side",
        side,
        "--folder",
        str(folder),
    ]
    command += ["--episodes", str(episodes), "--steps", str(steps)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def make_model(folder: Path) -> None:
    """Write a model of about a million parameters with a tokenizer of its own."""
    from vagen_adapters.parity import tiny_model as tiny

    tiny.save_tiny(folder, tiny.texts_of([ENV], levels=20, prompt_pack="terse", **OPTIONS))


def make_prompts(folder: Path, filler: int) -> None:
    """Copy the prompt pack `terse` with `filler` more tokens in FrozenLake's system prompt."""
    pack = folder / "prompts"
    shutil.rmtree(pack, ignore_errors=True)
    shutil.copytree(Path(vagen_envs.__file__).parent / "prompt_packs" / "terse", pack)
    (system,) = pack.rglob("frozen_lake/system.txt")
    system.write_text(
        system.read_text(encoding="utf-8") + FILLER * max(0, filler), encoding="utf-8"
    )


class Meter:
    """Counts the tokens that the policy reads with gradients, and the CPU time from the end of the
    first step.
    """

    def __init__(self, policy: Any) -> None:
        self.tokens = self.tokens_at_start = 0
        self.began = 0.0
        policy.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if torch.is_grad_enabled():
            mask = kwargs.get("attention_mask")
            self.tokens += int((kwargs["input_ids"] >= 0).sum() if mask is None else mask.sum())

    def callback(self) -> Any:
        """A callback of transformers' Trainer."""
        from transformers import TrainerCallback

        meter = self

        class OnStep(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if state.global_step == 1:
                    meter.tokens_at_start, meter.began = meter.tokens, time.process_time()

        return OnStep()

    def figures(self, episodes: int) -> dict[str, float]:
        """The figures of a training that has ended."""
        tokens = self.tokens - self.tokens_at_start
        return {
            "tokens_per_episode": self.tokens_at_start / episodes,
            "cpu_per_1000": 1000 * (time.process_time() - self.began) / tokens,
            "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        }


def train_trl(folder: Path, episodes: int, steps: int) -> dict[str, float]:
    """TRL's `GRPOTrainer` with an environment; every reply is a call of its tool."""
    from transformers import AutoModelForImageTextToText
    from trl import GRPOConfig, GRPOTrainer

    from vagen_adapters.trl_env import REPLY_AS_TOOL_CALL, TRLEnvironment, levels

    processor = trl_processor(folder / "model")
    processor.tokenizer.response_template = REPLY_AS_TOOL_CALL
    model = AutoModelForImageTextToText.from_pretrained(folder / "model")
    options = {**OPTIONS, "prompt_pack": "terse"}
    tokens = (
        "<|image_pad|>",
        "<|video_pad|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|im_start|>",
    )
    suppressed = processor.tokenizer.convert_tokens_to_ids(list(tokens))
    config = GRPOConfig(
        output_dir=str(folder / "trl"),
        max_steps=steps + 1,
        per_device_train_batch_size=episodes,
        num_generations=GROUP,
        max_completion_length=4096,
        max_tool_calling_iterations=TURNS,
        generation_kwargs={
            "min_new_tokens": REPLY_TOKENS,
            "max_new_tokens": REPLY_TOKENS,
            "suppress_tokens": suppressed,  # TRL cannot train a reply that holds an image token
        },
        beta=0.0,
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    meter = Meter(model)
    GRPOTrainer(
        model,
        args=config,
        train_dataset=levels(ENV, num_levels=episodes // GROUP * (steps + 1), **options),
        processing_class=processor,
        environment_factory=partial(TRLEnvironment, ENV, **options),
        callbacks=[meter.callback()],
    ).train()
    return meter.figures(episodes)


def trl_processor(folder: Path) -> Any:
    """Qwen3-VL's processor without torchvision, which its check of its parts asks for."""
    from transformers import AutoTokenizer, Qwen2VLImageProcessorPil, Qwen3VLProcessor
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
    from trl.chat_template_utils import qwen3_vl_chat_template

    class Processor(Qwen3VLProcessor):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            return type(argument)

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    parts = Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer, Qwen3VLVideoProcessor()
    return Processor(*parts, chat_template=qwen3_vl_chat_template)


def train_ours(folder: Path, episodes: int, steps: int) -> dict[str, float]:
    """`MultiTurnPPOTrainer` with the recipe for GRPO."""
    from vagen_adapters.ppo.recipes import load_recipe
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

    config = load_recipe("grpo-mask").config(
        [{"id": ENV, "options": {**OPTIONS, "prompt_pack": str(folder / "prompts")}}],
        str(folder / "ours"),
        rollouts=steps + 1,
        episodes_per_rollout=episodes,
        group_size=GROUP,
        num_envs=episodes,
        minibatches=1,
        per_device_train_batch_size=episodes,
        max_tokens=REPLY_TOKENS,
        temperature=1.0,
        top_p=1.0,
        kl_coef=0.0,
        kl_loss_coef=0.0,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = MultiTurnPPOTrainer(str(folder / "model"), config)
    meter = Meter(trainer.model.policy)
    trainer.add_callback(meter.callback())
    trainer.train()
    return meter.figures(episodes)


if __name__ == "__main__":
    main()
