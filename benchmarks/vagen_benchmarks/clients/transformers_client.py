"""A model in this process, loaded by transformers from a folder or from the hub's downloads.

One reply at a time. Nothing is downloaded: a misspelt folder may be somebody's name on a hub.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import TemplateError

from vagen_adapters.context import Message
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.message_parts import PictureForm
from vagen_adapters.ppo.processors import Family
from vagen_benchmarks.clients.base import Answer, Client, Ending, Sampling, in_a_line
from vagen_benchmarks.errors import ProtocolError

# Typed as Any: whether these are installed, and how well typed, differs from machine to machine.
torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")
huggingface_hub: Any = importlib.import_module("huggingface_hub")


class TransformersClient(Client):
    """A vision-language model with a chat template, on the GPU if there is one.

    Raises:
        ProtocolError: the folder holds no such model.
    """

    pictures: ClassVar[PictureForm] = "pil"

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str | None,
        timeout: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        folder = local_folder(model)
        try:
            self._processor: Any = Family.read(folder).processor
            self._model: Any = transformers.AutoModelForImageTextToText.from_pretrained(
                folder, dtype="auto"
            )
        except (OSError, ValueError, TrainingConfigError) as error:
            raise ProtocolError(
                f"{model!r} holds no vision-language model that transformers can load: {error}"
            ) from error
        self._check_template(model)
        self._model = self._model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._busy = threading.Lock()

    def _check_template(self, model: str) -> None:
        """Raise ProtocolError unless the chat template takes messages of text and pictures."""
        picture = [{"type": "image"}, {"type": "text", "text": "?"}]
        messages = [
            {"role": "system", "content": _parts("s")},
            {"role": "user", "content": picture},
            {"role": "assistant", "content": _parts("a")},
        ]
        blank = [messages[0], {"role": "user", "content": picture[1:]}, messages[2]]
        try:
            text, plain = (
                self._processor.apply_chat_template(each, tokenize=False)
                for each in (messages, blank)
            )
            if text == plain or "'type'" in text:  # the parts as Python writes a list
                raise ValueError("it writes no mark for a picture")
        except (TypeError, ValueError, AttributeError, TemplateError) as error:
            raise ProtocolError(
                f"{model!r} has a chat template that takes no messages of text and pictures "
                f"({in_a_line(str(error))}): it is a text model's. Put the chat_template.jinja "
                "of the vision-language model that it was trained from into its folder"
            ) from error

    def check(self, sampling: Sampling) -> None:
        if sampling.seed is not None or sampling.effort is not None:
            raise ProtocolError(
                "a model in this process takes neither --seed nor --effort; leave them out"
            )

    def check_reasoning(self) -> None:
        raise ProtocolError(
            "a model in this process has no hidden reasoning, its replies are all it writes; "
            "leave reasoning= out of --context"
        )

    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        return await asyncio.to_thread(self._ask, messages, sampling)

    def _ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        inputs = self._processor.apply_chat_template(
            [{"role": each["role"], "content": _parts(each["content"])} for each in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        ).to(self._model.device)
        warm = sampling.temperature is not None and sampling.temperature > 0
        heat: dict[str, Any] = {}
        if warm:
            top_p = sampling.top_p or 1.0
            heat = {"temperature": sampling.temperature, "top_p": top_p, "top_k": 0}
        with self._busy, torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=sampling.limit,
                do_sample=warm,
                **heat,
                **(sampling.extra or {}),
            )
        asked = inputs["input_ids"].shape[1]
        written = output[0, asked:]
        text = self._processor.decode(written, skip_special_tokens=True)
        ends = self._model.generation_config.eos_token_id
        ended = len(written) > 0 and int(written[-1]) in (
            ends if isinstance(ends, list) else [ends]
        )
        ending: Ending = "cut"
        if ended:
            ending = "stop" if text.strip() else "empty"
        return Answer(text, ending, asked, len(written))


def local_folder(model: str) -> str:
    """The folder of a model: itself, or where the hub's client has downloaded the model of that
    name.

    Raises:
        ProtocolError: there is neither.
    """
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser())
    try:
        return str(huggingface_hub.snapshot_download(model, local_files_only=True))
    except (OSError, ValueError) as error:
        raise ProtocolError(
            f"there is no folder {model!r}, seen from {Path.cwd()}"
            + (
                ""
                if Path(model).is_absolute()
                else f", and no downloaded model of that name; for "
                f"one of the hub: hf download {model}"
            )
        ) from error


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
