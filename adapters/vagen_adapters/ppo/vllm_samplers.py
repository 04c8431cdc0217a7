"""vLLM as a generation back-end: in the trainer's process, or as a server beside it.

TRL's classes bring the weights together (from DDP, FSDP, DeepSpeed and PEFT) and speak with the
server. What they leave out is here: all three caches are emptied when weights change, and every
reply has a seed of its own.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from PIL import Image
from trl.generation.vllm_client import VLLMClient

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import Prompt, SampledReply, SampleSettings, check_pictures
from vagen_adapters.ppo.vllm_weights import Weights

WORKER_EXTENSION = "vagen_adapters.ppo.vllm_worker.PolicyReload"

_FORBIDDEN = -100.0  # the lowest bias that vLLM takes
_AT_ONCE = 64  # requests of a process that a server answers
_SLOWEST_START = 600.0  # seconds that a server may take to load its model


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
        """Give the GPU's memory up until the next `sync` or `sample`, if the engine was told that
        it may.
        """
        if self._sleeps and not self._rests:
            self.llm.sleep(
                level=1
            )  # weights wait in host memory: forks are played on without another sync
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
        common = _sampling_settings(sampling, self.encoder.forbidden_ids)
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
        ids = _with_single_image_tokens(prompt.ids, self.encoder.image_token_id)
        pictures = _pictures(prompt)
        return {
            "prompt_token_ids": ids,
            **({"multi_modal_data": {"image": pictures}} if pictures else {}),
        }


class VLLMServerSampler:
    """A vLLM server, which `vllm serve` starts beside the trainer.

    `sync` writes the weights of `model` to `weights_folder` for it; None sends them through NCCL.

    Each request holds all pictures of its prompt. The route takes a hash alone for a picture that
    the server's cache still has, but a client can't know whether it has: for one that it has lost,
    vLLM fails the request (up to 0.32).

    Raises:
        ConnectionError: no server answers.
        TrainingConfigError: there is neither a folder nor a GPU to hand over weights.
    """

    def __init__(
        self,
        model: Any,
        encoder: ChatEncoder,
        accelerator: Any,
        url: str = "http://127.0.0.1:8000",
        weights_folder: str | Path | None = None,
    ) -> None:
        self.encoder, self.accelerator = encoder, accelerator
        self._weights_folder = None if weights_folder is None else Path(weights_folder).absolute()
        self.client = VLLMClient(base_url=url, connection_timeout=_SLOWEST_START)
        self._source = Weights(model, accelerator, encoder)
        self._layout: list[tuple[str, str, list[int]]] | None = None
        self._pool = ThreadPoolExecutor(_AT_ONCE, "vllm")
        if self._weights_folder is not None:
            self._weights_folder.mkdir(parents=True, exist_ok=True)
        elif accelerator.device.type != "cuda":
            raise TrainingConfigError(
                "weights reach a server through NCCL, which needs a GPU; set weights_folder in "
                "vllm_options"
            )
        elif accelerator.is_main_process:
            self.client.init_communicator(device=accelerator.device)

    def sync(self) -> None:
        """See `Sampler.sync`. The main process hands the weights over, the others help to bring
        them together.
        """
        if self._weights_folder is None:
            self._send()
        else:
            self._write(self._weights_folder)
        if self.accelerator.is_main_process:
            for cache in ("prefix", "mm", "encoder"):
                self._post(f"reset_{cache}_cache")
        self.accelerator.wait_for_everyone()

    def sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        """See `Sampler.sample`."""
        check_pictures(prompts, self.encoder)
        return list(self._pool.map(self._ask, prompts, itertools.repeat(sampling), seeds))

    def _ask(self, prompt: Prompt, sampling: SampleSettings, seed: int) -> SampledReply:
        (shown,) = self.client.image_features([_pictures(prompt)])
        settings = _sampling_settings(sampling, self.encoder.forbidden_ids)
        # Not through the client's own `generate`: it gives all prompts one seed, and asks of a
        # log-probability the name of its token, which vLLM 0.32 has stopped sending.
        request = {
            "request_id": uuid.uuid4().hex,
            "model": self.client.model,
            "token_ids": list(prompt.ids),
            "features": None if shown is None else self._placed(shown, prompt),
            "sampling_params": {**settings, "seed": seed, "logprobs": 0},
        }
        (choice,) = self._post("inference/v1/generate", request)["choices"]
        logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
        return SampledReply(tuple(choice["token_ids"]), logprobs)

    def _placed(self, features: dict[str, Any], prompt: Prompt) -> dict[str, Any]:
        """The features with the places of their pictures in the prompt; the server saw them without
        it.
        """
        places = list(_image_runs(prompt.ids, self.encoder.image_token_id))
        ours = [place["length"] for place in places]
        theirs = [place["length"] for place in features["mm_placeholders"]["image"]]
        if ours != theirs:
            raise TrainingDataError(
                f"the prompt's pictures take {ours} tokens, but the server's {theirs}: its "
                "picture processor is set up in another way; serve the model that is trained"
            )
        return {**features, "mm_placeholders": {**features["mm_placeholders"], "image": places}}

    def _send(self) -> None:
        # Every process walks over the weights as often as the main one, for it takes all to bring
        # one together. The server is told of all of them first; as updates change no shape, one
        # further walk in the first sync does for all.
        if self._layout is None:
            self._layout = [
                (name, str(each.dtype).removeprefix("torch."), list(each.shape))
                for name, each in self._source.named_params()
            ]
        if self.accelerator.is_main_process:
            self.client.update_named_params(self._layout, self._source.named_params())
        else:
            for _ in self._source.named_params():
                pass

    def _write(self, folder: Path) -> None:
        state = {
            name: tensor.detach().cpu().contiguous() for name, tensor in self._source.named_params()
        }
        if not self.accelerator.is_main_process:
            return
        file = folder / f"{uuid.uuid4().hex}.safetensors"
        safetensors.torch.save_file(state, file)
        self._post(
            "collective_rpc", {"method": "reload_policy", "kwargs": {"weights_path": str(folder)}}
        )
        file.unlink()

    def _post(self, route: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.client.session.post(f"{self.client.base_url}/{route}", json=body or {})
        if answer.status_code != 200:
            raise TrainingDataError(
                f"the vLLM server refused /{route} ({answer.status_code}: {answer.text[:300]}); "
                "was it started with VLLM_SERVER_DEV_MODE=1, --enable-scale-out and "
                f"--worker-extension-cls {WORKER_EXTENSION}?"
            )
        return (
            answer.json()
            if answer.headers.get("content-type", "").startswith("application/json")
            else None
        )


class _Engine(Weights):
    """TRL's engine in this process, with the options of `vllm.LLM` that TRL does not pass on, such
    as its dtype.
    """

    def __init__(
        self, model: Any, accelerator: Any, encoder: ChatEncoder, path: str, options: dict[str, Any]
    ) -> None:
        self._path, self._options = path, options
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


def _sampling_settings(sampling: SampleSettings, forbidden_ids: Sequence[int]) -> dict[str, Any]:
    stops = {} if sampling.stop_id is None else {"stop_token_ids": [sampling.stop_id]}
    return {
        **stops,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "logit_bias": dict.fromkeys(forbidden_ids, _FORBIDDEN),
    }


def _reply(completion: Any) -> SampledReply:
    ids = tuple(completion.token_ids)
    return SampledReply(
        ids,
        tuple(entry[token].logprob for token, entry in zip(ids, completion.logprobs, strict=True)),
    )


def _pictures(prompt: Prompt) -> list[Image.Image]:
    return [picture.pil for shown in prompt.shown for picture in shown.pictures]


def _image_runs(ids: Sequence[int], image_token_id: int) -> Iterator[dict[str, int]]:
    for is_image, run in itertools.groupby(
        enumerate(ids), key=lambda pair: pair[1] == image_token_id
    ):
        if is_image:
            places = [position for position, _ in run]
            yield {"offset": places[0], "length": len(places)}


def _with_single_image_tokens(ids: Sequence[int], image_token_id: int) -> list[int]:
    return [
        token
        for before, token in zip([None, *ids], ids, strict=False)
        if not before == token == image_token_id
    ]
