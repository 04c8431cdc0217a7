"""The sessions of a server: leases, the order of moves, answers that can be given again."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from vagen_adapters.service.config import ServiceConfig
from vagen_adapters.service.host import Failure, HostAnswer, HostCall, Result
from vagen_adapters.service.messages import read_items
from vagen_adapters.service.metrics import Metrics
from vagen_adapters.service.pool import Pool, Slot
from vagen_adapters.service.tenants import Tenant
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, did_you_mean
from vagen_envs.registration import declared

IDLE = 30.0
"""Seconds without a request after which a session makes room for another. Its client can have it
again by replay.
"""
KEPT = 1 << 20
"""Bytes of an answer that is kept to be given again. A longer one is had again by replay."""
DONE = HostAnswer(b"{}")
ENDED = ("lost", "unknown_session", "too_costly")
"""Failures of a call after which its worker doesn't have the session."""


@dataclass(slots=True, eq=False)
class Session:
    """One client's environment."""

    env_id: str
    tenant: Tenant
    client: Hashable  # of the tenant: whose calls take turns with other clients'
    slot: Slot  # has its worker
    move: int  # the number of the latest reset or step that was begun
    digest: str  # of the latest answer (see `host.Answer`), empty before the first
    used: float  # the loop's time of the latest request or result
    request: bytes = b""  # a digest of the latest move, to recognise one that is sent again
    answer: Result | None = None  # to the latest move
    pending: asyncio.Future[Result] | None = None  # the result of the call that it waits for


@functools.cache
def is_costly(env_id: str) -> bool:
    """Whether a turn may take much longer than a millisecond, as drawing an SVG or physics does."""
    try:
        _, creator = declared(env_id)
    except ConfigError:  # only its workers have the module that registers it
        return False
    return isinstance(creator, type) and issubclass(creator, VagenEnv) and not creator.quick


class Sessions:
    """All sessions of a server, in front of a pool, for one event loop. `share` bounds those of one
    tenant.
    """

    def __init__(self, pool: Pool, config: ServiceConfig, share: int, metrics: Metrics) -> None:
        self._pool = pool
        self._config = config
        self._share = share
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[str, Session] = {}
        pool.on_lost = self._lose
        metrics.watch("sessions", "Sessions now", lambda: len(self._sessions))
        metrics.watch("workers", "Workers that are ready", lambda: len(pool.workers))
        metrics.watch(
            "replaced_workers", "Workers that died and were replaced", lambda: pool.replaced
        )

    async def handle(self, verb: Any, items: Any, tenant: Tenant, client: str = "") -> list[Result]:
        """Carry out the items of a request, concurrently.

        A move is carried out even if the client goes away meanwhile; it can ask for the answer
        again. `client` names one of the tenant's clients; others don't wait for its calls.

        Raises:
            ServiceError: the request is malformed.
        """
        begun = [self._begin(verb, item, tenant, client) for item in read_items(verb, items)]
        results = [await item if isinstance(item, asyncio.Future) else item for item in begun]
        for result in results:
            if isinstance(result, Failure):
                self._metrics.failures.labels(result.code).inc()
        return results

    def _begin(
        self, verb: str, item: Any, tenant: Tenant, client: str
    ) -> HostAnswer | Failure | asyncio.Future[Result]:
        if verb == "open":
            return asyncio.create_task(self._open(item, tenant, client))
        session = self._sessions.get(item.session)
        if session is None and verb == "close":
            return DONE
        if session is None:
            return Failure(
                "unknown_session",
                f"no session {item.session!r}: it expired, or was never open; open it",
            )
        if session.tenant is not tenant:
            return Failure(
                "forbidden", "this session belongs to another client; open one of your own"
            )
        session.used = self._loop.time()
        if verb != "close":
            return self._move(verb, item, session)
        if session.pending is not None:
            return Failure(
                "out_of_order", f"move {session.move} of this session is still being played"
            )
        self._end(item.session, "closed")
        return DONE

    def _move(
        self, verb: str, item: Any, session: Session
    ) -> HostAnswer | Failure | asyncio.Future[Result]:
        after = None
        if verb == "step":
            arguments = {"reply": item.reply}
            after = item.after
        else:
            arguments = {"seed": item.seed, "split": item.split, "level": item.level}
        request = hashlib.sha256(repr((verb, arguments, after)).encode()).digest()
        if item.move == session.move and session.request:
            if request != session.request:
                return Failure(
                    "out_of_order",
                    f"move {item.move} was something else; a repeat must be the same",
                )
            self._metrics.repeats.inc()
            return (
                session.pending
                or session.answer
                or Failure("lost", "the answer isn't kept; open the session again")
            )
        if item.move != session.move + 1:
            return Failure(
                "out_of_order", f"move {item.move} of a session that expects {session.move + 1}"
            )
        if after is not None and after != session.digest:
            return Failure(
                "out_of_order",
                f"move {item.move} follows another answer than this session's latest",
            )
        if session.pending is not None:
            return Failure(
                "out_of_order", f"move {session.move} of this session is still being played"
            )
        session.move = item.move
        session.request = request
        session.answer = None
        call = HostCall(item.session, verb, arguments)
        session.pending = session.slot.submit(call, session.client)
        # The first callback: whoever waits for the result finds the session up to date.
        session.pending.add_done_callback(
            functools.partial(self._finish, session, call, self._loop.time())
        )
        return session.pending

    def _finish(
        self, session: Session, call: HostCall, began: float, pending: asyncio.Future[Result]
    ) -> None:
        session.pending = None
        session.used = self._loop.time()
        if pending.cancelled():
            result: Result = Failure("lost", "the request was cancelled")
        else:
            result = pending.result()
        if isinstance(result, Failure) and result.code in ENDED:
            if self._sessions.get(call.session) is session:
                self._end(call.session, result.code)
        elif isinstance(result, Failure) and result.code == "bad_config":
            # Refused: it uses up no number.
            session.move -= 1
            session.request = b""
        elif isinstance(result, Failure):
            session.answer = result
        else:
            png = result.picture[1] if result.picture else b""
            if len(result.body) + len(png) < KEPT:
                session.answer = result
            session.digest = result.digest
            self._metrics.moved(session.env_id, call.verb, session.used - began)

    async def _open(self, item: Any, tenant: Tenant, name: str) -> Result:
        while (session := self._sessions.get(item.session)) is not None:
            if session.tenant is not tenant:
                return Failure(
                    "forbidden", "this session belongs to another client; choose another id"
                )
            if session.pending is not None:
                await asyncio.wait([session.pending])
            else:
                # Its client missed an answer, or played on elsewhere.
                self._end(item.session, "reopened")
        if item.env_id not in self._config.env_ids:
            hint = did_you_mean(item.env_id, self._config.env_ids)
            return Failure("bad_config", f"unknown environment {item.env_id[:80]!r}.{hint}")
        if tenant.sessions >= self._share and not self._make_room(tenant):
            return Failure(
                "full", f"this client has {tenant.sessions} sessions, as many as it may; close some"
            )
        if len(self._sessions) >= self._config.max_sessions and not self._make_room():
            return Failure(
                "full", f"there are {len(self._sessions)} sessions, and no room for more"
            )
        digest = "" if item.replay is None else item.replay.digest
        client = (tenant, name)
        slot = self._pool.quietest(is_costly(item.env_id), client)
        session = Session(
            item.env_id, tenant, client, slot, item.move or 0, digest, self._loop.time()
        )
        self._sessions[item.session] = session
        slot.sessions[item.session] = client
        tenant.sessions += 1
        session.pending = asyncio.current_task()
        arguments = {"env_id": item.env_id, "options": item.options, "offers": self._config.offers}
        result = await slot.submit(HostCall(item.session, "open", arguments), client)
        if isinstance(result, HostAnswer) and item.replay is not None:
            self._metrics.replays.inc()
            result = await self._replay(item, session) or result
        session.pending = None
        session.used = self._loop.time()
        if isinstance(result, Failure):
            self._end(item.session, result.code)
        return result

    async def _replay(self, item: Any, session: Session) -> Failure | None:
        """Play an episode again. Each move is a call of its own: it is bounded, and other sessions
        play between.
        """
        replies = item.replay.replies
        digest = ""
        moves: list[tuple[str, dict[str, Any]]] = [
            ("reset", {"seed": item.replay.seed, "split": item.replay.split})
        ]
        moves += [("step", {"reply": reply}) for reply in replies]
        for verb, arguments in moves:
            played = await session.slot.submit(
                HostCall(item.session, verb, arguments), session.client
            )
            if isinstance(played, Failure):
                if played.code in ENDED:
                    return played
                return Failure(
                    "diverged", f"one of {len(replies)} turns played again failed: {played.message}"
                )
            digest = played.digest
        if digest == item.replay.digest:
            return None
        return Failure(
            "diverged",
            f"{len(replies)} turns played again gave other answers, so it isn't deterministic",
        )

    def _make_room(self, tenant: Tenant | None = None) -> bool:
        """End the session (of this tenant) that has been idle for longest, if that is long
        enough.
        """
        mine = (
            item
            for item in self._sessions.items()
            if tenant in (None, item[1].tenant) and not item[1].pending
        )
        key, session = min(mine, key=lambda item: item[1].used, default=("", None))
        if session is None or session.used > self._loop.time() - IDLE:
            return False
        self._end(key, "evicted")
        return True

    async def expire(self) -> None:
        """End sessions whose lease is over, until cancelled."""
        while True:
            await asyncio.sleep(min(1.0, self._config.lease / 4))
            late = self._loop.time() - self._config.lease
            for key, session in list(self._sessions.items()):
                if session.used < late and not session.pending:
                    self._end(key, "expired")

    def _end(self, key: str, why: str) -> None:
        session = self._sessions.pop(key)
        session.tenant.sessions -= 1
        self._metrics.ended.labels(why).inc()
        session.slot.end(key, session.client)

    def _lose(self, sessions: set[str]) -> None:
        """Sessions ended with their worker. One in use ends when its call returns."""
        for key in sessions:
            session = self._sessions.get(key)
            if session is not None and session.pending is None:
                self._end(key, "lost")
