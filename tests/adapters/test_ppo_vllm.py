"""Generation with vLLM, in this process and as a server, against transformers on the same weights.

vLLM asks for an environment of its own: `make test-vllm` sets one up and runs these.
"""

import contextlib
import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")

CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCHDYNAMO_DISABLE": "1",  # compiling takes a minute, and a tiny model is no faster for it
}
os.environ.update(CPU)

import gymnasium as gym  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from ports import free_port  # noqa: E402
from ppo_training import config, history, likes_short_words, same, trained, weights  # noqa: E402
from token_scores import score_tokens  # noqa: E402

from vagen_adapters.errors import TrainingConfigError, TrainingDataError  # noqa: E402
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_adapters.ppo.episodes import LevelSeed  # noqa: E402
from vagen_adapters.ppo.generation import Prompt, SampleSettings, model_inputs  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402
from vagen_adapters.ppo.token_sequences import training_sequences  # noqa: E402
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer  # noqa: E402
from vagen_adapters.ppo.vllm_requests import WORKER_EXTENSION  # noqa: E402
from vagen_adapters.ppo.vllm_samplers import VLLMSampler  # noqa: E402
from vagen_adapters.ppo.vllm_server import VLLMServerSampler  # noqa: E402

SAMPLING = SampleSettings(temperature=0.8, top_p=1.0, max_tokens=6)
BLOCK = 32
"""Tokens of a block of the key-value cache: few, so that short prompts fill some. Prefixes are cached by blocks."""
OPTIONS = {
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "enforce_eager": True,
    "block_size": BLOCK,
    "disable_log_stats": False,
}
ENVIRONMENTS = {
    "vagen/FrozenLake-v0": {"strategy": "no_think", "max_turns": 2, "prompt_pack": tiny.PROMPTS},
    "vagen/Sokoban-v0": {"strategy": "no_think", "max_turns": 2, "prompt_pack": tiny.PROMPTS},
}


@pytest.fixture(scope="module")
def server(tiny_folder, tmp_path_factory):
    """The address of a server of the tiny model."""
    port = free_port()
    flags = (
        f"--model {tiny_folder} --port {port} --host 127.0.0.1 --dtype float32 --enforce-eager --max-model-len 1024"
        " --max-num-seqs 16 --logprobs-mode processed_logprobs --enable-scale-out"
        f" --worker-extension-cls {WORKER_EXTENSION} --enable-lora --max-lora-rank 8"
    ).split()
    log = tmp_path_factory.mktemp("server") / "log"
    # `vllm serve` asks for the distribution `vllm`, which vllm-cpu is not.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags]
    environment = {
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    }
    with log.open("w") as sink:
        process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    process.kill()


@pytest.fixture(scope="module")
def engine(tiny_folder):
    model, encoder = load_policy(tiny_folder)
    return VLLMSampler(
        model, encoder, Accelerator(cpu=True), tiny_folder, dtype="float32", **OPTIONS
    )


def change(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)


def largest_gap(sampler, model):
    """Between the log-probabilities that came with replies and the model's own, over episodes of two levels."""
    env = gym.make("vagen/FrozenLake-v0", **ENVIRONMENTS["vagen/FrozenLake-v0"])
    episodes = Rollout([env], sampler.encoder, sampler, SAMPLING).play(
        [LevelSeed(0), LevelSeed(1)], 5
    )
    assert [episode.failure for episode in episodes] == [None, None]
    sequences = [
        each for episode in episodes for each in training_sequences(episode, with_end=True)
    ]
    inputs = model_inputs([each.prompt for each in sequences], sampler.encoder, "cpu")
    with torch.no_grad():
        ours, _ = score_tokens(
            model, inputs, temperature=0.8, forbidden_ids=sampler.encoder.forbidden_ids
        )
    turn_ids = [torch.tensor(each.turn_ids) >= 0 for each in sequences]
    theirs = [torch.tensor(each.logprobs) for each in sequences]
    return max(
        float((ours[row, : len(mask)] - theirs[row])[mask].abs().max())
        for row, mask in enumerate(turn_ids)
    )


def test_log_probabilities_are_the_trainers_after_a_sync(engine):
    model = engine._engine.model
    assert largest_gap(engine, model) < 1e-4
    change(model, 1)
    assert largest_gap(engine, model) > 0.1  # so that the next line says something
    engine.sync()
    assert largest_gap(engine, model) < 1e-4


def test_a_prefix_cache_of_the_old_weights_would_be_noticed(engine, monkeypatch):
    model, encoder = engine._engine.model, engine.encoder
    ids = tuple(
        encoder.tokenizer("Up Down Left Right " * 100, add_special_tokens=False)["input_ids"]
    )[:400]  # > a block

    def gap():
        (reply,) = engine.sample([Prompt(ids, ())], SAMPLING, [1])
        inputs = model_inputs([Prompt((*ids, *reply.ids), ())], encoder, "cpu")
        with torch.no_grad():
            ours, _ = score_tokens(
                model, inputs, temperature=0.8, forbidden_ids=encoder.forbidden_ids
            )
        return float((ours[0, len(ids) :] - torch.tensor(reply.logprobs)).abs().max())

    assert gap() < 1e-4
    change(model, 2)
    with monkeypatch.context() as patch:
        patch.setattr(engine.llm, "reset_prefix_cache", lambda: True)
        engine.sync()
        assert gap() > 1e-2
    engine.sync()
    assert gap() < 1e-4


@pytest.fixture
def outputs(engine, monkeypatch):
    """vLLM's outputs of all that the engine samples, from an empty cache."""
    seen, generate = [], engine.llm.generate

    def kept(*given, **options):
        found = generate(*given, **options)
        seen.extend(found)
        return found

    monkeypatch.setattr(engine.llm, "generate", kept)
    engine.sync()
    return seen


def picture_hits(engine):
    """How often vLLM looked for a prepared picture by its hash, and how often it had it."""
    found = {each.name: each.value for each in engine.llm.get_metrics() if "mm_cache" in each.name}
    return found["vllm:mm_cache_queries"], found["vllm:mm_cache_hits"]


def test_a_conversations_earlier_turns_come_from_the_prefix_cache(engine, outputs):
    options = ENVIRONMENTS["vagen/FrozenLake-v0"] | {"max_turns": 4}
    queries, hits = picture_hits(engine)
    rollout = Rollout(
        [gym.make("vagen/FrozenLake-v0", **options)], engine.encoder, engine, SAMPLING
    )
    rollout.play([LevelSeed(0)], 5)
    lengths = [len(each.prompt_token_ids) for each in outputs]
    assert len(lengths) == 4
    cached = [each.num_cached_tokens for each in outputs]
    assert cached == [0, *(length // BLOCK * BLOCK for length in lengths[:-1])]
    asked, found = picture_hits(engine)
    assert asked - queries == 1 + 2 + 3 + 4  # each prompt has the pictures of all turns so far
    assert found - hits >= 1 + 2 + 3  # only a new picture is prepared


def test_a_prefix_is_cached_for_its_pictures_alone(engine, outputs):
    env = gym.make("vagen/FrozenLake-v0", **ENVIRONMENTS["vagen/FrozenLake-v0"])
    shown = [engine.encoder.show("", env.reset(seed=seed)[0]) for seed in (0, 1)]
    text = engine.encoder.tokenizer("Up Down Left Right " * 40, add_special_tokens=False)
    before = text["input_ids"][: 2 * BLOCK]
    ids = (*before, *shown[0].first_ids, *before)
    for picture in (shown[0], shown[1], shown[0]):
        engine.sample([Prompt(ids, (picture,))], SAMPLING, [0])
    whole = (len(ids) - 1) // BLOCK * BLOCK
    assert [each.num_cached_tokens for each in outputs] == [0, len(before), whole]


def test_an_engine_wakes_up_after_torch_has_released_its_cached_memory(engine, monkeypatch):
    calls = []
    monkeypatch.setattr(engine, "_sleeps", True)
    monkeypatch.setattr(engine, "_rests", False)
    monkeypatch.setattr(engine.llm, "sleep", lambda level: calls.append("sleep"))
    monkeypatch.setattr(engine.llm, "wake_up", lambda: calls.append("wake"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    engine.rest()
    engine.sync()
    assert calls == ["sleep", "empty", "wake"]


def test_a_server_takes_over_weights_from_a_folder(server, tiny_folder, tmp_path):
    model, encoder = load_policy(tiny_folder)
    sampler = VLLMServerSampler(model, encoder, Accelerator(cpu=True), server, tmp_path)
    change(model, 3)
    sampler.sync()
    assert largest_gap(sampler, model) < 1e-4
    assert not list(tmp_path.iterdir())


def test_replies_depend_on_their_seed_alone_and_hold_no_image_tokens(engine):
    encoder = engine.encoder
    prompts = [Prompt(tuple(encoder.tokenizer(text)["input_ids"]), ()) for text in ("Up", "Down")]
    together = engine.sample([*prompts, prompts[0]], SAMPLING, [1, 2, 3])
    assert engine.sample(prompts[1:], SAMPLING, [2]) == together[1:2]
    assert together[0] != together[2]
    many = engine.sample(prompts[:1] * 50, SAMPLING, range(50))
    assert not {token for reply in many for token in reply.ids} & set(encoder.forbidden_ids)


def test_a_picture_laid_out_in_another_way_is_refused(engine):
    env = gym.make("vagen/FrozenLake-v0", **ENVIRONMENTS["vagen/FrozenLake-v0"])
    observation, _ = env.reset(seed=0)
    shown = engine.encoder.show("", observation)
    ids = (*shown.first_ids[:-1], engine.encoder.image_token_id, shown.first_ids[-1])
    with pytest.raises(TrainingDataError, match="image tokens"):
        engine.sample([Prompt(ids, (shown,))], SAMPLING, [0])


def test_without_a_gpu_a_server_needs_a_folder(server, tiny_folder):
    model, encoder = load_policy(tiny_folder)
    with pytest.raises(TrainingConfigError, match="weights_folder"):
        VLLMServerSampler(model, encoder, Accelerator(cpu=True), server)


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_ten_updates_are_the_same_with_every_back_end(env_id, server, tiny_folder, tmp_path):
    """Replies are drawn from the likeliest token alone, so that all back-ends must say the same, from the same weights."""
    runs = {}
    of_server = {"url": server, "weights_folder": str(tmp_path / "weights")}
    back_ends = {"transformers": {}, "vllm": OPTIONS, "vllm-server": of_server}
    for generation, options in back_ends.items():
        settings = config(
            tmp_path / generation,
            environments=[{"id": env_id, "options": ENVIRONMENTS[env_id]}],
            num_envs=4,
            rollouts=5,
            episodes_per_rollout=4,
            max_tokens=6,
            max_length=1024,
            top_p=1e-6,
            critic_learning_rate=1e-2,
            optim="sgd",
            generation=generation,
            vllm_options=options,
        )
        trainer = MultiTurnPPOTrainer(tiny_folder, settings, score=likes_short_words)
        start = weights(trainer)
        trainer.train()
        assert trainer.state.global_step == 10
        runs[generation] = trainer, start
    expected, start = runs.pop("transformers")
    assert any(not torch.equal(start[name], each) for name, each in weights(expected).items())
    for trainer, _ in runs.values():
        for name in (
            "loss",
            "rollout/return",
            "advantage/std",
            "policy/kl_to_reference",
            "critic/loss",
        ):
            assert history(trainer, name) == pytest.approx(
                history(expected, name), rel=1e-3, abs=1e-5
            ), name
        same(weights(trainer), weights(expected), rtol=1e-4, atol=1e-5)


def test_a_server_plays_beside_updates_with_weights_that_are_known(server, tiny_folder, tmp_path):
    options = {"url": server, "weights_folder": str(tmp_path / "weights")}
    trainer = trained(
        tiny_folder,
        tmp_path,
        num_envs=4,
        rollouts=3,
        episodes_per_rollout=4,
        max_tokens=6,
        max_length=1024,
        logging_steps=2,
        generation="vllm-server",
        vllm_options=options,
        max_staleness=1,
        sampler_correction="token",
    )
    assert history(trainer, "staleness/max") == [0, 1, 1]
    assert (
        history(trainer, "policy/sampler_gap")[0] < 1e-4 < history(trainer, "policy/sampler_gap")[1]
    )
