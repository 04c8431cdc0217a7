"""Attention by rows gives what torch's own gives, and stands aside where it wouldn't."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
from transformers.masking_utils import sdpa_mask  # noqa: E402

from vagen_adapters.ppo import row_attention, tiny  # noqa: E402
from vagen_adapters.ppo.kv_cache import RoomyLayer, joined  # noqa: E402


def read(rows, heads, tokens, features, new=1):
    """Queries, and keys and values as a cache lays them out, of which the first row's first two don't count."""
    generator = torch.Generator().manual_seed(0)
    query, keys, values = (
        torch.randn(rows, heads, count, features, generator=generator) for count in (new, tokens, tokens)
    )
    layer = RoomyLayer(tokens + 5)
    keys, values = layer.update(keys, values)
    mask = torch.ones(rows, 1, new, tokens, dtype=torch.bool)
    mask[0, ..., :2] = False
    return query, keys, values, mask


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scaling", [None, 0.1])
@pytest.mark.parametrize(("heads", "features"), [(4, 32), (1, 16), (2, 128)])
def test_scores_and_mixtures_are_exact(heads, features, scaling, masked, monkeypatch):
    query, keys, values, mask = read(5, heads, 9, features)
    monkeypatch.setattr(row_attention, "FEWEST", 0)
    monkeypatch.setattr(row_attention, "sdpa_attention_forward", None)  # it isn't asked
    found, _ = row_attention.attend(None, query, keys, values, mask if masked else None, scaling=scaling)
    exact = torch.nn.functional.scaled_dot_product_attention(
        query.double(), keys.double(), values.double(), attn_mask=mask if masked else None, scale=scaling
    )
    torch.testing.assert_close(found.double(), exact.transpose(1, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ({"new": 3}, {}),  # a prompt
        ({"tokens": 8}, {}),  # little to read
        ({"heads": 16}, {}),  # too many zeros
        ({}, {"dropout": 0.5}),
        ({}, {"position_bias": torch.ones(5, 4, 1, 1100)}),
    ],
)
def test_elsewhere_transformers_own_is_asked(shape, how, monkeypatch):
    given = {"rows": 5, "heads": 4, "tokens": 1100, "features": 32, **shape}
    asked = []
    monkeypatch.setattr(row_attention, "sdpa_attention_forward", lambda *_, **how: asked.append(how))
    row_attention.attend(None, *read(**given), **how)
    assert asked == [how]


def test_a_model_says_the_same_and_attends_by_rows_only_while_it_is_told_to(tiny_folder, monkeypatch):
    model, _ = tiny.load(tiny_folder)
    monkeypatch.setattr(row_attention, "FEWEST", 0)
    products = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda one, other: products.append(one.shape) or bmm(one, other))
    ids, mask = torch.arange(5, 5 + 3 * 8).reshape(3, 8), torch.ones(3, 8, dtype=torch.int64)
    mask[1, :2] = 0

    @torch.no_grad()
    def next_logits():
        cache = joined([[]] * 3, [0] * 3, 9)
        model(input_ids=ids[:, :7], attention_mask=mask[:, :7], past_key_values=cache, use_cache=True)
        return model(input_ids=ids[:, 7:], attention_mask=mask, past_key_values=cache, use_cache=True).logits

    expected = next_logits()
    assert not products
    with row_attention.by_row(model):
        torch.testing.assert_close(next_logits(), expected, rtol=1e-4, atol=1e-5)
    assert len(products) == 2 * model.config.text_config.num_hidden_layers
    assert torch.equal(next_logits(), expected)


@pytest.mark.parametrize(("new", "seen"), [(1, 6), (3, 6), (1, 5), (1, None)])
def test_masks_are_transformers_own(new, seen):
    mask = None if seen is None else torch.ones(2, seen, dtype=torch.bool)
    if mask is not None:
        mask[0, :2] = False
    given = {"batch_size": 2, "q_length": new, "kv_length": 6, "q_offset": 6 - new, "attention_mask": mask}
    found, expected = row_attention.mask_of(**given), sdpa_mask(**given)
    assert (found is None) == (expected is None)
    assert found is None or torch.equal(found, expected)


def test_attention_that_was_chosen_is_left_alone(tiny_folder):
    model, _ = tiny.load(tiny_folder)
    model.set_attn_implementation("eager")
    with row_attention.by_row(model):
        assert model.config.text_config._attn_implementation == "eager"
