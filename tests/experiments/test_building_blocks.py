"""The building blocks of the experiments: scripted play, imitation, vision pretraining, critics' heads."""

import itertools

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_envs  # noqa: E402, F401
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_adapters.ppo.episodes import Level  # noqa: E402
from vagen_adapters.ppo.generation import Sampling, TransformersSampler  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402
from vagen_envs import RewardTerm  # noqa: E402
from vagen_experiments.critics import StudyConfig, StudyTrainer  # noqa: E402
from vagen_experiments.imitation import demonstrate, demonstrations, imitate, imitation_loss  # noqa: E402

LEVELS = [Level(seed) for seed in range(24)]
SHORT = {"strategy": "no_think", "max_turns": 3}
OPTIONS = {"max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS, **SHORT}


@pytest.mark.parametrize("processes", [0, 2])
def test_play_of_other_processes_is_that_of_this_one_in_the_same_order(tiny_folder, processes):
    codec, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **OPTIONS)
    here = [demonstrate(env, codec, level, oracle_share=0.5) for level in LEVELS[:7]]
    apart = demonstrations(
        "vagen/FrozenLake-v0", OPTIONS, tiny_folder, LEVELS[:7], oracle_share=0.5, processes=processes
    )
    for mine, theirs in zip(here, apart, strict=True):
        assert (mine.level, mine.rewards) == (theirs.level, theirs.rewards)
        for one, other in zip(mine.turns, theirs.turns, strict=True):
            assert (one.shown.next_ids, one.reply.ids) == (other.shown.next_ids, other.reply.ids)
            assert one.shown.pictures == other.shown.pictures


def test_after_imitation_the_model_says_what_it_was_shown(tiny_folder):
    """It starts from noise; after a few updates its own play, on levels it has not seen, has the format."""
    model, codec = load_policy(tiny_folder)
    env = gym.make("vagen/FrozenLake-v0", **OPTIONS)
    played = [demonstrate(env, codec, level) for level in LEVELS]
    with torch.no_grad():
        before = float(imitation_loss(model, codec, played[:8]))
    told = []
    imitate(
        model, codec, itertools.cycle(played), 40, batch_size=4, learning_rate=4e-3,
        report=lambda *each: told.append(each),
    )  # fmt: skip
    with torch.no_grad():
        after = float(imitation_loss(model, codec, played[:8]))
    assert [number for number, _ in told] == list(range(40))
    assert after < before / 5
    rollout = Rollout([env], codec, TransformersSampler(model, codec), Sampling(temperature=0.0, max_tokens=12))
    (episode,) = rollout.play([Level(0, "val")], 0)
    assert all(turn.turn.parsed.format_correct for turn in episode.turns)


@pytest.mark.parametrize("kind", ["critic_reads", "critic_told"])
def test_the_trainer_teaches_it(tiny_folder, tmp_path, kind):
    args = StudyConfig(
        output_dir=str(tmp_path), environments=[{"id": "vagen/FrozenLake-v0", "options": OPTIONS}], num_envs=4, rollouts=1,
        episodes_per_rollout=4, minibatches=2, max_tokens=4, temperature=1.0, top_p=1.0, critic_learning_rate=1e-3,
        logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True, **{kind: True},
    )  # fmt: skip
    trainer = StudyTrainer(tiny_folder, args, score=lambda turn: [RewardTerm("late", float(turn.index))])
    head = trainer.model.reading_head or trainer.model.told_head
    before = head.value.weight.clone()
    trainer.train()
    assert not torch.equal(head.value.weight, before)
