"""A real HTTP server on loopback that speaks chat completions or what else it is told to, and any fault."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-secret-0123456789abcdef"
GOOD = "<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Up</answer>"


def dressed(path, message):
    """A message in the form of the provider whose path was asked."""
    finish = message.pop("finish", None)
    text = message["content"] or ""
    if path.endswith("/v1/messages"):
        thought = message.get("reasoning_content")
        blocks = [{"type": "thinking", "thinking": thought, "signature": "x"}] if thought else []
        blocks += [{"type": "text", "text": text}] if text else []
        return {
            "id": "x",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": blocks,
            "stop_reason": finish or "end_turn",
            "usage": {"input_tokens": 11, "output_tokens": 7},
        }
    if path.partition("?")[0].endswith(":generateContent"):
        thought = message.get("reasoning_content")
        parts = [{"text": thought, "thought": True}] if thought else []
        parts += [{"text": text}] if text else []
        return {
            "candidates": [
                {"content": {"role": "model", "parts": parts}, "finishReason": finish or "STOP"}
            ],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7},
        }
    return completion(message, finish or "stop")


def completion(message, finish):
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def raw(body, kind="application/json", status="200 OK", **headers):
    """An answer in HTTP as it goes over the wire, after which the connection ends."""
    body = body if isinstance(body, bytes) else body.encode()
    fields = {"connection": "close", "content-type": kind, "content-length": len(body), **headers}
    head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(head).encode() + body


class Endpoint:
    """The server. `script` maps the number of a request, from 0, and its JSON to what is done with it.

    A step is a str (the reply's text), a dict with `content` (the reply's message, with `finish` its reason), any
    other dict (answered as JSON), bytes or an iterator of bytes (sent raw, then closed), an int, (int, headers) or
    (int, headers, data) (a status and its JSON), or a number of seconds as a float (waited before a good answer).
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
                data = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    body = json.loads(data)
                except ValueError:
                    body = data
                with lock:
                    number = len(endpoint.requests)
                    endpoint.requests.append(body)
                    endpoint.paths.append(self.path)
                    endpoint.headers.append(
                        {name.lower(): value for name, value in self.headers.items()}
                    )
                try:
                    self.answer(endpoint.script(number, body))
                except OSError:  # the client gave up
                    self.close_connection = True

            do_GET = do_POST  # noqa: N815 - its name for a method of HTTP

            def answer(self, step):
                if isinstance(step, float):
                    time.sleep(step)
                    step = GOOD
                if isinstance(step, str):
                    step = {"content": step}
                if isinstance(step, dict):
                    step = 200, {}, dressed(self.path, dict(step)) if "content" in step else step
                if isinstance(step, int):
                    step = step, {}
                if not isinstance(step, tuple):
                    for piece in [step] if isinstance(step, bytes) else step:
                        self.wfile.write(piece)
                    self.close_connection = True
                    return
                status, headers, data = (
                    step if len(step) == 3 else (*step, {"error": {"message": f"fault {step[0]}"}})
                )
                payload = json.dumps(data).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

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
