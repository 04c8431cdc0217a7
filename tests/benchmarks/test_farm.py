"""The table of farmers, on a small setting: nobody earns without looking or solving."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from vagen_benchmarks import farm
from vagen_benchmarks.cli import app
from vagen_benchmarks.farm.words import NOTHING, WORDS, Share, WordTable
from vagen_rewards import contrast, groups
from vagen_rewards.reader import read

GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
LONG = {"difficulty": 0, "max_turns": 12}


def within(shares):
    """Shares of words have a standard error, by which a bound may be missed twice."""
    for (name, *column), share in shares.items():
        found = share if isinstance(share, Share) else Share(share, 0.0)
        assert not farm.is_beyond(name, found), (name, column, found)


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("setting", ["default", "format alone"])
def test_who_solves_late_or_never_earns_less(env_id, setting):
    within(farm.return_shares(env_id, LONG, 6, (1.0, 0.95), setting))


@pytest.mark.parametrize("env_id", GRIDS)
def test_by_the_papers_rule_waiting_pays(env_id):
    """The table can fail: without the bound a late solver earns more than the oracle."""
    shares = farm.return_shares(env_id, LONG, 4, (1.0,), "per turn")
    assert shares["late", 1.0] > 1.2


@pytest.mark.parametrize("env_id", GRIDS)
def test_words_that_dont_look_earn_hardly_anything(env_id):
    within(farm.word_shares(env_id, {"difficulty": 0}, 20, 60))


@pytest.fixture(scope="module")
def navigation():
    """A table of first and second turns in Navigation, with what own words earn."""
    table = WordTable("vagen/Navigation-v0", {"difficulty": 0}, 16)
    own = table.own("grounding", table.played("grounding", table.episodes(most=2)))
    return table, table.episodes(lambda *_: ["moveahead"], times=20, most=2), own


@pytest.mark.sim
def test_words_that_dont_look_earn_hardly_anything_in_navigation(navigation):
    table, episodes, own = navigation
    first = table.played("grounding", episodes, only=0)
    within({("best constant", "grounding"): table.constant(first, 500, own)})
    within({("blind after 0", "grounding"): table.blind(first, own)})
    second = table.played("grounding", episodes, only=1)
    within({("blind after 1", "grounding"): table.blind(second, own)})


@pytest.mark.sim
@pytest.mark.parametrize("fault", ["no margin", "no cost of what isn't in sight"])
def test_without_either_rule_blind_words_earn_in_navigation(monkeypatch, navigation, fault):
    """The bound can be missed: a list of objects earns where naming what may be there is free."""
    table, episodes, own = navigation
    if fault == "no margin":
        monkeypatch.setattr(groups, "MARGIN", 0.0)
    else:
        paid = contrast._paid

        def costly(value, mean, is_owed):
            return paid(value, mean, is_owed) if value else 0.0

        monkeypatch.setattr(contrast, "_paid", costly)
    table.contrast = contrast.Contrast("vagen/Navigation-v0", {"difficulty": 0})
    first = table.played("grounding", episodes, only=0)
    assert farm.is_beyond("blind after 0", table.blind(first, own))


@pytest.mark.sim
@pytest.mark.parametrize(
    ("env_id", "options", "seeds"),
    [
        ("vagen/Navigation-v0", {"difficulty": 2}, 4),
        ("vagen/PrimitiveSkillPlace-v0", {}, 6),
        ("vagen/SVGReconstruction-v0", {"scorer": "classical"}, 12),
    ],
)
def test_scores_are_ordered_by_right_minus_wrong(env_id, options, seeds):
    """In the other worlds, too; on the grids the table has it."""
    table = WordTable(env_id, options, seeds)
    only = None if "Navigation" in env_id else 0
    played = table.played("grounding", table.episodes(), only)
    assert table.slope("grounding", played) >= 0.95
    twice = table.share(
        "grounding", WORDS["own words twice"], played, table.own("grounding", played)
    )
    assert twice.value == pytest.approx(1)


BOARD_WORDS = (
    ("above and on the", "up and to the"),
    (" side of", " of"),
    ("at the same row and", "in the same row and"),
    ("The target is", "Target:"),
    ("the player", "me"),
)
OTHER_WORDS = {
    "vagen/Sokoban-v0": BOARD_WORDS,
    "vagen/FrozenLake-v0": BOARD_WORDS,
    "vagen/Navigation-v0": (("the agent, ", "me, "), (" m away", " metres away"), ("The ", "A ")),
    "vagen/PrimitiveSkillStack-v0": (("The ", ""), (" is at", " at"), ("gripper is", "gripper:")),
    "vagen/SVGReconstruction-v0": ((" wide and ", " wide, "), ("has a", "contains a")),
}


@pytest.mark.sim
@pytest.mark.parametrize("env_id", OTHER_WORDS)
def test_order_and_wording_dont_move_a_score_and_a_missing_sentence_doesnt_raise_it(env_id):
    options = {"scorer": "classical"} if "SVG" in env_id else {}
    table = WordTable(env_id, options, 4)
    missing = []
    for played in table.played("grounding", table.episodes(most=1)):
        state = played.turn.before
        sentences = [each[0].upper() + each[1:] for each in state.sentences()]

        def score(text, played=played, state=state):
            facts = [claim.key for claim in read(state.kind, text, "grounding").claims]
            return played.contrast.score(facts)

        own = score(". ".join(sentences))
        other = ". ".join(sentences)
        for usual, changed in OTHER_WORDS[env_id]:
            other = other.replace(usual, changed)
        assert other != ". ".join(sentences)
        assert score(other) == pytest.approx(own), other
        assert score(". ".join(reversed(sentences))) == pytest.approx(own)
        for each in sentences:
            left = score(". ".join(kept for kept in sentences if kept != each))
            assert left <= own + 1e-9
            missing.append(left < own)
    assert any(missing)


def test_the_command_prints_the_table():
    done = CliRunner().invoke(
        app, ["judge", "farm", "-e", GRIDS[1], "--max-turns", "3", "--seeds", "2", "--tries", "0"]
    )
    assert "blind after 1" in done.output
    assert "remaining" not in done.output


def test_where_own_words_earn_nothing_there_is_no_share(monkeypatch, tmp_path):
    """In SVG the agent wrote the drawing that a prediction describes."""
    table = WordTable("vagen/SVGReconstruction-v0", {"scorer": "classical"}, 2)
    part = "world_modeling"
    played = table.played(part, table.episodes())
    own = table.own(part, played)
    share = table.share(part, WORDS["own words"], played, own)
    assert math.isnan(share.value)
    assert not farm.is_beyond("own words", share)
    row = farm.Row("words", "own words", part, NOTHING)
    monkeypatch.setattr(farm, "rows", lambda *_: iter([row]))
    kept = tmp_path / "farm.json"
    done = CliRunner().invoke(app, ["judge", "farm", "-e", GRIDS[0], "--out", str(kept)])
    assert done.exit_code == 0
    assert "–" in done.output
    assert json.loads(kept.read_text())[0]["share"] is None


def test_blind_words_are_measured_only_where_they_were_not_chosen():
    table = WordTable(GRIDS[0], {"difficulty": 0}, 6)
    episodes = table.episodes(lambda *_: ["Up"])
    first, *others = table.played("grounding", episodes, only=1)
    played = [turn for other in others for turn in (other, first)]
    share = table.blind(played, 1.0)
    assert share.error == 0.0, "every turn that is measured is the same"
    assert not math.isnan(share.value)
