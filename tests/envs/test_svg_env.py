"""SVG reconstruction: the contract, rewards, pictures, words, data sets and the agents' order."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("cairosvg")
pytest.importorskip("skimage")

import vagen_envs
from vagen_envs.conformance import check
from vagen_envs.core import State
from vagen_envs.errors import ConfigError, LevelError
from vagen_envs.seeding import HashStream
from vagen_envs.svg.dataset import content_of, load_dataset
from vagen_envs.svg.env import GAP
from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.state import SvgState, colour_name, elements

GOLDEN = "30ba64fb6c0b48e12436224a587cd624d498ffe44bbfd2265df149a448cf1a60"
ID = "vagen/SVGReconstruction-v0"
TWO = (
    '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg"><circle cx="25" cy="25" r="15" fill="red"/>'
    '<g transform="translate(60 60)"><path d="M0 0h30v20h-30z" fill="#0000ff"/></g></svg>'
)


def make(**options):
    return gym.make(ID, **{"scorer": "classical", **options}).unwrapped


def say(env, answer):
    return env.grammar.render([answer], observation="a", reasoning="b", prediction="c")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "text", "representation": "structured"},
        {"observation": "both", "strategy": "free_think"},
        {"strategy": "no_think", "size": 64},
        {"layout": "flat", "parsing": "strict", "reasoning": "required", "max_turns": 3},
    ],
    ids=str,
)
def test_it_conforms(options):
    check(ID, scorer="classical", **options)


def test_rewards_metrics_and_picture_follow_the_drawing():
    env = make()
    observation, info = env.reset(seed=3)
    assert observation["image"].shape == (224, 2 * 224 + GAP, 3)
    assert (observation["image"][:, 224:] == 128).all()
    assert info["state"].drawing is None
    observation, reward, terminated, truncated, info = env.step(say(env, TWO))
    metrics = info["turn"].metrics
    assert 0 < metrics["score"] < 1
    assert metrics["score"] == metrics["best_score"] == metrics["classical"]
    assert metrics["scorer"] == "classical-1"
    assert reward == pytest.approx(5 * metrics["score"] + 0.5)
    assert (terminated, truncated) == (False, False)
    assert np.array_equal(observation["image"][:, 224 + GAP :], shared_renderer().draw(TWO).pixels)
    assert [element[:2] for element in info["state"].drawing] == [("circle", "filled"), ("rectangle", "filled")]
    first = metrics["score"]
    observation, reward, terminated, truncated, info = env.step(say(env, "<svg><script/></svg>"))
    metrics = info["turn"].metrics
    assert reward == 0.5  # the format's
    assert (metrics["score"], metrics["classical"], metrics["best_score"]) == (0, 0, first)
    assert "<script> is not allowed" in observation["text"]
    assert (observation["image"][:, 224:] == 128).all()
    assert truncated
    assert not terminated


def test_the_same_picture_at_once_does_not_end_the_episode():
    env = make()
    env.reset(seed=3)
    _, first, terminated, truncated, info = env.step(env.oracle_reply())
    assert (terminated, truncated) == (False, False)
    assert info["turn"].metrics["score"] == 1
    _, second, terminated, _, info = env.step(env.oracle_reply())
    assert terminated
    assert first == second == 5.5
    assert info["turn"].success


@pytest.mark.parametrize(
    ("answer", "drawn"),
    [
        (f"```svg\n{TWO}\n```", True),
        (f'<?xml version="1.0" encoding="UTF-8"?>\n{TWO}', True),
        (f"Here it is: {TWO} Enjoy!", True),
        (TWO.removesuffix("</svg>"), False),
        ("a red circle", False),
    ],
)
def test_what_stands_around_an_svg_is_dropped(answer, drawn):
    env = make()
    env.reset(seed=3)
    turn = env.step(say(env, answer))[4]["turn"]
    assert (turn.metrics["score"] > 0) == drawn


def test_oracle_beats_tracing_beats_chance_beats_nothing():
    pytest.importorskip("vtracer")
    env = make(split="test")
    returns = {"oracle": [], "tracer": [], "random": []}
    for seed in range(8):
        for agent, found in returns.items():
            env.reset(seed=seed)
            total = 0.0
            for turn in range(2):
                stream = HashStream("chance", seed, turn)
                reply = {
                    "oracle": env.oracle_reply,
                    "tracer": env.traced_reply,
                    "random": lambda stream=stream: say(env, env.random_actions(stream, 1)[0]),
                }[agent]()
                total += env.step(reply)[1] - 0.5
            found.append(total)
    means = {agent: float(np.mean(each)) for agent, each in returns.items()}
    assert means["oracle"] == pytest.approx(10)
    assert means["oracle"] > means["tracer"] > 1.5 * means["random"] > 0


def test_vector_environments_draw_and_score():
    envs = gym.make_vec(ID, 2, vectorization_mode="async", scorer="classical")
    try:
        envs.reset(seed=1)
        _, rewards, _, _, _ = envs.step([f"<answer>{TWO}</answer>"] * 2)
        assert (rewards > 0).all()
    finally:
        envs.close()


# -- state ---------------------------------------------------------------------------------------


def test_elements_are_where_they_are_painted():
    found = elements(shared_renderer().draw(TWO).marks, 224)
    assert [tuple(element) for element in found] == [
        ("circle", "filled", "#ff0000", 25, 25, 30, 30),
        ("rectangle", "filled", "#0000ff", 75, 70, 30, 20),
    ]
    state = SvgState(found, None)
    assert state.natural_language() == (
        "The target has a filled red circle at (25, 25), 30 wide and 30 high; a filled blue rectangle at (75, 70), "
        "30 wide and 20 high. There is no drawing yet."
    )
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize(
    ("svg", "expected"),
    [
        ('<ellipse cx="50" cy="50" rx="40" ry="10"/>', ("ellipse", "filled", "#000000", 50, 50, 80, 20)),
        ('<path d="M10 10L90 10L50 90Z" fill="lime"/>', ("triangle", "filled", "#00ff00", 50, 50, 80, 80)),
        ('<path d="M50 10A40 40 0 1 1 49.9 10Z" fill="#fff"/>', ("circle", "filled", "#ffffff", 50, 50, 80, 80)),
        ('<path d="M10 50H90" stroke="red" stroke-width="10"/>', ("line", "outlined", "#ff0000", 50, 50, 80, 10)),
        ('<defs><rect id="a" width="20" height="20"/></defs><use href="#a" x="40" y="40"/>',
         ("rectangle", "filled", "#000000", 50, 50, 20, 20)),
        ('<g opacity=".5" transform="scale(2)"><rect x="5" y="5" width="40" height="40"/></g>',
         ("rectangle", "filled", "#000000", 50, 50, 80, 80)),
    ],
)  # fmt: skip
def test_shapes_are_told_apart(svg, expected):
    drawing = shared_renderer().draw(f'<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg">{svg}</svg>')
    assert tuple(elements(drawing.marks, 224)[0]) == expected


@pytest.mark.parametrize(
    ("colour", "name"),
    [("#000000", "black"), ("#ffffff", "white"), ("#d3d3d3", "light gray"), ("#f8312f", "red"), ("#00a6ed", "cyan"),
     ("#ffb02e", "orange"), ("#6d4534", "brown"), ("#fcd53f", "yellow"), ("#008463", "green"), ("#0074ba", "blue"),
     ("#8d65c5", "purple"), ("#f70a8d", "pink"), ("#ffffa0", "light yellow"), ("#101040", "dark blue")],
)  # fmt: skip
def test_colours_have_plain_names(colour, name):
    assert colour_name(colour) == name


# -- data sets -----------------------------------------------------------------------------------


def test_the_built_in_icons_are_many_different_and_split():
    splits = load_dataset("builtin", 8000).splits
    assert sum(map(len, splits.values())) > 1000
    contents = [content_of(icon.svg) for icons in splits.values() for icon in icons]
    assert len(set(contents)) == len(contents)
    assert all(len(icons) > 80 for icons in splits.values())
    assert vagen_envs.ENV_IDS


def test_levels_are_the_golden_ones():
    """If this fails on purpose, the environment needs a new version: its scores can't be compared any more."""
    env = make(size=32, observation="text")
    contents = [
        env.reset(seed=seed, options={"split": split})[1]["level"]["content"]
        for split in ("train", "val", "test")
        for seed in range(32)
    ]
    assert hashlib.sha256("".join(contents).encode()).hexdigest() == GOLDEN


def test_without_the_extra_one_error_names_it():
    code = (
        "import sys; sys.modules['cairosvg'] = sys.modules['defusedxml'] = None\n"
        "import gymnasium, vagen_envs\n"
        "from vagen_envs.errors import MissingExtraError\n"
        "try: gymnasium.make('vagen/SVGReconstruction-v0')\n"
        "except MissingExtraError as error: assert 'vagen-envs[svg]' in str(error); print('named')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "named\n"


ROWS = [{"Filename": f"{i}.svg", "Svg": TWO.replace("25", str(20 + i))} for i in range(60)]


def as_folder(path):
    for row in ROWS:
        (path / row["Filename"]).write_text(row["Svg"])


def as_parquet(path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (path / "data").mkdir()
    for name, rows in (("train", ROWS[:40]), ("test", ROWS[30:])):
        pq.write_table(pa.Table.from_pylist(rows), path / "data" / f"{name}-00000-of-00001.parquet")


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
