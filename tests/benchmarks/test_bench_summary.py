"""The table of a run from stored episodes: counts, bounds under losses, and what each column is a share of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_benchmarks.results.play_errors import errors_of
from vagen_benchmarks.results.stats import average, by_level, pass_at, rate
from vagen_benchmarks.results.summary import Summary, estimate, served_names, summarise
from vagen_benchmarks.runs.episode import Ended, Episode
from vagen_benchmarks.runs.protocol import Protocol, Task
from vagen_benchmarks.stop_reasons import Stop

AGENT = "agent"
TASK = "vagen/Sokoban-v0"


def turn(reward=0.0, *, codes=(), executed=("Up",), well_formed=True, **metrics):
    """A stored turn, as far as the table reads it."""
    usual = {"action_is_valid": True, "action_is_effective": True, "success": False}
    return {
        "parsed": {"well_formed": well_formed, "problems": [{"code": code} for code in codes]},
        "executed": list(executed),
        "metrics": {**usual, **metrics},
        "rewards": [{"name": "task", "value": reward}],
    }


def call(ending="stop", seconds=1.0, **tokens):
    return {"ending": ending, "seconds": seconds, **tokens}


def episode(seed, stop, turns=None, *, calls=None, repeat=0, content=None, task=TASK, agent=AGENT):
    turns = [turn()] if turns is None else turns
    calls = [None] * len(turns) if calls is None else calls
    content = f"level {seed}" if content is None else content
    key = f"{agent} {task} {seed} {repeat}"
    return Episode(key, agent, task, "test", seed, repeat, turns, calls, Ended(stop), content)


def protocol(episodes, repeats=1, tasks=(TASK,), agents=(AGENT,), first_seed=0):
    made = tuple(Task(name, name, {}, "test", first_seed, episodes, {}, "", "") for name in tasks)
    return Protocol(made, tuple({"name": name} for name in agents), repeats)


def row_of(played, planned=None, repeats=1):
    summary = Summary(protocol(len(played) if planned is None else planned, repeats))
    for each in played:
        summary.add(each)
    (row,) = summary.rows()
    return row


def outcomes(*stops):
    return [episode(seed, stop) for seed, stop in enumerate(stops)]


@given(
    st.lists(st.sampled_from([Stop.SOLVED, Stop.LOST, Stop.BUDGET]), min_size=1, max_size=20),
    st.lists(st.sampled_from([Stop.TIMEOUT, Stop.ENVIRONMENT, Stop.AGENT]), max_size=10),
    st.integers(0, 10),
)
def test_bounds_take_what_failed_or_is_missing_as_all_lost_and_as_all_won(played, failed, missing):
    """The lower bound is that of the levels all lost, the upper one that of the levels all won."""
    count = len(played) + len(failed)
    row = row_of(outcomes(*played, *failed), planned=count + missing)
    won = [float(stop is Stop.SOLVED) for stop in played]
    gone = len(failed) + missing
    worst = rate([(value, 1) for value in won + [0.0] * gone])
    best = rate([(value, 1) for value in won + [1.0] * gone])
    assert row["success"] == pytest.approx(sum(won) / len(won))
    assert (row["low"], row["high"]) == pytest.approx((worst.low, best.high))
    among = rate([(value, 1) for value in won])
    stated = (row["levels"], row["independent_plays"], row["freedom"])
    assert stated == (among.levels, among.effective, among.freedom)
    assert row["low"] <= row["success"] <= row["high"]
    assert (row["played"], row["failed"], row["missing"]) == (len(played), len(failed), missing)
    assert row["flagged"] == (gone > 0.02 * (count + missing))


def test_each_loss_widens_the_interval_on_both_sides():
    played = [Stop.SOLVED, Stop.LOST] * 6
    rows = [row_of(outcomes(*played, *[Stop.TIMEOUT] * gone)) for gone in range(5)]
    lows, highs = [row["low"] for row in rows], [row["high"] for row in rows]
    assert lows == sorted(set(lows), reverse=True)
    assert highs == sorted(set(highs))


def test_a_failed_repeat_belongs_to_its_level():
    """The level of a missing repeat is known by its seed, so that it doesn't count as a further one."""
    played = [episode(seed, Stop.SOLVED, repeat=0) for seed in range(6)]
    row = row_of([*played, episode(6, Stop.TIMEOUT, [], content="level 0", repeat=1)], planned=6)
    whole = rate(by_level([(f"level {seed}", 1.0) for seed in range(6)] + [("level 0", 0.0)]))
    assert row["low"] == pytest.approx(whole.low)
    missing = row_of(played, planned=6, repeats=2)
    both = rate([(1.0, 2)] * 6)
    assert missing["low"] == pytest.approx(both.low)
    assert missing["levels"] == 6


def test_one_failure_of_fifty_is_not_flagged_and_two_are():
    assert not row_of(outcomes(*[Stop.SOLVED] * 49, Stop.TIMEOUT))["flagged"]
    assert row_of(outcomes(*[Stop.SOLVED] * 48, *[Stop.TIMEOUT] * 2))["flagged"]


def test_nothing_played_is_no_number():
    row = row_of([], planned=3)
    assert (row["played"], row["missing"], row["successes"]) == (0, 3, 0)
    names = ("success", "return", "return_low", "turns", "valid", "dollars", "seconds_per_reply")
    assert {name: row[name] for name in names} == dict.fromkeys(names)
    assert (row["low"], row["high"]) == (0.0, 1.0)
    assert row["errors"] == dict.fromkeys(row["errors"])
    assert (row["solved_by_turn"], row["pass_at"], row["judged"]) == ([], {}, {})
    assert (row["drawn"], row["unscored_reason"]) == ("", "")


def test_shares_are_of_turns_and_returns_of_episodes():
    turns = [
        turn(1.0, action_is_valid=False, executed=()),
        turn(0.5, action_is_effective=False),
        turn(0.25, well_formed=False, action_is_effective=False),
    ]
    row = row_of([episode(0, Stop.SOLVED, turns), episode(1, Stop.LOST, [turn(0.25)])])
    assert row["turns"] == 2.0
    assert (row["valid"], row["effective"], row["well_formed"]) == (0.75, 0.5, 0.75)
    returned = average([(1.75, 1), (0.25, 1)])
    assert row["return"] == 1.0
    assert (row["return_low"], row["return_high"]) == pytest.approx((returned.low, returned.high))
    first, second, third = row["by_turn"]
    assert (first["turns"], first["valid"], first["reward"]) == (2, 0.5, 0.625)
    assert (second["turns"], second["effective"], second["reward"]) == (1, 0.0, 0.5)
    assert (third["well_formed"], third["grounding"]) == (0.0, None)


def test_a_single_level_has_a_return_without_bounds():
    row = row_of([episode(0, Stop.SOLVED, [turn(1.0)])])
    assert (row["return"], row["return_low"], row["return_high"]) == (1.0, None, None)


def test_solved_by_turn_counts_episodes_not_yet_solved():
    lengths = [(1, Stop.SOLVED), (3, Stop.SOLVED), (3, Stop.LOST), (2, Stop.BUDGET)]
    played = [episode(i, stop, [turn()] * count) for i, (count, stop) in enumerate(lengths)]
    assert row_of(played)["solved_by_turn"] == [0.25, 0.25, 0.5]


def test_pass_at_k_takes_the_tries_that_every_level_had():
    wins = {0: [True, False, True, True], 1: [False] * 4, 2: [True, False, False, False, False]}
    played = [
        episode(seed, Stop.SOLVED if won else Stop.LOST, repeat=repeat)
        for seed, tries in wins.items()
        for repeat, won in enumerate(tries)
    ]
    row = row_of(played, planned=3, repeats=5)
    assert list(row["pass_at"]) == [1, 2, 4]
    for k, value in row["pass_at"].items():
        expected = [pass_at(k, len(tries), sum(tries)) for tries in wins.values()]
        assert value == pytest.approx(sum(expected) / 3)
        low, high = row["pass_at_bounds"][k]
        assert 0 <= low <= value <= high <= 1
    assert row_of(outcomes(Stop.SOLVED, Stop.LOST))["pass_at"] == {}


def test_own_metrics_are_those_of_the_last_turn():
    """An episode that ended before its first turn counts as 0."""
    played = [
        episode(0, Stop.SOLVED, [turn(distance=9.0), turn(distance=3.0, room="kitchen")]),
        episode(1, Stop.LOST, [turn(distance=5.0, room="bath", grounding=0.5)]),
        episode(2, Stop.CONTEXT, []),
    ]
    row = row_of(played)
    expected = average([(3.0, 1), (5.0, 1), (0.0, 1)])
    assert row["metrics"] == {"distance": pytest.approx(8 / 3)}
    assert row["metric_bounds"] == {"distance": pytest.approx([expected.low, expected.high])}
    assert row["labels"] == {"room": "bath, kitchen"}


def test_judged_parts_and_what_was_not_scored():
    turns = [
        turn(grounding=1.0, world_modeling_unscored=1.0, world_modeling_reason="not understood"),
        turn(grounding=0.0, world_modeling=0.25),
    ]
    row = row_of([episode(0, Stop.SOLVED, turns), episode(1, Stop.LOST, [turn(grounding=0.0)])])
    assert row["judged"] == {"grounding": pytest.approx(1 / 3), "world_modeling": 0.25}
    assert (row["unscored"], row["unscored_reason"]) == (1, "not understood")
    assert row["errors"]["grounding wrong"] == 1.0
    assert row["errors"]["prediction wrong"] == 0.5
    assert row_of(outcomes(Stop.SOLVED))["errors"]["grounding wrong"] is None
    assert row["metrics"] == {}


def test_usage_and_seconds_are_of_all_calls_those_of_failed_episodes_too():
    calls = [call(seconds=2.0, prompt_tokens=10, completion_tokens=3, dollars=0.5, cached_tokens=4)]
    lost = [call(seconds=4.0, prompt_tokens=5, completion_tokens=1, dollars=0.25, estimated=True)]
    row = row_of([
        episode(0, Stop.SOLVED, calls=calls), episode(1, Stop.TIMEOUT, calls=lost)
    ])  # fmt: skip
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "dollars", "counted_by_us")
    assert [row[name] for name in names] == [15, 4, 4, 0.75, 1]
    assert row["seconds_per_reply"] == 3.0
    assert row["failures"] == {Stop.TIMEOUT: 1}
    assert row["turns"] == 1.0


def test_seconds_have_a_median_and_what_95_of_100_replies_did_not_exceed():
    calls = [call(seconds=float(number)) for number in range(100, 0, -1)]
    row = row_of([episode(0, Stop.SOLVED, [turn()] * 100, calls=calls)])
    assert (row["seconds_per_reply"], row["seconds_median"], row["seconds_p95"]) == (50.5, 50.5, 95)
    alone = row_of([episode(0, Stop.SOLVED, calls=[call(seconds=3.0)])])
    assert (alone["seconds_median"], alone["seconds_p95"]) == (3.0, 3.0)


def test_the_models_that_answered_are_counted_for_each_agent():
    summary = Summary(protocol(3, agents=("a", "b")))
    for seed, (agent, served) in enumerate([("a", "one"), ("a", "two"), ("a", "one"), ("b", None)]):
        calls = [call(served=served), call()]
        summary.add(episode(seed % 3, Stop.LOST, [turn()] * 2, calls=calls, agent=agent))
    rows = summary.rows()
    assert [row["served"] for row in rows] == [{"one": 2, "two": 1}, {}]
    assert served_names([*rows, *rows]) == {"a": {"one": 4, "two": 2}}


def test_a_run_is_summarised_with_failures_lost_or_as_misses():
    class Run:
        protocol = protocol(2)

        def episodes(self):
            return outcomes(Stop.SOLVED, Stop.TIMEOUT)

    for as_misses, played, success in ((False, 1, 1.0), (True, 2, 0.5)):
        (row,) = summarise(Run(), failed_as_misses=as_misses).rows()
        assert (row["played"], row["success"]) == (played, success)
    assert summarise(Run()).rows()[0]["played"] == 1


def test_problems_count_turns_by_code_the_most_frequent_first():
    turns = [
        turn(codes=["no_think", "no_think", "tags"]),
        turn(codes=["tags"]),
        turn(codes=["alone"]),
        turn(codes=["bare"]),
    ]
    row = row_of([episode(0, Stop.LOST, turns)])
    assert list(row["problems"].items()) == [
        ("tags", 2),
        ("alone", 1),
        ("bare", 1),
        ("no_think", 1),
    ]


@pytest.mark.parametrize(
    ("stop", "turns", "calls", "expected"),
    [
        (Stop.SOLVED, [turn()], [None], set()),
        (Stop.LOST, [turn()], [None], {"lost"}),
        (Stop.GIVEN_UP, [], [], {"given up"}),
        (Stop.SOLVED, [turn(well_formed=False)], [call()], {"format"}),
        (Stop.SOLVED, [turn(codes=["unknown_action"])], [None], {"invalid action"}),
        (Stop.SOLVED, [turn(codes=["bad_argument"])], [None], {"invalid action"}),
        (Stop.SOLVED, [turn(codes=["unclear_answer"])], [None], {"unclear answer"}),
        (Stop.SOLVED, [turn(codes=["no_action"], executed=())], [None], {"invalid action"}),
        (Stop.SOLVED, [turn(codes=["no_answer"], executed=())], [None], {"invalid action"}),
        (Stop.SOLVED, [turn(codes=["too_many_actions"])], [call()], {"too many actions"}),
        (Stop.SOLVED, [turn(), turn()], [call(), call("cut")], {"cut"}),
        (Stop.SOLVED, [turn(action_is_effective=False)], [None], {"no progress"}),
        (Stop.SOLVED, [turn(action_is_effective=False, executed=())], [None], set()),
        (Stop.SOLVED, [turn(grounding=0.5, world_modeling=0.49)], [None], {"prediction wrong"}),
        (Stop.SOLVED, [turn(grounding=0.49, world_modeling=0.5)], [None], {"grounding wrong"}),
    ],
)
def test_errors_of_an_episode(stop, turns, calls, expected):
    assert errors_of(episode(0, stop, turns, calls=calls)) == expected


def test_errors_are_shares_of_scored_episodes():
    row = row_of(outcomes(Stop.SOLVED, Stop.LOST, Stop.LOST, Stop.CONTEXT, Stop.TIMEOUT))
    assert (row["errors"]["lost"], row["errors"]["overflow"]) == (0.5, 0.25)
    assert "timeout" not in row["errors"]


def test_rows_stand_by_task_then_agent_and_name_their_draw():
    tasks, agents = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0"), ("one", "two")
    summary = Summary(protocol(2, tasks=tasks, agents=agents, first_seed=3))
    for task in reversed(tasks):
        for agent in agents:
            for seed in (4, 3):
                summary.add(episode(seed, Stop.SOLVED, task=task, agent=agent))
    rows = summary.rows()
    assert [(row["task"], row["agent"]) for row in rows] == [
        (task, agent) for task in tasks for agent in agents
    ]
    assert {row["drawn"] for row in rows} == {"test 3 level 3"}
    assert {row["missing"] for row in rows} == {0}
    found = estimate(rows[0])
    assert (found.value, found.levels, found.drawn) == (1.0, 2, "test 3 level 3")
    assert (found.low, found.high, found.flagged) == (rows[0]["low"], rows[0]["high"], False)
    assert (found.effective, found.freedom) == (rows[0]["independent_plays"], rows[0]["freedom"])


def test_levels_of_the_same_content_are_one():
    played = [episode(seed, Stop.SOLVED, content="the same") for seed in range(3)]
    assert row_of(played)["levels"] == 1
    unknown = [episode(seed, Stop.SOLVED, content="") for seed in range(3)]
    assert row_of(unknown)["levels"] == 3
    assert row_of(unknown)["drawn"] == ""


def test_an_episode_that_no_protocol_names_gets_a_cell():
    summary = Summary(protocol(1))
    summary.add(episode(0, Stop.SOLVED, agent="stranger"))
    rows = {row["agent"]: row for row in summary.rows()}
    assert (rows["stranger"]["played"], rows["stranger"]["missing"]) == (1, 0)
    assert (rows["stranger"]["task"], rows[AGENT]["missing"]) == (TASK, 1)
