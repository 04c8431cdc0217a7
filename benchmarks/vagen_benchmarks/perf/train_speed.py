"""How fast the trainer is on a model of random weights: `python -m vagen_benchmarks.perf.train_speed --size tiny`.

Real episodes of Sokoban are played, scored and trained on; only what they say is chance. Printed are tokens a second,
peak memory and, where the machine's peak is given, MFU: the model's FLOPs (PaLM, appendix B: matrix products and
attention; neither padding nor activations that are computed again) over what the machine could have done while it
scored and updated.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from vagen_adapters.ppo import tiny
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_benchmarks.commands.options import parse_options

ENV_ID = "vagen/Sokoban-v0"

SIZES: dict[str, dict[str, Any] | None] = {
    "tiny": None,
    # Qwen2.5-0.5B's text model; there is no vision model of that size, so a tower of a third of the 3B's depth and half
    # its width stands in
    "0.5b": {
        "text_config": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
                        "num_attention_heads": 14, "num_key_value_heads": 2},
        "vision_config": {"hidden_size": 640, "intermediate_size": 1710, "depth": 10, "out_hidden_size": 896,
                          "fullatt_block_indexes": [4, 9]},
    },
    # Qwen2.5-VL-3B
    "3b": {
        "text_config": {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
                        "num_attention_heads": 16, "num_key_value_heads": 2},
        "vision_config": {"hidden_size": 1280, "intermediate_size": 3420, "depth": 32, "out_hidden_size": 2048},
    },
}  # fmt: skip
"""None is the model of `vagen_adapters.ppo.tiny`."""


def random_config(size: str, ids: Mapping[str, int] | None = None) -> Any:
    """The configuration of a Qwen2.5-VL of a size; `ids` are those of its special tokens."""
    from transformers import Qwen2_5_VLConfig

    parts = SIZES[size]
    assert parts is not None
    heads = parts["text_config"]["hidden_size"] // parts["text_config"]["num_attention_heads"]
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [heads // 8, 3 * heads // 16, 3 * heads // 16]}
    text = {"vocab_size": 151_936, "rope_parameters": rope, "tie_word_embeddings": True, **parts["text_config"]}
    return Qwen2_5_VLConfig(
        text_config=text, vision_config=parts["vision_config"], tie_word_embeddings=True, **(ids or {})
    )


def write_model(size: str, folder: Path) -> None:
    """Write a model of random weights, with the tiny model's tokenizer: most of its 151,936 tokens have no text."""
    tiny.save_tiny(folder, tiny.texts_of([ENV_ID], levels=3))
    if SIZES[size] is None:
        return
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    tokens = [tiny.IMAGE, tiny.VIDEO, tiny.VISION_START, tiny.VISION_END]
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(tokens), strict=True))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2_5_VLForConditionalGeneration(random_config(size, ids))
    model.to(torch.bfloat16).save_pretrained(folder)
    Qwen2VLImageProcessorPil(patch_size=14, merge_size=2).save_pretrained(folder)


def flops(
    model: ActorCritic, inputs: Mapping[str, Tensor], want: frozenset[str], mask: Tensor, *, backward: bool
) -> float:
    """FLOPs of a call of `model`; see `ActorCritic.forward`. The language head reads the tokens of `mask` only."""
    said = float(mask.sum())
    shared = model.critic is None
    found = 0.0
    if {"logprobs", "entropies", "kl"} & want or (shared and "values" in want):
        found += _of_backbone(model.policy, inputs, said, backward)
    if "values" in want and not shared:
        found += _of_backbone(model.critic, inputs, said, backward)
    if {"reference_logprobs", "kl"} & want:
        found += _of_backbone(model.policy if model.reference is None else model.reference, inputs, said, False)
    return found


def _of_backbone(model: Any, inputs: Mapping[str, Tensor], said: float, backward: bool) -> float:
    """Two for each weight and token; a patch goes through the vision tower, four of them through its merger as one."""
    lengths = inputs["attention_mask"].sum(1)
    patches = len(inputs["pixel_values"]) if "pixel_values" in inputs else 0
    found = 0.0
    for name, weight in model.named_parameters():
        if weight.dim() < 2 or "embed_tokens" in name or "pos_embed" in name:
            continue
        runs = said if "lm_head" in name else float(lengths.sum())
        if "visual." in name:
            runs = patches / 4 if "merger" in name else patches
        times = 3 if backward and weight.requires_grad else 1
        found += 2 * times * runs * weight.numel()
    config = model.config.get_text_config()
    if model.get_output_embeddings() is not None and config.tie_word_embeddings:  # it is counted among the embeddings
        found += 2 * (3 if backward else 1) * said * config.vocab_size * config.hidden_size
    width = config.num_attention_heads * getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    attention = 4 * config.num_hidden_layers * width * float(lengths.square().sum())
    return found + (3 if backward else 1) * attention


class Watch(TrainerCallback):  # type: ignore[misc]
    """Counts FLOPs and measures the seconds of each rollout, from its first step to the end of its last update."""

    def __init__(self, per_rollout: int) -> None:
        self.per_rollout = per_rollout
        self.seconds: list[float] = []
        self.flops: list[float] = []

    def count(self, model: ActorCritic, words: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A forward pre-hook of the trained module."""
        self.flops[-1] += flops(model, words[0], frozenset(words[1]), named["mask"], backward=torch.is_grad_enabled())

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.per_rollout == 0:
            self.seconds.append(-_now())
            self.flops.append(0.0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.per_rollout == 0:
            self.seconds[-1] += _now()


def measure(size: str, settings: Mapping[str, Any], peak_tflops: float | None = None) -> dict[str, float]:
    """Train for some rollouts, of which the first is left out, and say how fast it was."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(size, Path(folder))
        config = MultiTurnPPOConfig(f"{folder}/out", **settings)
        config.logging_steps = config.steps_per_rollout
        trainer = MultiTurnPPOTrainer(folder, config)
        watch = Watch(config.steps_per_rollout)
        trainer.add_callback(watch)
        trainer.model.register_forward_pre_hook(watch.count, with_kwargs=True)
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if "time/whole" in entry][1:]
    whole = sum(watch.seconds[1:])
    tokens = sum(entry["tokens_per_second"] * entry["time/whole"] for entry in logs)
    generation = sum(entry["time/generation"] for entry in logs)
    sampled = sum(entry["generation/tokens_per_second"] * entry["time/generation"] for entry in logs)
    played = sum(entry[f"time/{part}"] for entry in logs for part in ("sync", "generation", "environment", "judge"))
    found = {
        "parameters": float(sum(each.numel() for each in trainer.model.policy.parameters())),
        "tokens of a rollout": tokens / len(logs),
        "seconds of a rollout": whole / len(logs),
        "tokens/s, whole": tokens / whole,
        "tokens/s, scored and trained": tokens / (whole - played),
        "tokens/s, sampled": sampled / generation,
        "peak memory, GiB": _peak_memory() / 2**30,
        "TFLOPS, scoring and updates": sum(watch.flops[1:]) / (whole - played) / 1e12,
    }
    if peak_tflops is not None:
        found["MFU, %"] = 100 * found["TFLOPS, scoring and updates"] / peak_tflops
    return found


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _peak_memory() -> float:
    """Bytes: the GPU's where there is one, else those of this process."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0  # Linux says KiB


def main(words: list[str] | None = None) -> None:
    """Measure what the command line asks for and print it."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--rollouts", type=int, default=3, help="the first is left out")
    parser.add_argument("--episodes", type=int, default=32, help="of a rollout")
    parser.add_argument("--peak-tflops", type=float, help="of the device in the precision that is used, such as 989")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the trainer")
    asked = parser.parse_args(words)
    gpu = torch.cuda.is_available()
    settings: dict[str, Any] = {
        "env_id": ENV_ID, "env_options": {"max_turns": 3}, "rollouts": asked.rollouts, "num_envs": asked.episodes,
        "episodes_per_rollout": asked.episodes, "max_tokens": 64, "use_cpu": not gpu, "bf16": gpu,
        "gradient_checkpointing": gpu, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
    }  # fmt: skip
    settings |= parse_options(asked.set)
    found = measure(asked.size, settings, asked.peak_tflops)
    device = torch.cuda.get_device_name() if gpu else f"CPU, {torch.get_num_threads()} thread(s)"
    sys.stdout.write(f"{asked.size} on {device}, torch {torch.__version__}\n")
    for name, entry in found.items():
        sys.stdout.write(f"{name:30} {entry:,.4g}\n")
    if asked.peak_tflops is None:
        sys.stdout.write("MFU isn't known without --peak-tflops\n")


if __name__ == "__main__":
    main()
