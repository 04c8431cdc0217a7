"""Spaces: text is any Unicode, and Gymnasium's own tools work on every id."""

from __future__ import annotations

import pickle
from multiprocessing import get_context

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers import (
    DelayObservation,
    FlattenObservation,
    FrameStackObservation,
    TimeAwareObservation,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from vagen_envs import ENV_IDS
from vagen_envs.spaces import MAX_TEXT_LENGTH, UnicodeText

SIMULATED = ("Navigation", "PrimitiveSkill", "SVG")
IDS = [
    pytest.param(name, marks=pytest.mark.sim if any(part in name for part in SIMULATED) else ())
    for name in ENV_IDS
    if "PrimitiveSkill" not in name or "Place" in name  # one class makes them all
]
GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")


def make(env_id, **options):
    if "SVG" in env_id:
        options["scorer"] = "classical"
    return gym.make(env_id, disable_env_checker=True, **options)


@given(st.text(st.characters(codec=None), max_size=50))
@settings(max_examples=60)
def test_any_unicode_text_is_an_action(text):
    """Whatever a model writes is in the action space, lone surrogates included, up to its length."""
    space = UnicodeText()
    assert space.contains(text)
    assert not space.contains(text.encode("utf-8", "surrogatepass"))
    assert not space.contains("x" * (MAX_TEXT_LENGTH + 1))


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2))
@settings(max_examples=6)
def test_text_goes_through_every_handler_that_gymnasium_has_for_its_own(texts):
    """Flattening, batching, empty arrays and shared memory give the texts back."""
    space = UnicodeText(64)
    for text in texts:
        flat = gym.spaces.flatten(space, text)
        assert gym.spaces.flatten_space(space).contains(flat)
        assert flat.shape == (gym.spaces.flatdim(space),)
        assert gym.spaces.unflatten(space, flat) == text
    batch = batch_space(space, 2)
    assert isinstance(batch, gym.spaces.Tuple)
    assert batch.contains(tuple(texts))
    assert concatenate(space, texts, create_empty_array(space, 2)) == tuple(texts)
    memory = create_shared_memory(space, 2, get_context("spawn"))
    for index, text in enumerate(texts):
        write_to_shared_memory(space, index, text, memory)
    assert read_from_shared_memory(space, memory, 2) == tuple(texts)
    assert space.contains(create_empty_array(space, 1, fn=np.zeros)[0])
    assert pickle.loads(pickle.dumps(space)) == space
    space.seed(3)
    first = space.sample()
    space.seed(3)
    assert space.sample() == first
    assert space.contains(first)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.filterwarnings("ignore")
def test_every_id_has_these_spaces_and_passes_gymnasiums_check(env_id):
    """Action: text. Observation: a picture and a text."""
    env = make(env_id)
    assert isinstance(env.action_space, UnicodeText)
    assert isinstance(env.observation_space, gym.spaces.Dict)
    kinds = {name: type(space) for name, space in env.observation_space.spaces.items()}
    assert kinds == {"image": gym.spaces.Box, "text": UnicodeText}
    assert env.observation_space["image"].dtype == np.uint8
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


REPLIES = ("<answer>Up</answer>", "nonsense \U0001f600", "<answer>Down,Left</answer>")


def played(envs, replies):
    """What a vector environment gave, as texts, pictures, rewards and ends."""
    shown, _ = envs.reset(seed=5)
    seen = [(list(shown["text"]), shown["image"].tobytes())]
    for reply in replies:
        shown, *rest, _ = envs.step([reply] * envs.num_envs)
        seen.append((list(shown["text"]), shown["image"].tobytes(), *map(list, rest)))
    envs.close()
    return seen


@pytest.mark.parametrize("env_id", [*GRIDS, "vagen/Sample-v0"])
def test_vectors_play_alike_in_one_process_and_in_several(env_id):
    """`make_vec` gives the same episodes sync, async under fork and async under spawn."""
    if env_id == "vagen/Sample-v0":
        pytest.importorskip("math_verify")
    expected = played(gym.make_vec(env_id, num_envs=2, vectorization_mode="sync"), REPLIES)
    contexts = ("fork", "spawn") if env_id == GRIDS[0] else ("fork",)
    for context in contexts:
        envs = gym.make_vec(
            env_id, num_envs=2, vectorization_mode="async", vector_kwargs={"context": context}
        )
        assert played(envs, REPLIES) == expected, context


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: FrameStackObservation(env, 2),
        lambda env: DelayObservation(env, 1),
        FlattenObservation,
        lambda env: TimeAwareObservation(env, flatten=False),
    ],
    ids=["stack", "delay", "flatten", "time"],
)
def test_stock_wrappers_work(env_id, wrap):
    """Gymnasium's wrappers of observations take these spaces as they take its own."""
    with_text = wrap(gym.make(env_id, scale=4, disable_env_checker=True, max_episode_steps=9))
    shown, _ = with_text.reset(seed=1)
    assert with_text.observation_space.contains(shown)
    shown = with_text.step(REPLIES[0])[0]
    assert with_text.observation_space.contains(shown)
