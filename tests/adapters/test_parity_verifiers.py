"""The parity kit on verifiers' path to a trainer, and its environment server as prime-rl asks it."""

from __future__ import annotations

import asyncio
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("verifiers.v1", reason="needs the extra verifiers")
pytest.importorskip("torch", reason="needs torch beside verifiers")
pytest.importorskip("accelerate", reason="needs accelerate beside verifiers")

import verifiers.v1 as vf
from parity_reports import failed
from parity_verifiers import Engine, OfVerifiers, tokenizer_for_the_renderer, trained
from pydantic import BaseModel, SerializeAsAny, model_validator
from renderers.configs import Qwen3VLRendererConfig
from verifiers.v1.clients import train
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.serve import EnvClient
from verifiers.v1.serve.server import EnvServer
from verifiers.v1.trace import Branch

from vagen_adapters.parity import run
from vagen_adapters.parity.kit import playback_of
from vagen_adapters.parity.recordings import RECORDINGS
from vagen_adapters.parity.reference_model import ENV_ID
from vagen_adapters.verifiers_env import PlayConfig
from vagen_adapters.verifiers_taskset import TASKSET_ID, LevelsConfig


def test_what_verifiers_hands_a_trainer_is_what_was_sampled(model):
    """The episodes in which an image token is sampled and those that find no room are left out, for the engine refuses."""
    report = run(OfVerifiers(), model)
    assert report.failed == ()
    assert {each.check for each in report.findings if each.verdict == "skip"} == {"ends"}
    left_out = {
        each.recording for each in report.findings if each.message == "the episode is left out"
    }
    assert left_out == {"image token", "video token", "no room", "broken"}


def test_prime_rl_2243_put_back_token_types_are_missing(model, monkeypatch):
    monkeypatch.setattr(Branch, "mm_token_type_ids", None)
    assert {"positions", "log-probs"} <= failed(run(OfVerifiers(), model, ["truncated"]))


def test_a_conversation_that_is_rendered_anew_is_several_sequences(model, monkeypatch):
    """Without its bridge from turn to turn verifiers tokenises replies again, as TRL #5224 and SkyRL #2075 do; but its
    trace forks there, so that each reply is trained behind what its sampler had read."""
    monkeypatch.setattr(train, "_is_valid_incremental_tail", lambda _: False)
    assert run(OfVerifiers(), model, ["truncated"]).failed == ()

    joined = OfVerifiers()
    joined.rows = lambda playback, trace: [replace(trained(playback, trace)[-1], turns=None)]
    assert "tokens" in failed(run(joined, model, ["truncated"]))


def test_a_source_of_prime_rls_configuration_chooses_our_environment():
    """As prime-rl narrows the block that docs/adapters/verifiers.md shows."""

    class Source(BaseModel):
        env: SerializeAsAny[vf.EnvConfig] = vf.SingleAgentEnvConfig()

        @model_validator(mode="before")
        @classmethod
        def narrow(cls, data):
            return vf.resolve_env_field(data, vf.narrowed_env_annotation(cls))

    page = (Path(__file__).parents[2] / "docs/adapters/verifiers.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (source,) = tomllib.loads(block)["orchestrator"]["train"]["source"]
    env = Source.model_validate({"env": source["env"]}).env
    assert isinstance(env, PlayConfig)
    assert (env.taskset.env_id, env.taskset.num_levels) == ("vagen/Sokoban-v0", 1000)


def test_three_steps_over_the_environment_server_as_prime_rl_takes_them(model, tmp_path):
    """Tasks are loaded on the trainer's side and sent; episodes come back with tokens, masks and log-probabilities."""
    playback = playback_of(RECORDINGS[0], model)
    engine = Engine(playback)
    tokenizer_for_the_renderer(model.folder, tmp_path)
    taskset = LevelsConfig(
        id=TASKSET_ID, env_id=ENV_ID, num_levels=1, options=playback.recording.options
    )
    client = TrainClientConfig(
        base_url=engine.url, renderer=Qwen3VLRendererConfig(), renderer_model_name=str(tmp_path)
    )

    async def steps():
        server = EnvServer(PlayConfig(taskset=taskset), "tcp://127.0.0.1:*")
        serving = asyncio.create_task(server.run())
        asking = EnvClient(server.address)
        await asking.wait_for_server_startup(timeout=60)
        (task,) = vf.load_taskset(taskset)
        found = []
        for _ in range(3):
            episode = await asking.run(
                task_data=task.data.model_dump(),
                client=client,
                model="tiny",
                sampling=vf.SamplingConfig(),
            )
            found.append(episode)
        await asking.close()
        serving.cancel()
        return found

    for episode in asyncio.run(steps()):
        assert episode.ok
        (trace,) = episode.traces
        assert trace.reward > 0
        assert trace.metrics["success"] == 1.0
        (row,) = trained(playback, trace)
        turns = len(playback.recording.moves)
        sampled = [token for token, on in zip(row.input_ids, row.mask, strict=True) if on]
        assert sampled == [
            token for turn in range(turns) for token in playback.recording.reply_ids(turn, model)
        ]
        assert len(row.forward["image_grid_thw"]) == turns
    engine.server.shutdown()
    engine.server.server_close()
