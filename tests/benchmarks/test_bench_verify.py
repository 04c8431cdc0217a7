"""Runs that are played again without their model: what is as stored, and every way to a better rank that is caught."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import pytest
import runs
from typer.testing import CliRunner

from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import EndpointError, NotVerifiedError, ProtocolError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.picture_pack import PicturePack, PictureWriter
from vagen_benchmarks.runs.plans import Plan, load_plan
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import run
from vagen_benchmarks.runs.scoring import make_scoring
from vagen_benchmarks.sharing.files import Attempts, count_attempts
from vagen_benchmarks.sharing.leaderboard import write_leaderboard
from vagen_benchmarks.sharing.verify import verify

EPISODES = 6


class Flaky(Random):
    """Plays at random; its server dies at seed 2, and its context is full at seed 3."""

    name = "flaky"

    def reply(self, game):
        if game.seed == 2:
            raise EndpointError("server_error", "HTTP 500: gone", retry=False)
        if game.seed == 3 and game.turns:
            raise EndpointError("overflow", "HTTP 400: maximum context length", retry=False)
        return super().reply(game)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "run"
    runs.play(path, [Flaky()], ["sokoban", "frozenlake"], episodes=EPISODES)
    write_report(RunFolder(path))
    return path


@pytest.fixture
def copy(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def lines(path):
    return (path / "episodes.jsonl").read_text().splitlines(keepends=True)


def store(path, new):
    (path / "episodes.jsonl").write_text("".join(new))


def compact(data):
    """Lines of these episodes."""
    return [f"{json.dumps(each, separators=(',', ':'))}\n" for each in data]


def test_honest_run_is_confirmed(honest):
    verdict = verify(RunFolder(honest))
    assert (verdict.wrong, verdict.unknown) == ([], [])
    assert (verdict.episodes, verdict.failed) == (2 * EPISODES - 2, 2)
    assert verdict.turns == sum(len(episode.turns) for episode in runs.episodes(honest))
    shown = CliRunner().invoke(app, ["verify", str(honest)])
    assert (shown.exit_code, "10 episodes" in shown.output) == (0, True)


def edit(change):
    """An attack that changes the second episode."""

    def attack(path):
        data = [json.loads(line) for line in lines(path)]
        change(data[1])
        store(path, compact(data))

    return attack


def reply(episode):
    episode["turns"][0]["reply"] = episode["turns"][0]["reply"].replace(
        "<answer>", "<answer>Up,", 1
    )


def level_and_key(episode):
    episode["seed"], episode["key"] = 77, episode["key"].replace(" 1", " 77")


def shorter(episode):
    del episode["turns"][-1], episode["calls"][-1]


SOLVED = {"ended": {"kind": "solved", "message": ""}}
FIVE = {"name": "format", "value": 5.0}


def left_out(path):
    """The failed episodes are gone."""
    store(path, [line for line in lines(path) if "HTTP 500" not in line])


def twice(path):
    data = [json.loads(line) for line in lines(path)]
    store(path, compact([*data, data[0]]))


def swapped_picture(path, taken_out=False):
    pack = PicturePack(path / "pictures.pack")
    (one, _), (_, other), *rest = pack.all()
    pack.path.unlink()
    PictureWriter(PicturePack(pack.path)).add(rest if taken_out else [(one, other), *rest])


def picture_cut_short(path):
    with (path / "pictures.pack").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 5)


def table(path):
    page = (path / "report.html").read_text()
    (path / "report.html").write_text(re.sub(r'"successes": \d+', '"successes": 6', page, count=1))


def protocol(change):
    """An attack that changes the first task after the fact, with a hash that fits."""

    def attack(path):
        data = json.loads((path / "protocol.json").read_text())
        data["tasks"][0].update(change)
        body = {name: value for name, value in data.items() if name != "sha256"}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        (path / "protocol.json").write_text(
            json.dumps({**body, "sha256": hashlib.sha256(text.encode()).hexdigest()})
        )

    return attack


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (edit(lambda episode: episode.update(SOLVED)), "solved is stored"),
        (edit(lambda episode: episode["turns"][0]["rewards"].append(FIVE)), "rewards"),
        (edit(reply), "turn 1"),
        (edit(lambda episode: episode.update(seed=0)), "names no such episode"),
        (edit(level_and_key), "names no such episode"),
        (edit(lambda episode: episode.update(content="")), "another level"),
        (edit(shorter), "the environment went on"),
        (lambda path: (path / "journal.jsonl").unlink(), "the journal knows nothing of"),
        (left_out, "2 episodes that the protocol names are missing"),
        (twice, "scored 2 times"),
        (swapped_picture, "shows something else"),
        (lambda path: swapped_picture(path, taken_out=True), "pictures are missing"),
        (picture_cut_short, "last"),
        (table, "table of report.html"),
        (protocol({"first_seed": 1}), "names no such episode"),
        (protocol({"options": {"max_turns": 30}}), "max_turns"),
    ],
)
def test_every_way_to_a_better_rank_is_caught(copy, attack, said):
    attack(copy)
    verdict = verify(RunFolder(copy))
    assert any(said in line for line in verdict.wrong), verdict.wrong
    assert CliRunner().invoke(app, ["verify", str(copy)]).exit_code == 1
    with pytest.raises(NotVerifiedError, match="isn't what it claims to be"):
        write_leaderboard([copy], copy / "page.html")
    assert not (copy / "page.html").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: store(path, lines(path)[1:]), "some were removed"),
        (table, "table of report.html"),
        (twice, "scored 2 times"),
    ],
)
def test_comparison_says_that_a_run_was_edited(honest, copy, change, said):
    change(copy)
    shown = CliRunner().invoke(app, ["compare", str(honest), str(copy)])
    assert shown.exit_code == 0
    assert f"{copy} was changed after" in shown.output
    assert f"{honest} was changed" not in shown.output
    assert said in shown.output


def test_comparison_with_a_run_that_was_killed_says_nothing(honest, copy):
    *whole, last = lines(copy)
    store(copy, [*whole, last[:50]])
    (copy / "report.html").unlink()
    ends = [
        line
        for line in (copy / "journal.jsonl").read_text().splitlines(keepends=True)
        if '"end"' not in line
    ]
    (copy / "journal.jsonl").write_text("".join(ends))
    shown = CliRunner().invoke(app, ["compare", str(honest), str(copy)])
    assert (shown.exit_code, "was changed after" in shown.output) == (0, False), shown.output


@pytest.mark.parametrize("kept", [slice(1, None), slice(None, -1)], ids=["first", "last"])
def test_episode_that_was_rolled_again_until_it_was_solved_is_caught(copy, kept):
    """Its line is taken out, and resume plays it anew: the journal has counted it, and has it begun twice."""
    store(copy, lines(copy)[kept])
    runs.play(copy, [Flaky()], ["sokoban", "frozenlake"], episodes=EPISODES)
    assert any("removed" in line for line in verify(RunFolder(copy)).wrong)
    assert count_attempts(RunFolder(copy)).dropped > 0


def test_resumes_are_counted(copy):
    runs.play(copy, [Flaky()], ["sokoban", "frozenlake"], episodes=EPISODES)
    journal = copy / "journal.jsonl"
    *kept, _end = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(kept) + '{"event": "sta')  # killed while it wrote
    runs.play(copy, [Flaky()], ["sokoban", "frozenlake"], episodes=EPISODES)
    assert count_attempts(RunFolder(copy)) == Attempts(
        resumed=2,
        killed=1,
        replayed=4,
        continued=0,
        dropped=0,
        unanswered=0,
        rescored=False,
    )
    (copy / "report.html").unlink()
    assert verify(RunFolder(copy)).wrong == []
    shown = CliRunner().invoke(app, ["verify", str(copy)])
    assert "resumed 2 times (1 after it was killed), 4 failed attempts played again" in shown.output


def test_run_that_was_killed_and_resumed_is_confirmed(tmp_path):
    path = tmp_path / "run"
    runs.play(path, [Random()], ["frozenlake"], episodes=4)
    whole = lines(path)
    store(path, [*whole[:2], whole[2][:50]])
    journal = path / "journal.jsonl"
    until_third = journal.read_text().splitlines(keepends=True)[
        :4
    ]  # start, and three episodes begun
    journal.write_text("".join(until_third))
    runs.play(path, [Random()], ["frozenlake"], episodes=4)
    assert verify(RunFolder(path)).wrong == []


def test_judged_run_is_confirmed_but_for_its_verdicts(tmp_path):
    runs.play(
        tmp_path, [Random()], ["frozenlake"], episodes=3, scoring=make_scoring({"judge": "rule"})
    )
    verdict = verify(RunFolder(tmp_path))
    assert (verdict.wrong, verdict.episodes) == ([], 3)
    assert any("judge" in line for line in verdict.unknown)


def test_protocol_file_that_was_cut_down_is_caught(tmp_path):
    plan = load_plan("paper")
    columns = [{**each, "episodes": 2} for each in plan.data["columns"][:2]]
    cut = Plan("paper", {**plan.data, "columns": columns})
    tasks, _ = cut.tasks()
    with RunWriter(
        tmp_path, Protocol(tuple(tasks), ({"name": "oracle"},), plan={"name": "paper", **cut.data})
    ) as folder:
        run(folder, [Oracle()])
    assert any(
        "isn't the package's protocol paper" in line for line in verify(RunFolder(tmp_path)).wrong
    )


class Named(Random):
    def __init__(self, name):
        self.name = name


def test_leaderboard_shows_verified_runs(tmp_path):
    for name, agents in (
        ("one <b>", [Named("<script>alert(1)</script>")]),
        ("two", [Oracle(), Random()]),
    ):
        runs.play(tmp_path / name, agents, ["frozenlake"], episodes=3)
    page = write_leaderboard(
        [tmp_path / "one <b>", tmp_path / "two"], tmp_path / "board" / "page.html"
    ).read_text()
    assert "<script" not in page
    assert 'href="../one%20%3Cb%3E/report.html"' in page
    assert (tmp_path / "two" / "report.html").is_file()
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)[1:]
    assert len(rows) == 3
    assert "oracle" in rows[-1]  # sees the state: no rank, however good
    assert '<td class="rank">–</td>' in rows[-1]
    assert "as informative as 3 independent episodes" in rows[-1]
    for text in ("vagen-envs 0.1.0", "<b>FrozenLake-v0</b> test 0 to 2", "follow no protocol file"):
        assert text in page
    marked = [">own code<" in row for row in rows]
    assert marked == ["alert(1)" in row for row in rows]


def test_options_and_resumes_stand_on_the_leaderboard(tmp_path):
    for _ in range(2):
        runs.play(
            tmp_path / "run",
            [Random()],
            ["frozenlake"],
            episodes=2,
            options={"observation": "text"},
        )
    page = write_leaderboard([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert "<b>FrozenLake-v0 observation=text</b>" in page
    assert "<th>FrozenLake-v0 observation=text</th>" in page
    assert "resumed once" in page
    runs.play(
        tmp_path / "other", [Random()], ["frozenlake"], episodes=3, options={"observation": "text"}
    )
    with pytest.raises(ProtocolError, match=r"tasks.0.episodes: 2 / 3"):
        write_leaderboard([tmp_path / "run", tmp_path / "other"], tmp_path / "page.html")


def test_a_person_plays_into_a_run_as_a_model_does(tmp_path):
    """Gives up the second episode; the input ends in the third, with which `vagen resume` continues."""
    words = ["play", "frozenlake", "--out", str(tmp_path / "mine"), "-n", "3", "--name", "ada"]
    shown = CliRunner().invoke(
        app, words, input="?\nDown,Up,Down\nDown\nDown\nq\n"
    )  # a slip costs no turn
    assert shown.exit_code == 0, shown.output
    assert [episode.ended.kind for episode in runs.episodes(tmp_path / "mine")] == [
        "budget",
        "given up",
    ]
    assert "holds a run already" in str(CliRunner().invoke(app, words).exception)
    shown = CliRunner().invoke(app, ["resume", str(tmp_path / "mine")], input="Up\nUp\nUp\n")
    assert "human:ada" in shown.output
    assert [episode.seed for episode in runs.episodes(tmp_path / "mine")] == [0, 1, 2]
    assert verify(RunFolder(tmp_path / "mine")).wrong == []
    runs.play(tmp_path / "other", [Random()], ["frozenlake"], episodes=3)
    page = write_leaderboard(
        [tmp_path / "mine", tmp_path / "other"], tmp_path / "page.html"
    ).read_text()
    assert "human:ada" in page


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"env_id": "antigravity:Sokoban-v0"}, "isn't an environment of this package"),
        ({"options": {"prompt_pack": "/etc"}}, "prompt_pack"),
    ],
)
def test_strangers_run_opens_no_module_and_no_path(copy, task, said):
    protocol(task)(copy)
    verdict = verify(RunFolder(copy))
    assert (verdict.unplayed, verdict.ok) == (EPISODES, False)
    assert any(said in line for line in verdict.unknown), verdict.unknown
    with pytest.raises(NotVerifiedError):
        write_leaderboard([copy], copy / "page.html")


def test_who_lost_too_much_to_failures_has_no_rank(tmp_path):
    """The more fails, the higher an interval may reach: who drops the hard levels would share the first place."""
    runs.play(tmp_path / "flaky", [Flaky()], ["frozenlake"], episodes=6)
    runs.play(tmp_path / "random", [Random()], ["frozenlake"], episodes=6)
    page = write_leaderboard(
        [tmp_path / "flaky", tmp_path / "random"], tmp_path / "page.html"
    ).read_text()
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)[1:]
    assert ['<td class="rank">–</td>' in row for row in rows] == [False, True]
    assert "‡" in rows[1]


class Eased(Oracle):
    """Has its environments made easier by what it says of itself, as a trained model's card may."""

    name = "eased"
    env_options = {"max_turns": 30}  # noqa: RUF012

    def describe(self):
        return {"name": self.name, "options": dict(self.env_options)}


def test_agent_that_makes_its_environment_easier_is_not_shown(tmp_path):
    runs.play(tmp_path / "run", [Eased()], ["frozenlake"], episodes=3)
    verdict = verify(RunFolder(tmp_path / "run"))
    assert (verdict.ok, verdict.unplayed) == (False, 3)
    assert "sets max_turns" in verdict.unknown[0]


@pytest.mark.parametrize(
    ("env", "module"),
    [
        ("navigation", "mujoco"),
        ("primitiveskilldrawer", "mani_skill"),
        ("svgreconstruction", "cairosvg"),
    ],
)
def test_simulated_and_drawn_worlds_are_played_again(env, module, tmp_path):
    """In an environment made anew: every picture, state, reward and ending; and a reward that was raised is seen."""
    pytest.importorskip(module)
    path = tmp_path / "run"
    try:
        runs.play(path, [Oracle(), Random()], [env], episodes=1)
    except ProtocolError as error:  # such as no Vulkan driver
        pytest.skip(str(error))
    verdict = verify(RunFolder(path))
    assert (verdict.ok, verdict.wrong, verdict.unplayed, verdict.unknown) == (True, [], 0, [])
    first, *others = lines(path)
    data = json.loads(first)
    data["turns"][0]["rewards"][0]["value"] += 1.0
    store(path, [json.dumps(data) + "\n", *others])
    assert not verify(RunFolder(path)).ok
