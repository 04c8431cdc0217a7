"""Prompts, states and rewards of the oracle's play, held by golden hashes over refactorings.

`python tests/test_behaviour.py` writes tests/golden/behaviour.json anew, after a change that moves a score on purpose.
"""

import hashlib
import importlib.util
import itertools
import json
from pathlib import Path

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401 - registers the ids

GOLDEN = Path(__file__).parent / "golden" / "behaviour.json"
STRATEGIES = ("no_think", "free_think", "grounding", "world_modeling", "grounding_world_modeling")
SIMULATORS = {"Navigation": "mujoco", "PrimitiveSkill": "mani_skill", "SVGReconstruction": "resvg"}
ENVS = {
    "Sokoban": ("natural_language", "symbolic", "structured"),
    "FrozenLake": ("natural_language", "symbolic", "structured"),
    "Navigation": ("natural_language", "structured"),
    "PrimitiveSkill": ("natural_language", "structured"),
    "SVGReconstruction": ("natural_language", "structured"),
}


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _play(name, strategy, representation):
    """The hashes and rewards of one oracle episode with text observations (SVG: pictures)."""
    env = gym.make(
        f"vagen/{name}-v0", strategy=strategy, representation=representation, **_observation(name)
    )
    try:
        observation, info = env.reset(seed=11)
        texts, rewards = [observation["text"]], []
        end = False
        while not end:
            observation, _, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())
            texts.append(observation["text"])
            rewards.append([[term.name, round(term.value, 4)] for term in info["turn"].rewards])
            end = terminated or truncated
        states = json.dumps(info["turn"].after.to_json(), sort_keys=True)
        return {
            "prompt": _hash(env.unwrapped.system_prompt),
            "texts": _hash("\n".join(texts)),
            "rewards": rewards,
            "last_state": _hash(states),
            "success": info["turn"].success,
        }
    finally:
        env.close()


def _observation(name):
    return {} if name == "SVGReconstruction" else {"observation": "text"}


def _all(name):
    return {
        f"{strategy}, {representation}": _play(name, strategy, representation)
        for strategy, representation in itertools.product(STRATEGIES, ENVS[name])
    }


@pytest.mark.parametrize("name", ENVS)
def test_the_oracles_play_is_golden(name):
    library = SIMULATORS.get(name)
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    assert _all(name) == json.loads(GOLDEN.read_text())[name]


if __name__ == "__main__":
    lines = [
        f'"{name}": {{\n'
        + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in _all(name).items())
        + "\n}"
        for name in ENVS
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
