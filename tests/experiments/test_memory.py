"""Demonstrations under a policy of memory are read and written as a rollout under it reads and writes them."""

import gymnasium as gym
import pytest

pytest.importorskip("trl")
pytest.importorskip("mujoco")

from vagen_adapters.context import ContextPolicy
from vagen_adapters.parity import tiny_model
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import SampleSettings
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_experiments.imitation import demonstrate
from vagen_experiments.memory import read_under, summary_of, true_summaries

OPTIONS = {
    "prompt_pack": "terse",
    "strategy": "no_think",
    "room": "bedroom",
    "resolution": 64,
    "step_length": 0.5,
    "max_actions_per_turn": 1,
    "max_turns": 5,
    "max_solution_length": 5,
    "facing": "any",
}


class Recorded:
    """Says what was said before."""

    def __init__(self, steps):
        self.steps = iter(steps)

    def sample(self, prompts, settings, seeds):
        return [next(self.steps).reply for _ in prompts]


@pytest.mark.parametrize("context", ["all", "last:1", "summary:2:64"])
def test_demonstrations_are_read_as_in_a_rollout(context, tmp_path):
    policy, env = ContextPolicy.parse(context), gym.make("vagen/Navigation-v0", **OPTIONS)
    tiny_model.save_tiny(tmp_path, ["a bed ahead"] * 9)
    encoder, level = ChatEncoder.from_pretrained(str(tmp_path)), LevelSeed(3)
    shown, _ = read_under(
        demonstrate(env, encoder, level, oracle_share=0.0),
        policy,
        encoder,
        env.unwrapped.system_prompt,
    )
    settings = SampleSettings(temperature=1.0, top_p=1.0, max_tokens=64)
    (played,) = Rollout([env], encoder, Recorded(shown.steps), settings, context=policy).play(
        [level], seed=0
    )
    pairs = [training_sequences(episode, policy) for episode in (shown, played)]
    assert len(played.turns) == 5
    assert [each.prompt.ids for each in pairs[0]] == [each.prompt.ids for each in pairs[1]]
    assert true_summaries([played], encoder) == ({"true_summaries": 1.0} if policy.summary else {})
    assert [each.turn_ids for each in pairs[0]] == [each.turn_ids for each in pairs[1]]


def test_a_summary_says_what_was_in_the_pictures():
    env = gym.make("vagen/Navigation-v0", **OPTIONS)
    env.reset(seed=1)
    turns = [env.step("<answer>rotateright</answer>")[4]["turn"] for _ in range(4)]
    said = [summary_of(turns[:count]) for count in (1, 2, 3, 4)]
    name = said[0].split(",")[0].removeprefix("I look for the ").removeprefix("I saw the ")
    seen = [
        any(turn.before.target_type == kind for kind, _, _ in turn.before.visible_objects)
        for turn in turns
    ]
    for count, text in enumerate(said, 1):
        assert text.startswith(
            f"I saw the {name}, now it is " if any(seen[:count]) else f"I look for the {name}, not"
        )
    assert seen[0] or said[0].endswith("looked left.")  # what was ahead is on the left now
