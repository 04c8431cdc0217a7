"""`vagen serve`: the environments behind HTTP and WebSocket."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import vagen_envs
from vagen_benchmarks.commands.completion import complete_env
from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_envs.errors import did_you_mean
from vagen_envs.permission import check_offers

if TYPE_CHECKING:
    from vagen_adapters.service.pool import Pool

POOLS = ("local", "ray")


def serve(
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", autocompletion=complete_env, help="May be repeated; all by default."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Others than loopback need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8765,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes, or actors.")] = os.cpu_count() or 1,
    max_workers: Annotated[
        int | None, typer.Option(min=1, help="Start more, up to so many, when there is need.")
    ] = None,
    sessions_each: Annotated[int, typer.Option(min=1, help="Sessions of a worker before another is started.")] = 64,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at once.")] = 1024,
    key_sessions: Annotated[int | None, typer.Option(min=1, help="Of each key; by default its share.")] = None,
    key_bytes: Annotated[int, typer.Option(min=1, help="MiB that each key's requests and answers may hold.")] = 1024,
    lease: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a request after which a session ends.")
    ] = 300.0,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds after which a silent worker is replaced.")] = 120.0,
    call_cpu: Annotated[float, typer.Option(min=0.0, help="CPU seconds of a reset or a turn; 0 for no bound.")] = 10.0,
    worker_memory: Annotated[int, typer.Option(min=0, help="MiB of data of a worker process; 0 for no bound.")] = 4096,
    max_request: Annotated[int, typer.Option(min=1024, help="Bytes of a request.")] = 2 << 20,
    max_running: Annotated[int, typer.Option(min=1, help="Calls at work or waiting before more are refused.")] = 4096,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds for turns in progress when it is ended.")] = 30.0,
    oracle: Annotated[bool, typer.Option("--oracle", help="Let clients ask for the oracle's replies.")] = False,
    offer: Annotated[
        list[str] | None,
        typer.Option(help="OPTION=NAME:VALUE; clients that say NAME for OPTION get VALUE. May be repeated."),
    ] = None,
    pool: Annotated[str, typer.Option(help="`local`: processes here. `ray`: actors of a Ray cluster.")] = "local",
    address: Annotated[str, typer.Option(help="Of the Ray cluster.")] = "auto",
) -> None:
    """Serve environments over HTTP and WebSocket, to `vagen_adapters.service.client` and others.

    A key, if there is to be one, stands in the environment variable VAGEN_SERVE_KEY; several have commas between
    them. An interrupt or SIGTERM ends it after the turns in progress.
    """
    if pool not in POOLS:
        raise BenchError(f"unknown pool {pool!r}.{did_you_mean(pool, POOLS)}")
    if pool == "ray":
        from vagen_adapters.service.ray_cluster import find_cluster

        address = find_cluster(address)
    from vagen_adapters.service.server import serve as serve_pool  # first: it says which extra is missing
    from vagen_adapters.service.client import KEY_VARIABLE  # isort: skip
    from vagen_adapters.service.limits import Limits
    from vagen_adapters.service.sessions import ServiceConfig

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    config = ServiceConfig(
        env_ids=[resolve_id(name) for name in env] if env else vagen_envs.ENV_IDS, max_sessions=max_sessions,
        key_sessions=key_sessions, key_bytes=key_bytes << 20,
        lease=lease, max_request=max_request, max_running=max_running, grace=grace, oracle=oracle,
        offers=read_offers(offer or []),
    )  # fmt: skip
    if config.offers:  # it loads the environments, which only workers need otherwise
        check_offers(config.env_ids, config.offers)
    if max_workers is not None and max_workers < workers:
        raise BenchError(f"--max-workers {max_workers} is fewer than --workers {workers}")
    sizes: dict[str, Any] = {"size": workers, "most": max_workers, "sessions_each": sessions_each, "timeout": timeout,
                             "limits": Limits(cpu=call_cpu, memory=worker_memory << 20)}  # fmt: skip
    made = _make_pool(pool, address, sizes)
    key = os.environ.get(KEY_VARIABLE, "")

    def say(bound: int) -> None:
        guarded = "with a key" if key else "without a key"
        out.print(f"serving on http://{host}:{bound}, {guarded}; {workers} workers, {pool}")

    serve_pool(made, config, host=host, port=port, key=key, started=say)


def read_offers(offers: Sequence[str]) -> dict[str, dict[str, str]]:
    """What an operator offers, as `vagen_envs.permission.Offers`. Raises BenchError for one that isn't written so."""
    read: dict[str, dict[str, str]] = {}
    for each in offers:
        option, found, rest = each.partition("=")
        name, colon, value = rest.partition(":")
        if not (option and found and name and colon and value):
            raise BenchError(f"--offer {each!r} is not OPTION=NAME:VALUE; write dataset=icons:/data/icons.jsonl")
        read.setdefault(option, {})[name] = value
    return read


def _make_pool(pool: str, address: str, sizes: dict[str, Any]) -> Pool:
    if pool == "local":
        from vagen_adapters.service.local_pool import local_pool

        return local_pool(**sizes)
    from vagen_adapters.service.ray_pool import ray_pool  # first: it says which extra is missing
    import ray  # isort: skip

    ray.init(address=address, log_to_driver=False)
    return ray_pool(**sizes)
