"""verifiers' path to a trainer, which is prime-rl's: its training client, renderer, interception and trace."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from unittest import mock

import torch
import verifiers.v1 as vf
from renderers.configs import Qwen3VLRendererConfig
from transformers import AutoTokenizer
from verifiers.v1.configs.client import TrainClientConfig

from vagen_adapters import verifiers_env
from vagen_adapters.parity import TrainedSequence
from vagen_adapters.parity.reference_model import ENV_ID
from vagen_envs import Picture

WANTED = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|video_pad|>")
"""Qwen3-VL's tokens that its renderer asks for, and that a tiny model's vocabulary lacks. None is said here."""


class Engine:
    """What vLLM's `/inference/v1/generate` does for renderers: expands pictures' tokens, samples, gives log-probabilities."""

    def __init__(self, playback):
        engine = self
        self.model, self.sampler, self.room, self.longest = (
            playback.model,
            playback.sampler,
            playback.room,
            0,
        )

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                assert self.path == "/inference/v1/generate"
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                said = engine.generate(body)
                data = json.dumps(said).encode()
                self.send_response(400 if "error" in said else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def generate(self, body):
        pictures = [pixels_of(part["url"]) for part in body["content_parts"]]
        sizes = self.model.patches(self.model.features(pictures)["image_grid_thw"])
        prompt = self.model.expand(body["token_ids"], sizes)
        begins = [
            at
            for at, token in enumerate(prompt)
            if token == self.model.image_token != prompt[at - 1]
        ]
        if len(begins) != len(sizes):
            return {
                "error": {"message": f"{len(begins)} places for {len(sizes)} pictures", "code": 400}
            }
        self.longest = self.longest or (len(prompt) + self.room if self.room else 100_000)
        if len(prompt) > self.longest:
            said = f"This model's maximum context length is {self.longest} tokens, the prompt has {len(prompt)}."
            return {"error": {"message": said, "code": 400}}
        said, scores = self.sampler.generate(body["token_ids"], pictures)
        places = [{"offset": at, "length": size} for at, size in zip(begins, sizes, strict=True)]
        content = [
            {"token": f"token_id:{token}", "logprob": score}
            for token, score in zip(said, scores, strict=True)
        ]
        choice = {
            "index": 0,
            "token_ids": said,
            "finish_reason": "stop",
            "logprobs": {"content": content},
        }
        return {
            "request_id": "r",
            "choices": [choice],
            "prompt_token_ids": prompt,
            "mm_placeholders": {"image": places},
        }


def tokenizer_for_the_renderer(model, folder):
    """Write what the renderer loads: the tiny model's tokenizer, and the tokens that it lacks."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.add_tokens(
        [each for each in WANTED if each not in tokenizer.get_vocab()], special_tokens=True
    )
    tokenizer.save_pretrained(folder)
    (Path(folder) / "config.json").write_bytes((model / "config.json").read_bytes())


def pixels_of(url):
    return Picture.from_png(base64.b64decode(url.removeprefix("data:image/png;base64,"))).pixels


class OfVerifiers:
    name = "verifiers' training client and trace"
    refusals: ClassVar = dict.fromkeys(("image token", "video token", "no room"), "left out")
    engine = Engine

    def rows(self, playback, trace):
        return trained(playback, trace)

    def play(self, playback):
        engine = self.engine(playback)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(verifiers_env, "with_reasoning", return_value=playback.env),
            mock.patch.object(
                verifiers_env, "start", lambda env, *_: (env.reset(), env.unwrapped.observed)[1]
            ),
        ):
            environment = verifiers_env.load_environment(
                ENV_ID,
                first_seed=playback.recording.seed,
                num_levels=1,
                **playback.recording.options,
            )
            tokenizer_for_the_renderer(playback.model.folder, folder)
            client = TrainClientConfig(
                base_url=engine.url, renderer=Qwen3VLRendererConfig(), renderer_model_name=folder
            )

            async def run():
                async with environment.serving():
                    (task,) = environment.taskset
                    context = vf.ModelContext(
                        model="tiny", client=client, sampling=vf.SamplingConfig(temperature=1.0)
                    )
                    return await environment.run_episode(task, context)

            try:
                episode = asyncio.run(run())
            finally:
                engine.server.shutdown()
                engine.server.server_close()
        (trace,) = episode.traces
        if not trace.ok or not episode.ok:
            return []  # prime-rl's `TrainSink` drops traces with errors
        return self.rows(playback, trace)


def trained(playback, trace):
    """What prime-rl's `trace_to_samples` takes: a sequence for each branch, in which a reply that an earlier branch has
    already is context; its tokens, log-probabilities and token types, its messages' pictures in order."""
    replies = [id(node) for node in trace.nodes if node.sampled and any(node.mask)]
    rows, taken = [], set()
    for branch in trace.branches:
        mask, turns, pictures = [], [], []
        for node in branch.nodes:
            fresh = id(node) in replies and id(node) not in taken
            mask += node.mask if fresh else [False] * len(node.mask)
            turns += [replies.index(id(node))] if fresh else []
            parts = node.message.content if isinstance(node.message.content, list) else []
            pictures += [
                pixels_of(part.image_url.url) for part in parts if part.type == "image_url"
            ]
        taken |= {id(node) for node in branch.nodes}
        types = branch.mm_token_type_ids
        forward = {} if types is None else {"mm_token_type_ids": torch.tensor([types])}
        if turns:
            forward |= playback.model.features(pictures)
            row = TrainedSequence(
                input_ids=branch.token_ids,
                mask=mask,
                forward=forward,
                logprobs=branch.logprobs,
                reward=trace.reward,
                turns=turns,
            )
            rows.append(row)
    return rows


adapter = OfVerifiers()
