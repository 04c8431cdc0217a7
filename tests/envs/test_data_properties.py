"""Data of others, as properties: one content in any dress is the same data, and nonsense is a named error."""

from __future__ import annotations

import codecs
import itertools
import json
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vagen_envs.errors import ConfigError, SampleError, VagenError
from vagen_envs.navigation.episodes import read_episodes
from vagen_envs.sample.reading import load_sample_set, read_samples
from vagen_envs.seeding import SPLITS
from vagen_envs.sokoban.boards import load_boards
from vagen_envs.svg.dataset import load_dataset

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")
# Each example writes its own file, so that one folder for all of them does no harm.
with_folder = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# -- boards --------------------------------------------------------------------------------------


@st.composite
def board(draw):
    """A corridor with a room, in which one push solves it: of any size, anywhere."""
    width, height = draw(st.integers(3, 20)), draw(st.integers(1, 6))
    row = draw(st.integers(0, height - 1))
    left = draw(st.integers(0, width - 3))
    rows = [[" "] * width for _ in range(height)]
    rows[row][left : left + 3] = "@$."
    return ["#" * (width + 2), *("#" + "".join(cells) + "#" for cells in rows), "#" * (width + 2)]


def run_lengths(rows):
    """One board on one line, as 5#|#@$.#|5#."""
    words = []
    for row in rows:
        last, count, word = row[0], 0, ""
        for sign in f"{row}\0":
            if sign != last:
                word += f"{count if count > 1 else ''}{last}"
                last, count = sign, 0
            count += 1
        words.append(word.replace(" ", "-"))
    return "|".join(words)


def as_xml(boards, namespace):
    levels = "".join(
        "<Level>{}</Level>".format("".join(f"<L>{row}</L>" for row in rows)) for rows in boards
    )
    named = ' xmlns="http://boards.example/1.0"' if namespace else ""
    return (
        '<?xml version="1.0" encoding="ISO-8859-1"?>\n'
        f"<SokobanLevels{named}><Title>Été</Title><LevelCollection>{levels}</LevelCollection></SokobanLevels>"
    )


DRESSES = {
    "plain": lambda boards: "\n\n".join("\n".join(rows) for rows in boards),
    "titles": lambda boards: "".join(f"Level {i}\n{n(rows)}\n" for i, rows in enumerate(boards)),
    "comments": lambda boards: "".join(f"; {i}\n{n(rows)}\nAuthor: a # b\n\n" for i, rows in enumerate(boards)),
    "indented": lambda boards: "\n\n".join("\n".join(f"  {row}" for row in rows) for rows in boards),
    "dashes": lambda boards: "\n\n".join(n(rows).replace(" ", "-") for rows in boards),
    "underscores": lambda boards: "\n\n".join(n(rows).replace(" ", "_") for rows in boards),
    "letters": lambda boards: "\n\n".join(n(rows).replace("@", "p").replace("$", "b").replace(".", "o") for rows in boards),
    "run lengths": lambda boards: "\n\n".join(map(run_lengths, boards)),
    "xml": lambda boards: as_xml(boards, namespace=False),
    "xml with a namespace": lambda boards: as_xml(boards, namespace=True),
}  # fmt: skip


def n(rows):
    return "\n".join(rows)


def levels_of(boards, split="test"):
    return [boards.level(split, i) for i in range(len(boards.splits[split]))]


@given(
    st.lists(board(), min_size=1, max_size=5, unique_by=n),
    st.sampled_from(sorted(DRESSES)),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
@with_folder
def test_boards_are_the_same_in_any_dress(tmp_path, boards, dress, encoding, line_break):
    (tmp_path / "plain.xsb").write_text(DRESSES["plain"](boards))
    plain = load_boards(str(tmp_path / "plain.xsb"), split_by="all")
    other = tmp_path / "other.txt"
    other.write_bytes(DRESSES[dress](boards).replace("\n", line_break).encode(encoding))
    dressed = load_boards(str(other), split_by="all")
    assert len(plain.splits["test"]) == len(boards)
    for split in SPLITS:
        assert levels_of(dressed, split) == levels_of(plain)


@given(st.lists(board(), min_size=1, max_size=30, unique_by=n))
@with_folder
def test_a_folder_is_its_boards_in_order_and_splits_share_none(tmp_path, boards):
    for old in tmp_path.iterdir():
        old.unlink()
    for number, rows in enumerate(boards):
        (tmp_path / f"level{number}.lvl").write_text(n(rows))
    every = load_boards(str(tmp_path), split_by="all")
    assert list(every.splits["train"]) == [n(rows) for rows in boards]
    found = load_boards(str(tmp_path), split_by="content").splits
    assert sorted(itertools.chain(*found.values())) == sorted(map(n, boards))
    assert load_boards(str(tmp_path)).splits["train"]


@given(st.one_of(st.text("#@$.+* \n|()0123456789-ab", max_size=200), st.binary(max_size=200)))
@with_folder
def test_what_is_no_board_is_an_error_that_says_so(tmp_path, text):
    path = tmp_path / "boards.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        boards = load_boards(str(path), split_by="all")
    except ConfigError as error:
        named = "boards.txt" in str(error)
    else:
        named = True
        for level in levels_of(boards):
            assert level.boxes.bit_count() == level.targets.bit_count()
    assert named


# -- samples -------------------------------------------------------------------------------------

WORDS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
COLUMNS = {"q": "prompt", "a": "answer"}
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["q", "a", "i", "role", "content", "from", "value", "text", "Svg"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
    st.sampled_from(["jsonl", "json", "parquet", "arrow"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
)
@with_folder
def test_questions_are_the_same_in_any_file(tmp_path, pairs, form, encoding, as_conversation):
    rows = [{"q": question, "a": answer} for question, answer in pairs]
    columns = COLUMNS
    if as_conversation:
        rows = [
            {"c": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]}
            for question, answer in pairs
        ]
        columns = {"c": "prompt"}
    path = tmp_path / f"rows.{form}"
    write(path, rows, encoding)
    samples = list(read_samples(path, columns))
    found = [(sample.question, sample.reward_model.answer) for sample in samples]
    assert found == pairs
    load_sample_set.cache_clear()
    at_all = load_sample_set(str(path), "all", (), 64, 1000, tuple(columns.items())).splits
    assert all(
        [each.question for each in at_all[split]] == [q for q, _ in found] for split in SPLITS
    )
    by_content = load_sample_set(str(path), "content", (), 64, 1000, tuple(columns.items())).splits
    assert sum(map(len, by_content.values())) == len(pairs)


def write(path, rows, encoding):
    if path.suffix == ".json":
        path.write_bytes(json.dumps(rows).encode(encoding))
    elif path.suffix == ".jsonl":
        path.write_bytes("\r\n".join(map(json.dumps, rows)).encode(encoding))
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pa.Table.from_pylist(rows)
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            with pa.ipc.new_stream(str(path), table.schema) as stream:
                stream.write_table(table)


@given(JSON, st.sampled_from([{}, COLUMNS, {**COLUMNS, "i": "images"}, {"q": "prompt"}]))
@with_folder
def test_any_row_is_a_sample_or_an_error_that_names_the_row(tmp_path, row, columns):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    try:
        (sample,) = read_samples(path, columns)
    except SampleError as error:
        right = "rows.jsonl" in str(error)
    else:
        right = bool(sample.question) and bool(sample.reward_model.truth)
    assert right


@given(st.binary(max_size=300), st.sampled_from(["jsonl", "json", "parquet", "arrow"]))
@with_folder
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, data, form):
    path = tmp_path / f"rows.{form}"
    path.write_bytes(data)
    for columns in ({}, COLUMNS):
        with pytest.raises(SampleError, match="rows"):
            list(read_samples(path, columns))


# -- icons and episodes --------------------------------------------------------------------------

SHAPE = st.integers(1, 9).map(lambda side: f'<rect width="{side}" height="4"/>')
ICON = st.lists(SHAPE, min_size=1, max_size=3).map(
    lambda shapes: (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{"".join(shapes)}</svg>'
    )
)


@given(
    st.lists(ICON, min_size=1, max_size=6, unique=True),
    st.sampled_from(["jsonl", "parquet", "arrow"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@with_folder
def test_icons_are_the_same_in_any_file(tmp_path, icons, form, encoding):
    path = tmp_path / f"icons.{form}"
    write(path, [{"Svg": svg, "Filename": f"{i}.svg"} for i, svg in enumerate(icons)], encoding)
    folder = tmp_path / "icons"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, svg in enumerate(icons):
        (folder / f"{number}.svg").write_bytes(svg.encode(encoding))
    load_dataset.cache_clear()
    for name in (str(path), str(folder)):
        found = load_dataset(name, 8000, "all").splits
        for split in SPLITS:
            assert [icon.svg.lstrip("\ufeff") for icon in found[split]] == icons


@given(JSON)
@with_folder
def test_any_row_is_an_icon_or_an_error(tmp_path, row):
    path = tmp_path / "icons.jsonl"
    path.write_text(json.dumps(row))
    load_dataset.cache_clear()
    with pytest.raises(ConfigError, match="icons"), warnings.catch_warnings():
        load_dataset(str(path), 8000)


EPISODE = {
    "scene": "FloorPlan1",
    "targetObjectType": "Mug",
    "target_position": {"x": 1, "y": 0, "z": 2},
    "agentPose": {"position": {"x": 0, "y": 0.9, "z": 0}, "rotation": 90, "horizon": 0},
    "instruction": "Find the mug.",
}


@given(JSON, st.sampled_from(sorted(EPISODE)), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
@with_folder
def test_episodes_are_read_in_any_encoding_and_wrong_ones_left_out(tmp_path, wrong, key, encoding):
    path = tmp_path / "base.json"
    tasks = [EPISODE, {**EPISODE, key: wrong}]
    path.write_bytes(json.dumps({"tasks": tasks}).encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, *rest = read_episodes(path)
    assert (first.scene, first.episode.target_type) == ("FloorPlan1", "Mug")
    assert len(rest) <= 1
    path.write_bytes(codecs.BOM_UTF8 + json.dumps(wrong).encode())
    with pytest.raises(VagenError, match=r"base\.json"):
        read_episodes(path)
