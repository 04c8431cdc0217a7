"""A vision tower that is taught what is true of the things in a picture."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.errors import TrainingConfigError  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_envs.things import Thing  # noqa: E402
from vagen_experiments.vision_pretraining import teach_sight  # noqa: E402

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}


def seen(encoder, count, size=64):
    """Pictures of one square each, with its place and a number that never changes."""
    generator = np.random.default_rng(0)
    pictures = []
    for _ in range(count):
        x, y = generator.integers(0, size - 8, 2)
        picture = np.full((size, size, 3), 120, np.uint8)
        picture[y : y + 8, x : x + 8] = COLOURS["red"]
        things = (Thing("square", None, {"x": float(x), "y": float(y), "always": 7.0}),)
        pictures.append((encoder.show("", {"text": "<image>", "image": picture}), things))
    return pictures


def boards(encoder, count, seed=0):
    """Boards of 2 x 2 tiles of three colours: one is red, one to three are green, of which each tells the way to red.

    Gives the pictures with their things, and (count, 4) the colour of each tile.
    """
    generator = np.random.default_rng(seed)
    names = list(COLOURS)
    found, tiles = [], []
    for _ in range(count):
        order = generator.permutation([0, 1, *generator.integers(1, 3, 2)])
        red, greens = int((order == 0).argmax()), np.flatnonzero(order == 1)
        picture = np.zeros((64, 64, 3), np.uint8)
        for cell, colour in enumerate(order):
            row, column = 32 * (cell // 2), 32 * (cell % 2)
            picture[row : row + 32, column : column + 32] = COLOURS[names[colour]]
        things = [_tile("red", red, {"greens": float(len(greens))})]
        for at in greens:
            ways = {"rows to red": float(red // 2 - at // 2), "columns to red": float(red % 2 - at % 2)}
            things.append(_tile("green", at, ways))
        found.append((encoder.show("", {"text": "<image>", "image": picture}), tuple(things)))
        tiles.append(order)
    return found, torch.tensor(np.stack(tiles))


def _tile(name, at, relations):
    return Thing(name, (at % 2 / 2 + 0.25, at // 2 / 2 + 0.25), relations)


def tokens_of(model, pictures):
    with torch.no_grad():
        features = model.get_image_features(
            pixel_values=torch.cat([shown.pixel_values for shown, _ in pictures]),
            image_grid_thw=torch.cat([shown.grids for shown, _ in pictures]),
        )
    return torch.stack(list(features.pooler_output))


def linear_probe(tokens, classes):
    """How many of the second half's classes a linear read-out tells that was fitted to the first half."""
    centred = (tokens - tokens.mean(0)).flatten(0, 1)
    inputs = torch.cat([centred, torch.ones(len(centred), 1)], 1)
    wanted = torch.nn.functional.one_hot(classes.flatten()).float()
    half = len(inputs) // 2
    weights = torch.linalg.lstsq(inputs[:half].T @ inputs[:half] + 1e-4 * torch.eye(inputs.shape[1]),
                                 inputs[:half].T @ wanted[:half]).solution  # fmt: skip
    return float(((inputs[half:] @ weights).argmax(1) == classes.flatten()[half:]).float().mean())


def test_the_tower_learns_places_and_nothing_else_is_touched(tiny_folder):
    model, encoder = load_policy(tiny_folder)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses = []
    pictures = seen(encoder, 200)
    reader = teach_sight(
        model, pictures, 100, batch_size=32, learning_rate=3e-3, report=lambda _, loss: losses.append(loss)
    )
    assert np.mean(losses[:10]) > 0.8  # 1 is to know nothing
    assert np.mean(losses[-10:]) < 0.2
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("visual." in name for name in changed)
    told = reader.measure(model, pictures[:50])
    assert told.keys() == {"square: x", "square: y"}  # what never changes can't be seen
    assert told["square: x"].explained > 0.7
    assert told["square: x"].off < 8  # in pixels, of 56 in which it stands anywhere
    assert told["square: x"].count == 50


def test_the_token_of_a_thing_tells_its_relations_and_the_others_keep_what_they_told(tiny_folder):
    model, encoder = load_policy(tiny_folder)
    untaught = copy.deepcopy(model)
    pictures, _ = boards(encoder, 300)
    others, tiles = boards(encoder, 300, seed=1)
    reader = teach_sight(model, pictures, 120, batch_size=32, learning_rate=3e-3)
    told = reader.measure(model, others)
    assert told.keys() == {"red: greens", "green: rows to red", "green: columns to red"}
    assert min(each.explained for each in told.values()) > 0.6
    assert told["green: rows to red"].count > 300  # one or several in a picture
    assert max(each.explained for each in reader.measure(untaught, others).values()) < 0.2
    assert linear_probe(tokens_of(untaught, others), tiles) > 0.98
    assert linear_probe(tokens_of(model, others), tiles) > 0.98


def test_it_is_taught_alike_by_the_same_seed_and_leaves_the_global_one_alone(tiny_folder):
    towers = []
    for seed in (1, 1, 2):
        model, encoder = load_policy(tiny_folder)
        state = torch.random.get_rng_state()
        teach_sight(model, seen(encoder, 20), 3, batch_size=4, seed=seed)
        assert torch.equal(state, torch.random.get_rng_state())
        towers.append(torch.cat([each.flatten() for each in model.model.visual.parameters()]))
    assert torch.equal(towers[0], towers[1])
    assert not torch.equal(towers[0], towers[2])


def test_what_does_not_go_together_is_refused(tiny_folder):
    model, encoder = load_policy(tiny_folder)
    small, large = seen(encoder, 4), seen(encoder, 4, size=96)
    with pytest.raises(TrainingConfigError, match="one size"):
        teach_sight(model, [*small, *large], 1)
    with pytest.raises(TrainingConfigError, match="at least two pictures"):
        teach_sight(model, small[:1], 1)  # there is no spread to divide by, and the tower became NaN
    with pytest.raises(TrainingConfigError, match="one picture each"):
        teach_sight(model, [(encoder.show("", {"text": "words"}), things) for _, things in small], 1)
    with pytest.raises(TrainingConfigError, match="nothing to see"):
        teach_sight(model, [(shown, ()) for shown, _ in small], 1)
    with pytest.raises(TrainingConfigError, match="nothing to see"):
        teach_sight(model, [(shown, (Thing("square", None, {"x": 1.0}),)) for shown, _ in small], 1)
