"""Ten thousand environments at once, on paper and simulated: `python -m perf.service_scale`.

Each environment's player thinks (a model writes its reply), then its turn passes a server's event loop and
one core of the workers, and back. Both serve in order of arrival. The service times are those that
`service_load` measures; the prices are what you pay.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """What there is, and what a turn takes.

    Attributes:
        environments: at once.
        think: mean seconds a model takes for a reply, exponentially distributed.
        fronts: servers, one event loop and one core each.
        cores: of the workers.
        front_s, worker_s: processor seconds of a turn, resets counted in.
        turn_bytes: over the network.
        session_bytes: of memory, in a server and a worker.
        core_hour: dollars.
    """

    environments: int = 10_000
    think: float = 5.0
    fronts: int = 1
    cores: int = 1
    front_s: float = 355e-6
    worker_s: float = 590e-6
    turn_bytes: float = 4700.0
    session_bytes: float = 200 * 1024
    core_hour: float = 0.04

    @property
    def asked(self) -> float:
        """Turns in a second, if none had to wait."""
        return self.environments / self.think

    def loads(self) -> dict[str, float]:
        """The share of each part's capacity that is asked for; the largest saturates first."""
        return {
            "front": self.asked * self.front_s / self.fronts,
            "workers": self.asked * self.worker_s / self.cores,
            "network of 10 Gbit/s": self.asked * self.turn_bytes * 8 / 10e9,
        }

    def dollars_per_million(self) -> float:
        """What a million turns cost: all cores are paid for, whether they work or wait."""
        return (self.fronts + self.cores) * 1e6 / self.asked / 3600 * self.core_hour


@dataclass(frozen=True)
class Simulated:
    """What came of it: turns in a second, and seconds from a reply's arrival to its answer."""

    turns_per_s: float
    p50: float
    p99: float


def simulate(site: Site, seconds: float = 30.0, seed: int = 0) -> Simulated:
    """Play through time, event by event; the first third is warming up and isn't counted."""
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    thinking = [(draw.expovariate(1 / site.think), number) for number in range(site.environments)]
    heapq.heapify(thinking)
    fronts, cores = [0.0] * site.fronts, [0.0] * site.cores
    waits: list[float] = []
    # An environment's arrivals are taken in time's order, so each station can be advanced as they come. A turn
    # takes half of the front's time on its way in and half on its way out, taken together here.
    while thinking[0][0] < seconds:
        arrived, number = heapq.heappop(thinking)
        at_front = max(arrived, heapq.heappop(fronts)) + site.front_s
        heapq.heappush(fronts, at_front)
        done = max(at_front, heapq.heappop(cores)) + site.worker_s
        heapq.heappush(cores, done)
        if seconds / 3 < done <= seconds:
            waits.append(done - arrived)
        heapq.heappush(thinking, (done + draw.expovariate(1 / site.think), number))
    waits.sort()
    turns = len(waits) / (seconds * 2 / 3)
    return Simulated(turns, waits[len(waits) // 2], waits[int(len(waits) * 0.99)])


def main() -> None:
    """Print the table: just enough of everything, and with some and much to spare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=Site.environments)
    parser.add_argument("--think", type=float, default=Site.think, help="seconds")
    parser.add_argument("--front-us", type=float, default=Site.front_s * 1e6)
    parser.add_argument("--worker-us", type=float, default=Site.worker_s * 1e6)
    parser.add_argument("--session-kib", type=float, default=Site.session_bytes / 1024)
    parser.add_argument("--core-hour", type=float, default=Site.core_hour, help="dollars")
    args = parser.parse_args()
    say = print  # the module's only output
    asked = args.environments / args.think
    say(f"{asked:.0f} turns a second; {args.environments * args.session_kib / 2**20:.1f} GiB in sessions")
    say("fronts  cores   done/s   p50 ms   p99 ms   $/M turns   fullest")
    for spare in (1.0, 1.3, 2.5):
        fronts = math.ceil(asked * args.front_us / 1e6 * spare)
        cores = math.ceil(asked * args.worker_us / 1e6 * spare)
        site = Site(args.environments, args.think, fronts, cores, args.front_us / 1e6, args.worker_us / 1e6,
                    core_hour=args.core_hour)  # fmt: skip
        got = simulate(site)
        name, load = max(site.loads().items(), key=lambda each: each[1])
        say(f"{fronts:6} {cores:6} {got.turns_per_s:8.0f} {1e3 * got.p50:8.1f} {1e3 * got.p99:8.1f} "
            f"{site.dollars_per_million():11.4f}   {name} at {load:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
