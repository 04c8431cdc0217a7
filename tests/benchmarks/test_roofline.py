"""The roofline: its FLOPs and bytes against torch's own, and what must hold of times on GPUs that aren't here."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from vagen_adapters.ppo.config import MultiTurnPPOConfig  # noqa: E402
from vagen_adapters.ppo.planning import Machines  # noqa: E402
from vagen_adapters.ppo.published import config_of  # noqa: E402
from vagen_benchmarks.perf import roofline  # noqa: E402
from vagen_benchmarks.perf.roofline import DEVICES, Shape, Work, phases, small_config  # noqa: E402


@pytest.fixture(scope="module")
def small():
    from transformers import AutoModelForImageTextToText

    config = small_config(128, 3, 1024)
    return Shape.of(config), AutoModelForImageTextToText.from_config(config, attn_implementation="eager").float()


@pytest.mark.parametrize("rows", [1, 4])
def test_flops_and_bytes_of_a_pass_and_of_a_token_are_torchs(rows, small):
    shape, model = small
    ids = torch.full((rows, 96), 40)
    with FlopCounterMode(display=False) as whole, torch.no_grad():
        kept = model(ids, use_cache=True).past_key_values
    assert shape.pass_flops(rows, 96, rows * 96, 0) == pytest.approx(whole.get_total_flops(), rel=0.02)
    with FlopCounterMode(display=False) as one, torch.no_grad():
        model(ids[:, :1], past_key_values=kept, use_cache=True)
    flops, read = shape.step(rows, 97)
    assert flops == pytest.approx(one.get_total_flops(), rel=0.02)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in kept.layers) / 2  # of float32
    language = [each for name, each in model.named_parameters() if "visual" not in name and each.dim() > 1]
    assert read == pytest.approx(held + 2 * sum(each.numel() for each in language), rel=0.01)


def test_of_experts_a_token_takes_its_share_and_a_large_batch_reads_all():
    shape = Shape.of(config_of("Qwen/Qwen3-VL-30B-A3B-Instruct"))
    assert shape.weights / 1e9 == pytest.approx(31.07 - 0.31, abs=0.02)  # the embedding is looked up
    alone, many = shape.step(1, 0), shape.step(256, 0)
    assert alone[0] / 2e9 == pytest.approx(3.04, abs=0.02)  # of the three billion of its name
    assert alone[1] == pytest.approx(alone[0], rel=1e-6)
    assert many[1] == pytest.approx(2 * (shape.weights - shape.tower - shape.merger), rel=1e-3)


def settings(tmp_path, **changes):
    return MultiTurnPPOConfig(str(tmp_path), use_cpu=True, bf16=True, gradient_checkpointing=True, **changes)


def test_times_of_phases_follow_from_the_three_roofs(tmp_path):
    shape, device = Shape.of(config_of("Qwen/Qwen2.5-VL-3B-Instruct")), DEVICES["h100"]
    one, eight, sixteen = (Machines.parse(each) for each in ("80GiB", "8x80GiB", "2x8x80GiB"))

    def of(machines, backend="fsdp", **changes):
        return phases(shape, settings(tmp_path, **changes), machines, backend, device, Work())

    alone = of(one)
    assert alone["scoring"].bound == "compute"
    assert alone["scoring"].useful == pytest.approx(3 * shape.pass_flops(128, 2048, 128 * 800, 128 * 4 * 484))
    assert alone["updates"].useful == pytest.approx(2 * alone["scoring"].useful)  # two models, three times each
    assert alone["updates"].compute / alone["updates"].useful * device.flops == pytest.approx(4 / 3)  # computed anew
    assert alone["updates"].between == of(eight)["updates"].between == 0 < of(sixteen)["updates"].between
    few, many = (of(sixteen, sequences_per_forward=size)["scoring"].sent for size in (8, 1))
    assert many == pytest.approx(8 * few)
    each, last = (of(eight, sequences_per_forward=1, gradient_sync=when)["updates"].sent for when in ("each", "last"))
    assert each > last > 0
    assert of(one, lora={"r": 8})["updates"].useful == pytest.approx(2 / 3 * alone["updates"].useful)
    wide, narrow = (of(one, num_envs=many)["generation"] for many in (128, 8))
    assert narrow.bound == "memory"
    assert narrow.seconds > 2 * wide.seconds


def test_the_command_says_memory_and_time(capsys):
    roofline.main(["--gpus", "80GiB", "--device", "a100", "-s", 'lora={"r": 8, "target_modules": "all-linear"}'])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("1x80GiB with one GPU")
    assert said[0].endswith("fits")
    assert [line.split()[0] for line in said[1:]] == ["generation", "scoring", "updates", "together"]
