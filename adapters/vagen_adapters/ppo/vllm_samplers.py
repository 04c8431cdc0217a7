"""vLLM as a generation back-end: in the trainer's process, or as a server beside it.

TRL's classes bring the weights together (from DDP, FSDP, DeepSpeed and PEFT) and speak with the
server. What they leave out is here: all three caches are emptied when weights change, and every
reply has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import Prompt, SampledReply, SampleSettings, check_pictures
from vagen_adapters.ppo.vllm_requests import (
    WORKER_EXTENSION,
    pictures_of,
    sampling_settings,
    with_single_image_tokens,
)
from vagen_adapters.ppo.vllm_weights import Weights


class VLLMSampler:
    """vLLM in this process, with an engine of its own in each process.

    vLLM loads the model from `path`, with `options` of `vllm.LLM`. `sync` takes over the weights of
    `model`. With the option `enable_sleep_mode` the engine gives its memory up for updates, see
    `rest`.
    """

    def __init__(
        self, model: Any, encoder: ChatEncoder, accelerator: Any, path: str, **options: Any
    ) -> None:
        self.encoder = encoder
        self._engine = _Engine(model, accelerator, encoder, path, options)
        self.llm = self._engine.llm
        self._sleeps = bool(options.get("enable_sleep_mode"))
        self._rests = False

    def rest(self) -> None:
        """Free the GPU's memory until the next `sync` or `sample`, with the option
        `enable_sleep_mode`.
        """
        if self._sleeps and not self._rests:
            # Weights wait in host memory: forks are played on without another sync.
            self.llm.sleep(level=1)
            self._rests = True

    def _wake(self) -> None:
        if self._rests:
            torch.cuda.empty_cache()  # vLLM's allocator can't take what an update leaves cached
            self.llm.wake_up()
            self._rests = False

    def sync(self) -> None:
        """See `Sampler.sync`. What the old weights computed of texts and pictures is forgotten."""
        self._wake()
        # TRL's own sync loads one parameter at a time, for which vLLM's CPU engine no longer has
        # loaders.
        self.llm.collective_rpc(
            "reload_policy", kwargs={"weights_iterator": self._engine.named_params()}
        )
        if not self.llm.reset_prefix_cache():
            raise TrainingDataError(
                "vLLM could not empty its prefix cache: a request is still running"
            )
        self.llm.reset_mm_cache()
        self.llm.llm_engine.reset_encoder_cache()

    def sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        """See `Sampler.sample`."""
        from vllm import SamplingParams

        check_pictures(prompts, self.encoder)
        self._wake()
        common = sampling_settings(sampling, self.encoder.forbidden_ids)
        settings = [SamplingParams(seed=seed, logprobs=0, **common) for seed in seeds]
        outputs = self.llm.generate(
            [self._request(prompt) for prompt in prompts], settings, use_tqdm=False
        )
        for prompt, output in zip(prompts, outputs, strict=True):
            if tuple(output.prompt_token_ids) != prompt.ids:
                raise TrainingDataError(
                    f"vLLM lays out a prompt of {len(prompt.ids)} tokens as "
                    f"{len(output.prompt_token_ids)}: its picture processor is set up in another "
                    "way; check the model's preprocessor_config.json"
                )
        return [_reply(output.outputs[0]) for output in outputs]

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        # vLLM repeats a picture's single token itself.
        ids = with_single_image_tokens(prompt.ids, self.encoder.image_token_id)
        pictures = pictures_of(prompt)
        return {
            "prompt_token_ids": ids,
            **({"multi_modal_data": {"image": pictures}} if pictures else {}),
        }


class _Engine(Weights):
    """TRL's engine in this process, with the options of `vllm.LLM` that TRL does not pass on, such
    as its dtype.
    """

    def __init__(
        self, model: Any, accelerator: Any, encoder: ChatEncoder, path: str, options: dict[str, Any]
    ) -> None:
        self._path = path
        self._options = options
        super().__init__(model, accelerator, encoder)

    def _init_vllm(self) -> None:
        import gc
        import os

        from trl.trainer.utils import ensure_master_addr_port
        from vllm import LLM

        os.environ.setdefault("RANK", str(self.accelerator.process_index))
        os.environ.setdefault("LOCAL_RANK", str(self.accelerator.local_process_index))
        os.environ.setdefault("WORLD_SIZE", str(self.accelerator.num_processes))
        ensure_master_addr_port()
        fixed = {
            "distributed_executor_backend": "external_launcher",
            "logprobs_mode": "processed_logprobs",
            "worker_extension_cls": WORKER_EXTENSION,
        }
        # an engine that nobody holds any more takes the process's groups down whenever it is found
        gc.collect()
        # TRL's share of a GPU beside a trainer, which the plan of memory counts with, too.
        self.llm = LLM(self._path, **{"gpu_memory_utilization": 0.3, **self._options, **fixed})
        self.accelerator.wait_for_everyone()


def _reply(completion: Any) -> SampledReply:
    ids = tuple(completion.token_ids)
    return SampledReply(
        ids,
        tuple(entry[token].logprob for token, entry in zip(ids, completion.logprobs, strict=True)),
    )
