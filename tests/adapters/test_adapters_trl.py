"""TRL's own GRPOTrainer on our environments, with a tiny model that sees pictures."""

from __future__ import annotations

import json
from functools import partial

import gymnasium as gym
import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

import qwen
import torch
from oracle import oracle_episode
from transformers import AutoModelForImageTextToText
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_vl_chat_template

from vagen_adapters.trl_env import REPLY_AS_TOOL_CALL, TRLEnvironment, levels
from vagen_envs.errors import ConfigError, EpisodeOverError, SimulatorError
from vagen_rewards import ReasoningReward

ID = "vagen/FrozenLake-v0"
OPTIONS = {"strategy": "no_think", "max_turns": 3, "prompt_pack": "terse", "is_slippery": False}
SOKOBAN = {"strategy": "no_think", "prompt_pack": "terse"}


def processor(folder):
    return qwen.processor(folder, qwen3_vl_chat_template, padding_side="left")


def trainer_of(kind, folder, out, processing_class, arguments=None, **kwargs):
    config = GRPOConfig(
        output_dir=str(out),
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=1500,
        report_to="none",
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        learning_rate=1e-3,
        seed=3,
        disable_tqdm=True,
        **(arguments or {}),
    )
    return kind(
        AutoModelForImageTextToText.from_pretrained(folder),
        args=config,
        train_dataset=levels(ID, split="val", first_seed=5, num_levels=1, **OPTIONS),
        processing_class=processing_class,
        environment_factory=partial(TRLEnvironment, ID, **OPTIONS),
        **kwargs,
    )


def call(reply):
    return f"<tool_call>\n{json.dumps({'name': 'play', 'arguments': {'reply': reply}})}\n</tool_call><|im_end|>"


class Scripted(GRPOTrainer):
    """The tokens are written for it: `scripts` has the replies of each member of the group."""

    scripts: list[list[str]]
    active = range(4)

    def _generate_single_turn(self, prompt_ids, images, *args, **kwargs):
        assert len(prompt_ids) == len(self.active)
        self.last_prompt, self.last_images = self._tokenizer.decode(prompt_ids[0]), images[0]
        replies = [self.scripts[i].pop(0) for i in self.active]
        self.active = [
            i for i, reply in zip(self.active, replies, strict=True) if "<tool_call>" in reply
        ]
        return [
            self._tokenizer(reply, add_special_tokens=False)["input_ids"] for reply in replies
        ], None


@pytest.fixture(scope="module")
def oracle():
    return oracle_episode(gym.make(ID, **OPTIONS), 5, "val")


def parameters_of(trainer):
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def changed(trainer, before):
    return any(
        not torch.equal(old, new)
        for old, new in zip(before, trainer.model.parameters(), strict=True)
    )


def test_grpo_learns_from_tool_calls_with_pictures(tiny_folder, tmp_path, oracle):
    replies, turns = oracle
    good = [*map(call, replies), "Done.<|im_end|>"]
    bad = [
        call("Fly"),
        call("Fly"),
        call("Fly"),
        call("Fly"),
        "Done.<|im_end|>",
    ]  # one more than there are turns
    trainer = trainer_of(Scripted, tiny_folder, tmp_path, processor(tiny_folder))
    trainer.scripts = [list(good), list(bad), list(good), ["I won't.<|im_end|>"]]
    before = parameters_of(trainer)
    trainer.train()

    played = [episode.turns for episode in trainer.environments]
    assert (
        played[0] == turns == played[2]
    )  # the same level for the whole group, and the level of the row
    assert [len(each) for each in played] == [len(turns), 3, len(turns), 0]
    total = sum(turn.reward for turn in turns)
    rewards = [episode.get_reward() for episode in trainer.environments]
    assert rewards == pytest.approx([total, sum(turn.reward for turn in played[1]), total, 0.0])
    logged = trainer.state.log_history[0]
    assert logged["rewards/TRLEnvironment/mean"] == pytest.approx(sum(rewards) / 4)
    calls = 2 * len(turns) + 4
    assert logged["tools/call_frequency"] == pytest.approx(calls / 4)
    assert logged["tools/failure_frequency"] == pytest.approx(
        1 / calls
    )  # the turn after the end, and nothing else
    assert logged["grad_norm"] > 0
    assert changed(trainer, before)

    longest = played[
        1
    ]  # generated last: its prompt, and its pictures, are those of the whole episode
    assert longest[-1].result.text.replace("<image>", "").split("\n")[0] in trainer.last_prompt
    assert trainer.last_prompt.count("The episode is over.") == 1
    assert "do not call play again" in trainer.last_prompt
    pictures = [longest[0].observed.picture, *(turn.result.picture for turn in longest)]
    assert [image.tobytes() for image in trainer.last_images] == [
        each.pil.tobytes() for each in pictures
    ]


def different_tokens(completion_ids, **_):
    return [float(len(set(ids))) for ids in completion_ids]


def test_a_model_that_calls_no_tools_plays_too(tiny_folder, tmp_path):
    seen = processor(tiny_folder)
    seen.tokenizer.response_template = REPLY_AS_TOOL_CALL
    length = {"min_new_tokens": 16, "max_new_tokens": 16}  # an empty reply would be no turn
    arguments = {"max_tool_calling_iterations": OPTIONS["max_turns"], "generation_kwargs": length}
    trainer = trainer_of(
        GRPOTrainer, tiny_folder, tmp_path, seen, arguments, reward_funcs=[different_tokens]
    )
    before = parameters_of(trainer)
    trainer.train()  # the tiny model's own words, sampled
    for episode in trainer.environments:
        assert len(episode.turns) == OPTIONS["max_turns"]
        assert episode.turns[-1].truncated
        assert not any(turn.parsed.format_correct for turn in episode.turns)
    assert len({episode.turns[0].reply for episode in trainer.environments}) > 1
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 0
    assert changed(trainer, before)


def test_a_broken_simulator_has_no_reward(monkeypatch):
    episode = TRLEnvironment(ID, **OPTIONS)
    episode.reset(seed=1)

    def fails(action):
        raise OSError("pipe")

    monkeypatch.setattr(episode._env.unwrapped, "_execute", fails)
    with pytest.raises(SimulatorError, match="pipe"):
        episode.play("<answer>Up</answer>")
    with pytest.raises(SimulatorError, match="pipe"):
        episode.get_reward()
    monkeypatch.undo()
    episode.reset(seed=1)
    episode.play("<answer>Up</answer>")
    assert episode.get_reward() == sum(turn.reward for turn in episode.turns)


@pytest.mark.parametrize(
    ("env_id", "options", "named"),
    [
        ("vagen/Sokoban-v0", {}, "vagen/Sokoban-v0"),
        (ID, {"strategy": "grounding"}, "grounding"),
        (ID, {"strategy": "no_think", "separator": ";"}, "separator"),
    ],
)
def test_another_environment_than_the_prompts_is_refused(env_id, options, named):
    (row,) = levels(ID, split="val", num_levels=1, strategy="no_think")
    TRLEnvironment(ID, strategy="no_think").reset(**row)
    with pytest.raises(ConfigError, match="the row's prompt is of") as refused:
        TRLEnvironment(env_id, **options).reset(**row)
    assert f"{ID} with" in str(refused.value)
    assert "no_think" in str(refused.value)
    assert f"but the environment is {env_id}" in str(refused.value)
    assert named in str(refused.value)
    own = ("prompt_hash", "options")  # rows of one's own lack them
    unhashed = {name: value for name, value in row.items() if name not in own}
    if env_id == ID:
        TRLEnvironment(env_id, **options).reset(**unhashed)
    else:
        with pytest.raises(ConfigError, match=env_id):
            TRLEnvironment(env_id, **options).reset(**unhashed)


@pytest.mark.parametrize(
    ("options", "differs"),
    [
        ({"size": 6}, r"size=4 \(here 6\)"),
        ({"max_turns": 7}, r"max_turns=3 \(here 7\)"),
        ({"difficulty": 3}, r"difficulty=None \(here 3\)"),
        ({"success_reward": 5}, r"success_reward=10.0 \(here 5\)"),
    ],
)
def test_options_that_the_prompt_does_not_say_are_compared(options, differs):
    (row,) = levels(ID, split="val", num_levels=1, strategy="no_think")
    with pytest.raises(ConfigError, match=differs):
        TRLEnvironment(ID, strategy="no_think", **options).reset(**row)
    made = gym.make(ID, strategy="no_think", split="test", num_levels=9, render_mode="rgb_array")
    TRLEnvironment(gym.wrappers.TimeLimit(made, 2)).reset(**row)


def test_a_factory_of_another_environment_trains_nothing(tiny_folder, tmp_path):
    trainer = trainer_of(Scripted, tiny_folder, tmp_path, processor(tiny_folder))
    for names, pool in trainer._environment_pool.items():
        pool[:] = [TRLEnvironment("vagen/Sokoban-v0", **SOKOBAN) for _ in range(4)]
        assert names is None
    with pytest.raises(ConfigError, match="but the environment is vagen/Sokoban-v0"):
        trainer.train()


def test_a_batch_without_a_turn_is_a_warning_with_the_fix(tiny_folder, tmp_path):
    trainer = trainer_of(Scripted, tiny_folder, tmp_path, processor(tiny_folder))
    trainer.scripts = [["I won't.<|im_end|>"] for _ in range(4)]
    with pytest.warns(UserWarning, match="none of the batch's 4 episodes played.*REPLY_AS_TOOL"):
        trainer.train()


def test_a_wrappers_truncation_ends_the_episode():
    env = gym.make(ID, max_episode_steps=2, **{**OPTIONS, "max_turns": 5})
    episode = TRLEnvironment(env)
    for _ in range(2):  # the first episode's end isn't the second's
        episode.reset(seed=1)
        for turn in range(2):
            assert not episode.truncated, turn
            episode.play("nothing")
        assert (episode.terminated, episode.truncated) == (False, True)
        with pytest.raises(EpisodeOverError, match="do not call play again"):
            episode.play("nothing")
        assert len(episode.turns) == 2


def test_wrapped_environments_and_text_observations():
    from vagen_rewards import RuleJudge, VisualReasoningReward

    env = gym.make(ID, observation="text", is_slippery=False)
    episode = TRLEnvironment(VisualReasoningReward(env, RuleJudge()))
    first = episode.reset(seed=3, split="val", prompt=[], environment=ID)
    assert isinstance(first, str)
    assert "<image>" not in first
    assert isinstance(episode.play(env.unwrapped.oracle_reply()), str)
    names = {term.name for term in episode.turns[0].rewards}
    assert {"grounding", "world_modeling"} <= names
    assert episode.get_reward() == pytest.approx(episode.turns[0].reward)
    with pytest.raises(TypeError, match="int"):
        episode.play(7)
    with pytest.raises(ConfigError, match="no seed"):
        episode.reset()


def test_rows_of_levels_reset_their_episode():
    rows = levels("vagen/Sokoban-v0", split="test", first_seed=4, num_levels=3)
    assert rows["seed"] == [4, 5, 6]
    env = gym.make("vagen/Sokoban-v0")
    assert rows[0]["prompt"][0] == {"role": "system", "content": env.unwrapped.system_prompt}
    episode = TRLEnvironment("vagen/Sokoban-v0")
    first = episode.reset(**rows[1])
    shown, _ = env.reset(seed=5, options={"split": "test"})
    (image,) = [part["image"] for part in first if part["type"] == "image"]
    assert image.tobytes() == shown["image"].tobytes()


def test_reasoning_is_paid_as_the_reward_alone_pays_it():
    options = {"weighting": "plain", "judge": "rule"}
    paid, unpaid = (
        TRLEnvironment(ID, reasoning, **{**OPTIONS, "strategy": "grounding"})
        for reasoning in (options, None)
    )
    for episode in (paid, unpaid):
        episode.reset(seed=5, split="val")
    reply = unpaid._env.unwrapped.oracle_reply()
    for episode in (paid, unpaid):
        episode.play(reply)
    owed = sum(term.value for term in ReasoningReward.from_options(options)(unpaid.turns[0]))
    assert owed > 0
    assert paid.get_reward() == pytest.approx(unpaid.get_reward() + owed)


def test_prompts_show_all_turns_and_no_other_policy_is_taken():
    TRLEnvironment(ID, context="all")
    with pytest.raises(ConfigError, match=r"context='last:2' is not possible with TRL"):
        TRLEnvironment(ID, context="last:2")
