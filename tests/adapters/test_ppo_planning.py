"""The plan of a run's memory against what torch allocates, the published sizes of models, and its command."""

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from memory_held import RUN, held  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from vagen_adapters.errors import TrainingConfigError  # noqa: E402
from vagen_adapters.ppo import quick_layers  # noqa: E402
from vagen_adapters.ppo.config import MultiTurnPPOConfig  # noqa: E402
from vagen_adapters.ppo.planning import GIB, Machines, Planner  # noqa: E402
from vagen_adapters.ppo.published import PUBLISHED, config_of  # noqa: E402
from vagen_adapters.ppo.recipes import load_recipe  # noqa: E402
from vagen_adapters.ppo.tensor_bytes import LiveBytes  # noqa: E402


@pytest.mark.parametrize(("recomputed", "packed"), [(False, False), (True, False), (False, True)])
def test_an_updates_peak_is_what_it_allocates(recomputed, packed, sized, tmp_path, monkeypatch):
    """On one process, frozen eyes, an update in two parts: gradients, activations and logits together."""
    # As on a GPU, of which the plan speaks: layers are their families'.
    monkeypatch.setattr(quick_layers, "are_plain", lambda *_: False)
    from vagen_adapters.ppo.actor_critic import ActorCritic

    length, rows = 256, 2
    model = ActorCritic.from_pretrained(sized("4M")).train()
    model.freeze_vision()
    model.packs = packed
    if recomputed:
        model.activation_checkpointing_enable()
    ids = torch.full((rows, length), 30)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    mask[:, -64:] = True
    inputs = {"input_ids": ids, "attention_mask": ids // ids, "mm_token_type_ids": ids * 0}
    with LiveBytes(but=[*model.parameters(), *model.buffers()]) as live:
        for _ in range(2):
            found = model(inputs, ("logprobs", "entropies", "values"), temperature=1.0, mask=mask)
            (found["logprobs"].sum() + found["values"].sum()).backward()
    changes = {"max_length": length, "sequences_per_forward": rows, "max_tokens": 64, "freeze_vision": True}
    args = MultiTurnPPOConfig(str(tmp_path), **{**RUN, **changes, "gradient_checkpointing": recomputed})
    parts = Planner(config_of(sized("4M")), turns=1).make(args, Machines(1, 1, GIB), "ddp").parts
    planned = parts["gradients"] + parts["activations"] + parts["logits"]
    assert planned == pytest.approx(live.highest, rel=0.1)


def test_what_plays_beside_updates_is_another_policy_with_a_memory_of_its_own(sized, tmp_path):
    from vagen_adapters.ppo.actor_critic import ActorCritic
    from vagen_adapters.ppo.ahead import CopySampler

    copied = CopySampler(ActorCritic.from_pretrained(sized("1M"), critic="none").policy, lambda policy: policy).copy
    planner, one_gpu = Planner(config_of(sized("1M"))), Machines(1, 1, GIB)
    settings = {
        **RUN,
        "freeze_vision": True,
        "generation": "transformers",
        "rollouts": 2,
        "sampler_correction": "token",
    }
    alone = planner.make(MultiTurnPPOConfig(str(tmp_path), **settings), one_gpu, "ddp").parts
    beside = planner.make(MultiTurnPPOConfig(str(tmp_path), **settings, max_staleness=1), one_gpu, "ddp").parts
    assert beside["copy that plays"] == held(copied.parameters())
    assert beside["sight"] == 2 * alone["sight"] > 0


@pytest.mark.parametrize(("name", "billions"), list(zip(PUBLISHED, (3.75, 8.29, 31.07), strict=True)))
def test_models_by_name_have_their_published_sizes(name, billions):
    from transformers import AutoModelForImageTextToText

    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config_of(name))
    assert sum(each.numel() for each in model.parameters()) / 1e9 == pytest.approx(billions, abs=0.006)


def args_of(recipe, **changes):
    return load_recipe(recipe).config("vagen/Sokoban-v0", output_dir="nowhere", use_cpu=True, bf16=True, **changes)


@pytest.fixture(scope="module")
def three():
    return Planner(config_of("Qwen/Qwen2.5-VL-3B-Instruct"))


LORA = {"r": 32, "target_modules": "all-linear"}


def test_what_is_documented_fits(three):
    eight, one = Machines.parse("8x80GiB"), Machines.parse("80GiB")
    plan = three.best(args_of("vagen-base"), eight)
    assert plan.fits
    assert plan.peak < 60 * GIB
    each = three.make(args_of("vagen-base", gradient_sync="each"), eight, "zero2")
    until_the_last_part = plan.parts["gradients"] - each.parts["gradients"]  # of both, and a value head
    assert until_the_last_part == pytest.approx(2 * plan.parts["weights"], rel=1e-4)
    assert not three.make(args_of("vagen-base"), eight, "ddp").fits
    assert not three.best(args_of("vagen-base"), one).fits
    with_lora = three.best(args_of("vagen-base", lora=LORA), one)
    assert with_lora.fits
    assert with_lora.parts["reference"] == 0
    assert three.best(args_of("grpo-mask"), eight).parts["critic"] == 0


def test_a_change_that_is_named_fits(three):
    args, machines = args_of("vagen-base", sequences_per_forward=8), Machines.parse("8x80GiB")
    assert not three.best(args, machines).fits
    assert three.cheapest_change(args, machines) == "-s 'sequences_per_forward=1' under zero2"
    assert three.best(dataclasses.replace(args, sequences_per_forward=1, max_steps=-1), machines).fits
    assert three.cheapest_change(args, Machines.parse("4GiB")) is None


def test_vllm_that_could_not_start_does_not_fit(three):
    args = args_of("vagen-base", generation="vllm", vllm_options={"gpu_memory_utilization": 0.05})
    plan = three.best(args, Machines.parse("8x80GiB"))
    assert not plan.fits
    assert "too small a share" in "\n".join(plan.lines())


def test_an_engine_that_sleeps_in_updates_leaves_them_its_memory(three):
    machines = Machines.parse("8x80GiB")
    options = {"gpu_memory_utilization": 0.7}
    awake = args_of(
        "vagen-base", generation="vllm", vllm_options=options, sequences_per_forward=1, gradient_sync="each"
    )
    asleep = dataclasses.replace(awake, vllm_options={**awake.vllm_options, "enable_sleep_mode": True}, max_steps=-1)
    before, after = three.make(awake, machines, "fsdp"), three.make(asleep, machines, "fsdp")
    passing = sum(after.parts[name] for name in ("gradients", "gathered", "activations", "logits"))
    assert before.peak - after.peak == min(passing, 56 * 2**30)
    assert "vllm (sleeps)" in "\n".join(after.lines())
    assert not before.fits
    assert "enable_sleep_mode" in str(three.cheapest_change(awake, machines))


@pytest.mark.parametrize("text", ["8", "8x", "0x80GiB", "8x80", "eightx80GiB", "8x0GiB", "1x2x3x4GiB"])
def test_gpus_that_cannot_be_read_are_refused(text):
    with pytest.raises(TrainingConfigError, match="8x80GiB"):
        Machines.parse(text)


def plan_of(*words):
    from vagen_benchmarks.cli import app

    return CliRunner().invoke(
        app, ["train", "--recipe", "tiny-vagen-base", "--env", "frozenlake", "--out", "x", *words]
    )


def test_the_command_plans_from_a_folder_with_a_configuration_alone(sized, tmp_path):
    (tmp_path / "config.json").write_bytes((Path(sized("1M")) / "config.json").read_bytes())
    done = plan_of("--model", str(tmp_path), "--plan", "--gpus", "2x8x80GiB")
    assert done.exit_code == 0
    assert "optimiser" in done.output
    assert ": fits" in done.output
    assert not Path("x").exists()
    small = ["--model", str(tmp_path), "--plan", "--gpus", "1GiB", "--launch", "ddp", "-s", "max_length=8192",
             "-s", "gradient_checkpointing=false"]  # fmt: skip
    few = plan_of(*small, "-s", "num_envs=4").exception
    assert isinstance(few, TrainingConfigError)
    assert "the cheapest change that fits: -s 'sequences_per_forward=1'" in str(few)
    many = plan_of(*small, "-s", "num_envs=96").exception  # whose conversations' keys and values are kept
    both = "-s 'sequences_per_forward=1' -s 'sight_memory=0.1'"
    assert f"the cheapest change that fits: {both} -s 'gradient_checkpointing=true' -s 'num_envs=12'" in str(many)


@pytest.mark.parametrize(
    ("words", "reason"),
    [(["--plan", "--model", "Qwen/Qwen2.5-VL-3B-Instrukt", "--gpus", "8x80GiB"], "Did you mean"),
     (["--model", "nosuch", "--gpus", "8x80GiB"], "belong to --plan"),
     (["--plan", "--model", "nosuch", "--gpus", "8x80GiB", "--launch", "dpp"], "one of ddp"),
     pytest.param(["--plan", "--model", "nosuch"], "there is no GPU here",
                  marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"))],
)  # fmt: skip
def test_a_plan_that_cannot_be_made_says_why(words, reason):
    assert reason in str(plan_of(*words).exception)


def test_a_machine_reads_weights_once(sized, tmp_path):
    """But for DDP, whose GPUs take them one tensor at a time, and DeepSpeed in float32."""
    planner = Planner(config_of(sized("60M")))
    mixed, whole = (
        MultiTurnPPOConfig(str(tmp_path), **{**RUN, "bf16": bf16, "use_cpu": True}) for bf16 in (True, False)
    )
    machines = Machines(1, 8, 80 * GIB)
    read = {kind: planner.make(mixed, machines, kind).host for kind in ("ddp", "fsdp", "zero2", "zero3")}
    assert read["zero2"] == read["zero3"] == read["fsdp"]
    assert read["ddp"] < read["fsdp"] * 8
    assert planner.make(whole, machines, "zero3").host == 8 * planner.make(whole, machines, "fsdp").host
