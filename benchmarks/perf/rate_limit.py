"""A run beside inspect_ai at an endpoint with a rate limit: `python -m perf.rate_limit
INSPECT_PYTHON [KIND]`.

Both play 150 episodes of two requests against the same local endpoint, which answers after 0.2 s
and refuses with 429 and no `Retry-After` what exceeds ten requests in any second. INSPECT_PYTHON is
an interpreter with inspect_ai, in an environment of its own, since its versions of the SDKs differ.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from perf.endpoint import REPLY, response

EPISODES, TURNS, IN_FLIGHT = 150, 2, 16
LIMIT, WINDOW, DELAY = 10, 1.0, 0.2
IDEAL = (EPISODES * TURNS - LIMIT) / LIMIT * WINDOW + DELAY
"""Seconds that the limit itself takes: the first ten requests at once, then ten a second."""
REFUSAL = json.dumps(
    {"error": {"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"}}
).encode()

INSPECT = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.solver import solver

@solver
def turns():
    async def solve(state, generate):
        for _ in range(int(sys.argv[3])):
            state = await generate(state)
            state.messages.append(ChatMessageUser(content="Go on."))
        return state
    return solve

task = Task(dataset=[Sample(input=f"Level {i}.") for i in range(int(sys.argv[2]))], solver=turns())
model = get_model("openai-api/local/m", base_url=sys.argv[1], api_key="none")
(log,) = eval(task, model=model, max_connections=int(sys.argv[4]), max_samples=int(sys.argv[4]),
              display="none", log_dir=sys.argv[5])
assert log.status == "success", log.error
"""


@asynccontextmanager
async def limited() -> AsyncIterator[tuple[str, list[float]]]:
    """Its URL, and the times of the requests that it answered."""
    recent: deque[float] = deque()
    answered: list[float] = []
    good = response(REPLY)
    bad = (
        b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b"
        % (
            len(REFUSAL),
            REFUSAL,
        )
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                now = time.monotonic()
                while recent and now - recent[0] >= WINDOW:
                    recent.popleft()
                if len(recent) >= LIMIT:
                    writer.write(bad)
                    continue
                recent.append(now)
                await asyncio.sleep(DELAY)
                answered.append(time.monotonic())
                writer.write(good)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", answered


def command(kind: str, url: str, place: str, inspect: str) -> list[str]:
    """What plays the episodes."""
    if kind == "ours":
        words = (
            f"-m vagen_benchmarks bench -a openai:m --base-url {url} -e sokoban -n {EPISODES} -o "
            f"max_turns={TURNS}"
        )
        return [
            sys.executable,
            *words.split(),
            "--concurrency",
            str(IN_FLIGHT),
            "--out",
            f"{place}/run",
        ]
    return [inspect, "-c", INSPECT, url, str(EPISODES), str(TURNS), str(IN_FLIGHT), place]


async def measure(kind: str, inspect: str) -> None:
    """Play once and print the seconds from the first to the last answer."""
    with tempfile.TemporaryDirectory() as place:
        async with limited() as (url, answered):
            process = await asyncio.create_subprocess_exec(
                *command(kind, url, place, inspect),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            _, errors = await process.communicate()
            if process.returncode or len(answered) < EPISODES * TURNS:
                raise SystemExit(f"{kind}: {len(answered)} answers; {errors.decode()[-2000:]}")
            seconds = answered[-1] - answered[0]
            gap = max(b - a for a, b in itertools.pairwise(answered))
            sys.stdout.write(
                f"{kind}: {len(answered)} answers in {seconds:.1f} s (at least {IDEAL:.1f}), "
                f"longest gap {gap:.1f} s\n"
            )


if __name__ == "__main__":
    for name in sys.argv[2:] or ("ours", "inspect"):
        asyncio.run(measure(name, str(Path(sys.argv[1]))))
