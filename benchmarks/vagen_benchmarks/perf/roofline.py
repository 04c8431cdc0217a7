"""What a rollout and its updates take at best, on GPUs that aren't here: `python -m vagen_benchmarks.perf.roofline`.

A phase takes as long as the slowest of three: its FLOPs at the device's peak, its bytes at the memory's bandwidth, what
is sent at that of the links (Williams et al. 2009, the roofline; all three overlap). FLOPs are those of `train_speed`:
matrix products and attention. `--here` measures this machine's peaks, predicts passes of two models of random weights,
and prints how much longer they took.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.planning import NEVER, Machines, Plan, Planner
from vagen_adapters.ppo.published import config_of


@dataclass(frozen=True)
class Device:
    """FLOPS of dense products, bytes a second of memory, of its link to GPUs of its machine, and to other machines."""

    flops: float
    memory: float
    link: float
    network: float


DEVICES = {
    # NVIDIA H100 data sheet, SXM: 1,979 bfloat16 TFLOPS with sparsity, 3.35 TB/s, NVLink 900 GB/s both ways;
    # DGX H100 data sheet: eight links of 400 Gb/s for eight GPUs
    "h100": Device(989e12, 3.35e12, 450e9, 50e9),
    # NVIDIA A100 80GB data sheet, SXM: 312 TFLOPS, 2,039 GB/s, NVLink 600 GB/s both ways; DGX A100: 200 Gb/s a GPU
    "a100": Device(312e12, 2.039e12, 300e9, 25e9),
}


@dataclass(frozen=True)
class Work:
    """Episodes of a rollout, their turns, tokens of each turn's reply and picture, and of an episode in all."""

    episodes: int = 128
    turns: int = 4
    reply: int = 200
    picture: int = 121
    length: int = 2048


@dataclass(frozen=True)
class Shape:
    """Weights of a model that a token is multiplied with, by who reads them; `active` is the share of the experts.

    Attributes:
        attention: layers times the width of queries.
        kv: bytes of a token's keys and values, in bfloat16.
    """

    body: float
    experts: float
    active: float
    head: float
    tower: float
    merger: float
    attention: float
    kv: float

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Counted on the meta device."""
        from transformers import AutoModelForImageTextToText

        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
        found = dict.fromkeys(("body", "experts", "head", "tower", "merger"), 0.0)
        for name, weight in model.named_parameters():
            if weight.dim() >= 2 and not any(part in name for part in ("embed_tokens", "pos_embed", "lm_head")):
                found[_reader(name)] += weight.numel()
        text = config.get_text_config()
        found["head"] = float(text.vocab_size * text.hidden_size)
        experts = getattr(text, "num_experts", None) or 1
        active = (getattr(text, "num_experts_per_tok", None) or 1) / experts
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        heads = text.num_attention_heads, getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        return cls(**found, active=active, attention=text.num_hidden_layers * heads[0] * width,
                   kv=text.num_hidden_layers * heads[1] * width * 2 * 2)  # fmt: skip

    @property
    def weights(self) -> float:
        """All of them; the embedding, which is looked up, only where the head is tied to it."""
        return self.body + self.experts + self.head + self.tower + self.merger

    def pass_flops(self, sequences: float, length: float, said: float, patches: float) -> float:
        """Of a forward pass over whole sequences, whose head reads the tokens `said`."""
        tokens = sequences * length
        return (2 * tokens * (self.body + self.active * self.experts) + 2 * said * self.head
                + 2 * patches * (self.tower + self.merger / 4) + 4 * self.attention * tokens * length)  # fmt: skip

    def step(self, batch: float, context: float, width: int = 2) -> tuple[float, float]:
        """FLOPs and bytes of one more token for each of a batch, after `context` tokens; `width` bytes a number."""
        met = 1 - (1 - self.active) ** batch if self.active < 1 else 1.0  # the share of experts that some token goes to
        flops = batch * (2 * (self.body + self.active * self.experts + self.head) + 4 * self.attention * context)
        return flops, width * (self.body + met * self.experts + self.head) + batch * context * self.kv * width / 2


def _reader(name: str) -> str:
    if any(part in name for part in ("visual", "vision", "multi_modal_projector", "mm_projector")):
        return "merger" if "merger" in name or "projector" in name else "tower"
    return "experts" if ".experts." in name else "body"


class Phase(NamedTuple):
    """Of one GPU: FLOPs that count, seconds by each of the three roofs, bytes that a machine gets from others."""

    useful: float
    compute: float
    memory: float
    sent: float
    between: float

    @property
    def seconds(self) -> float:
        return max(self.compute, self.memory, self.sent)

    @property
    def bound(self) -> str:
        return max(("compute", "memory", "sent"), key=lambda name: getattr(self, name))


def phases(
    shape: Shape,
    args: MultiTurnPPOConfig,
    machines: Machines,
    backend: str,
    device: Device,
    work: Work,
    server: int = 8,
) -> dict[str, Phase]:
    """Generation, scoring and updates of a rollout. Of `vllm-server`, `server` GPUs generate."""
    players = server if args.generation == "vllm-server" else machines.world
    mine = math.ceil(work.episodes / machines.world)
    return {
        "generation": _generation(shape, math.ceil(work.episodes / players), args, device, work),
        **_learning(shape, mine, args, machines, backend, device, work),
    }


def _generation(shape: Shape, episodes: int, args: MultiTurnPPOConfig, device: Device, work: Work) -> Phase:
    """Each token and picture is read once; replies of a turn are sampled side by side, as many as play at once."""
    batch = min(episodes, args.num_envs)
    rounds = math.ceil(episodes / batch)
    flops, read = shape.step(batch, work.length / 2)
    steps, said = rounds * work.turns * work.reply, work.turns * work.reply
    patches = 4 * work.turns * work.picture
    prompts = episodes * shape.pass_flops(1, work.length - said, work.turns, patches)
    useful = prompts + steps * flops
    # Prompts are bound by compute and steps mostly by memory: they come one after the other.
    compute = prompts / device.flops + steps * flops / device.flops
    return Phase(useful, compute, prompts / device.flops + steps * read / device.memory, 0.0, 0.0)


def _learning(
    shape: Shape, episodes: int, args: MultiTurnPPOConfig, machines: Machines, backend: str, device: Device, work: Work
) -> dict[str, Phase]:
    said, patches = episodes * work.turns * work.reply, episodes * 4 * work.turns * work.picture
    forward = shape.pass_flops(episodes, work.length, said, patches)
    learners = 2 if args.critic_kind == "own" else 1
    readers = learners + bool(args.kl_coef or args.kl_loss_coef)
    whole, world = 2 * shape.weights, machines.world
    updates = args.minibatches * args.epochs_per_rollout
    parts = args.epochs_per_rollout * math.ceil(episodes / args.sequences_per_forward)
    spread, zero = backend in ("fsdp", "zero3") and world > 1, backend == "zero2" and world > 1
    ring = (world - 1) / world

    def phase(flops: float, useful: float, read: float, sent: float) -> Phase:
        slowest = device.link if machines.machines == 1 else min(device.link, device.network * machines.gpus)
        between = sent if machines.machines > 1 else 0.0
        return Phase(useful, flops / device.flops, read / device.memory, sent / slowest, between)

    gathers = ring * whole * parts
    scoring = phase(readers * forward, readers * forward, readers * whole * parts, spread * readers * gathers)
    # A frozen weight passes gradients on and gets none; a recomputed layer is computed forward twice.
    useful = (2 if args.lora else 3) * learners * forward
    done = useful + bool(args.gradient_checkpointing) * learners * forward
    trained = 0.0 if args.lora else learners * shape.weights
    mine = trained / world if spread or zero else trained
    sums = 0 if world == 1 else parts if args.gradient_sync == "each" and (spread or zero) else updates
    reduced = ring * 2 * trained * sums * (1 if spread or zero else 2)  # a scatter alone, or a gathering after it
    sent = reduced + (2 * learners * gathers if spread else 0) + (ring * 2 * trained * updates if zero else 0)
    # An optimiser's step reads weight, gradient and two moments of four bytes and writes three.
    update = phase(done, useful, 3 * learners * whole * parts + 28 * mine * updates, sent)
    return {"scoring": scoring, "updates": update}


def row(
    name: str, machines: Machines, args: MultiTurnPPOConfig, device: Device, work: Work
) -> tuple[Plan, dict[str, Phase]]:
    """A model's plan of memory and its phases, under the back-end that spreads least among those that fit."""
    config = config_of(name)
    plan = Planner(config, turns=work.turns).best(args, machines)
    backend = plan.backend if machines.world > 1 else "ddp"
    return plan, phases(Shape.of(config), args, machines, backend, device, work)


# -- this machine ----------------------------------------------------------------------------------


class Held(NamedTuple):
    """Seconds of CPU that a pass was predicted to take, and took."""

    name: str
    predicted: float
    taken: float


def peaks() -> Device:
    """FLOPS of products of float32 and bytes a second that a thread reads, the best of several."""
    factors = [torch.randn(1024, 1024) for _ in range(2)]
    flops = 2 * 1024**3 / _least(lambda: torch.mm(*factors))
    far = torch.ones(2**26)  # 256 MiB, more than any cache
    return Device(flops, far.numel() * 4 / _least(far.sum), math.inf, math.inf)


def _least(run: Callable[[], Any], times: int = 3) -> float:
    """CPU seconds of this process, the least of some: others share its cores."""
    found = []
    run()
    for _ in range(times):
        begun = time.process_time()
        run()
        found.append(time.process_time() - begun)
    return min(found)


def small_config(hidden: int, layers: int, vocabulary: int) -> Any:
    """A text model in Qwen2.5-VL's manner, with a tower that isn't used here."""
    from transformers import Qwen2_5_VLConfig

    heads = hidden // 64
    text = {"vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": 4 * hidden,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": max(1, heads // 4),
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]},
            "tie_word_embeddings": True}  # fmt: skip
    vision = {"depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 1, "out_hidden_size": hidden}
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)


SMALL = {"1M": (128, 4, 1024), "0.1B": (768, 12, 32_768)}
"""Width, layers and tokens of the vocabulary."""


def held(config: Any, device: Device, length: int = 128) -> Iterator[Held]:
    """Passes of random weights in float32: two sequences forward, and backward too; one more token of 1 and of 8."""
    from transformers import AutoModelForImageTextToText

    shape = Shape.of(config)
    model = AutoModelForImageTextToText.from_config(config).float()
    ids = torch.randint(30, 900, (2, length))
    forward = shape.pass_flops(2, length, 2 * length, 0)

    def learn() -> None:
        model(ids).logits.logsumexp(-1).sum().backward()
        model.zero_grad()

    with torch.no_grad():
        yield Held(
            "scoring", max(forward / device.flops, 4 * shape.weights / device.memory), _least(lambda: model(ids))
        )
    yield Held("update", 3 * forward / device.flops, _least(learn))
    for batch in (1, 8):
        with torch.no_grad():
            kept = model(ids[:1].expand(batch, -1), use_cache=True).past_key_values

            def say(batch: int = batch, kept: Any = kept) -> None:
                model(ids[:1, :1].expand(batch, -1), past_key_values=kept, use_cache=True)
                kept.crop(-1)

            flops, read = shape.step(batch, length, width=4)
            yield Held(f"a token, batch {batch}", max(flops / device.flops, read / device.memory), _least(say))


# -- words -----------------------------------------------------------------------------------------


def lines(plan: Plan, found: dict[str, Phase], device: Device) -> Iterator[str]:
    """For people: memory, then seconds, MFU and bytes between machines at the roof of each phase."""
    peak = "too small a share" if plan.peak >= NEVER else f"{plan.peak / 2**30:.0f} GiB"
    largest = max(plan.parts, key=lambda name: plan.parts[name])
    fits = "fits" if plan.fits else f"doesn't fit, most of it {largest}"
    yield f"{plan.machines} with {plan.backend}: {peak} of each GPU, {fits}"
    for name, each in found.items():
        mfu = each.useful / device.flops / each.seconds
        between = f", {each.between / 2**30:,.0f} GiB into each machine" if each.between else ""
        yield f"  {name:11}{each.seconds:9.1f} s, MFU {mfu:4.0%}, bound by {each.bound}{between}"
    yield f"  {'together':11}{sum(each.seconds for each in found.values()):9.1f} s"


def main(words: list[str] | None = None) -> None:
    """Print what the command line asks for."""
    from vagen_adapters.ppo.recipes import load_recipe
    from vagen_benchmarks.commands.options import parse_options

    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--here", action="store_true", help="measure this machine, and hold the predictions to it")
    parser.add_argument("--model", default="Qwen/Qwen2.5-VL-3B-Instruct", help="a name, or a folder with a config.json")
    parser.add_argument("--gpus", default="8x80GiB")
    parser.add_argument("--device", choices=DEVICES, default="h100")
    parser.add_argument("--recipe", default="vagen-base")
    parser.add_argument(
        "--set", "-s", action="append", default=[], metavar="NAME=VALUE", help="a setting of the trainer"
    )
    asked = parser.parse_args(words)
    if asked.here:
        torch.set_num_threads(1)
        device = peaks()
        sys.stdout.write(f"one thread: {device.flops / 1e9:.1f} GFLOPS, {device.memory / 1e9:.1f} GB/s\n")
        for name, size in SMALL.items():
            for each in held(small_config(*size), device):
                times = f"{each.predicted * 1e3:9.2f} ms predicted, {each.taken * 1e3:9.2f} taken"
                sys.stdout.write(f"{name:6}{each.name:18}{times}, {each.taken / each.predicted:.2f} times\n")
        return
    settings = {"use_cpu": True, "bf16": True, **parse_options(asked.set)}
    args = load_recipe(asked.recipe).config("vagen/Sokoban-v0", output_dir="unused", **settings)
    device = DEVICES[asked.device]
    plan, found = row(asked.model, Machines.parse(asked.gpus), args, device, Work())
    for line in lines(plan, found, device):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
