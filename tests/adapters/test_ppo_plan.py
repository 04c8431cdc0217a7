"""The plan of a training's memory, against torch's own accounting and against what the documentation says."""

import pytest
import torch
from ppo_training import config
from tensor_memory import peak_bytes
from transformers import AutoModel, AutoModelForImageTextToText, Qwen2_5_VLConfig

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.lora import with_adapters
from vagen_adapters.ppo.plan import GIB, Machine, cheapest_change, make_plan

LORA = {"r": 8, "target_modules": "all-linear"}


def qwen(hidden, layers, heads, keys, inner, words, sections, vision=(2, 128, 256, 4, [1])):
    """A configuration in Qwen2.5-VL's architecture."""
    depth, width, inner_vision, heads_vision, whole = vision
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    text = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "intermediate_size": inner,
        "vocab_size": words,
        "tie_word_embeddings": True,
        "rope_parameters": rope,
    }
    vision = {
        "depth": depth,
        "hidden_size": width,
        "intermediate_size": inner_vision,
        "num_heads": heads_vision,
        "out_hidden_size": hidden,
        "patch_size": 14,
        "fullatt_block_indexes": whole,
    }
    return Qwen2_5_VLConfig(tie_word_embeddings=True, text_config=text, vision_config=vision)


def three_b():
    """The sizes of Qwen2.5-VL-3B."""
    vision = (32, 1280, 3420, 16, [7, 15, 23, 31])
    return qwen(2048, 36, 16, 2, 11008, 151936, [16, 24, 24], vision)


def allocated(of, args):
    """The most bytes that tensors take in updates of two micro-batches of text, with all optimiser states."""

    def train():
        policy = AutoModelForImageTextToText.from_config(of)
        critic = AutoModel.from_config(of) if args.critic_kind == "own" else None
        if args.lora:
            policy = with_adapters(policy, args.lora, 0)
            critic = critic and with_adapters(critic, args.lora, 1)
        model = ActorCritic(policy, critic)
        model.add_reference(torch.bfloat16 if args.bf16 else torch.float32)
        model.train()
        if args.gradient_checkpointing:
            model.activation_checkpointing_enable()
        weights = [each for each in model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(weights, fused=True)
        whole = (args.per_device_train_batch_size, args.max_length)
        for shape in ((1, 8), None, whole, whole):
            if shape is None:  # the moments are there from the first step on
                optimizer.step()
                optimizer.zero_grad()
                continue
            ids = torch.randint(10, 1000, shape)
            with torch.autocast("cpu", enabled=args.bf16, cache_enabled=False):
                inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
                want = ("logprobs", "entropies", "values")
                found = model(inputs, want, temperature=1.0, entropies_teach=False)
            (found["logprobs"].sum() + found["values"].sum()).backward()

    return peak_bytes(train)[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_checkpointing": True, "bf16": True},
        {"gradient_checkpointing": False, "lora": LORA, "bf16": True},
    ],
    ids=["own critic, recomputing", "adapters"],
)
def test_a_plan_is_near_what_torch_allocates(changes, tmp_path):
    of = qwen(256, 6, 4, 2, 704, 4096, [8, 12, 12])
    of.save_pretrained(tmp_path)
    args = config(tmp_path, max_length=512, per_device_train_batch_size=2, **changes)
    plan = make_plan(str(tmp_path), args, Machine(1, 0), on_gpu=False)
    no_pictures = sum(part.update for part in plan.parts if "vision" not in part.name)
    assert no_pictures == pytest.approx(allocated(of, args), rel=0.15)


@pytest.fixture(scope="module")
def three_billion(tmp_path_factory):
    """The folder of a model as large as Qwen2.5-VL-3B, without its weights."""
    folder = tmp_path_factory.mktemp("3b")
    three_b().save_pretrained(folder)
    return str(folder)


USUAL = {
    "per_device_train_batch_size": 2,
    "gradient_checkpointing": True,
    "activation_checkpointing": True,
}


def plan_of(folder, gpus=1, sharding="ddp", **changes):
    args = config(folder, episodes_per_rollout=128, num_envs=32, max_tokens=200, bf16=True)
    for name, value in {**USUAL, **changes}.items():
        setattr(args, name, value)
    return make_plan(folder, args, Machine(gpus, 80 * GIB, sharding)), args


def test_what_is_held_is_counted_as_by_hand(three_billion):
    """16 bytes for each that is trained, in policy and critic."""
    plan, args = plan_of(three_billion)
    with torch.device("meta"):
        of = AutoModelForImageTextToText.from_config(three_b())
    trained = sum(each.numel() for each in of.parameters())
    assert plan.certain / trained == pytest.approx(16 + 16 + 2.2, rel=0.05)
    assert not plan.fits
    assert "shared_backbone" in cheapest_change(three_billion, args, plan.machine)
    on_eight = cheapest_change(three_billion, args, Machine(8, 80 * GIB))
    assert on_eight.startswith("FSDP")
    spread, _ = plan_of(three_billion, 8, "fsdp", generation="vllm")
    assert spread.fits
    assert spread.certain < plan.certain / 4


def test_a_shared_backbone_is_what_fits_one_gpu(three_billion):
    plan, _ = plan_of(three_billion, shared_backbone=True)
    assert plan.fits
    assert plan_of(three_billion, 8, shared_backbone=True)[0].fits
    bigger, args = plan_of(three_billion, shared_backbone=True, per_device_train_batch_size=8)
    assert not bigger.fits
    assert cheapest_change(three_billion, args, bigger.machine) == (
        "-s per_device_train_batch_size=1"
    )


def test_an_unknown_sharding_is_refused():
    with pytest.raises(TrainingConfigError, match="must be one of ddp"):
        Machine(8, GIB, "fsdp1")
