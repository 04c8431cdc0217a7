"""The table of farmers, on a small setting: nobody earns without looking or solving."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from vagen_benchmarks import farm
from vagen_benchmarks.cli import app
from vagen_benchmarks.farm.words import NOTHING, WORDS, Share, WordTable
from vagen_rewards.contrast import score_of
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
    played = table.play("grounding", only=None if "Navigation" in env_id else 0)
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
    for played in table.play("grounding", only=0):
        state = played.turn.before
        sentences = [each[0].upper() + each[1:] for each in state.sentences()]

        def score(text, played=played, state=state):
            facts = [claim.key for claim in read(state.kind, text, "grounding").claims]
            return score_of("grounding", facts, played.step, played.groups)

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
    played = table.play(part)
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
    first, *others = table.play("grounding", lambda *_: ["Up"], only=1)
    played = [turn for other in others for turn in (other, first)]
    share = table.blind("grounding", played, 1.0)
    assert share.error == 0.0, "every turn that is measured is the same"
    assert not math.isnan(share.value)
