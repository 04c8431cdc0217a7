"""PettingZoo's own tests, ours, and two players on one board."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pettingzoo")

import pettingzoo
from pettingzoo.test import api_test, parallel_api_test, render_test

from vagen_adapters import pettingzoo_env, vagen_two_player_sokoban_v0
from vagen_adapters.two_player_sokoban.board import Board
from vagen_adapters.two_player_sokoban.seat import TwoPlayerSokobanSeat
from vagen_envs import ENV_IDS, conformance
from vagen_envs.errors import ConfigError, EpisodeOverError, LevelError
from vagen_envs.grid import ACTIONS
from vagen_envs.sokoban.levels import Level

GRIDS = [env_id for env_id in ENV_IDS if env_id in ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")]
PAIRS = {
    "two_player_sokoban": (
        vagen_two_player_sokoban_v0.env,
        vagen_two_player_sokoban_v0.parallel_env,
    ),
    **{
        env_id: (
            lambda env_id=env_id, **options: pettingzoo_env.env(env_id, **options),
            lambda env_id=env_id, **options: pettingzoo_env.parallel_env(env_id, **options),
        )
        for env_id in GRIDS
    },
}


def answer(*actions):
    think = "<observation>a</observation><reasoning>b</reasoning><prediction>c</prediction>"
    return f"<think>{think}</think><answer>{','.join(actions)}</answer>"


@pytest.mark.parametrize("name", PAIRS)
def test_a_named_split_or_level_holds_for_later_episodes(name):
    env = PAIRS[name][1](max_turns=5)

    def played(**asked):
        levels = [info["level"] for info in env.reset(**asked)[1].values()]
        assert levels[0] == levels[1]
        return levels[0]["split"], levels[0]["seed"]

    assert played(options={"split": "test"})[0] == "test"
    assert played()[0] == "test"
    assert played(options={"level": 4}) == ("test", 4)
    assert played() == ("test", 4)
    assert played(seed=6) == ("test", 6)
    assert played()[1] not in (4, 6)
    env.close()


@pytest.mark.parametrize("env_id", [*GRIDS, "vagen/TwoPlayerSokoban-v0"])
def test_environments_are_made_by_name(env_id):
    parallel = pettingzoo.make("parallel", env_id, max_turns=4)
    aec = pettingzoo.make("aec", env_id, max_turns=4)
    assert parallel.possible_agents == aec.possible_agents == ["player_0", "player_1"]
    observations, _ = parallel.reset(seed=3)
    aec.reset(seed=3)
    assert aec.observe("player_0")["text"] == observations["player_0"]["text"]
    parallel.close()
    aec.close()


def test_a_limit_of_steps_truncates_and_does_not_terminate():
    env = pettingzoo_env.parallel_env("vagen/FrozenLake-v0", max_episode_steps=2)
    env.reset(seed=1)
    for last in (False, True):
        _, _, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, "no answer"))
        assert not any(terminated.values())
        assert set(truncated.values()) == {last}
    assert env.agents == []


def seen(env, rng):
    """All that the agents are shown in an episode of random replies, pictures included."""
    said = []
    observations, _ = env.reset(seed=11)
    while True:
        said += [
            (agent, each["text"], each["image"].tobytes()) for agent, each in observations.items()
        ]
        if not env.agents:
            return said
        replies = {agent: answer(*rng.choices(ACTIONS, k=3)) for agent in env.agents}
        observations, rewards, *_ = env.step(replies)
        said.append(rewards)


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


# PettingZoo's tests warn about observations that aren't arrays and about spaces other than Box and Discrete.
@pytest.mark.filterwarnings("ignore:Observation")
@pytest.mark.filterwarnings("ignore:Action space")
@pytest.mark.parametrize("pair", PAIRS)
class TestPettingZoosTests:
    def test_api(self, pair):
        api_test(PAIRS[pair][0](), num_cycles=20)

    def test_parallel_api(self, pair):
        parallel_api_test(PAIRS[pair][1](), num_cycles=20)

    def test_render(self, pair):
        pytest.importorskip("pygame")
        render_test(lambda render_mode: PAIRS[pair][0](render_mode=render_mode, max_turns=50))

    def test_the_same_seed_shows_the_same(self, pair):
        # Theirs pass environments whose pictures differ; this looks at every pixel, in another instance and again.
        one, other = PAIRS[pair][1](), PAIRS[pair][1]()
        first = seen(one, random.Random(5))
        assert seen(other, random.Random(5)) == first
        assert seen(one, random.Random(5)) == first
        assert seen(one, random.Random(6)) != first

    def test_aec_and_parallel_play_alike(self, pair):
        aec, parallel = (make() for make in PAIRS[pair])
        aec.reset(seed=4)
        parallel.reset(seed=4)
        rng = random.Random(0)
        theirs, ours = {}, {}  # the last turn of each; they needn't end in the same round
        for agent in aec.agent_iter():
            *_, terminated, truncated, info = aec.last()
            if terminated or truncated:
                theirs[agent] = info["turn"]
            aec.step(None if terminated or truncated else answer(*rng.choices(ACTIONS, k=2)))
        rng = random.Random(0)
        while parallel.agents:
            replies = {agent: answer(*rng.choices(ACTIONS, k=2)) for agent in parallel.agents}
            *_, infos = parallel.step(replies)
            ours |= {agent: info["turn"] for agent, info in infos.items()}
        assert theirs == ours


class TestGeneric:
    def test_agents_play_apart(self):
        env = pettingzoo_env.parallel_env("vagen/FrozenLake-v0", agents=3, max_turns=30)
        _, infos = env.reset(seed=1)
        assert len({info["level"]["content"] for info in infos.values()}) == 1
        # One follows the oracle to the goal and leaves; the others idle on.
        while "player_1" in env.agents:
            replies = dict.fromkeys(env.agents, answer())
            replies["player_1"] = env.seats["player_1"].oracle_reply()
            _, _, terminations, _, infos = env.step(replies)
        assert terminations["player_1"]
        assert infos["player_1"]["turn"].success
        assert env.agents == ["player_0", "player_2"]

    def test_what_is_wrong_is_said(self):
        env = pettingzoo_env.parallel_env("vagen/Sokoban-v0")
        with pytest.raises(EpisodeOverError, match="reset"):
            env.step({})
        env.reset(seed=0)
        with pytest.raises(ConfigError, match="player_1"):
            env.step({"player_0": "x"})
        with pytest.raises(ConfigError, match="agents=0"):
            pettingzoo_env.parallel_env("vagen/Sokoban-v0", agents=0)
        with pytest.raises(ConfigError, match="num_boxes"):
            vagen_two_player_sokoban_v0.env(num_box=2)


class TestTwoPlayerSokoban:
    def test_a_seat_passes_our_conformance_suite(self):
        conformance.check(TwoPlayerSokobanSeat)

    @pytest.mark.parametrize("observation", ["text", "both"])
    @pytest.mark.parametrize("representation", ["symbolic", "structured"])
    def test_a_seat_passes_it_in_other_configurations(self, observation, representation):
        conformance.check(
            lambda: TwoPlayerSokobanSeat(observation=observation, representation=representation),
            seeds=(0, 1, 2),
        )

    def test_together_they_solve_what_the_oracle_says_and_foresee_it(self):
        env = vagen_two_player_sokoban_v0.parallel_env(split="test")
        for seed in range(12):
            env.reset(seed=seed)
            while env.agents:
                foreseen = [player.imagine_round(plans(env)) for player in env.players]
                replies = env.oracle_replies()
                _, rewards, terminations, truncations, infos = env.step(replies)
                turns = [info["turn"] for info in infos.values()]
                assert [turn.after for turn in turns] == foreseen
                assert all(turn.parsed.format_correct for turn in turns)
                assert rewards["player_0"] == rewards["player_1"]
            assert terminations == {"player_0": True, "player_1": True}
            assert not any(truncations.values())
            assert {"success", "format"} <= {term.name for term in turns[0].rewards}

    def test_each_has_its_own_picture_reply_and_record(self):
        env = vagen_two_player_sokoban_v0.parallel_env()
        observations, _ = env.reset(seed=2)
        images = [observation["image"] for observation in observations.values()]
        assert not np.array_equal(*images)
        # Where the pictures differ, there are exactly the two players: two tiles of 16 by 16 pixels.
        rows, columns = np.nonzero((images[0] != images[1]).any(axis=2))
        tiles = set(zip(rows // 16, columns // 16, strict=True))
        state = env.players[0].table.board.state(0)
        assert tiles == {state.player, state.other}
        *_, infos = env.step({"player_0": answer("Up", "Left"), "player_1": "no answer at all"})
        one, other = (info["turn"] for info in infos.values())
        assert one.reply != other.reply
        assert [each.text for each in one.executed] == ["Up", "Left"]
        assert other.executed == ()
        assert (one.after.player, one.after.other) == (other.after.other, other.after.player)
        assert "The other player did: Up, Left." in other.result.text
        assert {term.name for term in one.rewards} - {term.name for term in other.rewards} == {
            "format"
        }

    def test_the_budget_of_actions_is_the_teams(self):
        env = vagen_two_player_sokoban_v0.parallel_env(max_steps=4)
        env.reset(seed=0)
        wander = answer("Up", "Up", "Up")
        _, _, _, truncations, infos = env.step({"player_0": wander, "player_1": wander})
        assert [len(info["turn"].executed) for info in infos.values()] == [2, 2]
        assert all(truncations.values())

    def test_levels_stay(self):
        env = vagen_two_player_sokoban_v0.parallel_env()
        env.reset(seed=0)
        assert env.players[0].table.board.state(0).symbolic() == GOLDEN


def plans(env):
    most = env.players[0].config.max_actions_per_turn
    return [plan[:most] for plan in env.table.board.plan_together()]


GOLDEN = """\
#######
##P_###
#_O_###
#__X_##
##__XO#
##_Q__#
#######"""


# A board of 3 by 4 cells inside its wall, with the players and the box anywhere on it.
FLOOR = [row * 6 + column for row in (1, 2, 3) for column in (1, 2, 3, 4)]


class TestBoard:
    @given(
        st.permutations(FLOOR),
        st.lists(st.tuples(st.sampled_from((0, 1)), st.sampled_from(ACTIONS)), max_size=30),
    )
    def test_nothing_ever_overlaps(self, cells, moves):
        board = board_of(*cells[:3], target=cells[3])
        for player, action in moves:
            before = board.boxes, board.players
            moved = board.move(player, action)
            assert (moved.gained is None) == (before == (board.boxes, board.players))
            assert board.boxes.bit_count() == 1
            one, other = board.players
            assert one != other
            assert not board.boxes & (1 << one | 1 << other)
            assert all(board.level.floor >> cell & 1 for cell in board.players)
            assert board.players[1 - player] == before[1][1 - player]

    @settings(max_examples=25)
    @given(st.permutations(FLOOR))
    def test_the_plan_is_the_shortest(self, cells):
        board = board_of(*cells[:3], target=cells[3])
        shortest = brute_force(board, most=3)
        try:
            steps = len(board.plan_together()[0])
        except LevelError:
            assert shortest is None
        else:
            assert steps == shortest if shortest is not None else steps > 3


def board_of(one, other, box, target):
    level = Level(5, 6, sum(1 << cell for cell in FLOOR), 1 << target, 1 << box, one, b"")
    return Board(level, other)


def brute_force(board, most):
    """The fewest steps by trying every sequence of both players' moves."""
    for steps in range(most + 1):
        for moves in itertools.product(ACTIONS, repeat=2 * steps):
            ahead = board.copy()
            ahead.play((moves[::2], moves[1::2]), limit=100)
            if ahead.solved:
                return steps
    return None
