"""Keys and values in buffers with room, against transformers' own cache."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("trl")

from vagen_adapters.ppo.kv_cache import RoomyLayer, joined  # noqa: E402


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_a_layer_holds_what_transformers_cache_holds_and_copies_nothing():
    ours, theirs = RoomyLayer(9), transformers.DynamicCache()
    places = set()
    for new in (4, 1, 3, 1):
        keys, values = random(2, 3, new, 5), random(2, 3, new, 6)
        found, expected = ours.update(keys, values), theirs.update(keys, values, 0)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        assert ours.get_seq_length() == theirs.get_seq_length(0)
        assert ours.get_mask_sizes(2) == theirs.layers[0].get_mask_sizes(2)
        places.add(found[0].data_ptr())
    assert len(places) == 1


def test_conversations_of_different_lengths_end_together():
    rows = [[(random(length, 3, 5), random(length, 3, 6))] for length in (2, 4)]
    (layer,) = joined([rows[0], [], rows[1]], [2, 0, 4], 7).layers
    assert layer.keys.shape == (3, 3, 4, 5)
    assert torch.equal(layer.keys[0, :, 2:], rows[0][0][0].transpose(0, 1))
    assert torch.equal(layer.values[2], rows[1][0][1].transpose(0, 1))
    assert not layer.keys[0, :, :2].any()
    assert not layer.keys[1].any()
    keys, _ = layer.update(random(3, 3, 3, 5), random(3, 3, 3, 6))
    assert keys.shape[2] == 7
    assert torch.equal(keys[2, :, :4], rows[1][0][0].transpose(0, 1))


def test_nothing_read_is_an_empty_cache():
    cache = joined([[], []], [0, 0], 5)
    assert cache.get_seq_length() == 0
    keys, _ = cache.update(random(2, 3, 4, 5), random(2, 3, 4, 6), 0)
    assert keys.shape == (2, 3, 4, 5)
