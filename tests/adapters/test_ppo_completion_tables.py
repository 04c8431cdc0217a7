"""A rollout's episodes in trackers, read back by each tracker's own means."""

import hashlib
import html
import io
import json

import numpy as np
import pytest
from PIL import Image
from ppo_training import config, lake, likes_short_words

from vagen_adapters.ppo.completion_tables import (
    COLUMNS,
    Completion,
    completions_of,
    log_completions,
)
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer


def play(tiny_folder, out, tracker, **changes):
    """The episodes that a training of one rollout was watched playing, by name."""
    watched = {}

    def watch(kind, number, episodes, turns_of):
        watched.update({name: (each, turns_of(each)) for name, each in episodes.items()})

    args = config(
        out, report_to=tracker, log_completions=4, environments=lake(max_turns=3), **changes
    )
    trainer = MultiTurnPPOTrainer(tiny_folder, args, score=likes_short_words, watch=watch)
    trainer.train()
    trainer.accelerator.end_training()
    assert list(watched) == ["best", "worst", "random"]
    return watched


def test_tensorboard_shows_pictures_and_a_table(tiny_folder, tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "log"))
    watched = play(tiny_folder, tmp_path / "out", "tensorboard")
    read = EventAccumulator(str(tmp_path / "log"), size_guidance={"images": 0, "tensors": 0})
    read.Reload()
    names = {name.split("/")[1] for name in read.Tags()["images"]}
    assert len(names) == 4
    assert {"best", "worst", "random"} < names
    episode, turns = watched["best"]
    for number, turn in enumerate(turns):
        (event,) = read.Images(f"completions/best/{number}")
        shown = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
        assert np.array_equal(shown, turn.observed.picture.pixels)
    (event,) = read.Tensors("completions/text_summary")
    table = event.tensor_proto.string_val[0].decode().splitlines()
    rows = [line for line in table if line.startswith("| 0 | best |")]
    assert len(rows) == len(turns)
    reward = sum(term.value for term in turns[0].rewards)
    assert f"| {reward:.3g} | {turns[0].metrics['advantage']:.3g} |" in rows[0]
    assert f"| {episode.level.seed} | 0 |" in rows[0]


def test_tensorboard_shows_text_as_it_is(tmp_path):
    """What replies write isn't taken for Markdown or HTML, by TensorBoard's own reader of both."""
    from tensorboard.plugin_util import markdown_to_safe_html
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    reply = r"<b>_up_ *down* | `left` [a](b) \boxed{\|}" + "\n__right__ &amp; ~~x~~"
    written = []
    writer = SummaryWriter(str(tmp_path))
    writer.add_text = lambda name, text, step: written.append(text)
    cells = dict.fromkeys(COLUMNS, "") | {"update": 0, "reply": reply, "advantage": 0.5}
    log_completions([TensorBoardCallback(writer)], [Completion(cells, None)])
    shown = markdown_to_safe_html(written[0])
    cell = shown.split("<td>")[1 + COLUMNS.index("reply") - 1].partition("</td>")[0]
    assert html.unescape(cell.replace("<br>", "\n")) == reply


def test_problems_are_named_by_their_codes(tiny_folder, tmp_path, monkeypatch):
    """Replies of an untrained model have several in a turn."""
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "log"))
    episode, turns = play(tiny_folder, tmp_path / "out", "tensorboard")["best"]
    row = completions_of(0, "best", episode, turns)[0]
    assert row.cells["problems"] == ", ".join(each.code for each in turns[0].parsed.problems)
    assert "no_answer" in row.cells["problems"]


def test_wandb_gets_a_table(tiny_folder, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="reads back what wandb stored")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    watched = play(tiny_folder, tmp_path / "out", "wandb")
    # What waits to be sent: the table, and the pictures that it names by their hashes.
    staged = [file.read_bytes() for file in tmp_path.glob("data/artifacts/staging/*")]
    (table,) = {each for each in staged if each.startswith(b'{"_type": "table"')}
    table = json.loads(table)
    assert tuple(table["columns"]) == COLUMNS
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table["data"]]
    _, turns = watched["worst"]
    mine = [row for row in rows if row["episode"] == "worst"]
    assert [row["reply"] for row in mine] == [turn.reply for turn in turns]
    pictures = {hashlib.sha256(each).hexdigest(): each for each in staged}
    picture = Image.open(io.BytesIO(pictures[mine[0]["picture"]["sha256"]])).convert("RGB")
    assert np.array_equal(np.asarray(picture), turns[0].observed.picture.pixels)


def test_trackio_gets_a_table(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason="reads back what trackio stored")
    watched = play(tiny_folder, tmp_path / "out", "trackio", run_name="mine", project="lake")
    logs = trackio.SQLiteStorage.get_logs("lake", "mine")
    (rows,) = [entry["completions"]["_value"] for entry in logs if "completions" in entry]
    _, turns = watched["best"]
    mine = [row for row in rows if row["episode"] == "best"]
    assert [row["reply"] for row in mine] == [turn.reply for turn in turns]
    (stored,) = tmp_path.rglob(mine[0]["picture"]["file_path"].rpartition("/")[2])
    shown = np.asarray(Image.open(stored).convert("RGB"))
    assert np.array_equal(shown, turns[0].observed.picture.pixels)
