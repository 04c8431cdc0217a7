"""SVG reconstruction's data sets: what they hold, their forms, and their splits."""

from __future__ import annotations

import gzip
import hashlib
import json
from xml.etree import ElementTree

import gymnasium as gym
import pytest

pytest.importorskip("cairosvg")
pytest.importorskip("skimage")

import vagen_envs
from vagen_envs.errors import ConfigError, LevelError
from vagen_envs.svg.dataset import content_of, load_dataset

TWO = (
    '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg"><circle cx="25" cy="25" r="15" fill="red"/>'
    '<g transform="translate(60 60)"><path d="M0 0h30v20h-30z" fill="#0000ff"/></g></svg>'
)
DRAWN = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon")


def make(**options):
    return gym.make("vagen/SVGReconstruction-v0", scorer="classical", **options).unwrapped


def test_the_built_in_icons_are_many_different_and_split():
    splits = load_dataset("builtin", 8000).splits
    assert sum(map(len, splits.values())) > 1000
    contents = [content_of(icon.svg) for icons in splits.values() for icon in icons]
    assert len(set(contents)) == len(contents)
    assert all(len(icons) > 80 for icons in splits.values())


ROWS = [{"Filename": f"{i}.svg", "Svg": TWO.replace("25", str(20 + i))} for i in range(60)]


def as_folder(path):
    for row in ROWS:
        (path / row["Filename"]).write_text(row["Svg"])


def as_parquet(path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (path / "data").mkdir()
    for part, rows in ((0, ROWS[:40]), (1, ROWS[30:])):
        pq.write_table(pa.Table.from_pylist(rows), path / "data" / f"icons-{part:05}-of-00002.parquet")


def as_arrow(path):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)


def as_jsonl(path):
    (path / "icons.jsonl").write_text("\n".join(map(json.dumps, ROWS)))


@pytest.mark.parametrize("write", [as_folder, as_parquet, as_arrow, as_jsonl])
def test_the_same_icons_give_the_same_levels_in_every_form(write, tmp_path):
    write(tmp_path)
    dataset = load_dataset(str(tmp_path), 8000)
    assert sum(map(len, dataset.splits.values())) == 60
    jsonl = tmp_path / "elsewhere"
    jsonl.mkdir()
    as_jsonl(jsonl)
    assert load_dataset(str(jsonl), 8000).name == dataset.name
    env, other = make(dataset=str(tmp_path)), make(dataset=str(jsonl))
    for seed in range(4):
        assert env.reset(seed=seed)[1]["level"] == other.reset(seed=seed)[1]["level"]


def names(icons):
    return {icon.name for icon in icons}


@pytest.mark.parametrize("form", ["data/{}-00000-of-00001.jsonl", "{}.jsonl", "{}/data-00000-of-00001.jsonl"])
def test_a_data_sets_own_splits_are_kept(form, tmp_path):
    parts = {"train": ROWS[:40], "validation": ROWS[35:48], "test": ROWS[45:]}
    for name, rows in parts.items():
        file = tmp_path / form.format(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(map(json.dumps, rows)))
    splits = load_dataset(str(tmp_path), 8000).splits
    told = {name: {row["Filename"] for row in rows} for name, rows in parts.items()}
    assert names(splits["test"]) == told["test"]
    assert names(splits["val"]) == told["validation"] - told["test"]
    assert names(splits["train"]) == told["train"] - told["validation"]


def test_a_split_that_is_not_published_is_taken_from_train(tmp_path):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, ROWS[:50])))
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, ROWS[50:])))
    splits = load_dataset(str(tmp_path), 8000).splits
    assert names(splits["test"]) == {row["Filename"] for row in ROWS[50:]}
    assert 0 < len(splits["val"]) < 20
    assert len(splits["train"]) + len(splits["val"]) == 50


def test_folders_of_pictures_may_be_splits_and_names_of_pictures_are_none(tmp_path):
    for folder, rows in (("train", ROWS[:40]), ("test", ROWS[40:])):
        (tmp_path / folder).mkdir()
        for row in rows:
            (tmp_path / folder / f"test-{row['Filename']}").write_text(row["Svg"])
    splits = load_dataset(str(tmp_path), 8000).splits
    assert len(splits["test"]) == 20
    assert len(splits["train"]) + len(splits["val"]) == 40


def test_mono_comes_from_a_package():
    pytest.importorskip("pytablericons")
    dataset = load_dataset("mono", 8000)
    assert sum(map(len, dataset.splits.values())) > 4000
    first = [
        {icon.name.split("/")[-1].split("-")[0].split(".")[0] for icon in icons} for icons in dataset.splits.values()
    ]
    assert not first[0] & first[1]
    assert not first[0] & first[2]


def test_what_is_no_data_set_is_said(tmp_path):
    with pytest.raises(ConfigError, match="neither 'builtin' nor 'mono'"):
        load_dataset("builtins", 8000)
    with pytest.raises(ConfigError, match="no SVG"):
        load_dataset(str(tmp_path), 8000)
    (tmp_path / "a.jsonl").write_text('{"svg": "x"}')
    with pytest.raises(ConfigError, match="needs Svg"):
        load_dataset(str(tmp_path / "a.jsonl"), 8000)
    for name, content, said in [
        ("b.jsonl", b'{"Svg": "x"}\n{oops\n', "b.jsonl.* line 2 is not JSON"),
        ("c.jsonl", b'["Svg"]', "c.jsonl"),
        ("d.parquet", b"PAR1 nonsense", "d.parquet can't be read"),
        ("e.arrow", b"noise" * 100, "e.arrow can't be read"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=said):
            load_dataset(str(tmp_path / name), 8000)
    with pytest.raises(ConfigError, match="size"):
        make(size=5)


def test_icons_that_draw_nothing_are_no_levels(tmp_path):
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>')
    (tmp_path / "b.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><script/></svg>')
    for split in ("train", "val", "test"):
        env = make(dataset=str(tmp_path), split=split)
        with pytest.raises(LevelError, match="none of those tried can be drawn"):
            env.reset(seed=0)


def test_the_icons_file_is_readable_without_us():
    path = vagen_envs.__path__[0] + "/svg/icons.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        assert set(json.loads(next(lines))) == {"Filename", "Svg"}


def test_rungs_are_icons_by_their_shapes_and_frozen():
    seen, frozen = [], hashlib.sha256()
    for rung, (fewest, most) in enumerate([(1, 2), (3, 3), (4, 4), (5, 5), (6, 7), (8, 99)]):
        env = gym.make("vagen/SVGReconstruction-v0", difficulty=rung, split="test").unwrapped
        frozen.update(json.dumps([env.config.scorer, env.config.success_score]).encode())
        for seed in range(3):
            env.reset(seed=seed)
            frozen.update(env.level["content"].encode())
            tree = ElementTree.fromstring(env.plan()[0])  # noqa: S314  (ours)
            shapes = [each for each in tree.iter() if each.tag.rpartition("}")[2] in DRAWN]
            assert fewest <= len(shapes) <= most
        seen.append(env.level["content"])
    assert len(set(seen)) == 6
    assert frozen.hexdigest()[:16] == "55115b0e496c192e"


def test_without_a_rung_levels_are_what_they_were():
    plain, whole = (gym.make("vagen/SVGReconstruction-v0", min_shapes=fewest).unwrapped for fewest in (0, 2))
    assert plain.config.level_key() == {"dataset": "builtin", "max_target_length": 8000}
    assert whole.config.level_key()["shapes"] == [2, 10_000]
    with pytest.raises(ConfigError, match="max_shapes=1"):
        gym.make("vagen/SVGReconstruction-v0", min_shapes=3, max_shapes=1)
    with pytest.raises(LevelError, match="0 icons of 200 to"):
        gym.make("vagen/SVGReconstruction-v0", min_shapes=200).reset(seed=1)
