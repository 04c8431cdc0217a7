"""Levels of a rollout: shares of tasks, replays, and what the difficulty sampler learns from episodes."""

from __future__ import annotations

import collections
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.environments import (
    EnvironmentPool,
    TrainingEnvironment,
    read_environments,
)
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply
from vagen_adapters.ppo.level_sampler import SAMPLERS, DifficultySampler, LevelSampler

SOKOBAN = "vagen/Sokoban-v0"
TASKS = TrainingEnvironment.read({"id": SOKOBAN, "difficulties": [0, 1, 2]}).tasks()
CHANCES = {f"{SOKOBAN}:0": 0.99, f"{SOKOBAN}:1": 0.5, f"{SOKOBAN}:2": 0.01}


class Outcome(PPOEpisode):
    """An episode that is known by its outcome and the length of its reply."""

    def __init__(self, level, solved, tokens=10):
        super().__init__(level)
        self.turns.append(PlayedTurn(None, SampledReply((1,) * tokens, (0.0,) * tokens), None, ()))
        self.solved = solved

    success = property(lambda self: self.solved)


def play(sampler, rollouts, chances=CHANCES, tokens=None):
    """Rollouts of 12 groups whose outcomes follow from chances and their numbers; the shares of tasks in each."""
    shares = []
    for number in range(rollouts):
        levels = sampler.levels(range(number * 12, number * 12 + 12), 0)
        shares.append(collections.Counter(level.environment for level in levels))
        solved = [(level.draw * 0.618) % 1 < chances[level.environment] for level in levels]
        lengths = [(tokens or {}).get(level.environment, 10) for level in levels]
        sampler.update(list(map(Outcome, levels, solved, lengths)))
    return shares


def test_uniform_shares_follow_the_weights_in_every_rollout():
    sampler = LevelSampler(TASKS, 0, 4)
    for shares in play(sampler, 5):
        assert all(count in (12, 16, 20) for count in shares.values())
    levels = sampler.levels(range(24), 0)
    assert len({level.seed for level in levels}) == 24
    assert len({level.draw for level in levels}) == 96
    assert sampler.levels(range(24), 0) == levels
    assert LevelSampler(TASKS, 1, 4).levels(range(24), 0) != levels


@pytest.mark.parametrize("kind", SAMPLERS.values())
def test_a_data_set_is_played_in_passes_of_other_orders(kind):
    """A folder of several sources would else be trained on one after the other."""
    sampled = {}
    for seed in (0, 3):
        sampler = kind([*task("alone", 1, ("default",))], seed, 2, {"alone": 50})
        levels = sampler.levels(range(150), 0)[::2]
        passes = [[level.seed % 50 for level in levels[at : at + 50]] for at in (0, 50, 100)]
        assert all(sorted(places) == list(range(50)) for places in passes)
        assert len({tuple(places) for places in (*passes, range(50))}) == 4
        assert sampler.levels(range(149, 150), 0)[0].seed == levels[-1].seed  # as a resumed run
        sampled[seed] = {level.seed for level in levels}
    assert not sampled[0] & sampled[3]


def test_only_what_ends_is_counted(tmp_path):
    pytest.importorskip("math_verify")
    pytest.importorskip("scipy")
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(60)]
    (tmp_path / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = {"question": "prompt", "answer": "answer"}
    options = {"dataset": str(tmp_path / "sums.jsonl"), "columns": columns, "iou_threshold": 0.5}
    environments = read_environments([{"id": "vagen/Sample-v0", "options": options}, SOKOBAN])
    tasks = [each for environment in environments for each in environment.tasks()]
    (counted,) = EnvironmentPool(1, tasks).level_counts.items()
    assert counted[0] == "vagen/Sample-v0"
    assert 40 <= counted[1] < 60  # those of train


def test_a_split_without_levels_is_refused(tmp_path):
    """V-Triune's data has train and test; evaluations would be of nothing."""
    pytest.importorskip("math_verify")
    pytest.importorskip("scipy")
    for name in ("train", "test"):
        row = {"question": f"1 + 1 in {name}?", "answer": "2"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    columns = {"question": "prompt", "answer": "answer"}
    options = {"dataset": str(tmp_path), "columns": columns, "iou_threshold": 0.5}
    environments = read_environments([{"id": "vagen/Sample-v0", "options": options}, SOKOBAN])
    pool = EnvironmentPool(1, [each for entry in environments for each in entry.tasks()])
    pool.check_levels(["train", "test"])
    with pytest.raises(TrainingConfigError, match="no level in the split 'val', which eval_rollou"):
        pool.check_levels(["train", "val"])


def test_the_difficulty_sampler_prefers_tasks_that_are_solved_half_of_the_time():
    shares = play(DifficultySampler(TASKS, 0, 4), 30)
    last = sum(shares[-10:], collections.Counter())
    assert last[f"{SOKOBAN}:1"] > 2 * max(last[f"{SOKOBAN}:0"], last[f"{SOKOBAN}:2"])
    assert min(last.values()) > 0  # the policy changes: no task is given up


def test_it_prefers_cheap_tasks():
    equal = dict.fromkeys(CHANCES, 0.5)
    last = sum(
        play(DifficultySampler(TASKS, 0, 4), 20, equal, {f"{SOKOBAN}:2": 100})[-10:],
        collections.Counter(),
    )
    assert last[f"{SOKOBAN}:2"] < 0.5 * min(last[f"{SOKOBAN}:0"], last[f"{SOKOBAN}:1"])


def test_mixed_levels_are_played_again_by_other_replies():
    sampler = DifficultySampler(TASKS, 0, 4)
    play(sampler, 10)
    before = {seed for record in sampler.records.values() for seed in record.mixed}
    levels = sampler.levels(range(120, 132), 0)
    again = {level.seed for level in levels} & before
    assert 0 < len(again) < 12
    assert len({level.draw for level in levels}) == 48
    assert {level.seed for level in levels if level.environment == f"{SOKOBAN}:1"} & before


def test_its_state_is_json_that_continues_it():
    one, other = DifficultySampler(TASKS, 0, 4), DifficultySampler(TASKS, 0, 4)
    play(one, 5)
    other.restore(json.loads(json.dumps(one.state())))
    assert other.levels(range(60, 84), 0) == one.levels(range(60, 84), 0)
    assert other.metrics() == one.metrics()


def task(name, weight, packs=()):
    entry = {"id": SOKOBAN, "name": name, "weight": weight}
    if packs:
        entry["prompt_packs"] = list(packs)
    return TrainingEnvironment.read(entry).tasks()


def group_of(name, seed, outcomes, tokens=10, number=0, failed=()):
    """Episodes of one group, some of which broke."""
    episodes = []
    for draw, solved in enumerate(outcomes):
        level = LevelSeed(seed, "train", number, draw, 0, name)
        episode = Outcome(level, solved, tokens)
        if draw in failed:
            episode.failure = "the environment broke"
        episodes.append(episode)
    return episodes


PAIR = [*task("easy", 1), *task("hard", 3)]


def success(sampler, name):
    return sampler.metrics()[f"levels/success/{name}"]


def test_samplers_by_name():
    assert {"uniform": LevelSampler, "difficulty": DifficultySampler} == SAMPLERS


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.integers(0, 2**31))
def test_uniform_draws_follow_the_weights_to_a_few_groups(weights, seed):
    """Golden-ratio points fill [0, 1) evenly: each task's count stays within a few of its share."""
    tasks = [made for i, weight in enumerate(weights) for made in task(f"task{i}", weight)]
    sampler = LevelSampler(tasks, seed, 2)
    shares = [weight / math.fsum(weights) for weight in weights]
    assert sampler.shares() == pytest.approx(shares)
    counts = collections.Counter(level.environment for level in sampler.levels(range(300), 0))
    for i, share in enumerate(shares):
        assert counts[f"task{i}"] / 2 == pytest.approx(300 * share, abs=6)


def test_levels_are_numbered_by_group_and_draw():
    sampler = LevelSampler(task("lone", 1, ("default",)), 5, 3)
    levels = sampler.levels([7, 9], 4)
    assert [level.group for level in levels] == [4, 4, 4, 5, 5, 5]
    assert [level.draw for level in levels] == [21, 22, 23, 27, 28, 29]
    assert {level.split for level in levels} == {"train"}
    assert {level.environment for level in levels} == {"lone"}
    assert {level.prompts for level in levels} == {0}
    assert [level.seed for level in levels] == [(5 << 32) + number for number in (7, 7, 7, 9, 9, 9)]


def test_prompts_are_drawn_for_each_level_and_shared_by_its_group(tmp_path):
    environment = TrainingEnvironment.read({"id": SOKOBAN, "prompt_packs": ["default", "terse"]})
    levels = LevelSampler(environment.tasks(), 0, 4).levels(range(100), 0)
    by_group = collections.defaultdict(set)
    for level in levels:
        by_group[level.group].add(level.prompts)
    assert all(len(prompts) == 1 for prompts in by_group.values())
    counts = collections.Counter(level.prompts for level in levels)
    assert set(counts) == {0, 1}
    assert min(counts.values()) > 120


def test_trainings_with_other_seeds_share_no_level():
    one, other = (LevelSampler(PAIR, seed, 1).levels(range(1000), 0) for seed in (0, 1))
    assert not {level.seed for level in one} & {level.seed for level in other}


def test_success_is_the_decayed_share_with_one_success_and_one_failure_beforehand():
    """After k rollouts a count is worth 0.8 of the earlier one."""
    sampler = DifficultySampler(PAIR, 0, 4)
    assert success(sampler, "easy") == 0.5
    sampler.update(group_of("easy", 1, [True, True, True, False]))
    assert success(sampler, "easy") == pytest.approx((3 + 1) / (4 + 2))
    sampler.update(group_of("easy", 2, [True, True, False, False]))
    won, lost = 3 * 0.8 + 2, 1 * 0.8 + 2
    assert success(sampler, "easy") == pytest.approx((won + 1) / (won + lost + 2))
    assert success(sampler, "hard") == 0.5


def test_a_replayed_level_says_nothing_of_its_tasks_success():
    """It was chosen because its last group was mixed: counting it would pull every estimate to one half."""
    played, rested = DifficultySampler(PAIR, 0, 4), DifficultySampler(PAIR, 0, 4)
    for sampler in (played, rested):
        sampler.update(group_of("easy", 1, [True, False, False, False]))
    played.update(group_of("easy", 1, [True] * 4, tokens=99))
    rested.update([])
    assert success(played, "easy") == success(rested, "easy")
    assert played.shares() == rested.shares()
    assert played.metrics()["levels/mixed/easy"] == 0  # all solved it: it teaches nothing more
    assert rested.metrics()["levels/mixed/easy"] == 1


def test_levels_are_remembered_while_their_latest_group_is_mixed():
    sampler = DifficultySampler(PAIR, 0, 2)
    for seed, outcomes, mixed in (
        (1, [True, False], [1]),
        (2, [True, True], [1]),
        (3, [False, False], [1]),
        (4, [False, True], [1, 4]),
        (1, [True, False], [4, 1]),
        (4, [False, False], [1]),
    ):
        sampler.update(group_of("easy", seed, outcomes))
        assert list(sampler.state()["easy"]["mixed"]) == mixed
    for seed in range(1000, 1300):
        sampler.update(group_of("easy", seed, [True, False]))
    assert list(sampler.state()["easy"]["mixed"]) == list(range(1044, 1300))  # the latest 256


def test_broken_episodes_do_not_count():
    sampler, other = DifficultySampler(PAIR, 0, 4), DifficultySampler(PAIR, 0, 4)
    sampler.update(group_of("easy", 1, [True, False, True, True], failed={1}))
    other.update(group_of("easy", 1, [True, True, True]))
    assert sampler.state() == other.state()
    assert sampler.metrics()["levels/mixed/easy"] == 0


def test_shares_are_explored_for_a_fifth_and_else_spread_per_token():
    """Four fifths go by weight times the variance of the beta posterior, per sampled token."""
    sampler = DifficultySampler([*PAIR, *task("new", 2)], 0, 4)
    sampler.update(
        [
            *group_of("easy", 1, [True, True, True, False], tokens=10, number=0),
            *group_of("hard", 2, [False] * 4, tokens=40, number=1),
        ]
    )

    def spread(won, lost):
        won, lost = won + 1, lost + 1
        return won * lost / ((won + lost) * (won + lost + 1))

    gains = [1 * spread(3, 1) / 10, 3 * spread(0, 4) / 40, 2 * spread(0, 0) / 25]
    expected = [
        0.2 * weight / 6 + 0.8 * gain / sum(gains)
        for weight, gain in zip((1, 3, 2), gains, strict=True)
    ]
    assert sampler.shares() == pytest.approx(expected)
    metrics = sampler.metrics()
    assert [metrics[f"levels/share/{name}"] for name in ("easy", "hard", "new")] == sampler.shares()
    assert len(metrics) == 9


def test_before_the_first_episode_weights_decide():
    assert DifficultySampler(PAIR, 0, 4).shares() == pytest.approx([0.25, 0.75])


def test_an_episode_without_tokens_costs_one():
    sampler = DifficultySampler(PAIR, 0, 4)
    sampler.update(group_of("easy", 1, [True, False], tokens=0))
    assert all(math.isfinite(share) for share in sampler.shares())
    assert sampler.shares()[0] > 0.2


def test_a_quarter_of_a_tasks_groups_play_mixed_levels_again():
    sampler = DifficultySampler(task("lone", 1), 1, 2)
    for seed in (11, 12, 13):
        sampler.update(group_of("lone", seed, [True, False]))
    seeds = [level.seed for level in sampler.levels(range(2000), 0)][::2]
    again = collections.Counter(seed for seed in seeds if seed < 100)
    assert again.total() / 2000 == pytest.approx(0.25, abs=0.03)
    assert set(again) == {11, 12, 13}
    assert min(again.values()) > 100
    assert all(
        seed == (1 << 32) + number for number, seed in enumerate(seeds) if seed not in (11, 12, 13)
    )


def test_tasks_that_a_checkpoint_does_not_name_start_anew():
    sampler, other = DifficultySampler(PAIR, 0, 4), DifficultySampler(PAIR, 0, 4)
    sampler.update(group_of("easy", 1, [True, False]))
    other.update(group_of("hard", 1, [True, True]))
    other.restore({"easy": sampler.state()["easy"], "gone": {}})
    assert other.state()["easy"] == sampler.state()["easy"]
    assert success(other, "hard") == 0.75
    assert LevelSampler(PAIR, 0, 4).metrics() == {}


def test_the_uniform_sampler_learns_nothing():
    sampler = LevelSampler(PAIR, 0, 4)
    levels = sampler.levels(range(20), 0)
    sampler.update(group_of("easy", 1, [True, False]))
    assert sampler.levels(range(20), 0) == levels
    assert sampler.state() == {}


UNIFORM = [
    ("packs", 1),
    ("hard", 0),
    ("easy", 0),
    ("packs", 1),
    ("hard", 0),
    ("packs", 0),
    ("hard", 0),
    ("hard", 0),
    ("packs", 0),
    ("hard", 0),
    ("easy", 0),
    ("hard", 0),
]
REPLAYED = [0, 13, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 12, 0, 12, 0, 0, 0, 0, 0, 11]


def test_levels_are_the_same_on_every_machine():
    """Fixed by the seed: a training can be made again, and its levels are those of its paper."""
    tasks = [*PAIR, *task("packs", 2, ("default", "terse"))]
    uniform = LevelSampler(tasks, 3, 1).levels(range(12), 0)
    named = [(level.environment, level.prompts) for level in uniform]
    assert named == UNIFORM
    sampler = DifficultySampler(task("lone", 1), 3, 1)
    for seed in (11, 12, 13):
        sampler.update(group_of("lone", seed, [True, False]))
    replayed = [level.seed for level in sampler.levels(range(24), 0)]
    assert [seed if seed < 100 else 0 for seed in replayed] == REPLAYED
    one, other = (LevelSampler(tasks, seed, 1).levels(range(12), 0) for seed in (3, 4))
    assert [level.environment for level in one] != [level.environment for level in other]
    assert [level.prompts for level in one] != [level.prompts for level in other]


def test_every_group_of_a_rollout_counts():
    """After a replayed level the rollout's other groups are read too, and tokens decay as counts do."""
    sampler, other = DifficultySampler(PAIR, 0, 4), DifficultySampler(PAIR, 0, 4)
    for each in (sampler, other):
        each.update(group_of("easy", 1, [True, False, False, False], tokens=30))
    group = group_of("easy", 2, [True, True, True, True], tokens=10, number=1)
    sampler.update([*group_of("easy", 1, [False] * 4), *group])
    other.update(group)
    assert success(sampler, "easy") == success(other, "easy")
    assert sampler.state()["easy"]["tokens"] == pytest.approx(0.8 * 4 * 30 + 4 * 10)
    other.update([*group_of("hard", 7, [True], number=0), *group_of("hard", 8, [False], number=1)])
    assert other.state()["hard"] | {"tokens": 0} == {
        "successes": 1.0,
        "failures": 1.0,
        "tokens": 0,
        "mixed": (),
    }


def test_an_episode_costs_one_token_at_least():
    """Half a token an episode is what one whose reply was cut to nothing counts as beside others."""
    sampler = DifficultySampler([*task("short", 1), *task("long", 1)], 0, 1)
    for name, tokens in (("short", 1), ("long", 4)):
        sampler.update(group_of(name, 5, [True, False], tokens=tokens, number=0))
    record = sampler.state()
    spreads = [sampler.records[name].spread for name in ("short", "long")]
    costs = [
        max(1.0, record[name]["tokens"] / (record[name]["successes"] + record[name]["failures"]))
        for name in ("short", "long")
    ]
    gains = [spread / cost for spread, cost in zip(spreads, costs, strict=True)]
    assert costs == pytest.approx([1.0, 4.0])
    assert sampler.shares() == pytest.approx([0.1 + 0.8 * gain / sum(gains) for gain in gains])
