"""SVG reconstruction's data sets: what they hold, their forms, and their splits."""

from __future__ import annotations

import hashlib
import json
from xml.etree import ElementTree

import gymnasium as gym
import pytest

pytest.importorskip("resvg")
pytest.importorskip("skimage")

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
        pq.write_table(
            pa.Table.from_pylist(rows), path / "data" / f"icons-{part:05}-of-00002.parquet"
        )


def as_arrow(path):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist(ROWS)
    with (
        pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
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
    assert load_dataset(str(jsonl), 8000).fingerprint == dataset.fingerprint
    env, other = make(dataset=str(tmp_path)), make(dataset=str(jsonl))
    played = [
        [one.reset(options={"level": i})[1]["level"]["content"] for i in range(one.level_count)]
        for one in (env, other)
    ]
    assert sorted(played[0]) == sorted(played[1])
    assert len(set(played[0])) == env.level_count


def names(icons):
    return {icon.name.split("/")[-1].removeprefix("test-") for icon in icons}


@pytest.mark.parametrize(
    "form",
    ["data/{}-00000-of-00001.jsonl", "{}.jsonl", "{}/data-00000-of-00001.jsonl", "{}", "a column"],
)
def test_a_data_sets_own_splits_are_kept(form, tmp_path):
    parts = {"train": ROWS[:40], "validation": ROWS[35:48], "test": ROWS[45:]}
    if form == "a column":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        rows = [{**row, "split": name} for name, rows in parts.items() for row in rows]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet")
    for name, rows in parts.items() if form != "a column" else ():
        file = tmp_path / form.format(name)
        file.parent.mkdir(exist_ok=True)
        if form.endswith(".jsonl"):
            file.write_text("\n".join(map(json.dumps, rows)))
        else:  # a folder of pictures, whose names are no splits
            file.mkdir()
            for row in rows:
                (file / f"test-{row['Filename']}").write_text(row["Svg"])
    with pytest.warns(UserWarning, match="8 of 68 icons left out: 8 the same as another"):
        splits = load_dataset(str(tmp_path), 8000).splits
    told = {name: {row["Filename"] for row in rows} for name, rows in parts.items()}
    assert names(splits["test"]) == told["test"]
    assert names(splits["val"]) == told["validation"] - told["test"]
    assert names(splits["train"]) == told["train"] - told["validation"]


def test_a_file_of_one_split_is_that_split(tmp_path):
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    splits = load_dataset(str(tmp_path / "test.jsonl"), 8000).splits
    assert [icon.name for icon in splits["test"]] == [row["Filename"] for row in ROWS]
    assert not splits["train"]
    env = make(dataset=str(tmp_path / "test.jsonl"))
    with pytest.raises(LevelError, match='split_by="all"'):
        env.reset(seed=0)
    by_content = load_dataset(str(tmp_path / "test.jsonl"), 8000, "content").splits
    assert sum(map(len, by_content.values())) == 60
    assert by_content["train"]


def test_icons_that_are_left_out_are_counted_once(tmp_path):
    rows = [*ROWS[:5], ROWS[0], {"Svg": TWO + " " * 5000}, {"Svg": "no picture"}]
    (tmp_path / "icons.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.warns(UserWarning, match="icons left out") as caught:
        load_dataset(str(tmp_path / "icons.jsonl"), 4000)
    (warning,) = caught
    words = "3 of 8 icons left out: 1 longer than max_target_length=4000, 1 without <svg, 1 the same as another"
    assert words in str(warning.message)


def test_what_no_level_can_be_made_of_is_no_level(tmp_path):
    """Another icon in its place would be played twice."""
    broken = ["<svg><rect", '<svg viewBox="0 0 0 0"/>', "<svg></svg>", "<svg><g/></svg>", None]
    rows = [ROWS[0], *({"Svg": svg} for svg in broken), ROWS[1]]
    (tmp_path / "icons.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = "5 of 7 icons left out: 2 that can't be drawn, 2 without a shape, 1 without <svg"
    env = make(dataset=str(tmp_path / "icons.jsonl"), split_by="all")
    with pytest.warns(UserWarning, match=words):
        assert env.level_count == 2
    played = {env.reset(options={"level": i})[1]["level"]["content"] for i in range(2)}
    assert len(played) == 2


def test_mono_comes_from_a_package():
    pytest.importorskip("pytablericons")
    dataset = load_dataset("mono", 8000)
    assert sum(map(len, dataset.splits.values())) > 4000
    first = [
        {icon.name.split("/")[-1].split("-")[0].split(".")[0] for icon in icons}
        for icons in dataset.splits.values()
    ]
    assert not first[0] & first[1]
    assert not first[0] & first[2]


def test_what_is_no_data_set_is_said(tmp_path):
    with pytest.raises(ConfigError, match="neither 'builtin' nor 'mono'"):
        load_dataset("builtins", 8000)
    with pytest.raises(ConfigError, match="no SVG"):
        load_dataset(str(tmp_path), 8000)
    (tmp_path / "a.jsonl").write_text('{"picture": "x"}')
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
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'
    (tmp_path / "a.svg").write_text(f'{head}<rect width="0" height="9"/></svg>')
    (tmp_path / "b.svg").write_text(f'{head}<script/><path d=""/></svg>')
    for split in ("train", "val", "test"):
        env = make(dataset=str(tmp_path), split=split)
        with pytest.raises(LevelError, match=r"can be drawn|has no icon"):
            env.reset(seed=0)


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
    assert frozen.hexdigest()[:16] == "97d9d1639354d921"


def test_without_a_rung_levels_are_what_they_were():
    plain, whole = (
        gym.make("vagen/SVGReconstruction-v0", min_shapes=fewest).unwrapped for fewest in (0, 2)
    )
    assert plain.config.level_key() == {"dataset": "builtin", "max_target_length": 8000}
    assert whole.config.level_key()["shapes"] == [2, 10_000]
    with pytest.raises(ConfigError, match="max_shapes=1"):
        gym.make("vagen/SVGReconstruction-v0", min_shapes=3, max_shapes=1)
    with pytest.raises(LevelError, match="no icon of 200 to"):
        gym.make("vagen/SVGReconstruction-v0", min_shapes=200).reset(seed=1)
