"""verl's own worker, token builder and registries on our environments; the language model server alone is scripted."""

from __future__ import annotations

import asyncio

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("verl", reason="needs the extra verl, in an environment of its own")

import hydra
import qwen
import torch
import verl.utils.torch_functional as verl_functional
from omegaconf import OmegaConf
from other_rows import CHANGES, says_both
from verl.experimental.agent_loop import agent_loop
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos, ray_trainer
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from vagen_adapters import verl_advantages, verl_env
from vagen_adapters.env_thread import start
from vagen_adapters.errors import TrainingDataError
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.advantages import bilevel_gae_released
from vagen_adapters.ppo.trajectories import Trajectories
from vagen_adapters.rows import make_from_row
from vagen_envs.errors import ConfigError

ID = "vagen/FrozenLake-v0"
OPTIONS = {
    "strategy": "no_think",
    "max_turns": 3,
    "prompt_pack": "terse",
    "is_slippery": False,
    "max_actions_per_turn": 1,
}


def made(level):
    return make_from_row(level["env_id"], level.get("options"), level.get("reasoning"))


@pytest.fixture(autouse=True)
def _rows_are_ours(monkeypatch):
    """`OPTIONS` name prompts, which strangers' rows may not."""
    monkeypatch.setenv("VAGEN_TRUST_ROWS", "1")


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    texts = tiny.texts_of([ID], levels=5, prompt_pack=tiny.PROMPTS, strategy="no_think")
    tiny.save_tiny(folder, texts, vocabulary=320, layers=1)
    return qwen.processor(folder)


class Server:
    """Answers with the oracle's words, letter by letter: no tokenizer would split them so."""

    def __init__(self, tokenizer, level):
        self.tokenizer, self.calls, self.said, self.turns = tokenizer, [], [], []
        self.env = made(level)
        start(self.env, level["seed"], level["split"])

    async def generate(self, request_id, *, prompt_ids, sampling_params, image_data=None, **kwargs):
        self.calls.append((request_id, list(prompt_ids), list(image_data or [])))
        reply = self.env.oracle_reply()
        self.turns.append(self.env.step(reply)[4]["turn"])
        ids = [
            token
            for letter in reply
            for token in self.tokenizer.encode(letter, add_special_tokens=False)
        ]
        ids.append(self.tokenizer.eos_token_id)
        self.said.append(ids)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


def worker_of(processor, server, response_length):
    """verl's worker without what it loads from checkpoints and clusters."""
    rollout = {"prompt_length": 400, "response_length": response_length}
    worker = agent_loop.AgentLoopWorker.__new__(agent_loop.AgentLoopWorker)
    worker.config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    worker.rollout_config = worker.config.actor_rollout_ref.rollout
    worker.llm_client, worker.tokenizer, worker.processor = server, processor.tokenizer, processor
    worker.hf_model_type, worker.dataset_cls, worker.tools = "qwen3_vl", RLHFDataset, []
    worker.mm_processor_kwargs, worker.distillation_enabled, worker.reward_loop_worker_handles = (
        {},
        False,
        None,
    )
    return worker


def play(processor, seed, response_length=600, change=None, **options):
    (row,) = verl_env.levels(
        ID, split="val", first_seed=seed, num_levels=1, **{**OPTIONS, **options}
    )
    server = Server(processor.tokenizer, row["extra_info"])
    worker = worker_of(processor, server, response_length)
    asked = {**row["extra_info"], **(change or {})}
    loop = hydra.utils.instantiate(
        agent_loop._agent_loop_registry[verl_env.NAME],
        trainer_config=agent_loop.DictConfigWrap(worker.config),
        server_manager=server,
        tokenizer=worker.tokenizer,
        processor=processor,
        hf_model_type=worker.hf_model_type,
        dataset_cls=RLHFDataset,
        data_config=agent_loop.DictConfigWrap(worker.config.data),
        tools=agent_loop.ToolListWrap([]),
    )

    async def run():
        output = await loop.run({}, raw_prompt=row["prompt"], extra_info=asked)
        return output, await worker._agent_loop_postprocess(output, False, raw_prompt=row["prompt"])

    loop.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop.loop)
    output, padded = loop.loop.run_until_complete(run())
    return server, output, worker._postprocess([padded])


def image_tokens(processor, ids):
    return list(ids).count(processor.image_token_id)


def test_tokens_in_tokens_out_with_pictures_and_turn_rewards(processor):
    seed = next(seed for seed in range(20) if len(play(processor, seed)[0].turns) == 3)
    server, output, batch = play(processor, seed)
    assert len({request for request, *_ in server.calls}) == 1
    whole = output.prompt_ids + output.response_ids
    sampled = [
        token for token, kept in zip(output.response_ids, output.response_mask, strict=True) if kept
    ]
    assert sampled == [token for ids in server.said for token in ids]  # not tokenised again
    for turn, (_, prompt, images) in enumerate(server.calls):
        assert whole[: len(prompt)] == prompt
        assert len(images) == turn + 1
        assert images[-1].tobytes() == server.turns[turn].observed.picture.pixels.tobytes()
        assert server.turns[turn].observed.picture.pil.size == images[-1].size
        assert image_tokens(processor, prompt) == 16 * (turn + 1)  # 128 × 128 pixels
    logprobs = torch.tensor(output.response_logprobs)
    assert torch.equal(logprobs, torch.tensor(output.response_mask) * -0.5)

    fields = output.as_dict()
    ends = np.cumsum([len(ids) for ids in server.said])
    places = torch.tensor(output.response_mask).cumsum(0)
    for end, turn in zip(ends, server.turns, strict=True):
        (last,) = ((places == end) & (torch.tensor(output.response_mask) == 1)).nonzero()[0]
        assert fields["rm_scores"][last] == pytest.approx(turn.reward)
    assert fields["rm_scores"].sum() == pytest.approx(output.reward_score)
    assert {"turn_ends", "turn_rewards"}.isdisjoint(fields)

    assert batch.batch["response_mask"].sum() == len(sampled)
    (inputs,) = batch.non_tensor_batch["multi_modal_inputs"]
    assert len(inputs["pixel_values"]) == 4 * image_tokens(processor, whole)
    assert batch.non_tensor_batch["success"] == [float(server.turns[-1].success)]
    last = server.turns[-1]
    assert batch.non_tensor_batch["terminated"] == [float(last.terminated)]
    assert batch.non_tensor_batch["truncated"] == [float(not last.terminated)]


def test_no_picture_is_cut_where_the_room_ends(processor):
    seed = next(seed for seed in range(20) if len(play(processor, seed)[0].turns) == 3)
    full = play(processor, seed)[1]
    for room in (len(full.response_ids) - 1, len(full.response_ids) // 2, 5):
        server, output, _ = play(processor, seed, response_length=room)
        assert len(output.response_ids) <= room
        whole = output.prompt_ids + output.response_ids
        assert whole == (full.prompt_ids + full.response_ids)[: len(whole)]
        assert image_tokens(processor, whole) == 16 * len(output.multi_modal_data["images"])
        assert output.as_dict()["rm_scores"].sum() == pytest.approx(
            sum(turn.reward for turn in server.turns)
        )


def test_an_empty_reply_fails_its_episode(processor, monkeypatch):
    async def nothing(self, request_id, **kwargs):
        return TokenOutput(token_ids=[], stop_reason="aborted")

    monkeypatch.setattr(Server, "generate", nothing)
    with pytest.raises(TrainingDataError, match="aborted"):
        play(processor, 1)


def test_the_dataset_reads_levels(processor, tmp_path):
    import pandas

    file = tmp_path / "levels.parquet"
    rows = list(verl_env.levels(ID, split="val", first_seed=5, num_levels=3, **OPTIONS))
    pandas.DataFrame(rows).to_parquet(file)
    config = OmegaConf.create({"max_prompt_length": 400, "filter_overlong_prompts": False})
    dataset = RLHFDataset(str(file), processor.tokenizer, config, processor)
    row = dataset[2]
    assert row["agent_name"] == verl_env.NAME
    assert [dict(message) for message in row["raw_prompt"]] == rows[2]["prompt"]
    first = start(made(row["extra_info"]), 7, "val")
    shown, _ = gym.make(ID, **OPTIONS).reset(seed=7, options={"split": "val"})
    assert first.picture.pixels.tobytes() == shown["image"].tobytes()


MASK = [[1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0]]
TURNS = [[0, 0, -1, -1, 1, 1, 1, -1, 2, -1, -1], [0, -1, 1, 1, 1, 1, -1, -1, -1, -1, -1]]
ENDS = [[1, 6, 8], [0, 5]]


def example(kl):
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(2, 11, generator=generator)
    penalties = (
        torch.randn(2, 11, generator=generator) * torch.tensor(MASK) * 0.1
        if kl
        else torch.zeros(2, 11)
    )
    scores, rewards = torch.zeros(2, 11), torch.zeros(2, 3)
    for row, ends in enumerate(ENDS):
        for turn, end in enumerate(ends):
            scores[row, end] = rewards[row, turn] = float(torch.randn((), generator=generator))
    ended = torch.tensor([True, True])
    ours = Trajectories(
        turn_ids=torch.tensor(TURNS),
        turn_rewards=rewards,
        terminated=ended,
        truncated=~ended,
        values=torch.cat([values, torch.full((2, 1), torch.nan)], 1),
        kl_rewards=penalties,
    )
    tensors = {
        "values": values,
        "response_mask": torch.tensor(MASK),
        "token_level_scores": scores,
        "token_level_rewards": scores + penalties,
    }
    return ours, DataProto.from_dict(tensors)


@pytest.mark.parametrize("kl", [False, True])
def test_verls_trainer_gets_bilevel_advantages(kl, monkeypatch):
    monkeypatch.setattr(
        ray_trainer, "compute_advantage", ray_trainer.compute_advantage
    )  # puts it back afterwards
    verl_advantages.install()
    verl_advantages.install()
    ours, data = example(kl)
    settings = OmegaConf.create({"gamma": 0.99, "lam": 0.9, "gamma_turn": 0.8})
    data = ray_trainer.compute_advantage(
        data, verl_advantages.ESTIMATOR, gamma=0.99, lam=0.9, config=settings
    )
    expected = bilevel_gae_released(ours, gamma_turn=0.8, gamma_token=0.99, lam=0.9)
    mask = torch.tensor(MASK)
    whitened = verl_functional.masked_whiten(expected.advantages, mask) * mask
    torch.testing.assert_close(data.batch["advantages"], whitened)
    torch.testing.assert_close(data.batch["returns"] * mask, expected.returns[:, :-1] * mask)


def test_a_truncated_episode_is_none_that_ended_by_the_rules(monkeypatch):
    """Its loop stored the ends; verl has no value after the last token that could stand for it."""
    seen = []

    def kept(batch, **settings):
        seen.append(batch)
        return bilevel_gae_released(batch, **settings)

    monkeypatch.setattr(verl_advantages, "bilevel_gae_released", kept)
    _, data = example(kl=False)
    data.non_tensor_batch["truncated"] = np.array([0.0, 1.0])
    verl_advantages.compute_advantage(data, verl_advantages.ESTIMATOR, config=OmegaConf.create({}))
    assert seen[0].terminated.tolist() == [True, False]
    assert seen[0].truncated.tolist() == [False, True]


def test_other_estimators_stay_verls(monkeypatch):
    _, data = example(kl=False)
    _, same = example(kl=False)
    settings = OmegaConf.create({})
    theirs = ray_trainer.compute_advantage(
        data, core_algos.AdvantageEstimator.GAE, gamma=0.9, lam=0.8, config=settings
    )
    monkeypatch.setattr(ray_trainer, "compute_advantage", ray_trainer.compute_advantage)
    verl_advantages.install()
    again = ray_trainer.compute_advantage(
        same, core_algos.AdvantageEstimator.GAE, gamma=0.9, lam=0.8, config=settings
    )
    assert torch.equal(theirs.batch["advantages"], again.batch["advantages"])


def test_without_values_the_estimator_says_what_to_do():
    _, data = example(kl=False)
    estimator = core_algos.get_adv_estimator_fn(verl_advantages.ESTIMATOR)
    with pytest.raises(TrainingDataError, match="install"):
        estimator(
            token_level_rewards=data.batch["token_level_rewards"],
            response_mask=data.batch["response_mask"],
        )


def test_prompts_show_all_turns_and_no_other_policy_is_taken():
    assert list(verl_env.levels(ID, num_levels=1, context="all")) == list(
        verl_env.levels(ID, num_levels=1)
    )
    with pytest.raises(ConfigError, match=r"context='last:2' is not possible with verl"):
        list(verl_env.levels(ID, num_levels=1, context="last:2"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_of_another_environment_is_refused(processor, change):
    (row,) = verl_env.levels(ID, split="val", first_seed=5, num_levels=1, **OPTIONS)
    with pytest.raises(ConfigError) as refused:
        play(processor, 5, change=change)
    assert says_both(str(refused.value), row["extra_info"], change)
