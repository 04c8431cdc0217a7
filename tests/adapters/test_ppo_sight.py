"""A vision tower that is taught to tell where things are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.errors import TrainingConfigError  # noqa: E402
from vagen_adapters.ppo import tiny  # noqa: E402
from vagen_adapters.ppo.sight import numbers_of, teach_sight  # noqa: E402
from vagen_envs.primitive_skill.state import PrimitiveSkillState  # noqa: E402


def seen(codec, count, size=64):
    """Pictures of one square each, with its place and a number that never changes."""
    generator = np.random.default_rng(0)
    pictures = []
    for _ in range(count):
        x, y = generator.integers(0, size - 8, 2)
        picture = np.full((size, size, 3), 120, np.uint8)
        picture[y : y + 8, x : x + 8] = (220, 30, 30)
        pictures.append((codec.show("", {"text": "<image>", "image": picture}), (float(x), float(y), 7.0)))
    return pictures


def test_the_tower_learns_places_and_nothing_else_is_touched(tiny_folder):
    model, codec = tiny.load(tiny_folder)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses = []
    teach_sight(model, seen(codec, 200), 150, batch_size=32, report=lambda _, loss: losses.append(loss))
    assert np.mean(losses[:10]) > 0.8  # 1 is to know nothing
    assert np.mean(losses[-10:]) < 0.2
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("visual." in name for name in changed)


def test_it_is_taught_alike_by_the_same_seed_and_leaves_the_global_one_alone(tiny_folder):
    towers = []
    for seed in (1, 1, 2):
        model, codec = tiny.load(tiny_folder)
        state = torch.random.get_rng_state()
        teach_sight(model, seen(codec, 20), 3, batch_size=4, seed=seed)
        assert torch.equal(state, torch.random.get_rng_state())
        towers.append(torch.cat([each.flatten() for each in model.model.visual.parameters()]))
    assert torch.equal(towers[0], towers[1])
    assert not torch.equal(towers[0], towers[2])


def test_what_does_not_go_together_is_refused(tiny_folder):
    model, codec = tiny.load(tiny_folder)
    small, large = seen(codec, 4), seen(codec, 4, size=96)
    with pytest.raises(TrainingConfigError, match="one size"):
        teach_sight(model, [*small, *large], 1)
    with pytest.raises(TrainingConfigError, match="as many numbers"):
        teach_sight(model, [*small, (small[0][0], (1.0,))], 1)
    with pytest.raises(TrainingConfigError, match="nothing to see"):
        teach_sight(model, [(shown, (1.0, 2.0)) for shown, _ in small], 1)


def test_the_numbers_of_a_state_are_its_places():
    state = PrimitiveSkillState("place", {"red_cube": (-6, 68, 20), "left_target": (80, -100, 0)}, "", None)
    assert numbers_of(state) == (-6, 68, 20, 80, -100, 0)
