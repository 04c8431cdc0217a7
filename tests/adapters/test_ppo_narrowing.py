"""Last layers are computed where they are read: scores, values and gradients stay the same."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
import families  # noqa: E402

from vagen_adapters.ppo import family_checks  # noqa: E402
from vagen_adapters.ppo.actor_critic import ActorCritic  # noqa: E402
from vagen_adapters.ppo.anatomy import decoder_of  # noqa: E402
from vagen_adapters.ppo.codec import Codec  # noqa: E402
from vagen_adapters.ppo.generation import model_inputs  # noqa: E402
from vagen_adapters.ppo.quick_layers import ROWS  # noqa: E402

WANT = ["logprobs", "entropies", "reference_logprobs", "values"]


def batch(folder, **options):
    """A model with its reference, a batch padded on the right, and the tokens that count: few of them."""
    codec = Codec.from_pretrained(folder)
    model = ActorCritic.from_pretrained(folder, **options).eval()
    torch.nn.init.normal_(model.value_head.weight)
    model.add_reference()
    prompts = [each for number in range(2) for each in family_checks._prompts(codec)[number:]]
    inputs = model_inputs(prompts, codec, "cpu")
    mask = inputs["attention_mask"].bool() & (inputs["input_ids"] != codec.image_token_id)
    mask = mask & (torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.2)
    mask[:, 0] = False
    return model, codec, inputs, mask


def scores_and_gradients(model, codec, inputs, mask):
    """What is asked for where it counts: values before and after each token and after the last, and all gradients."""
    model.zero_grad()
    found = model(inputs, WANT, temperature=0.7, forbidden_ids=codec.forbidden_ids, mask=mask)
    ends = torch.nn.functional.one_hot(inputs["attention_mask"].sum(1), mask.shape[1] + 1).bool()
    at = torch.nn.functional.pad(mask, (0, 1)) | torch.nn.functional.pad(mask, (1, 0)) | ends
    (found["logprobs"].sum() + 0.1 * found["entropies"].sum() + found["values"][at].square().sum()).backward()
    gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return {**{name: found[name][mask] for name in WANT[:-1]}, "values": found["values"][at]}, gradients


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("name", ["qwen3_vl", "qwen2_5_vl", "gemma3", "glm4v", "llava_onevision"])
def test_scores_values_and_gradients_of_a_family_stay_the_same(name, critic, packs, tmp_path):
    model, codec, inputs, mask = batch(families.save(name, tmp_path), critic=critic)
    assert family_checks.can_narrow(model, codec)
    assert not model.narrows
    model.packs = packs
    whole, slopes = scores_and_gradients(model, codec, inputs, mask)
    model.narrows = True
    found, narrow = scores_and_gradients(model, codec, inputs, mask)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)
    assert narrow.keys() == slopes.keys()
    largest = max(float(each.abs().max()) for each in slopes.values())
    for key, slope in slopes.items():
        torch.testing.assert_close(narrow[key], slope, rtol=1e-4, atol=1e-5 * max(largest, 1.0), msg=key)


def test_the_last_layer_is_given_what_is_read_and_the_others_all(tiny_folder):
    model, _, inputs, mask = batch(tiny_folder)
    seen = {number: [] for number in range(len(decoder_of(model.policy).layers))}
    for number, layer in enumerate(decoder_of(model.policy).layers):
        layer.mlp.gate_proj.register_forward_pre_hook(
            lambda _, given, number=number: seen[number].append(given[0].shape[:-1].numel())
        )
    model.narrows = True
    model(inputs, ["logprobs"], temperature=1.0, mask=mask)
    *others, last = seen.values()
    assert int(mask.sum()) <= last[0] < min(int(mask.sum()) + ROWS, mask.numel())
    assert all(each == [mask.numel()] for each in others)
    model(inputs, ["logprobs"], temperature=1.0)  # of all tokens
    assert seen[len(others)][1:] == [mask.numel()]


def test_a_layer_that_is_computed_again_for_its_gradients_is_left_whole(tiny_folder):
    model, codec, inputs, mask = batch(tiny_folder)
    expected, slopes = scores_and_gradients(model.train(), codec, inputs, mask)
    model.narrows = True
    model.activation_checkpointing_enable()
    found, again = scores_and_gradients(model, codec, inputs, mask)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(again, slopes)


def test_a_layer_whose_tokens_need_each_other_is_found_out(tiny_folder, monkeypatch):
    model, codec, *_ = batch(tiny_folder)
    mlp = type(decoder_of(model.policy).layers[-1].mlp)
    forward = mlp.forward
    monkeypatch.setattr(mlp, "forward", lambda self, states: forward(self, states.roll(1, -2)))
    assert not family_checks.can_narrow(model, codec)
    assert not model.narrows


def test_nothing_is_left_behind_when_a_pass_fails(tiny_folder, monkeypatch):
    model, _, inputs, mask = batch(tiny_folder)
    model.narrows = True
    decoder = decoder_of(model.policy)
    monkeypatch.setattr(decoder.norm, "forward", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(inputs, ["logprobs"], temperature=1.0, mask=mask)
    assert not any("forward" in vars(each) for each in decoder.layers.modules())
