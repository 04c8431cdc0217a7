"""The FLOPs that an MFU rests on, against torch's own counter; and the measurement itself, on the tiny model."""

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from vagen_adapters.ppo import tiny  # noqa: E402
from vagen_adapters.ppo.actor_critic import ActorCritic  # noqa: E402
from vagen_benchmarks.perf import train_speed  # noqa: E402

# The operator that quick layers call on some CPUs; torch's counter knows nothing of it, and hands over shapes.
QUICK = {torch.ops.mkldnn._linear_pointwise: lambda states, weight, *_, **__: 2 * math.prod(states) * weight[0]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tiny.save_tiny(folder, ["a few words to learn"] * 3, vocabulary=300)
    model = ActorCritic.from_pretrained(str(folder), attn_implementation="eager")
    model.add_reference()
    return model, tiny.load(folder)[1]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("want", [("logprobs",), ("values",), ("logprobs", "values", "reference_logprobs")])
def test_flops_are_those_that_torch_counts(want, backward, model):
    """To a tenth: the counter has attention of all tokens to all, and small products of rotary embeddings beside."""
    import numpy as np

    from vagen_adapters.ppo.generation import Prompt, model_inputs

    actor_critic, codec = model
    picture = np.zeros((128, 128, 3), dtype=np.uint8)
    shown = codec.show("", {"text": "<image>" + "words " * 40, "image": picture})
    inputs = model_inputs([Prompt(shown.first_ids, (shown,))] * 2, codec, "cpu")
    with FlopCounterMode(display=False, custom_mapping=QUICK) as counter, torch.set_grad_enabled(backward):
        found = actor_critic(inputs, want, temperature=1.0)
        if backward:
            sum(found[name].sum() for name in want if name != "reference_logprobs").backward()
    every = torch.ones_like(inputs["input_ids"], dtype=torch.bool)
    ours = train_speed.flops(actor_critic, inputs, frozenset(want), every, backward=backward)
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.1)


def test_padding_is_no_work(model):
    actor_critic, _ = model
    ids = torch.ones(2, 64, dtype=torch.int64)
    mask = ids.clone()
    short = {"input_ids": ids, "attention_mask": mask}
    mask = torch.nn.functional.pad(mask, (0, 64))
    padded = {"input_ids": torch.nn.functional.pad(ids, (0, 64)), "attention_mask": mask}
    want = frozenset(["logprobs"])
    said = [ids == 1, torch.nn.functional.pad(ids == 1, (0, 64))]
    assert train_speed.flops(actor_critic, short, want, said[0], backward=True) == train_speed.flops(
        actor_critic, padded, want, said[1], backward=True
    )


def test_the_larger_models_have_the_sizes_that_they_are_named_after():
    from transformers import Qwen2_5_VLForConditionalGeneration

    sizes = {}
    for size in ("0.5b", "3b"):
        with torch.device("meta"):
            made = Qwen2_5_VLForConditionalGeneration(train_speed.random_config(size))
        sizes[size] = sum(each.numel() for each in made.parameters())
    assert sizes["3b"] == 3_754_622_976  # what Qwen2.5-VL-3B-Instruct's model card counts as 4B, its 3B and its vision
    assert 0.5e9 < sizes["0.5b"] < 0.6e9


def test_training_is_measured(capsys):
    settings = ["--set", "max_tokens=4", "--set", "minibatches=1", "--set", 'env_options={"max_turns": 1}']
    train_speed.main(["--rollouts", "2", "--episodes", "2", "--peak-tflops", "0.1", *settings])
    shown = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line[31:])
    lines = {name.strip(): entry for name, entry in shown.items()}
    for name in ("tokens/s, whole", "tokens/s, sampled", "peak memory, GiB", "MFU, %"):
        assert float(lines[name].replace(",", "")) > 0
    ratio = float(lines["MFU, %"]) / float(lines["TFLOPS, scoring and updates"])
    assert ratio == pytest.approx(100 / 0.1, rel=0.01)
