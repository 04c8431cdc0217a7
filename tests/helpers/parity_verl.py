"""verl's agent loop as the parity kit's trainer: its worker, token builder, processor and the fields that it stores."""

from __future__ import annotations

import asyncio
from typing import ClassVar
from unittest import mock

import hydra
import numpy as np
import qwen
import transformers
from omegaconf import OmegaConf
from verl.experimental.agent_loop import agent_loop
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tokenizer import hf_processor
from verl.workers.rollout.replica import TokenOutput

from vagen_adapters import verl_env
from vagen_adapters.parity import RecordedSampler, TrainedSequence
from vagen_adapters.parity.reference_model import ENV_ID

WORKER = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
"""Of the trainer `trainer.use_v1=True`, verl's default, without Ray around it."""


class Server:
    """A sampling server for verl's client."""

    def __init__(self, sampler: RecordedSampler) -> None:
        self.sampler = sampler

    async def generate(self, request_id, *, prompt_ids, sampling_params, image_data=None, **_):
        pictures = [np.asarray(picture.convert("RGB")) for picture in image_data or []]
        ids, scores = self.sampler.generate(prompt_ids, pictures)
        return TokenOutput(token_ids=ids, log_probs=scores)


def processor_of(folder):
    """What verl's own loading code makes of the folder; transformers' wants torchvision."""
    made = qwen.processor(folder)
    type(made).__name__ = "Qwen3VLProcessor"
    with mock.patch.object(transformers.AutoProcessor, "from_pretrained", return_value=made):
        return hf_processor(str(folder))


class OfVerl:
    name = "verl's agent loop"
    refusals: ClassVar = {}
    worker = WORKER

    def play(self, playback):
        (row,) = verl_env.levels(
            ENV_ID, first_seed=playback.recording.seed, num_levels=1, **playback.recording.options
        )
        worker, stored = self.made(playback), []

        async def put(keys, fields, tags, partition_id):
            stored.extend(fields)

        async def run():
            loop = hydra.utils.instantiate(
                agent_loop._agent_loop_registry[verl_env.NAME],
                trainer_config=agent_loop.DictConfigWrap(worker.config),
                server_manager=worker.llm_client,
                tokenizer=worker.tokenizer,
                processor=worker.processor,
                hf_model_type=worker.hf_model_type,
                dataset_cls=RLHFDataset,
                data_config=agent_loop.DictConfigWrap(worker.config.data),
                tools=agent_loop.ToolListWrap([]),
            )
            output = await loop.run({}, raw_prompt=row["prompt"], extra_info=row["extra_info"])
            ids = {"uid": "u", "session_id": 0, "global_steps": 1}
            await worker._agent_loop_postprocess(output, False, raw_prompt=row["prompt"], **ids)

        with (
            mock.patch.object(verl_env.rows, "make_from_row", return_value=playback.env),
            mock.patch.object(agent_loop_tq, "list_of_dict_to_tensordict", lambda fields: fields),
            mock.patch.object(agent_loop_tq.tq, "async_kv_batch_put", put),
        ):
            asyncio.run(run())
        return [self.trained(each) for each in stored]

    def made(self, playback):
        """verl's worker without what it loads from checkpoints and clusters."""
        worker = self.worker.__new__(self.worker)
        rollout = {"prompt_length": 20_000, "response_length": playback.room or 20_000}
        worker.config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
        worker.rollout_config = worker.config.actor_rollout_ref.rollout
        worker.processor = processor_of(playback.model.folder)
        worker.tokenizer = worker.processor.tokenizer
        worker.llm_client, worker.hf_model_type, worker.dataset_cls = (
            Server(playback.sampler),
            "qwen3_vl",
            RLHFDataset,
        )
        worker.mm_processor_kwargs, worker.distillation_enabled, worker.tools = {}, False, []
        worker.reward_loop_worker_handles = None
        return worker

    @staticmethod
    def trained(fields):
        """A stored sequence. verl's position ids are those of text and pictures, (4, L); the model takes (4, 1, L)."""
        ids, prompt = fields["input_ids"].tolist(), len(fields["prompts"])

        def whole(of_response):
            return [0.0] * prompt + of_response.tolist()

        return TrainedSequence(
            input_ids=ids,
            mask=[bool(on) for on in whole(fields["loss_mask"])],
            forward={
                **fields["multi_modal_inputs"],
                "position_ids": fields["position_ids"][:, None],
            },
            logprobs=whole(fields["rollout_log_probs"]),
            rewards=whole(fields["rm_scores"]),
        )


adapter = OfVerl()
