"""A real HTTP server on loopback that speaks chat completions, and any fault that is asked for."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

GOOD = (
    "<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Up</answer>"
)


def dressed(path, message):
    """A message in the form of the provider whose path was asked."""
    finish = message.pop("finish", None)
    text = message["content"] or ""
    if path.endswith("/v1/messages"):
        thought = message.get("reasoning_content")
        blocks = [{"type": "thinking", "thinking": thought, "signature": "x"}] if thought else []
        blocks += [{"type": "text", "text": text}] if text else []
        return {
            "id": "x", "type": "message", "role": "assistant", "model": "m", "content": blocks,
            "stop_reason": finish or "end_turn", "usage": {"input_tokens": 11, "output_tokens": 7},
        }  # fmt: skip
    if path.partition("?")[0].endswith(":generateContent"):
        thought = message.get("reasoning_content")
        parts = [{"text": thought, "thought": True}] if thought else []
        parts += [{"text": text}] if text else []
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish or "STOP"}],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7},
        }
    return completion(message, finish or "stop")


def completion(message, finish):
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }  # fmt: skip


class Endpoint:
    """The server. `script` maps the number of a request, from 0, to what is done with it.

    A step is a str (the reply's text), a dict with `content` (the reply's message, with `finish` its reason), any
    other dict (answered as JSON), bytes (sent raw, then closed), an int or (int, headers) (a status), or a number of
    seconds as a float (waited before a good answer).
    """

    good = GOOD

    def __init__(self):
        self.script = lambda number, body: GOOD
        self.requests = []
        self.headers = []
        self.paths = []
        lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    number = len(endpoint.requests)
                    endpoint.requests.append(body)
                    endpoint.paths.append(self.path)
                    endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                step = endpoint.script(number, body)
                if isinstance(step, float):
                    time.sleep(step)
                    step = GOOD
                if isinstance(step, str):
                    step = {"content": step}
                if isinstance(step, dict) and "content" in step:
                    step = dressed(self.path, dict(step))
                if isinstance(step, bytes):
                    self.wfile.write(step)
                    self.close_connection = True
                    return
                status, headers = step if isinstance(step, tuple) else (step if isinstance(step, int) else 200, {})
                data = step if isinstance(step, dict) else {"error": {"message": f"fault {status}"}}
                payload = json.dumps(data).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                try:
                    self.wfile.write(payload)
                except OSError:  # the client gave up
                    self.close_connection = True

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, address):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def closed_port():
    """The URL of a port at which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}:{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A LLaVA of random weights, some hundred thousand of them, saved as real ones are."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )  # fmt: skip

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<pad>", "<s>", "</s>", "<image>"]
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    plain = Tokenizer(models.BPE(vocabulary, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, additional_special_tokens=["<image>"], **names
    )  # fmt: skip
    size = {"height": 32, "width": 32}
    pictures = CLIPImageProcessor(size=size, crop_size=size)
    processor = LlavaProcessor(
        pictures, tokenizer, patch_size=16, vision_feature_select_strategy="default", chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    )  # fmt: skip
    vision = CLIPVisionConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                              image_size=32, patch_size=16)  # fmt: skip
    text = LlamaConfig(vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                       num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                       max_position_embeddings=8192)  # fmt: skip
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=vision, text_config=text, image_token_index=vocabulary["<image>"], vision_feature_layer=-1
        )
    )
    model.generation_config.eos_token_id = 2
    folder = tmp_path_factory.mktemp("weights")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
