"""The sessions of a server: their leases, the order of their moves, and answers that can be given again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from vagen_adapters.service.host import MOVES, OPENS, TOO_COSTLY, Answer, Call, Failure, Result
from vagen_adapters.service.keys import Holder
from vagen_adapters.service.messages import Refused, read_items
from vagen_adapters.service.metrics import Metrics, processor_seconds, resident
from vagen_adapters.service.pool import REMEMBERED, Pool
from vagen_envs.errors import did_you_mean
from vagen_envs.permission import Offers
from vagen_envs.registration import ENV_IDS

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """What a server allows.

    Attributes:
        env_ids: the environments that may be opened.
        max_sessions: at once; one more is refused as `full`.
        key_sessions: the same for each key; by default its share of `max_sessions`.
        key_bytes: of the requests that a key's clients are sending, and of its sessions' latest answers. A session or
            a connection that passes it ends.
        lease: seconds after its last request at which a session expires.
        linger: seconds after its connection was lost at which it does. Where room is needed it goes at once: its
            client can have it again, by replay.
        max_running: moves that workers may be at work on or wait for; one more is refused as `busy`.
        max_request: bytes of a request.
        max_items: items of a request.
        max_connections: at once; one more is refused.
        patience: seconds in which a client must have said what it wants, and have read what it is sent.
        grace: seconds that a server that was told to end waits for turns in progress.
        oracle: whether a client may ask for the oracle's reply.
        offers: values of options that clients may name beyond what is permitted; see `vagen_envs.permission`.
    """

    env_ids: Sequence[str] = ENV_IDS
    max_sessions: int = 1024
    key_sessions: int | None = None
    key_bytes: int = 1 << 30
    lease: float = 300.0
    linger: float = 30.0
    max_running: int = 4096
    max_request: int = 2 << 20
    max_items: int = 1024
    max_connections: int = 2048
    patience: float = 30.0
    grace: float = 30.0
    oracle: bool = False
    offers: Offers = field(default_factory=dict)


class Png:
    """A picture's PNG, held once however many sessions show it."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data


class Line:
    """A connection, who holds it, and the sessions that were last asked for over it."""

    __slots__ = ("holder", "keys")

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.keys: set[str] = set()


@dataclass(slots=True, eq=False)
class Session:
    """One client's environment.

    Attributes:
        env_id: of the environment.
        opened_as: what was asked when it was opened, as a digest.
        deadline: the loop's time at which it expires.
        opened: the answer to that.
        move: number of the last reset or step that was begun.
        asked: what that was, as a digest.
        answer: what came of it.
        mark: the latest answer's (see `host.Answer`), empty before the first.
        holder: whose it is.
        held: bytes of its latest answers and pictures.
        line: the connection over which it was last asked, None for plain requests and where that is gone.
        running: what the worker is doing for it, if anything.
        pngs: pictures of its latest answers.
    """

    env_id: str
    opened_as: bytes
    deadline: float
    opened: Result | None = None
    move: int = 0
    asked: bytes = b""
    answer: Result | None = None
    mark: str = ""
    holder: Holder = field(default_factory=Holder)
    held: int = 0
    line: Line | None = None
    running: asyncio.Future[Result] | None = None
    pngs: deque[Png] = field(default_factory=lambda: deque(maxlen=2))


class _Start(NamedTuple):
    """A call that is to be submitted now."""

    call: Call
    session: Session
    future: asyncio.Future[Result]
    began: float


class Sessions:
    """All sessions of a server, before a pool. Lives in the event loop's thread; made while the loop runs."""

    def __init__(self, pool: Pool, config: ServiceConfig, metrics: Metrics, holders: int = 1) -> None:
        self._pool, self._config, self._metrics = pool, config, metrics
        self._share = config.key_sessions or max(1, config.max_sessions // holders)
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[str, Session] = {}
        self._ended: OrderedDict[str, Failure] = OrderedDict()
        self._left: dict[str, Session] = {}  # whose connection is lost, in order
        self._pngs: WeakValueDictionary[str, Png] = WeakValueDictionary()
        self._running = 0
        self._requests = 0
        self.draining = False
        pool.on_lost = self._on_lost
        metrics.watch("sessions", "Sessions now", lambda: len(self._sessions))
        metrics.watch("running", "Calls that workers are at work on or that wait for one", lambda: self._running)
        metrics.watch("pictures", "Pictures held now", lambda: len(self._pngs))
        metrics.watch("workers", "Workers now", lambda: len(pool.hosts))
        metrics.watch("workers_resident_bytes", "Memory of the workers here", lambda: resident(pool.pids))
        metrics.watch("workers_cpu_seconds", "CPU time of the workers here", lambda: processor_seconds(pool.pids))
        metrics.watch("replaced_workers", "Workers that died and were replaced", lambda: pool.replaced)

    async def handle(self, do: Any, items: Any, holder: Holder, line: Line | None = None) -> list[Result]:
        """Carry out a request's items, beside each other. Raises Refused for the request as a whole."""
        if self.draining:
            raise Refused("shutting_down", "the server is ending; try again when it is back")
        return await self._carry_out(do, read_items(do, items, self._config.max_items), holder, line)

    async def _carry_out(self, do: str, items: Sequence[Any], holder: Holder, line: Line | None) -> list[Result]:
        begun = [self._begin(do, item, holder, line) for item in items]
        starts = [each for each in begun if isinstance(each, _Start)]
        if starts:
            for places, done in self._pool.submit([start.call for start in starts]):
                self._when_done([starts[i] for i in places], done)
        waiting = [each.future if isinstance(each, _Start) else each for each in begun]
        # A client that goes away cancels its own waiting only: the turn is played, and can be asked for again.
        results = [await asyncio.shield(each) if isinstance(each, asyncio.Future) else each for each in waiting]
        for result in results:
            if isinstance(result, Failure):
                self._metrics.failures.labels(result.code).inc()
        return results

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around everything from a request's arrival until its answer is sent."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    async def drain(self) -> None:
        """Take no more requests, and wait until those that there are have been answered, or the grace is over."""
        self.draining = True
        deadline = self._loop.time() + self._config.grace
        while (self._requests or self._running) and self._loop.time() < deadline:
            await asyncio.sleep(0.02)
        if self._requests or self._running:
            log.warning("%d call(s) were not finished within %g s", self._running, self._config.grace)

    def leave(self, line: Line) -> None:
        """A connection is gone: its sessions are kept for a while, or until others need the room."""
        until = self._loop.time() + self._config.linger
        for key in line.keys:
            session = self._sessions[key]
            session.line, session.deadline = None, min(session.deadline, until)
            self._left[key] = session

    def png(self, sha256: str) -> Png | None:
        """A picture that a session's latest answers show."""
        return self._pngs.get(sha256)

    def expire(self) -> None:
        """End the sessions whose lease is over."""
        now = self._loop.time()
        late = [key for key, each in self._sessions.items() if each.deadline < now and each.running is None]
        for key in late:
            self._end(key, "expired", f"the session expired {self._config.lease:g} s after its last request")
            self._pool.submit([Call(key, "close", {})])

    # -- the items of a request ------------------------------------------------------------------------

    def _begin(self, do: str, item: Any, holder: Holder, line: Line | None) -> Result | asyncio.Future[Result] | _Start:
        session = self._sessions.get(item.session)
        if session is not None and session.holder is not holder:
            return Failure("forbidden", "this session was opened with another key; open one of your own")
        if session is not None:
            self._heard(item.session, session, line)
        ended = self._ended.get(item.session)
        if ended is not None and not (do == OPENS and item.move is not None):
            return Answer(b"{}") if do == "close" and ended.code == "closed" else ended
        if do == OPENS:
            return self._begin_open(item, session, holder, line)
        if session is None:
            return Failure("unknown_session", f"no environment is open as session {item.session!r}; open one")
        if do == "renew":
            return Answer(json.dumps({"lease": self._config.lease}).encode())
        if do in MOVES:
            return self._begin_move(do, item, session)
        if session.running is not None:
            return Failure("out_of_order", f"move {session.move} of this session is still being played")
        if do == "close":
            self._end(item.session, "closed", "the session was closed by its client")
        elif not self._config.oracle:
            return Failure("forbidden", "this server doesn't show the oracle's replies; start it with --oracle")
        return self._start(do, item.session, session, {})

    def _heard(self, key: str, session: Session, line: Line | None) -> None:
        """It was asked for: its lease begins anew, and it belongs to the connection over which that came."""
        session.deadline = self._loop.time() + self._config.lease
        if session.line is line:
            return
        self._detach(key, session)
        session.line = line
        if line is not None:
            line.keys.add(key)

    def _detach(self, key: str, session: Session) -> None:
        self._left.pop(key, None)
        if session.line is not None:
            session.line.keys.discard(key)

    def _begin_open(
        self, item: Any, session: Session | None, holder: Holder, line: Line | None
    ) -> Result | asyncio.Future[Result] | _Start:
        digest = _digest(item.env_id, item.options)
        if session is not None:
            if session.opened_as != digest:
                return Failure("out_of_order", f"session {item.session!r} is open as something else; choose another id")
            if _is_there(session, item):
                return session.opened or session.running or Failure("lost", "the session is being opened no more")
            if session.running is not None:
                return asyncio.ensure_future(self._after(session.running, item, holder, line))
            self._remove(item.session)  # it is opened again in its own place
        if item.env_id not in self._config.env_ids:
            hint = did_you_mean(item.env_id, self._config.env_ids)
            return Failure("bad_config", f"unknown environment {item.env_id[:80]!r}.{hint}")
        if len(self._sessions) >= self._config.max_sessions and not self._make_room():
            return Failure("full", f"there are {len(self._sessions)} sessions, and no room for more")
        if holder.sessions >= self._share and not self._make_room(holder):
            return Failure("full", f"this key has {holder.sessions} sessions, as many as it may; close some")
        self._ended.pop(item.session, None)
        session = Session(item.env_id, digest, 0.0, move=item.move or 0, holder=holder)
        self._sessions[item.session] = session
        holder.sessions += 1
        self._heard(item.session, session, line)
        arguments = {"env_id": item.env_id, "options": item.options, "offers": self._config.offers}
        if item.replay is not None:
            arguments["replay"] = dict(item.replay)
            session.mark = item.replay.mark
            self._metrics.replays.inc()
        return self._start(OPENS, item.session, session, arguments)

    async def _after(self, running: asyncio.Future[Result], item: Any, holder: Holder, line: Line | None) -> Result:
        """Open a session again once it is done with what it is at."""
        await asyncio.wait([running])
        return (await self._carry_out(OPENS, [item], holder, line))[0]

    def _make_room(self, holder: Holder | None = None) -> bool:
        """End the session (of this key) whose connection has been lost for longest, if there is one."""
        for key, session in self._left.items():
            if session.running is None and (holder is None or session.holder is holder):
                self._end(key, "expired", "its connection was lost, and others needed the room")
                self._pool.submit([Call(key, "close", {})])
                return True
        return False

    def _begin_move(self, do: str, item: Any, session: Session) -> Result | asyncio.Future[Result] | _Start:
        arguments = {"reply": item.reply} if do == "step" else {"seed": item.seed, "split": item.split}
        after = item.after if do == "step" else None
        digest = _digest(do, after, arguments)
        if item.move == session.move:
            if digest != session.asked:
                return Failure("out_of_order", f"move {item.move} was something else; a repeat must say the same")
            self._metrics.repeats.inc()
            return session.running or session.answer or Failure("lost", "the session has ended")
        if item.move != session.move + 1:
            return Failure("out_of_order", f"move {item.move} of a session that expects {session.move + 1}")
        if after is not None and after != session.mark:
            return Failure("out_of_order", f"move {item.move} follows another answer than this session's last")
        if session.running is not None:
            return Failure("out_of_order", f"move {session.move} of this session is still being played")
        if self._running >= self._config.max_running:
            return Failure("busy", f"{self._running} calls are waiting for a worker; try again in a moment")
        session.move, session.asked, session.answer = item.move, digest, None
        return self._start(do, item.session, session, arguments)

    def _start(self, do: str, key: str, session: Session, arguments: dict[str, Any]) -> _Start:
        self._running += 1
        session.running = self._loop.create_future()
        return _Start(Call(key, do, arguments), session, session.running, self._loop.time())

    # -- what comes back ---------------------------------------------------------------------------------

    def _when_done(self, starts: Sequence[_Start], done: Future[list[Result]]) -> None:
        def tell(finished: Future[list[Result]]) -> None:
            self._loop.call_soon_threadsafe(self._arrived, starts, finished.result())

        done.add_done_callback(tell)

    def _arrived(self, starts: Sequence[_Start], results: Sequence[Result]) -> None:
        now = self._loop.time()
        for start, result in zip(starts, results, strict=True):
            self._running -= 1
            start.session.running = None
            keep = self._config.linger if start.call.session in self._left else self._config.lease
            start.session.deadline = now + keep
            start.future.set_result(self._noted(start, result, now))

    def _noted(self, start: _Start, result: Result, now: float) -> Result:
        """What is told of a result, after the session has taken note of it."""
        if isinstance(result, Failure) and result.code in ("lost", "unknown_session"):
            self._end(start.call.session, "lost", result.message)
            return Failure("lost", result.message)
        if isinstance(result, Failure) and result.code == TOO_COSTLY:
            self._end(start.call.session, result.code, result.message)
            self._ended[start.call.session] = Failure("closed", result.message)  # it may be opened again, and go on
            return result
        if start.call.do == OPENS:
            return self._opened(start.call.session, start.session, result)
        if start.call.do in MOVES:
            self._metrics.seconds.observe(now - start.began)
            return self._weighed(start.call.session, self._moved(start.session, start.call.do, result))
        return result

    def _opened(self, key: str, session: Session, result: Result) -> Result:
        if isinstance(result, Failure):
            if self._sessions.get(key) is session:
                self._remove(key)
            return result
        lease = json.dumps({"lease": self._config.lease}).encode()
        session.opened = Answer(lease[:-1] + b", " + result.body[1:])
        return self._weighed(key, session.opened)

    def _weighed(self, key: str, result: Result) -> Result:
        """What is told of an answer once its bytes are counted: that it was too much, if it was."""
        session = self._sessions.get(key)
        if session is None:
            return result
        answers = [each.body for each in (session.opened, session.answer) if isinstance(each, Answer)]
        held = sum(map(len, answers)) + sum(len(png.data) for png in session.pngs)
        session.holder.held += held - session.held
        session.held = held
        if session.holder.held <= self._config.key_bytes:
            return result
        why = (
            f"the session has ended: those of this key hold more than {self._config.key_bytes} bytes of answers; "
            "have fewer at a time or smaller pictures, or start the server with a larger --key-bytes"
        )
        self._end(key, TOO_COSTLY, why)
        self._ended[key] = Failure("closed", why)
        self._pool.submit([Call(key, "close", {})])
        return Failure(TOO_COSTLY, why)

    def _remove(self, key: str) -> Session | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._detach(key, session)
            session.holder.sessions -= 1
            session.holder.held -= session.held
        return session

    def _moved(self, session: Session, do: str, result: Result) -> Result:
        if isinstance(result, Answer):
            session.mark = result.mark
        if isinstance(result, Answer) and result.picture is not None:
            sha256, data = result.picture
            png = self._pngs.get(sha256)
            if png is None:
                png = self._pngs[sha256] = Png(data)
            session.pngs.append(png)
            # one copy of the bytes, however many sessions show it
            result = result._replace(picture=(sha256, png.data))
        session.answer = result
        self._metrics.moves.labels(session.env_id, do).inc()
        return result

    def _on_lost(self, sessions: list[str], cause: str) -> None:
        def end() -> None:
            for key in sessions:
                self._end(key, "lost", cause)

        self._loop.call_soon_threadsafe(end)

    def _end(self, key: str, code: str, why: str) -> None:
        if self._remove(key) is None:
            return
        self._metrics.ended.labels(code).inc()
        self._ended[key] = Failure(code, why)
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)


def _is_there(session: Session, item: Any) -> bool:
    """Whether the session that is to be opened is open already, at the move that is said."""
    if item.move is None:
        return True
    return session.move == item.move and session.mark == (item.replay.mark if item.replay is not None else "")


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
