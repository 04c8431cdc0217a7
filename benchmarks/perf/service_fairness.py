"""What one client's turns take beside costly neighbours: `python -m perf.service_fairness`.

`vagen serve` with a key for each of two clients, or without keys. One client plays FrozenLake, a
turn after the other; the other's sessions, in a process of their own, ask for whatever costs most.
The longest wait is what counts; see the column.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

from perf.service_load import serving
from vagen_adapters.service.client import KEY_VARIABLE, Service
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_envs.errors import VagenError

KEYS = ("first-client-1", "other-client-2")
SESSIONS = 4
"""Of the neighbour, at once."""
BLURS = "".join(
    [
        f'<circle cx="{at % 97}" cy="{at % 89}" r="40" fill="#{at % 4096:03x}" filter="url(#b)"/>'
        for at in range(30)
    ]
)
COSTLY_SVG = (
    '<answer><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
    '<filter id="b"><feGaussianBlur stdDeviation="9"/><feTurbulence numOctaves="6"/></filter>'
    f"{BLURS}</svg></answer>"
)
Neighbour = Callable[[Service, int], Iterator[object]]


def svgs(service: Service, number: int) -> Iterator[object]:
    """Drawings that take most of what one may."""
    env = RemoteEnv(service, "vagen/SVGReconstruction-v0", max_turns=2)
    for seed in itertools.count(number * 1000):
        yield env.reset(seed=seed)
        yield env.step(COSTLY_SVG)


def boards(service: Service, number: int) -> Iterator[object]:
    """Sokoban's largest generated rooms."""
    env = RemoteEnv(
        service,
        "vagen/Sokoban-v0",
        dim_room=[10, 10],
        num_boxes=4,
        min_solution_length=20,
        max_solution_length=100,
    )
    for seed in itertools.count(number * 1000):
        yield env.reset(seed=seed)


def long_replies(service: Service, number: int) -> Iterator[object]:
    """Replies of two million characters."""
    env = RemoteEnv(service, "vagen/FrozenLake-v0")
    for seed in itertools.count(number * 1000):
        env.reset(seed=seed)
        yield env.step("<answer>" * 240_000)


def arms(service: Service, number: int) -> Iterator[object]:
    """A robot's skills."""
    env = RemoteEnv(service, "vagen/PrimitiveSkillStack-v0")
    for seed in itertools.count(number * 1000):
        yield env.reset(seed=seed)
        yield env.step("<answer>pick(0, 0, 20) | place(50, 50, 50)</answer>")


def houses(service: Service, number: int) -> Iterator[object]:
    """A new house for each turn."""
    env = RemoteEnv(service, "vagen/Navigation-v0", difficulty=5)
    for seed in itertools.count(number * 1000):
        yield env.reset(seed=seed)
        yield env.step("<answer>moveahead, rotateright</answer>")


def openings(service: Service, number: int) -> Iterator[object]:
    """Sessions that are opened and left."""
    for seed in itertools.count(number * 1000):
        env = RemoteEnv(service, "vagen/SVGReconstruction-v0")
        yield env.reset(seed=seed)
        env.close()


NEIGHBOURS: dict[str, Neighbour | None] = {
    "nobody": None,
    "svgs": svgs,
    "boards": boards,
    "long-replies": long_replies,
    "arms": arms,
    "houses": houses,
    "openings": openings,
}


def crowd(name: str, url: str, key: str, ready: Event) -> None:
    """Play the neighbour's sessions, a thread for each, until the process is ended."""
    neighbour = NEIGHBOURS[name]
    assert neighbour is not None
    waits: list[float] = []

    def play(number: int) -> None:
        while True:
            try:
                turns = neighbour(Service(url, key), number)
                while True:
                    began = time.perf_counter()
                    next(turns)
                    waits.append(time.perf_counter() - began)
                    if len(waits) >= SESSIONS:
                        ready.set()
            except VagenError as error:  # a session that cost too much begins again
                sys.stderr.write(f"{name}: {error}\n")
                ready.set()
                time.sleep(1.0)

    players = [threading.Thread(target=play, args=(number,)) for number in range(SESSIONS)]
    for player in players:
        player.start()
    for player in players:
        player.join()


def waits_of(url: str, key: str, seconds: float) -> list[float]:
    """Seconds of each FrozenLake turn (and each reset, which counts as one)."""
    draw = random.Random(1)  # noqa: S311 - not for secrets
    env = RemoteEnv(Service(url, key), "vagen/FrozenLake-v0")
    waits: list[float] = []
    ends = time.perf_counter() + seconds
    seed = 0
    is_over = True
    while time.perf_counter() < ends:
        began = time.perf_counter()
        if is_over:
            seed += 1
            env.reset(seed=seed)
            is_over = False
        else:
            way = draw.choice(["Up", "Down", "Left", "Right"])
            _, _, terminated, truncated, _ = env.step(f"<answer>{way}</answer>")
            is_over = terminated or truncated
        waits.append(time.perf_counter() - began)
        time.sleep(0.01)
    env.close()
    return waits


def measure(name: str, seconds: float, has_keys: bool, workers: int) -> list[float]:
    """Waits beside a neighbour."""
    os.environ[KEY_VARIABLE] = ",".join(KEYS) if has_keys else ""
    first, other = KEYS if has_keys else ("", "")
    context = multiprocessing.get_context("spawn")
    with serving("--workers", str(workers)) as (port, _):
        url = f"http://127.0.0.1:{port}"
        ready = context.Event()
        process = context.Process(target=crowd, args=(name, url, other, ready), daemon=True)
        if NEIGHBOURS[name] is not None:
            process.start()
            ready.wait(60)
        try:
            return waits_of(url, first, seconds)
        finally:
            if process.pid is not None:
                process.kill()
                process.join()


def main() -> None:
    """Print a row for each neighbour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without-keys", action="store_true")
    parser.add_argument("--most", type=float, default=0.25, help="seconds of a turn")
    parser.add_argument("neighbours", nargs="*", default=list(NEIGHBOURS))
    args = parser.parse_args()
    worst = 0.0
    for name in args.neighbours:
        waits = measure(name, args.seconds, not args.without_keys, args.workers)
        worst = max(worst, *waits)
        cuts = statistics.quantiles(waits, n=100)
        sys.stdout.write(
            f"{name:14} {len(waits):5} turns, median {1e3 * cuts[49]:6.1f} ms, "
            f"p99 {1e3 * cuts[98]:7.1f} ms, longest {1e3 * max(waits):7.1f} ms\n"
        )
        sys.stdout.flush()
    sys.exit(worst > args.most)


if __name__ == "__main__":
    main()
