"""Verifiers as a service: rewards are computed beside the training loop (V-Triune, section 3.2,
figure 1).

    with VerifierService() as service:
        verdicts = await VerifierClient(service.address).score_many(samples, responses,
        iou_threshold=0.95)

or, on a machine of its own, `python -m vagen_rewards.verifiers.service --host 0.0.0.0 --port 8420`.
There is no password: let only those reach the port who may. It speaks HTTP and JSON: POST /score
takes `{"items": [{"sample": row without pictures, "response": text}, …], "iou_threshold": 0.85}`
and gives `{"verdicts": [{accuracy, format, answer, reason, metrics}, …]}`, in order; `accuracy` is
null where an item can't be scored. A request that isn't of this form is answered by status 400 or
413 and `{"error": …}`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vagen_envs.errors import MissingExtraError, SampleError, VagenError
from vagen_envs.sample.schema import sample_from_row
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import BadRequestError, VerifierError, VerifierServiceError
from vagen_rewards.verifiers.base import register, score_safely, verifier_named, verifier_names
from vagen_rewards.verifiers.maths import MathVerifyVerifier

MOST_BYTES = 8 << 20
"""Of a request; the client sends more than that in several."""
MOST_ITEMS = 4_096
_CHUNK = 16  # items that one thread scores in one go


def make_app(workers: int) -> Any:
    """The service as an ASGI application.

    Args:
        workers: threads that score, each with a process for math-verify when it needs one.

    Raises:
        MissingExtraError: starlette isn't installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("the verifier service", "verify", "starlette") from error
    if (
        type(verifier_named(MathVerifyVerifier.name)) is MathVerifyVerifier
    ):  # a user may have put another there
        register(MathVerifyVerifier(workers))
    threads = ThreadPoolExecutor(workers, thread_name_prefix="verifier")

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"verifiers": verifier_names(), "workers": workers})

    async def score(request: Request) -> Response:
        try:
            items, threshold = read_request(await request.body())
        except BadRequestError as error:
            status, message = error.args
            return JSONResponse({"error": ascii(message)[1:-1]}, status)
        except ClientDisconnect:
            return JSONResponse({"error": "the client has gone"}, 400)
        loop = asyncio.get_running_loop()
        chunks = [items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK)]
        told = await asyncio.gather(
            *(loop.run_in_executor(threads, score_items, each, threshold) for each in chunks)
        )
        verdicts = [verdict for chunk in told for verdict in chunk]
        # In ASCII: a reply may hold lone surrogates, which UTF-8 can't say.
        return Response(json.dumps({"verdicts": verdicts}), media_type="application/json")

    return Starlette(routes=[Route("/health", health), Route("/score", score, methods=["POST"])])


def read_request(body: bytes) -> tuple[list[Any], float]:
    """The items and the threshold. Raises BadRequestError for anything else."""
    if len(body) > MOST_BYTES:
        raise BadRequestError(
            413, f"the request has more than {MOST_BYTES} bytes; send it in several"
        )
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(400, f"the request is not JSON ({error!s:.100})") from error
    items = asked.get("items") if isinstance(asked, dict) else None
    if not isinstance(items, list):
        raise BadRequestError(400, 'the request has no list "items"')
    if len(items) > MOST_ITEMS:
        raise BadRequestError(
            413, f"the request has {len(items)} items, more than {MOST_ITEMS}; send it in several"
        )
    threshold = asked.get("iou_threshold", 0.85)
    if (
        isinstance(threshold, bool)
        or not isinstance(threshold, int | float)
        or not 0 < threshold <= 1
    ):
        raise BadRequestError(400, f"iou_threshold={threshold!r:.40} is not above 0 and at most 1")
    return items, float(threshold)


def score_items(items: Sequence[Any], threshold: float) -> list[dict[str, Any]]:
    """A verdict for each item; one that isn't of the form is unscored."""
    return [_score_item(item, threshold).to_json() for item in items]


def _score_item(item: Any, threshold: float) -> VerifierResult:
    if not isinstance(item, dict) or not isinstance(item.get("response"), str):
        return VerifierResult.unscored("the item has no string 'response'")
    try:
        row = item.get("sample")
        # A row from the network must not make this machine open its files.
        sample = sample_from_row({**row, "images": []} if isinstance(row, dict) else row, "sample")
    except SampleError as error:
        return VerifierResult.unscored(str(error))
    return score_safely(sample, item["response"], threshold)


class VerifierService(contextlib.AbstractContextManager["VerifierService"]):
    """Starts the service's process on this machine, and ends it.

    Args:
        port: 0 for a free one.
        workers: see `make_app`; as many as there are cores by default.
        modules: to be imported first, such as one that registers your verifiers.

    Raises:
        VerifierServiceError: it did not start.
    """

    def __init__(
        self, port: int = 0, workers: int | None = None, modules: Sequence[str] = ()
    ) -> None:
        command = [sys.executable, "-m", __name__, "--port", str(port), "--with-parent"]
        command += ["--workers", str(workers)] if workers else []
        command += [word for module in modules for word in ("--import", module)]
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            text=True,
        )
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        line = self.process.stdout.readline().strip()
        if not line.startswith("http"):
            self.close()
            raise VerifierServiceError(
                line or "the verifier service did not start; see its messages above"
            )
        self.address = line

    def close(self) -> None:
        """End the process. May be called twice."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_: object) -> None:
        self.close()


def _end_with_parent() -> None:
    sys.stdin.read()  # ends when the process that started us does
    os._exit(0)


def main() -> None:
    """Serve until stopped. The first line that is printed is the address."""
    parser = argparse.ArgumentParser(prog="python -m vagen_rewards.verifiers.service")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8420)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], help="a module with your verifiers"
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the standard input does"
    )
    asked = parser.parse_args()
    try:
        if asked.workers < 1:
            raise VerifierError(f"--workers {asked.workers} is not valid: it must be at least 1")
        for module in asked.modules:
            importlib.import_module(module)
        app = make_app(asked.workers)
        import uvicorn

        listening = socket.create_server((asked.host, asked.port), backlog=2_048)
    except (VagenError, ImportError) as error:
        sys.exit(_say(str(error)))
    except OSError as error:
        sys.exit(
            _say(f"{asked.host}:{asked.port} can't be listened on ({error}); choose another --port")
        )
    host, port = listening.getsockname()[:2]
    if asked.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    _say(f"http://{host}:{port}")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=30)).run(
        sockets=[listening]
    )


def _say(line: str) -> int:
    """The one line that whoever started us waits for. Returns the exit code of a failure."""
    sys.stdout.write(" ".join(line.split()) + "\n")
    sys.stdout.flush()
    return 1


if __name__ == "__main__":
    main()
