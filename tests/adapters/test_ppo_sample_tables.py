"""Trackers get turns with their pictures after each evaluation, and their own libraries read them back."""

import importlib.util
import io
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
from PIL import Image  # noqa: E402
from ppo_training import train_there  # noqa: E402
from process_groups import started  # noqa: E402

RUN = {"rollouts": 1, "episodes_per_rollout": 4, "minibatches": 1, "eval_rollouts": 1, "eval_episodes": 2,
       "says": True, "run_name": "a run"}  # fmt: skip


def tracked(kind, model, folder):
    """Train for a rollout and its evaluation, in a process of its own: trackers leave threads and settings behind."""
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"{kind} isn't installed")
    variables = {"TRACKIO_DIR": str(folder), "WANDB_MODE": "offline", "WANDB_DIR": str(folder),
                 "WANDB_DATA_DIR": str(folder / "data"), "WANDB_CACHE_DIR": str(folder / "cache"),
                 "TENSORBOARD_LOGGING_DIR": str(folder / "events")}  # fmt: skip
    jobs = [(str(folder / "out"), {**RUN, "report_to": kind})]
    process = started(train_there, str(folder), model, jobs, **variables)
    process.join()
    assert process.exitcode == 0, process.said.recv() if process.said.poll() else process.exitcode


def is_a_lake(picture):
    """Some tiles, in more than one colour."""
    pixels = np.asarray(picture)
    assert pixels.ndim == 3
    assert min(pixels.shape[:2]) >= 32
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 2


def test_tensorboard_shows_a_strip_of_pictures_and_the_turns(tiny_folder, tmp_path):
    tracked("tensorboard", tiny_folder, tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = {file.parent for file in tmp_path.rglob("events.out.*")}
    found = EventAccumulator(str(events)).Reload()
    assert found.Scalars("eval/success")[0].step == 1
    names = [f"eval/samples/level {seed}" for seed in range(2)]
    assert found.Tags()["images"] == names
    for name in names:
        with Image.open(io.BytesIO(found.Images(name)[0].encoded_image_string)) as picture:
            is_a_lake(picture)
            assert picture.width > 1.9 * picture.height  # two turns
        table = found.Tensors(f"{name}/text_summary")[0].tensor_proto.string_val[0].decode()
        assert table.startswith("| turn | reply | reward | outcome |")
        assert table.count("\n| ") == 2
        assert table.rstrip().endswith("| cut |")


def test_wandb_gets_a_table_with_pictures_offline(tiny_folder, tmp_path):
    tracked("wandb", tiny_folder, tmp_path)
    (file,) = tmp_path.rglob("samples_*.table.json")
    table = json.loads(file.read_text())
    assert table["columns"] == ["level", "turn", "picture", "reply", "reward", "outcome"]
    assert [row[:2] for row in table["data"]] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert all(row[3] and row[5] == "cut" for row in table["data"])
    strips = [file for file in tmp_path.rglob("pictures_*.png") if "media" in file.parts]
    staged = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert len(strips) == 2
    for file in [*strips, *(each for each in staged if each.read_bytes().startswith(b"\x89PNG"))]:
        with Image.open(file) as picture:
            is_a_lake(picture)
    assert sum(each.read_bytes().startswith(b"\x89PNG") for each in staged) >= 4


def test_trackio_gets_a_table_with_pictures(tiny_folder, tmp_path):
    tracked("trackio", tiny_folder, tmp_path)
    stored = [file for file in tmp_path.rglob("*") if file.suffix == ".png"]
    assert len(stored) == 4
    for file in stored:
        with Image.open(file) as picture:
            is_a_lake(picture)
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"eval/samples" in held
    assert b"trackio.table" in held


def test_what_a_model_wrote_stays_in_its_cell():
    from vagen_adapters.ppo.sample_tables import _cell

    assert _cell("a|b\n<b>`") == "a&#124;b &lt;b&gt;&#96;"
