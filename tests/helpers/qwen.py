"""Qwen3-VL's processor over the files of a tiny model."""

from __future__ import annotations

from transformers import AutoTokenizer, Qwen2VLImageProcessorPil, Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor


class PictureProcessor(Qwen3VLProcessor):
    """Its check of its parts needs torchvision."""

    def check_argument_for_proper_class(self, argument_name, argument):
        return type(argument)


def processor(folder, chat_template=None, **options):
    """From a folder; `options` are the tokenizer's, and its own template is taken where none is given."""
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    parts = Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer, Qwen3VLVideoProcessor()
    return PictureProcessor(*parts, chat_template=chat_template or tokenizer.chat_template)
