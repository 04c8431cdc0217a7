"""Our server beside OpenEnv's with the same environment: `python -m perf.service_openenv`.

openenv asks for other versions than the rest, so it may live in an environment of its own, whose
interpreter `--python` names. Both servers run; sessions with a connection each play Sokoban with
pictures as fast as they are answered, against one and then the other, in turns, from the same
client. The medians of the rounds are told.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import uvloop

from perf.processes import children, processor_seconds
from perf.service_load import Load, Player, serving

TOLD = ("turns_per_s", "p50_ms", "p99_ms", "server_us_per_turn", "bytes_per_turn")


class OpenEnvPlayer(Player):
    """A session of OpenEnv's server."""

    path = "/ws"

    async def _begin(self) -> None:
        self._seed += 1_000_000
        await self._say("reset", {"seed": self._seed})

    async def _turn(self, reply: str) -> bool:
        return bool((await self._say("step", {"text": reply}))["done"])

    async def _say(self, kind: str, data: dict[str, Any]) -> Any:
        await self._ws.send(orjson.dumps({"type": kind, "data": data}).decode())
        frame = await self._ws.recv()
        self._load.received += len(frame)
        message = orjson.loads(frame)
        if message["type"] == "error":
            raise RuntimeError(f"{kind}: {message['data']}")
        return message["data"]

    async def _open(self) -> None:
        """A connection is a session."""

    async def _end(self) -> None:
        """It ends with its connection."""


@contextlib.contextmanager
def openenv_serving(python: str, sessions: int) -> Iterator[tuple[int, int]]:
    """OpenEnv's server in a process of its own: its port and the process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join(str(each) for each in (root, root / "adapters"))
    command = [
        python,
        "-m",
        "vagen_adapters.openenv_env",
        "--port",
        str(port),
        "--max-sessions",
        str(sessions),
    ]
    with subprocess.Popen(  # noqa: S603
        command,
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as server:
        try:
            deadline = time.monotonic() + 120
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(
                        "OpenEnv's server did not start; is openenv there for --python?"
                    )
                time.sleep(0.1)
            yield port, server.pid
        finally:
            server.terminate()
            server.wait(60)


async def play(
    kind: type[Player], port: int, pid: int, sessions: int, seconds: float
) -> dict[str, float]:
    """One round: connect, play, leave."""
    load = Load()
    players = [kind(number, load) for number in range(sessions)]
    for first in range(0, sessions, 50):
        await asyncio.gather(
            *(each.open(f"ws://127.0.0.1:{port}") for each in players[first : first + 50])
        )
    load.received = 0
    pids = (pid, *children(pid))
    before, began = processor_seconds(*pids), time.perf_counter()
    await asyncio.gather(*(each.play(began + seconds, 0.0) for each in players))
    load.seconds = time.perf_counter() - began
    load.front = processor_seconds(*pids) - before
    await asyncio.gather(*(each.leave() for each in players))
    summary = load.summary()
    return {**summary, "server_us_per_turn": summary["front_us_per_turn"]}


def compare(
    python: str, sessions: int, seconds: float, rounds: int, workers: int
) -> dict[str, dict[str, float]]:
    """The medians of both, for so many sessions."""
    got: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    ours = serving("--workers", str(workers), "--max-sessions", str(2 * sessions + 10))
    with ours as one, openenv_serving(python, 2 * sessions + 10) as other:
        for _ in range(rounds):
            for name, kind, (port, pid) in (
                ("ours", Player, one),
                ("theirs", OpenEnvPlayer, other),
            ):
                got[name].append(uvloop.run(play(kind, port, pid, sessions, seconds)))
                time.sleep(0.5)
    return {
        name: {key: statistics.median(each[key] for each in each_round) for key in TOLD}
        for name, each_round in got.items()
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has openenv")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 64, 1000])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    say = print  # the module's only output
    say(f"{'sessions':>8} {'':7}" + "".join(f"{name:>20}" for name in TOLD))
    for sessions in args.sessions:
        both = compare(args.python, sessions, args.seconds, args.rounds, args.workers)
        for name, figures in both.items():
            say(f"{sessions:8} {name:7}" + "".join(f"{figures[key]:20.1f}" for key in TOLD))
        say(
            f"{sessions:8} {'ratio':7}"
            + "".join(f"{both['ours'][key] / both['theirs'][key]:20.2f}" for key in TOLD)
        )


if __name__ == "__main__":
    main()
