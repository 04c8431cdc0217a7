"""`vagen serve`: the environments behind a WebSocket."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

import vagen_envs
from vagen_adapters.permission import check_offers
from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.tasks import resolve_id

if TYPE_CHECKING:
    from vagen_adapters.service.limits import Limits
    from vagen_adapters.service.pool import Pool


def serve(
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="May be repeated; all by default.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen. Others than loopback need a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8765,
    workers: Annotated[
        int, typer.Option(min=1, help="Worker processes, or actors.")
    ] = os.cpu_count() or 1,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at once.")] = 1024,
    client_sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Sessions of one key; without keys, of one address. By default its share.",
        ),
    ] = None,
    lease: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a request that end a session.")
    ] = 300.0,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy whose X-Forwarded-For is read. May be repeated."
        ),
    ] = None,
    call_cpu: Annotated[
        float, typer.Option(min=0.0, help="CPU seconds of a reset or a turn; 0 for no bound.")
    ] = 10.0,
    worker_memory: Annotated[
        int, typer.Option(min=0, help="MiB of data of a worker process; 0 for no bound.")
    ] = 4096,
    offer: Annotated[
        list[str] | None,
        typer.Option(
            help="OPTION=NAME:VALUE; clients that set OPTION to NAME get VALUE. May be repeated."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            help="Workers are actors of the Ray cluster at this address; `auto` for this machine's."
        ),
    ] = None,
) -> None:
    """Serve environments over WebSockets, to `vagen_adapters.service.client` and others.

    The environment variable VAGEN_SERVE_KEY holds the key, or several separated by commas. An
    interrupt or SIGTERM ends the server; sessions go on at another server, or here when it is
    started again.

    Example: `vagen serve --port 8000`
    """
    # Imported first: it names the extra that is missing.
    from vagen_adapters.service.server import (
        serve as serve_pool,
    )
    from vagen_adapters.service.client import KEY_VARIABLE  # isort: skip
    from vagen_adapters.service.config import ServiceConfig
    from vagen_adapters.service.limits import Limits

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    config = ServiceConfig(
        env_ids=[resolve_id(name) for name in env] if env else vagen_envs.ENV_IDS,
        max_sessions=max_sessions,
        client_sessions=client_sessions,
        lease=lease,
        trusted_proxies=trusted_proxy or [],
        offers=read_offers(offer or []),
    )
    if config.offers:  # it loads the environments, which only workers need otherwise
        check_offers(config.env_ids, config.offers)
    pool = _make_pool(ray, workers, Limits(cpu=call_cpu, memory=worker_memory << 20))
    key = os.environ.get(KEY_VARIABLE, "")

    def report(bound: int) -> None:
        guarded = "with a key" if key else "without a key"
        where = f"actors of the Ray cluster {ray}" if ray else "worker processes"
        out.print(f"serving on http://{host}:{bound}, {guarded}; {workers} {where}")

    serve_pool(pool, config, key, host, port, report)


def read_offers(offers: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse `OPTION=NAME:VALUE` into `vagen_adapters.permission.Offers`. Raises BenchError for
    anything else.
    """
    read: dict[str, dict[str, str]] = {}
    for text in offers:
        option, found, rest = text.partition("=")
        name, colon, value = rest.partition(":")
        if not (option and found and name and colon and value):
            raise BenchError(
                f"--offer {text!r} is not OPTION=NAME:VALUE; write dataset=icons:/data/icons.jsonl"
            )
        read.setdefault(option, {})[name] = value
    return read


def _make_pool(address: str | None, workers: int, limits: Limits) -> Pool:
    if not address:
        from vagen_adapters.service.local_pool import local_pool

        return local_pool(workers, limits=limits)
    # Imported first: it names the extra that is missing.
    from vagen_adapters.service.ray_pool import (
        ray_pool,
    )
    import ray  # isort: skip

    try:
        ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise BenchError(
            f"no Ray cluster answers at {address} ({error}); start one (`ray start --head`)"
        ) from None
    return ray_pool(workers, limits=limits)
