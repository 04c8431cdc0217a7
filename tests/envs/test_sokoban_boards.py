"""Boards from files, in the layouts of Boxoban and XSokoban. The boards are ours."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import finish, reply_of

import vagen_envs  # noqa: F401
from vagen_adapters.permission import permitted
from vagen_envs.errors import ConfigError, EpisodeOverError, LevelError, SnapshotError
from vagen_envs.seeding import SPLITS, HashStream
from vagen_envs.sokoban.boards import load_boards
from vagen_envs.sokoban.levels import cells, draw_level

BOARDS = Path(__file__).parent / "data" / "boards"
BOXOBAN = (BOARDS / "boxoban.txt").read_text(encoding="utf-8")
"""As deepmind/boxoban-levels has them: a number after a semicolon, ten rows of ten, a blank line; no last blank line."""
SCREEN = (BOARDS / "screen.1").read_text(encoding="utf-8")
"""As XSokoban's screens: one a file, ragged, walls only where they are needed, nothing else in it."""
COLLECTION = (BOARDS / "collection.sok").read_text(encoding="utf-8")
"""As collections: title, comments, other signs for floor, a board that begins on its targets."""


def env_of(path, **options):
    return gym.make(
        "vagen/Sokoban-v0", boards=str(path), disable_env_checker=True, **options
    ).unwrapped


def written(tmp_path, text, name="boards.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def levels_of(boards):
    return [boards.level(split, i) for split in SPLITS for i in range(len(boards.splits[split]))]


def xsb(level):
    """A board as a file has it, in its frame."""

    def sign(cell):
        target, box, player = (
            level.targets >> cell & 1,
            level.boxes >> cell & 1,
            level.player == cell,
        )
        return (
            "+*."[[player, box].index(1) if player or box else 2]
            if target
            else ("@" if player else "$" if box else " " if level.floor >> cell & 1 else "#")
        )

    width = level.width
    return "\n".join(
        "".join(sign(row * width + j) for j in range(width)) for row in range(level.height)
    )


def test_boxobans_files_are_read(tmp_path):
    boards = load_boards(str(written(tmp_path, BOXOBAN)))
    assert (boards.height, boards.width) == (10, 10)
    one, two = sorted(levels_of(boards), key=lambda level: level.boxes.bit_count())
    assert (one.boxes.bit_count(), two.boxes.bit_count()) == (1, 2)
    assert one.player == 33
    assert cells(two.targets) == [36, 46]


def test_xsokobans_screens_are_read(tmp_path):
    path = written(tmp_path, SCREEN, "screen.1")
    (level,) = levels_of(load_boards(str(path)))
    assert (level.height, level.width) == (11, 19)
    assert (level.boxes.bit_count(), level.targets.bit_count()) == (6, 6)
    assert level.floor.bit_count() == 56


def test_collections_are_read_and_small_boards_stand_in_the_middle(tmp_path):
    boards = load_boards(str(written(tmp_path, COLLECTION)))
    assert (boards.height, boards.width) == (7, 9)
    small, large = sorted(levels_of(boards), key=lambda level: level.floor.bit_count())
    assert [divmod(cell, 9) for cell in cells(small.floor)] == [(3, 3), (3, 4), (3, 5)]
    assert large.targets >> large.player & 1
    assert (large.boxes & large.targets).bit_count() == 1


def test_a_folder_is_its_files_and_a_board_counts_once(tmp_path):
    (tmp_path / "a").mkdir()
    written(tmp_path / "a", BOXOBAN, "000.txt")
    written(tmp_path, BOXOBAN.replace("\n", "\r\n") + "\n\n\n", "again.XSB")
    written(tmp_path, "not a board", "README.md")
    with pytest.warns(UserWarning, match="2 of 4 boards are left out: 2 the same as another"):
        assert len(levels_of(load_boards(str(tmp_path)))) == 2


def test_a_folder_of_single_screens_is_in_the_order_of_their_numbers(tmp_path):
    (tmp_path / "screens").mkdir()
    for number in (10, 9, 1):
        written(
            tmp_path / "screens",
            "#" * (number + 4) + f"\n#@$.{' ' * number}#\n" + "#" * (number + 5),
            f"screen.{number}",
        )
    env = env_of(tmp_path, split_by="content")
    boards = env.config.imported
    assert sum(map(len, boards.splits.values())) == 3
    folder = tmp_path / "test"
    (tmp_path / "screens").rename(folder)
    env = env_of(folder, split="test")
    floors = [
        env.reset(options={"level": i}) and env.simulator.level.floor.bit_count()
        for i in range(env.level_count)
    ]
    assert floors == [4, 12, 13]


def test_boxobans_folders_are_its_splits_and_each_board_is_played_once_in_order(tmp_path):
    for folder, count in (("train", 3), ("valid", 2), ("test", 4)):
        (tmp_path / "unfiltered" / folder).mkdir(parents=True)
        boards = [
            f"; {i}\n######\n#@$.{' ' * i}#\n######\n".replace("######", "#" * (5 + i))
            for i in range(1, count + 1)
        ]
        written(tmp_path / "unfiltered" / folder, "\n".join(boards), "000.txt")
    with pytest.warns(UserWarning, match="5 of 9 boards are left out"):
        env = env_of(tmp_path)
    for split, count in (
        ("train", 0),
        ("val", 0),
        ("test", 4),
    ):  # what is in the test set is trained on nowhere
        assert env._level_count(split) == count
    alone = env_of(tmp_path / "unfiltered" / "test", split="test")
    assert alone.level_count == 4
    sizes = [
        alone.reset(options={"level": i}) and alone.simulator.level.floor.bit_count()
        for i in range(4)
    ]
    assert sizes == [4, 5, 6, 7]
    assert [
        alone.reset(seed=seed) and alone.simulator.level.floor.bit_count() for seed in range(5)
    ] == [4, 5, 6, 7, 4]
    given = env_of(tmp_path / "unfiltered" / "test", split="test", level=2)
    assert given.reset(seed=77)[1]["level"] == alone.reset(options={"level": 2})[1]["level"]
    with pytest.raises(ConfigError, match="no level=4: the split 'test' has 4, counted from 0"):
        alone.reset(options={"level": 4})
    with pytest.raises(LevelError, match=r'no board for train \(0 for train.*split_by="all"'):
        alone.reset(options={"split": "train"})
    with pytest.raises(EpisodeOverError, match="call reset"):
        alone.step("<answer>Up</answer>")


@pytest.mark.parametrize("text", [BOXOBAN, COLLECTION])
def test_the_oracle_solves_them_in_every_split(tmp_path, text):
    path = written(tmp_path, text)
    boards = load_boards(str(path))
    env = env_of(path)
    assert env.config.max_steps == 120
    for split in SPLITS:
        if not boards.splits[split]:
            with pytest.raises(LevelError, match=f"no board for {split}"):
                env.reset(seed=0, options={"split": split})
            continue
        seen = set()
        for seed in range(8):
            observation, info = env.reset(seed=seed, options={"split": split})
            assert env.observation_space.contains(observation)
            assert observation["image"].shape == (16 * boards.height, 16 * boards.width, 3)
            seen.add(info["level"]["content"])
            assert finish(env)[-1].success
        assert 1 <= len(seen) <= len(boards.splits[split])


def test_a_board_that_is_too_large_for_the_oracle_is_played_without(tmp_path):
    path = written(tmp_path, SCREEN)
    (split,) = [split for split, of_split in load_boards(str(path)).splits.items() if of_split]
    env = env_of(path, split=split)
    env.reset(seed=0)
    _, _, _, _, info = env.step(reply_of(env, "Up", "Left"))
    assert [each.text for each in info["turn"].executed] == ["Up", "Left"]
    copy = env_of(path, split=split)
    copy.restore(env.snapshot())
    assert (copy.observed.picture.pixels == env.observed.picture.pixels).all()


def test_levels_follow_from_the_boards_not_from_where_they_lie(tmp_path):
    (tmp_path / "a").mkdir()
    one, other = (
        env_of(written(tmp_path, BOXOBAN)),
        env_of(written(tmp_path / "a", "\n" + BOXOBAN, "other.sok")),
    )
    split = next(
        split for split, of_split in load_boards(one.config.boards).splits.items() if of_split
    )
    for seed in range(5):
        first, second = (env.reset(seed=seed, options={"split": split})[1] for env in (one, other))
        assert first["state"] == second["state"]
    other.restore(one.snapshot())


GOOD = "#######\n#@ $ .#\n#######"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#####\n#@$.#\n###", "with a gap in the wall"),
        ("\n\n#####\n#@ $.\n#####", "with a gap in the wall"),
        ("#####\n#@$.#\n@$.\n#####", "with a gap"),
        ("; x\n#####\n# $.#\n#####", "with 0 players"),
        ("######\n#@@$.#\n######", "with 2 players"),
        ("######\n#@$..#\n######", "more boxes or targets"),
        ("######\n#@* *#\n######", "solved already"),
        ("#########\n#@$.#$  #\n#########", "the player can't reach"),
        ("######\n#$   #\n# @  #\n#   .#\n######", "in a corner"),
        ("#######\n#@ .$ #\n#######", "without a solution"),
        ("#" * 60 + "\n#@$." + " " * 55 + "#\n" + "#" * 60, "larger than 50 cells"),
        ("#######\n#& $ .#\n#######", "with the sign '&'"),
        (GOOD, "the same as another"),
    ],
)
def test_boards_that_cannot_be_played_are_counted_in_one_warning(tmp_path, text, says):
    path = written(tmp_path, f"{GOOD}\n\n{text}\n")
    with pytest.warns(UserWarning, match=f"1 of 2 boards are left out: 1 .*{says}.*line") as caught:
        boards = load_boards(str(path))
    assert len(caught) == 1
    assert len(levels_of(boards)) == 1
    if text != GOOD:
        with pytest.raises(ConfigError, match=says):
            load_boards(str(written(tmp_path, text, "alone.txt")))


def test_a_file_without_a_board_is_an_error(tmp_path):
    for text in ("# Level 1", "#####\n#####", "no board here"):
        with pytest.raises(ConfigError, match="has no board"):
            env_of(written(tmp_path, text))
    with pytest.raises(ConfigError, match="neither a file nor a folder"):
        env_of("/nowhere")


@pytest.mark.parametrize(
    "text",
    [
        f"# Level 1\n\n{GOOD}",
        f"****\n{GOOD}\n****",
        f"==========\n{GOOD}\n----------",
        f"Title: a # in a title\nAuthor: #1\n{GOOD}\nComment:\n #@ is me\nComment-End:",
        "**#######\n *#@ $ .#*\n *#######*",
        "7#\n#@ $ .#\n7#",
        "7#|#@-$-.#|7#",
        "7#|#@-1($-).#|7#|",
        "#######\n#p_b_o#\n#######",
        "\t#######\n\t#@ $ .#\n\t#######",
        GOOD.replace("\n", "\r"),
        f"\ufeff{GOOD}",
        f"#####\n\n#######\n\n{GOOD}",
    ],
)
def test_dialects_are_read(tmp_path, text):
    (level,) = levels_of(load_boards(str(written(tmp_path, text))))
    (plain,) = levels_of(load_boards(str(written(tmp_path, GOOD, "plain.txt"))))
    assert (level.board, level.boxes.bit_count()) == (plain.board, 1)
    assert cells(level.targets)[0] - level.player == 4


def test_boards_in_one_line_are_apart(tmp_path):
    boards = load_boards(str(written(tmp_path, "7#|#@-$-.#|7#||7#|#-@$-.#|7#")))
    assert len(levels_of(boards)) == 2


def test_a_corridor_beside_a_wide_board_is_read(tmp_path):
    corridor = "\n".join(["####", "#@ #", *["#  #"] * 6, "#$ #", "#. #", "####"])
    wide = "\n".join(["#" * 30, "#@$" + " " * 25 + ".#", "#" * 30])
    env = env_of(written(tmp_path, f"{corridor}\n\n{wide}"))
    assert (env.config.imported.height, env.config.imported.width) == (11, 30)


def test_many_boards_are_loaded_without_being_checked(tmp_path, monkeypatch):
    monkeypatch.setattr("vagen_envs.sokoban.boards.MOST_CHECKED", 3)
    solved = "######\n#@* *#\n######"
    texts = [solved, *("#" * (5 + i) + f"\n#@$.{' ' * i}#\n" + "#" * (5 + i) for i in range(4))]
    (tmp_path / "train").mkdir()
    env = env_of(written(tmp_path / "train", "\n\n".join(texts)).parent)
    assert env.level_count == 5
    floors = [
        env.reset(options={"level": i}) and env.simulator.level.floor.bit_count() for i in range(5)
    ]
    assert floors == [3, 3, 4, 5, 6]  # a board that can't be played gives way to the next


@pytest.mark.parametrize(
    "options",
    [
        {"dim_room": (7, 7)},
        {"num_boxes": 2},
        {"min_solution_length": 1},
        {"difficulty": 3},
    ],
)
def test_what_the_file_says_is_not_said_twice(tmp_path, options):
    with pytest.raises(ConfigError, match="left out beside boards"):
        env_of(written(tmp_path, BOXOBAN), **options)


def test_only_an_operator_names_paths(tmp_path):
    path = str(written(tmp_path, BOXOBAN))
    with pytest.raises(ConfigError, match="closed to clients"):
        permitted("vagen/Sokoban-v0", {"boards": path}, {})
    assert permitted("vagen/Sokoban-v0", {"boards": "small"}, {"boards": {"small": path}}) == {
        "boards": path
    }


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    boxes=st.integers(1, 3),
    cut=st.booleans(),
    floor=st.sampled_from(" -_"),
)
def test_what_is_written_is_read_back(tmp_path_factory, seed, boxes, cut, floor):
    """A drawn level as a board of a file: the same floor, targets, boxes and player; turned and cut off, too."""
    level = draw_level(
        HashStream("boards", seed),
        SPLITS[seed % 3],
        height=6,
        width=8,
        num_boxes=boxes,
        shortest=6,
        longest=9,
    )
    rows = xsb(level).replace(" ", floor).split("\n")
    if cut:  # without walls that nothing leans on
        rows = [row for row in rows if set(row) != {"#"}]
        rows = ["#" * 8, *rows, "#" * 8]
    if level.boxes == level.targets:
        return
    path = tmp_path_factory.mktemp("boards") / "one.xsb"
    path.write_text("\n".join(rows))
    (read,) = levels_of(load_boards(str(path), "content"))
    assert read.board == level.board
    assert xsb(read).split("\n") == [row.replace(floor, " ") for row in rows]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="#@+$*. -_\n;ax\t\u20ac", max_size=80))
def test_any_text_is_boards_or_one_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("boards") / "any.txt"
    path.write_text(text, encoding="utf-8")
    try:
        boards = load_boards(str(path))
    except ConfigError:
        return
    assert levels_of(boards)


def test_twins_are_in_one_split(tmp_path):
    """A board, turned, mirrored and with a wider wall, has the split of the board as it is."""
    rows = ["#######", "#@ $ .#", "#   ###", "#######"]
    turned = ["".join(row[i] for row in rows) for i in range(7)]
    wide = ["#" * 9, *(f"#{row}#" for row in rows), "#" * 9]
    text = "\n\n".join(
        "\n".join(each) for each in (rows, turned, wide, [row[::-1] for row in rows])
    )
    boards = load_boards(str(written(tmp_path, text)), "content")
    assert [len(of_split) for of_split in boards.splits.values() if of_split] in ([3], [4])


ONE, OTHER = "######\n#@$. #\n######\n", "######\n#@ $.#\n######\n"


def playable(path, **options):
    """An environment of a file with one board, in the split that the board is of."""
    splits = load_boards(str(path), "content").splits
    (split,) = [split for split, of_split in splits.items() if of_split]
    return env_of(path, split=split, split_by="content", **options)


def test_a_file_that_changes_is_read_again_and_an_environment_keeps_what_it_has(tmp_path):
    path = written(tmp_path, ONE)
    first = playable(path)
    rows = first.reset(seed=0)[1]["state"].symbolic()
    moment = first.snapshot()
    written(tmp_path, OTHER)  # as long as before, and perhaps within the same tick of the clock
    second = playable(path)
    assert second.reset(seed=0)[1]["state"].symbolic() != rows
    assert first.reset(seed=0)[1]["state"].symbolic() == rows
    with pytest.raises(SnapshotError, match="other options"):
        env_of(path, split=first.config.split, split_by="content").restore(moment)
    written(tmp_path, ONE)
    env_of(path, split=first.config.split, split_by="content").restore(moment)


def test_every_loaded_board_is_reset_though_it_cannot_be_solved(tmp_path):
    hard = playable(written(tmp_path, "#######\n#.$$.@#\n#     #\n#######"))
    short = playable(written(tmp_path, GOOD, "b.txt"), max_steps=2)
    for env in (hard, short):
        env.reset(seed=0)
        env.step(reply_of(env, "Left"))
    with pytest.raises(LevelError, match="stuck"):
        hard.oracle_reply()


def test_an_empty_path_of_boards_is_refused():
    with pytest.raises(ConfigError, match="boards='' is not valid"):
        gym.make("vagen/Sokoban-v0", boards="")


ONE = "#####\n#@$.#\n#####\n"


def _slc(*boards):
    levels = "".join(
        f'<Level Id="{i}">' + "".join(f"<L>{row}</L>" for row in board.split("\n")) + "</Level>"
        for i, board in enumerate(boards)
    )
    collection = f"<LevelCollection>{levels}</LevelCollection>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<SokobanLevels>{collection}</SokobanLevels>'


@pytest.mark.parametrize("corridor", range(12))
def test_one_board_of_ones_own_is_played_at_the_default_reset(tmp_path, corridor):
    # whichever split its content would draw
    board = "####\n#@ #\n" + "#  #\n" * corridor + "#$ #\n#. #\n####\n"
    env = env_of(written(tmp_path, board))
    env.reset(seed=0)
    assert finish(env)[-1].success
    if env.config.imported.splits["test"]:  # its content isn't train's, so it stands in all
        env.reset(options={"split": "test"})
        return
    with pytest.raises(LevelError, match='split_by="all"'):
        env.reset(options={"split": "test"})


def test_split_by_all_puts_every_board_into_every_split(tmp_path):
    for split in SPLITS:
        env = env_of(written(tmp_path, BOXOBAN), split_by="all", split=split)
        assert env.level_count == 2
        env.reset(options={"level": 1})
    with pytest.raises(ConfigError, match="split_by"):
        env_of(written(tmp_path, BOXOBAN), split_by="every")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("name", ["boards.lvl", "boards.slc", "boards"])
def test_other_encodings_and_endings_are_read(tmp_path, encoding, name):
    text = _slc(ONE.strip()) if name.endswith("slc") else ONE
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    (tmp_path / name).write_bytes((mark + text.replace("\n", "\r\n")).encode(encoding))
    boards = load_boards(str(tmp_path), split_by="all")
    assert [level.floor.bit_count() for level in levels_of(boards)] == [3, 3, 3]


def test_collections_in_xml_are_read_in_order_and_damaged_ones_named(tmp_path):
    other = "######\n#@ $.#\n######"
    path = written(tmp_path, _slc(ONE.strip(), other), "own.slc")
    boards = load_boards(str(path), split_by="all")
    assert [boards.level("test", i).floor.bit_count() for i in range(2)] == [3, 4]
    with pytest.raises(ConfigError, match="is not XML"):
        load_boards(str(written(tmp_path, "<SokobanLevels><Level>", "cut.slc")))
    bomb = (
        '<!DOCTYPE a [<!ENTITY x "#####">]><SokobanLevels><Level><L>&x;</L></Level></SokobanLevels>'
    )
    with pytest.raises(ConfigError, match="entities"):
        load_boards(str(written(tmp_path, bomb, "bomb.slc")))


def test_what_is_empty_says_so(tmp_path):
    with pytest.raises(ConfigError, match="is empty"):
        load_boards(str(written(tmp_path, "")))
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="without files of boards"):
        load_boards(str(tmp_path / "none"))
