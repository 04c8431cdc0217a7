"""Layers that are computed in another way give what they gave: values, gradients, weights, names."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
import families  # noqa: E402

from vagen_adapters.ppo import quick_layers  # noqa: E402
from vagen_adapters.ppo.quick_layers import MANY, ROWS, onednn_pays, quicken  # noqa: E402


class RMSNorm(torch.nn.Module):
    """As families write it; `added` as Gemma's, which scales by 1 + w."""

    def __init__(self, width, added=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.variance_epsilon = 1e-6
        self.added = added

    def forward(self, states):
        return (self.weight + self.added) * states * (states.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def with_gradients(layer, states):
    states = states.clone().requires_grad_()
    found = layer(states)
    slope = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).reshape(found.shape)
    gradients = torch.autograd.grad(found, [states, *layer.parameters()], slope)
    return [found.detach(), *gradients]


def test_a_norm_and_its_gradients_are_those_of_its_own_class():
    states = torch.randn(4, 7, 3, 24, generator=torch.Generator().manual_seed(0))
    expected = with_gradients(RMSNorm(24).double(), states.double())
    norm = RMSNorm(24)
    names = list(norm.state_dict())
    quicken(norm)
    assert isinstance(norm, quick_layers._Norm)
    assert isinstance(norm, RMSNorm)
    assert list(norm.state_dict()) == names
    for found, exact in zip(with_gradients(norm, states), expected, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(norm(states).double(), expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(copy.deepcopy(norm)(states), norm(states))


def test_a_norm_that_scales_in_another_way_stays_what_it_is():
    norm = RMSNorm(24, added=1.0)
    quicken(norm)
    assert type(norm) is RMSNorm


def test_norms_in_another_type_are_their_own_classs():
    norm = RMSNorm(24)
    quicken(norm)
    norm.bfloat16()
    states = torch.randn(3, 24).bfloat16()
    assert torch.equal(norm(states), RMSNorm(24).bfloat16()(states))


@pytest.mark.parametrize("rows", [ROWS, 5 * ROWS, 5 * ROWS + 1, 1, MANY + 1])
@pytest.mark.parametrize("bias", [True, False])
def test_products_and_their_gradients_are_exact(rows, bias, monkeypatch):
    """By oneDNN where it is used, and elsewhere the same gradients by torch's products."""
    if not onednn_pays():
        monkeypatch.setattr(quick_layers, "onednn", torch.nn.functional.linear)
        monkeypatch.setattr(quick_layers, "onednn_pays", lambda: True)
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(48, 40, bias=bias)
    states = torch.randn(rows, 48, generator=generator)
    expected = with_gradients(copy.deepcopy(layer).double(), states.double())
    quicken(layer)
    for found, exact in zip(with_gradients(layer, states), expected, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)


def test_only_what_is_asked_for_has_a_gradient():
    layer = torch.nn.Linear(8, 8)
    quicken(layer)
    layer.weight.requires_grad_(False)
    states = torch.randn(ROWS, 8)
    layer(states).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(layer.bias.grad, torch.full((8,), float(ROWS)))


def test_whether_onednn_pays_depends_on_nothing_around_it():
    expected = onednn_pays()
    for around in (torch.device("meta"), torch.autocast("cpu", torch.bfloat16), torch.inference_mode()):
        onednn_pays.cache_clear()
        with around:
            assert onednn_pays() == expected


def test_threads_that_compute_at_once_compute_what_each_would_alone():
    """The settings by which torch takes oneDNN are a process's, and nothing here rests on them."""
    layer = torch.nn.Linear(64, 48)
    quicken(layer)
    many = [
        torch.randn(ROWS * (1 + number), 64, generator=torch.Generator().manual_seed(number)) for number in range(8)
    ]
    alone = [with_gradients(layer, states) for states in many]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            beside = list(pool.map(lambda states: with_gradients(layer, states), many))
            assert all(torch.equal(*pair) for one, other in zip(alone, beside, strict=True)
                       for pair in zip(one, other, strict=True))  # fmt: skip
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_models_are_pickled_and_copied_as_they_are(tmp_path):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(families.save("qwen3_vl", tmp_path)).eval()
    quicken(model)
    again, copied = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
    ids = torch.arange(5, 5 + ROWS)[None]
    for other in (again, copied):
        assert [type(each) for each in other.modules()] == [type(each) for each in model.modules()]
        assert torch.equal(other(input_ids=ids).logits, model(input_ids=ids).logits)


@pytest.mark.parametrize("name", ["qwen3_vl", "gemma3", "glm4v"])
def test_a_model_says_the_same(name, tmp_path):
    from transformers import AutoModelForImageTextToText

    folder = families.save(name, tmp_path)
    own = AutoModelForImageTextToText.from_pretrained(folder).eval()
    quick = copy.deepcopy(own)
    quicken(quick)
    ids = torch.arange(5, 5 + 2 * ROWS).reshape(2, ROWS) % own.config.get_text_config().vocab_size
    for model in (own, quick):
        model(input_ids=ids, labels=ids).loss.backward()
    for (key, one), (_, other) in zip(own.named_parameters(), quick.named_parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5, msg=key)
