"""SkyRL's generator for pictures as the parity kit's trainer: its rollout, its batches, its inputs of the forward pass."""

from __future__ import annotations

import asyncio
import base64
from typing import ClassVar
from unittest import mock

import skyrl.train.generators.skyrl_vlm_generator as vlm
from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
from skyrl.train.config.config import SamplingParams
from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors

from vagen_adapters import skyrl_env
from vagen_adapters.parity import TrainedSequence
from vagen_adapters.parity.reference_model import ENV_ID
from vagen_envs import Picture


class Client:
    """SkyRL's client of an inference server: renders conversations and samples. Pictures are handed on as pixels."""

    model_name = "tiny"

    def __init__(self, playback):
        self.model, self.sampler = playback.model, playback.sampler

    async def render_chat_completion(self, payload):
        messages, pictures = [], []
        for message in payload["json"]["messages"]:
            parts = message["content"] if isinstance(message["content"], list) else []
            for part in parts:
                if part["type"] == "image_url":
                    png = part["image_url"]["url"].removeprefix("data:image/png;base64,")
                    pictures.append(Picture.from_png(base64.b64decode(png)).pixels)
            said = [part if part["type"] == "text" else {"type": "image"} for part in parts]
            messages.append({**message, "content": said or message["content"]})
        ids = self.model.encoder.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        sizes = self.model.patches(self.model.features(pictures)["image_grid_thw"])
        return {
            "token_ids": self.model.expand(ids, sizes),
            "features": {"kwargs_data": {"image": pictures}},
        }

    async def generate(self, asked, model=None):
        (ids,), (features,) = asked["prompt_token_ids"], asked["mm_features"]
        said, scores = self.sampler.generate(ids, features["kwargs_data"]["image"])
        text = self.model.encoder.tokenizer.decode(said, skip_special_tokens=True)
        return {
            "responses": [text],
            "response_ids": [said],
            "stop_reasons": ["stop"],
            "response_logprobs": [scores],
        }

    async def finish_session(self, session_id):
        pass


class OfSkyRL:
    name = "SkyRL's generator for pictures"
    refusals: ClassVar = {}
    generator = vlm.SkyRLVLMGymGenerator
    client = Client

    def play(self, playback):
        (row,) = skyrl_env.levels(
            ENV_ID, first_seed=playback.recording.seed, num_levels=1, **playback.recording.options
        )
        client = self.client(playback)
        tokenizer = playback.model.encoder.tokenizer

        def decoded(kwargs_data):
            """In the place of vLLM's serialization."""
            return playback.model.features(kwargs_data["image"])

        async def run():
            longest = 100_000
            if playback.room is not None:
                env = skyrl_env.VagenText(extras=row)
                opening, _ = env.init(row["prompt"])
                rendered = await client.render_chat_completion({"json": {"messages": opening}})
                longest = len(rendered["token_ids"]) + playback.room
            config = GeneratorConfig(
                max_turns=playback.recording.max_turns,
                max_input_length=longest,
                sampling_params=SamplingParams(logprobs=1),
            )
            made = self.generator(config, SkyRLGymConfig(max_env_workers=0), client, tokenizer)
            return await made.generate(
                {
                    "prompts": [row["prompt"]],
                    "env_classes": [row["env_class"]],
                    "env_extras": [row],
                },
                disable_tqdm=True,
            )

        with (
            mock.patch.object(skyrl_env.rows, "make_from_row", return_value=playback.env),
            mock.patch.object(vlm, "decode_mm_kwargs", decoded),
        ):
            output = asyncio.run(run())
        return [trained(playback, output)]


def trained(playback, output):
    """The batch as SkyRL's trainer makes it, and the inputs that its model wrapper gives (it can't be imported without
    flash-attn): pictures end to end, token types by the image token, no position ids."""
    sequences, _, _, rewards, mask, scores, *_ = convert_prompts_responses_to_batch_tensors(
        playback.model.encoder.tokenizer.pad_token_id,
        output["prompt_token_ids"],
        output["response_ids"],
        output["rewards"],
        output["loss_masks"],
        output["rollout_logprobs"],
    )
    before = [0.0] * len(output["prompt_token_ids"][0])
    return TrainedSequence(
        input_ids=sequences[0].tolist(),
        mask=[bool(on) for on in before + mask[0].tolist()],
        forward={
            "mm_token_type_ids": (sequences == playback.model.image_token).long(),
            "pixel_values": output["pixel_values"][0],
            "image_grid_thw": output["image_grid_thw"][0],
        },
        logprobs=before + scores[0].tolist(),
        rewards=before + rewards[0].tolist(),
    )


adapter = OfSkyRL()
