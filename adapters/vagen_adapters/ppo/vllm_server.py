"""A vLLM server beside the trainer as a generation back-end."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import safetensors.torch
from trl.generation.vllm_client import VLLMClient

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import Prompt, SampledReply, SampleSettings, check_pictures
from vagen_adapters.ppo.vllm_requests import (
    WORKER_EXTENSION,
    image_runs,
    pictures_of,
    sampling_settings,
)
from vagen_adapters.ppo.vllm_weights import Weights

_AT_ONCE = 64  # requests of a process that a server answers
_SLOWEST_START = 600.0  # seconds that a server may take to load its model


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
        self.encoder = encoder
        self.accelerator = accelerator
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
        (shown,) = self.client.image_features([pictures_of(prompt)])
        settings = sampling_settings(sampling, self.encoder.forbidden_ids)
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
        places = list(image_runs(prompt.ids, self.encoder.image_token_id))
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
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json else None
