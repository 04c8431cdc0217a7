"""Chat observations, and every id in Gymnasium's vector environments."""

from __future__ import annotations

import base64
import functools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from vagen_adapters.gymnasium_env import ChatObservation, ChatSpace
from vagen_envs import ENV_IDS, Picture
from vagen_envs.errors import MissingExtraError, SimulatorError

ID = "vagen/Sokoban-v0"


def oracle_episode(env, seed):
    """Messages at each point, replies, turns."""
    messages, _ = env.reset(seed=seed)
    shown, turns = [messages], []
    while not turns or not (turns[-1].terminated or turns[-1].truncated):
        messages, *_, info = env.step(env.unwrapped.oracle_reply())
        shown.append(messages)
        turns.append(info["turn"])
    return shown, [turn.reply for turn in turns], turns


def pictures_of(messages, kind):
    return [
        part[kind]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == kind
    ]


def test_the_conversation_grows_by_reply_and_observation():
    env = ChatObservation(gym.make(ID, max_actions_per_turn=1))
    shown, replies, turns = oracle_episode(env, 3)
    assert len(turns) > 2
    for played, messages in enumerate(shown):
        assert messages in env.observation_space
        assert [message["role"] for message in messages] == [
            "system",
            "user",
            *["assistant", "user"] * played,
        ]
        assert [message["content"] for message in messages[2::2]] == replies[:played]
    assert shown[0][0]["content"] == env.unwrapped.system_prompt
    urls = [part["url"] for part in pictures_of(shown[-1], "image_url")]
    seen = [turns[0].observed.picture, *(turn.result.picture for turn in turns)]
    decoded = [
        Picture.from_png(base64.b64decode(url.removeprefix("data:image/png;base64,")))
        for url in urls
    ]
    assert [each.sha256 for each in decoded] == [each.sha256 for each in seen]
    again, *_ = oracle_episode(env, 3)
    assert again == shown  # an episode leaves nothing behind


@pytest.mark.parametrize("pictures", ["data_url", "pil"])
def test_gymnasiums_checks_pass(pictures):
    check_env(ChatObservation(gym.make(ID).unwrapped, pictures=pictures), skip_render_check=True)


@pytest.mark.parametrize(
    "broken",
    [
        [],
        "text",
        [{"role": "user"}],
        [{"role": "king", "content": "x"}],
        [{"role": "user", "content": [{"text": "x"}]}],
        [{"role": "user", "content": None}],
        ({"role": "user", "content": "x"},),
    ],
)
def test_the_space_knows_a_conversation(broken):
    space = ChatSpace(seed=1)
    sample = space.sample()
    assert sample in space
    assert [*sample, {"role": "assistant", "content": "x"}] in space
    assert broken not in space
    again = ChatSpace(seed=1)
    assert again.sample() == sample
    assert again == space


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_conversations_in_vector_environments(mode):
    options = {"shared_memory": False} if mode == "async" else {}
    wrappers = [functools.partial(ChatObservation, context="last:1")]
    vector = gym.make_vec(ID, 2, vectorization_mode=mode, wrappers=wrappers, vector_kwargs=options)
    try:
        first, _ = vector.reset(seed=[4, 5])
        for seed, messages in zip((4, 5), first, strict=True):
            assert messages == ChatObservation(gym.make(ID)).reset(seed=seed)[0]
        second, *_ = vector.step(["<answer>Up</answer>", "nothing"])
        assert [messages[2]["content"] for messages in second] == ["<answer>Up</answer>", "nothing"]
        assert [len(messages) for messages in second] == [4, 4]
    finally:
        vector.close()


def make(env_id, **options):
    try:
        env = gym.make(env_id, **options)
        env.reset(seed=0)
    except (MissingExtraError, SimulatorError) as error:  # without the extra, or without a driver
        pytest.skip(str(error))
    return env


GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
OPTIONS = {"vagen/SVGReconstruction-v0": {"scorer": "classical"}}


def marks(env_id):
    if "PrimitiveSkill" in env_id:  # three simulators each
        return [pytest.mark.sim, pytest.mark.slow]
    return [] if env_id in GRIDS else [pytest.mark.sim]


WAYS = [("sync", {}), ("async", {"context": "fork"}), ("async", {"context": "spawn"})]


@pytest.mark.parametrize(
    ("env_id", "way"),
    [
        pytest.param(env_id, way, marks=marks(env_id))
        for env_id in ENV_IDS
        for way in (WAYS if env_id in GRIDS else WAYS[:2])
    ],
    ids=str,
)
def test_every_id_steps_in_vectors_as_alone(env_id, way):
    options = OPTIONS.get(env_id, {})
    alone = make(
        env_id, **options
    )  # a renderer in the parent, which must not harm its forked children
    vector = gym.make_vec(env_id, 2, vectorization_mode=way[0], vector_kwargs=way[1], **options)
    try:
        first, _ = vector.reset(seed=[1, 2])
        replies, results = [], []
        for i, seed in enumerate((1, 2)):
            shown, _ = alone.reset(seed=seed)
            assert first["text"][i] == shown["text"]
            assert np.array_equal(first["image"][i], shown["image"])
            replies.append(alone.unwrapped.oracle_reply())
            results.append(alone.step(replies[-1]))
        second, rewards, terminated, truncated, infos = vector.step(replies)
        assert list(second["text"]) == [each[0]["text"] for each in results]
        assert rewards.tolist() == pytest.approx([each[1] for each in results])
        assert [terminated.tolist(), truncated.tolist()] == [
            [each[2] for each in results],
            [each[3] for each in results],
        ]
        assert [turn.after for turn in infos["turn"]] == [each[4]["turn"].after for each in results]
    finally:
        vector.close()
        alone.close()
