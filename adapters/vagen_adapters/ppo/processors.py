"""A model family's own processor, read from a model's folder without torchvision.

transformers' processors ask torchvision of parts that pictures don't need (videos), or of classes
that have a twin on PIL. The result is the family's class with its own settings, its PIL image
processor, and no videos.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_adapters.errors import TrainingConfigError, errors_as

_FILES = ("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json")
"""What a folder says of pictures; a trained model's folder gets them as they were."""


@dataclass(frozen=True)
class Family:
    """A model's family as its folder gives it: transformers' `model_type`, the configuration, and
    the processor.

    `files` has the contents of the folder's files on pictures by name.
    """

    name: str
    config: Any
    processor: Any
    files: dict[str, bytes]

    @classmethod
    def read(cls, path: str) -> Family:
        """Read a model's family from its folder, or from the hub by name.

        Raises:
            TrainingConfigError: it has no processor for pictures, or one that can't be made here.
        """
        from transformers import AutoConfig

        # PEFT's: the model that they are of is elsewhere.
        adapters = Path(path) / "adapter_config.json"
        base = path
        if adapters.is_file():
            base = json.loads(adapters.read_bytes())["base_model_name_or_path"]
        config = AutoConfig.from_pretrained(base)
        files = {
            name: contents for name in _FILES if (contents := _contents(path, name)) is not None
        }
        return cls(config.model_type, config, _processor(path, config, files), files)


def refusal(family: str, why: str) -> TrainingConfigError:
    """Return the error for an unsupported model family; `why` is written `check: what was found;
    fix`.
    """
    return TrainingConfigError(f"a model of the family {family!r} can't be trained: {why}")


def refusing(family: str, check: str, fix: str) -> contextlib.AbstractContextManager[None]:
    """Make a refusal of whatever a family's processor or model raises."""
    return errors_as(TrainingConfigError, str(refusal(family, check)), fix)


def _contents(path: str, name: str) -> bytes | None:
    from transformers.utils import cached_file

    found = cached_file(
        path,
        name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found).read_bytes()


def _processor(path: str, config: Any, files: dict[str, bytes]) -> Any:
    from transformers.models.auto.processing_auto import (
        PROCESSOR_MAPPING_NAMES,
        processor_class_from_name,
    )

    fix = (
        f"give {path} its family's tokenizer and picture settings, or train a family that "
        "transformers reads"
    )
    with refusing(config.model_type, "its processor", fix):
        named = (json.loads(contents).get("processor_class") for contents in files.values())
        name = next(filter(None, named), None) or PROCESSOR_MAPPING_NAMES.get(config.model_type)
        cls = processor_class_from_name(name) if name else None
        if cls is None:
            raise ValueError("transformers has none that reads pictures and text")
        # At transformers' top, a stand-in that only asks for torchvision.
        if getattr(cls, "is_dummy", False):
            module = cls.__module__.rpartition("processing_")[2]
            cls = getattr(
                importlib.import_module(f"transformers.models.{module}.processing_{module}"),
                cls.__name__,
            )
        if missing := {"tokenizer", "image_processor"} - set(cls.get_attributes()):
            raise ValueError(f"{cls.__name__} has no {' and no '.join(sorted(missing))}")
        settings, _ = cls.get_processor_dict(path)
        parts = [_part(path, part, config.model_type) for part in cls.get_attributes()]
        return _without_its_checks(cls).from_args_and_dict(parts, settings)


class _Absent(dict[str, Any]):
    """Takes the place of what reads videos or sounds; whatever a processor asks of it is None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _part(path: str, name: str, model_type: str) -> Any:
    """A part of a processor: its tokenizer, its picture processor, or nothing for what reads no
    pictures.
    """
    from transformers import AutoTokenizer
    from transformers.models.auto.image_processing_auto import (
        IMAGE_PROCESSOR_MAPPING_NAMES,
        AutoImageProcessor,
    )

    if name == "tokenizer":
        return AutoTokenizer.from_pretrained(path)
    if name != "image_processor":
        return _Absent()
    # Other back-ends need torchvision.
    has_pil = "pil" in (IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type) or {"pil": ""})
    return AutoImageProcessor.from_pretrained(path, **({"backend": "pil"} if has_pil else {}))


def _without_its_checks(cls: Any) -> Any:
    """A subclass of the same name that accepts a part of any class, such as `_Absent`."""

    def check_argument_for_proper_class(_: Any, name: str, part: Any) -> type:  # noqa: ARG001 - transformers' own
        return type(part)

    made: Any = type(
        cls.__name__,
        (cls,),
        {check_argument_for_proper_class.__name__: check_argument_for_proper_class},
    )
    return made
