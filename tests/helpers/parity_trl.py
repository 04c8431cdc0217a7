"""TRL's GRPO with an environment, as the parity kit's trainer: its own prompts, tool loop, masks and tensors."""

from __future__ import annotations

import tempfile
from typing import ClassVar

import numpy as np
import qwen
import torch
from transformers import AutoModelForImageTextToText
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_vl_chat_template

from vagen_adapters.parity import RecordedSampler, TrainedSequence
from vagen_adapters.parity.recordings import RecordedEnv
from vagen_adapters.parity.reference_model import ENV_ID
from vagen_adapters.trl_env import REPLY_AS_TOOL_CALL, TRLEnvironment, levels


class Recorded(GRPOTrainer):
    """TRL's trainer, whose tokens come from the recording. GRPO compares at least two episodes: the same one twice."""

    samplers: list[RecordedSampler]

    def _generate_single_turn(self, prompt_ids, images, *args, **kwargs):
        said = []
        for number, ids in enumerate(prompt_ids):
            pictures = [] if images is None or images[number] is None else images[number]
            said.append(
                self.samplers[number].generate(ids, [as_pixels(picture) for picture in pictures])
            )
        return [ids for ids, _ in said], [scores for _, scores in said]


def as_pixels(picture):
    return np.asarray(picture.convert("RGB"))


class OfTRL:
    name = "TRL's GRPOTrainer with an environment"
    refusals: ClassVar = {}
    trainer_class = Recorded

    def play(self, playback):
        recording = playback.recording
        processor = qwen.processor(
            playback.model.folder, qwen3_vl_chat_template, padding_side="left"
        )
        processor.tokenizer.response_template = REPLY_AS_TOOL_CALL
        envs = iter([playback.env, RecordedEnv(recording)])
        with tempfile.TemporaryDirectory() as folder:
            config = GRPOConfig(
                output_dir=folder,
                max_steps=1,
                per_device_train_batch_size=2,
                num_generations=2,
                report_to="none",
                max_completion_length=playback.room or 20_000,
                max_tool_calling_iterations=len(recording.moves),
                use_cpu=True,
                bf16=False,
                activation_checkpointing=False,
            )
            trainer = self.trainer_class(
                AutoModelForImageTextToText.from_pretrained(playback.model.folder),
                args=config,
                train_dataset=levels(
                    ENV_ID, first_seed=recording.seed, num_levels=1, **recording.options
                ),
                processing_class=processor,
                environment_factory=lambda: TRLEnvironment(next(envs)),
            )
            trainer.samplers = [playback.sampler, RecordedSampler(playback.model, recording)]
            made = trainer._generate_and_score_completions([trainer.train_dataset[0]] * 2)
            (rewards,) = trainer._logs["rewards"].values()
        return [trained(made, next(iter(rewards)))]


def trained(made, reward):
    """The first of the two."""
    kept = torch.cat([made["prompt_mask"][0], made["completion_mask"][0]]).bool()
    prompt = int(made["prompt_mask"][0].sum())

    def whole(before, of_completion):
        return torch.cat([before.expand(len(made["prompt_mask"][0])), of_completion])[kept].tolist()

    none = torch.zeros(())
    forward = {}
    if "pixel_values" in made:
        grids = made["image_grid_thw"][: made["num_images"][0]]
        forward = {
            "image_grid_thw": grids,
            "pixel_values": made["pixel_values"][: int(grids.prod(1).sum())],
        }
    if "mm_token_type_ids" in made:
        forward["mm_token_type_ids"] = made["mm_token_type_ids"][:1, kept]
    ids = torch.cat([made["prompt_ids"][0], made["completion_ids"][0]])[kept].tolist()
    mask = [bool(on) for on in whole(none.long(), made["tool_mask"][0])]
    assert not any(mask[:prompt])
    return TrainedSequence(
        input_ids=ids,
        mask=mask,
        forward=forward,
        reward=reward,
        logprobs=whole(none, made["sampling_per_token_logps"][0]),
    )


adapter = OfTRL()
