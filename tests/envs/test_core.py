"""The contract: turns, rewards, ends, options, errors."""

from __future__ import annotations

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import finish

import vagen_envs  # noqa: F401
from vagen_envs.bounds import Number, Several, Whole, Words
from vagen_envs.errors import (
    ConfigError,
    EpisodeOverError,
    PromptPackError,
    RecordError,
    ReplyTypeError,
    SimulatorError,
)
from vagen_envs.replies import STRATEGIES
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_envs.turn import SCHEMA_VERSION, State, Turn

GRIDS = ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"]


def played(env_id="vagen/Sokoban-v0", seed=7, **options):
    env = gym.make(env_id, **options)
    env.reset(seed=seed)
    return env


def turn_of(env, reply) -> Turn:
    return env.step(reply)[4]["turn"]


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("representation", ["natural_language", "symbolic", "structured"])
@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_prompt_examples_and_oracles_pass_their_own_strict_parser(
    env_id, strategy, representation, layout
):
    env = played(
        env_id, strategy=strategy, representation=representation, layout=layout, parsing="strict"
    ).unwrapped
    example = env.grammar.parse(env.prompts.example)
    assert example.format_correct, example.problems
    assert env.prompts.example in env.system_prompt
    assert env.grammar.template() in env.system_prompt
    assert env.grammar.template() in env.reset(seed=7)[0]["text"]
    assert env.prompts.example not in env.reset(seed=7)[0]["text"]
    turn = turn_of(env, env.oracle_reply())
    assert turn.parsed.format_correct
    if turn.parsed.observation is not None:
        assert turn.parsed.observation == turn.before.describe(representation)
    if turn.parsed.prediction is not None:
        assert turn.parsed.prediction == turn.after.describe(representation)


@pytest.mark.parametrize("env_id", GRIDS)
def test_observation_modes(env_id):
    image, text, both = (played(env_id, observation=mode) for mode in ("image", "text", "both"))
    symbols = image.unwrapped.true_state.symbolic()
    shown = {
        mode: env.reset(seed=7)[0]
        for mode, env in (("image", image), ("text", text), ("both", both))
    }
    assert set(shown["text"]) == {"text"}
    assert symbols in shown["text"]["text"]
    assert "<image>" not in shown["text"]["text"]
    assert symbols not in shown["image"]["text"]
    assert symbols in shown["both"]["text"]
    assert "<image>" in shown["both"]["text"]
    assert np.array_equal(shown["both"]["image"], shown["image"]["image"])
    for env, mode in ((image, "image"), (text, "text"), (both, "both")):
        assert shown[mode] in env.observation_space


def test_rewards_are_named_terms_and_add_up():
    env = played()
    turns = finish(env)
    names = {term.name for turn in turns for term in turn.rewards}
    assert names == {"step", "format", "box_on_target", "success"}
    steps = sum(len(turn.executed) for turn in turns)
    assert sum(turn.reward for turn in turns) == pytest.approx(
        10 + 1 + 0.5 * len(turns) - 0.1 * (steps - 1)
    )


def test_a_malformed_reply_is_a_turn_without_format_reward():
    env = played()
    turn = turn_of(env, "no tags")
    assert turn.index == 0
    assert turn.reward == 0
    assert turn.executed == ()
    assert turn.before == turn.after
    assert not turn.metrics["action_is_valid"]
    assert "Nothing was executed" in turn.result.text
    assert "there is no <answer>" in turn.result.text


def test_feedback_tells_what_was_refused_and_what_was_blocked():
    env = played(observation="both")
    state = env.unwrapped.true_state
    blocked = next(
        name
        for name, (rows, columns) in {
            "Up": (-1, 0),
            "Down": (1, 0),
            "Left": (0, -1),
            "Right": (0, 1),
        }.items()
        if not state.floor >> (state.player[0] + rows) * state.width + state.player[1] + columns & 1
    )
    turn = turn_of(env, f"<answer>{blocked},Jump</answer>")
    assert f"{blocked} was blocked" in turn.result.text
    assert "'Jump' is not an action; use one of Up, Down, Left, Right" in turn.result.text
    assert not turn.executed[0].effective
    assert not turn.metrics["action_is_effective"]


def test_a_placeholder_quoted_from_a_reply_stands_for_no_picture():
    turn = turn_of(played(), "<answer><ima<image>ge>,x</answer>")
    assert turn.parsed.problems
    assert turn.result.text.count("<image>") == 1


@pytest.mark.parametrize("env_id", GRIDS)
def test_the_true_state_is_what_reset_and_turns_say(env_id):
    env = gym.make(env_id)
    with pytest.raises(EpisodeOverError, match="call reset"):
        _ = env.unwrapped.true_state
    for too_early in (env.unwrapped.oracle_reply, lambda: env.unwrapped.step("x")):
        with pytest.raises(EpisodeOverError, match="call reset"):
            too_early()
    _, info = env.reset(seed=3)
    assert env.unwrapped.true_state == info["state"]
    moment = env.unwrapped.snapshot()
    turn = turn_of(env, env.unwrapped.oracle_reply())
    assert env.unwrapped.true_state == turn.after != turn.before
    env.unwrapped.restore(moment)
    assert env.unwrapped.true_state == turn.before


def test_the_turn_budget_truncates_and_the_step_budget_too():
    env = played(max_turns=2)
    assert not turn_of(env, "x").truncated
    last = turn_of(env, "x")
    assert last.truncated
    assert not last.terminated
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.unwrapped.step("x")
    env = played(max_steps=2, max_turns=9)
    turn = turn_of(env, "<answer>Left,Right,Left</answer>")
    assert len(turn.executed) == 2
    assert turn.truncated


@pytest.mark.parametrize(("cell", "success"), [("G", True), ("H", False)])
def test_actions_after_the_end_are_not_executed(cell, success):
    env = played("vagen/FrozenLake-v0", desc=(f"S{cell}F", "FFF", "FFG"))
    turn = turn_of(env, "<answer>Right,Down,Down</answer>")
    assert [each.text for each in turn.executed] == ["Right"]
    assert (turn.terminated, turn.success) == (True, success)
    assert ("fell into a hole" in turn.result.text) != success


@pytest.mark.parametrize("reply", [None, 3, b"bytes", ["Up"]])
def test_a_reply_that_is_not_text_is_refused(reply):
    with pytest.raises(ReplyTypeError, match="not str"):
        played().unwrapped.step(reply)


@given(st.text(max_size=200))
def test_any_reply_is_survived_and_recorded(text):
    env = played()
    turn = turn_of(env, text)
    back = Turn.from_json(json.loads(json.dumps(turn.to_json())))
    assert back.reply == text
    assert back.to_json() == turn.to_json()


def test_an_over_long_reply_is_cut_and_marked():
    env = played()
    good = env.unwrapped.oracle_reply()
    turn = turn_of(env, "I think and think. " * 500_000 + "</think>" + good)
    assert len(turn.reply) == MAX_TEXT_LENGTH
    assert turn.reply.endswith(good)
    assert [problem.code for problem in turn.parsed.problems] == ["native_thinking", "too_long"]
    assert turn.executed
    assert "format" not in {term.name for term in turn.rewards}


def test_a_stored_turn_reads_back_with_and_without_its_pictures():
    env = played()
    turn = turn_of(env, env.unwrapped.oracle_reply())
    data = json.loads(json.dumps(turn.to_json()))
    assert data["schema"] == SCHEMA_VERSION
    whole = Turn.from_json(data, {picture.sha256: picture for picture in turn.pictures})
    assert whole == turn
    names_only = Turn.from_json(data)
    assert json.loads(json.dumps(names_only.to_json())) == data
    with pytest.raises(RecordError, match="not loaded"):
        names_only.observed.picture.pixels  # noqa: B018


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": 99},
        {"before": {"kind": "chess"}},
        {"before": {"kind": "sokoban"}},
        {"executed": None},
        {"parsed": {}},
    ],
)
def test_a_damaged_turn_is_refused(damage):
    env = played()
    data = turn_of(env, "x").to_json()
    with pytest.raises(RecordError):
        Turn.from_json({**data, **damage})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_box": 2}, "unknown option 'num_box'. Did you mean 'num_boxes'?"),
        ({"num_boxes": 9}, "num_boxes=9 is not valid: it must be an integer from 1 to 4"),
        ({"num_boxes": "two"}, "it must be an integer"),
        ({"strategy": "groundin"}, "Did you mean 'grounding'?"),
        ({"dim_room": (4, 4)}, "from 5 to 10"),
        ({"format_reward": float("nan")}, "it must be a finite number"),
        (
            {"max_turns": 0},
            "max_turns=0 is not valid: it must be an integer from 1 to 1,000,000,000",
        ),
        ({"min_solution_length": 8, "max_solution_length": 7}, "max_solution_length=7"),
        ({"preset": "papr"}, "Did you mean 'paper'?"),
        ({"split": "dev"}, "split='dev'"),
    ],
)
def test_wrong_options_are_refused_with_the_fix(options, message):
    with pytest.raises(ConfigError) as caught:
        gym.make("vagen/Sokoban-v0", **options)
    assert message in str(caught.value)
    assert "vagen/Sokoban-v0" in str(caught.value)


def test_wrong_render_mode_reset_options_and_seed_are_refused():
    with (
        pytest.raises(ConfigError, match="unknown render_mode 'rgb'"),
        pytest.warns(UserWarning, match="render_mode"),
    ):
        gym.make("vagen/Sokoban-v0", render_mode="rgb")
    env = gym.make("vagen/Sokoban-v0").unwrapped
    for options in (
        {"levle": 3},
        5,
        ["split"],
        {1: 2},
        {"split": "x" * 10**6},
        {"split": ["train"]},
    ):
        with pytest.raises(ConfigError) as error:
            env.reset(seed=1, options=options)
        assert len(str(error.value)) < 600
    env.reset(seed=2**64 - 1)
    for seed in (-1, 2**64, 1.0, 1.5, "7", True):
        with pytest.raises(ConfigError, match="seed="):
            env.reset(seed=seed)


def test_a_broken_simulator_names_the_environment_and_is_never_a_score():
    env = played().unwrapped

    def broken(action):
        raise RuntimeError("the bridge is out")

    reply = env.oracle_reply()
    env.simulator.step = broken
    with pytest.raises(
        SimulatorError, match=r"vagen/Sokoban-v0 broke: RuntimeError: the bridge is out"
    ):
        env.step(reply)
    with pytest.raises(EpisodeOverError):
        env.step("x")
    env.reset(seed=1)
    assert env.step(env.oracle_reply())[1] > 0


def test_render_modes():
    array = played(render_mode="rgb_array")
    assert np.array_equal(array.render(), array.reset(seed=7)[0]["image"])
    text = played(render_mode="ansi")
    assert text.render() == text.unwrapped.true_state.symbolic()
    shown_by_text_observation = played(render_mode="rgb_array", observation="text")
    assert shown_by_text_observation.render().shape == (96, 96, 3)


def test_a_users_prompt_pack_overrides_files_and_its_faults_are_named(tmp_path):
    (tmp_path / "sokoban").mkdir()
    file = tmp_path / "sokoban" / "system.txt"
    file.write_text("Push! It costs $$5. $reply\n$example")
    prompt = gym.make("vagen/Sokoban-v0", prompt_pack=str(tmp_path)).unwrapped.system_prompt
    assert prompt.startswith("Push! It costs $5. Each turn you may")
    file.write_text("Push! $repply")
    with pytest.raises(PromptPackError, match=r"repply.*\$reply"):
        gym.make("vagen/Sokoban-v0", prompt_pack=str(tmp_path))
    with pytest.raises(PromptPackError, match="neither a pack"):
        gym.make("vagen/Sokoban-v0", prompt_pack="defualt")
    for no_name in ("a" * 300, "a\0b"):  # the operating system refuses to look for these
        with pytest.raises(PromptPackError, match="neither a pack"):
            gym.make("vagen/Sokoban-v0", prompt_pack=no_name)


def test_importing_is_light():
    heavy = {
        "torch",
        "pygame",
        "mujoco",
        "ai2thor",
        "OpenGL",
        "sapien",
        "cairosvg",
        "openai",
        "scipy",
    }
    code = f"import sys, vagen_envs; print([*({heavy} & set(sys.modules))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("env_id", "missing", "extra"),
    [
        ("vagen/Navigation-v0", ["mujoco"], "navigation"),
        ("vagen/PrimitiveSkill-v0", ["mani_skill"], "primitive-skill"),
        ("vagen/SVGReconstruction-v0", ["resvg", "defusedxml"], "svg"),
        ("vagen/Sample-v0", ["math_verify"], "verify"),
    ],
)
def test_without_its_extra_one_error_names_it(env_id, missing, extra):
    code = f"""
import sys, gymnasium, vagen_envs
sys.modules.update(dict.fromkeys({missing}))
gymnasium.make({env_id!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in done.stderr
    assert f'pip install "vagen-envs[{extra}]"' in done.stderr


# -- what a stranger may say -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "good", "bad"),
    [
        (Whole(1, 3), [1, 3], [0, 4, True, 1.0, "1", None, 10**5000, [1]]),
        (Number(0, 1), [0, 1, 0.5], [-0.1, float("nan"), float("inf"), True, "0", 10**5000, None]),
        (Words(3), ["a", "é~"], ["", "abcd", "\0", "\n", "\ud800", 1, None, ["a"]]),
        (Several(Whole(1, 3), 2), [[1], (1, 2)], [[], [1, 2, 3], [4], [[1]], "1", {1: 2}, None]),
    ],
)
def test_bounds(bound, good, bad):
    assert all(map(bound.admits, good))
    assert not any(map(bound.admits, bad))
    assert str(bound)


@pytest.mark.parametrize(
    "value", ["a" * 10**5, [0] * 10**5, 10**4000, -(10**400), float("inf"), float("nan"), b"\0", {}]
)
@pytest.mark.parametrize(
    "name", ["format_reward", "max_turns", "separator", "split", "difficulty", "preset"]
)
def test_an_option_of_any_kind_is_one_short_error(name, value):
    with pytest.raises(ConfigError) as error:
        gym.make("vagen/Sokoban-v0", **{name: value})
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0", "vagen/Sample-v0"])
def test_the_last_observation_asks_for_nothing(env_id):
    env = gym.make(env_id).unwrapped
    texts = [env.reset(seed=1)[0]["text"]]
    texts += [turn.result.text for turn in finish(env, lambda _: "I don't know")]
    request = texts[0].splitlines()[-1]
    assert all(request in text for text in texts[:-1])
    assert request not in texts[-1]
    assert texts[-1].endswith("The episode is over.")


def test_options_may_be_what_json_has_of_them():
    config = gym.make("vagen/Sokoban-v0", dim_room=[7, 8], format_reward=1).unwrapped.config
    assert (config.dim_room, type(config.format_reward)) == ((7, 8), float)


def test_a_generated_level_is_that_of_the_seed():
    env = gym.make("vagen/FrozenLake-v0")
    assert env.unwrapped.level_count is None
    assert env.reset(options={"level": 9})[1] == env.reset(seed=9)[1]
    with pytest.raises(ConfigError, match="level=-1 is not valid"):
        env.reset(options={"level": -1})
    with pytest.raises(ConfigError, match="level='two' is not valid"):
        gym.make("vagen/FrozenLake-v0", level="two")


def test_a_state_without_a_kind_of_its_own_is_refused():
    class Known(State):
        kind = "tests-known"

    with pytest.raises(ConfigError, match="Unnamed has no kind of its own"):

        class Unnamed(Known):
            pass
