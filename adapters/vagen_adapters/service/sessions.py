"""The sessions of a server: their leases, the order of their moves, and answers that can be given again."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from vagen_adapters.service.awake import Awake
from vagen_adapters.service.host import MOVES, OPENS, TOO_COSTLY, Answer, Call, Failure, Result
from vagen_adapters.service.keys import Holder
from vagen_adapters.service.messages import Refused, read_items
from vagen_adapters.service.metrics import Metrics, processor_seconds, resident
from vagen_adapters.service.pool import REMEMBERED, Pool
from vagen_envs.errors import did_you_mean
from vagen_envs.permission import Offers
from vagen_envs.registration import ENV_IDS

log = logging.getLogger(__name__)

SHORT = 1024
"""Characters of a reply that are kept as they are: a digest of them takes longer than all else that is compared."""


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


class Awaited:
    """A result that isn't there yet."""

    __slots__ = ("told",)

    def __init__(self) -> None:
        self.told: list[Callable[[Result], None]] = []
        """Who is told it, in order."""

    def is_here(self, result: Result) -> None:
        """Tell it."""
        for told in self.told:
            told(result)


class Running(Awaited):
    """A call of a session that a worker is at work on, or will be, and the loop's time at which it came."""

    __slots__ = ("began", "call", "session")

    def __init__(self, call: Call, session: Session, began: float) -> None:
        super().__init__()
        self.call, self.session, self.began = call, session, began


class _Gathered:
    """The results of a request, told together."""

    __slots__ = ("_left", "_results", "_told")

    def __init__(self, begun: Sequence[Result | Awaited], told: Callable[[list[Result]], None]) -> None:
        self._results: list[Any] = list(begun)
        self._left = 1
        self._told = told
        for i, each in enumerate(begun):
            if isinstance(each, Awaited):
                self._left += 1
                each.told.append(functools.partial(self._came, i))

    def _came(self, i: int, result: Result) -> None:
        self._results[i] = result
        self.told_if_all()

    def told_if_all(self) -> None:
        """Called once for each result that is waited for, and once when all have been asked for."""
        self._left -= 1
        if not self._left:
            self._told(self._results)


@dataclass(slots=True, eq=False)
class Session:
    """One client's environment.

    Attributes:
        env_id: of the environment.
        opened_as: what was asked when it was opened, as a digest.
        deadline: the loop's time at which it expires.
        opened: the answer to that.
        move: number of the last reset or step that was begun.
        asked: what that was.
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
    asked: Hashable = None
    answer: Result | None = None
    mark: str = ""
    holder: Holder = field(default_factory=Holder)
    held: int = 0
    line: Line | None = None
    running: Running | None = None
    pngs: deque[Png] = field(default_factory=lambda: deque(maxlen=2))


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
        self._thread = threading.get_ident()
        self._new: list[Running] = []  # that are to be submitted
        self._running = 0
        self._requests = 0
        self._awake = Awake()
        self._looks = self._is_looking = False  # for the answer to the only call
        self.draining = False
        pool.on_lost = self._on_lost
        pool.attend(self._loop)
        metrics.watch("sessions", "Sessions now", lambda: len(self._sessions))
        metrics.watch("running", "Calls that workers are at work on or that wait for one", lambda: self._running)
        metrics.watch("pictures", "Pictures held now", lambda: len(self._pngs))
        metrics.watch("workers", "Workers now", lambda: len(pool.hosts))
        metrics.watch("workers_resident_bytes", "Memory of the workers here", lambda: resident(pool.pids))
        metrics.watch("workers_cpu_seconds", "CPU time of the workers here", lambda: processor_seconds(pool.pids))
        metrics.watch("replaced_workers", "Workers that died and were replaced", lambda: pool.replaced)

    def ask(self, do: Any, items: Any, holder: Holder, line: Line | None, told: Callable[[list[Result]], None]) -> None:
        """Carry out a request's items, beside each other; `told` gets the results, perhaps before this returns.

        A client that goes away loses its answer only: the turn is played, and can be asked for again.

        Raises:
            Refused: the request as a whole.
        """
        if self.draining:
            raise Refused("shutting_down", "the server is ending; try again when it is back")
        self._carry_out(do, read_items(do, items, self._config.max_items), holder, line, told)

    async def handle(self, do: Any, items: Any, holder: Holder) -> list[Result]:
        """The same, for who waits."""
        results: asyncio.Future[list[Result]] = self._loop.create_future()
        self.ask(do, items, holder, None, lambda got: None if results.done() else results.set_result(got))
        return await results

    def _carry_out(
        self, do: str, items: Sequence[Any], holder: Holder, line: Line | None, told: Callable[[list[Result]], None]
    ) -> None:
        begun = [self._begin(do, item, holder, line) for item in items]
        new, self._new = self._new, []
        if len(begun) == 1 and len(new) == 1 and begun[0] is new[0]:  # most requests: what gathers others is spared
            new[0].told.append(lambda result: self._all_told(told, [result]))
            self._pool.submit([new[0].call], [functools.partial(self._came, new[0])], holder)
            return
        gathered = _Gathered(begun, functools.partial(self._all_told, told))
        if new:
            self._pool.submit(
                [each.call for each in new], [functools.partial(self._came, each) for each in new], holder
            )
        gathered.told_if_all()

    def _all_told(self, told: Callable[[list[Result]], None], results: list[Result]) -> None:
        for result in results:
            if isinstance(result, Failure):
                self._metrics.failures.labels(result.code).inc()
        told(results)

    def arrived(self) -> None:
        """A request is here."""
        self._requests += 1

    def answered(self) -> None:
        """Its answer is sent, or can't be."""
        self._requests -= 1

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around everything from a request's arrival until its answer is sent."""
        self.arrived()
        try:
            yield
        finally:
            self.answered()

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
            after = f"{self._config.lease:g} s after its last request"
            if key in self._left:
                after = f"{self._config.linger:g} s after its connection was lost"
            self._end(key, "expired", f"the session expired {after}")
            self._close(key)

    # -- the items of a request ------------------------------------------------------------------------

    def _begin(self, do: str, item: Any, holder: Holder, line: Line | None) -> Result | Awaited:
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
        if session.line is line and key not in self._left:
            return
        self._detach(key, session)
        session.line = line
        if line is not None:
            line.keys.add(key)

    def _detach(self, key: str, session: Session) -> None:
        self._left.pop(key, None)
        if session.line is not None:
            session.line.keys.discard(key)

    def _begin_open(self, item: Any, session: Session | None, holder: Holder, line: Line | None) -> Result | Awaited:
        digest = _digest(item.env_id, item.options)
        if session is not None:
            if session.opened_as != digest:
                return Failure("out_of_order", f"session {item.session!r} is open as something else; choose another id")
            if _is_there(session, item):
                return session.opened or session.running or Failure("lost", "the session is being opened no more")
            if session.running is not None:
                return self._after(session.running, item, holder, line)
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

    def _after(self, running: Running, item: Any, holder: Holder, line: Line | None) -> Awaited:
        """Open a session again once it is done with what it is at."""
        opened = Awaited()
        running.told.append(
            lambda _: self._carry_out(OPENS, [item], holder, line, lambda results: opened.is_here(results[0]))
        )
        return opened

    def _make_room(self, holder: Holder | None = None) -> bool:
        """End the session (of this key) whose connection has been lost for longest, if there is one."""
        for key, session in self._left.items():
            if session.running is None and (holder is None or session.holder is holder):
                self._end(key, "expired", "its connection was lost, and others needed the room")
                self._close(key)
                return True
        return False

    def _begin_move(self, do: str, item: Any, session: Session) -> Result | Awaited:
        arguments = {"reply": item.reply} if do == "step" else {"seed": item.seed, "split": item.split}
        after = item.after if do == "step" else None
        asked = _asked(do, after, arguments)
        if item.move == session.move:
            if asked != session.asked:
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
        session.move, session.asked, session.answer = item.move, asked, None
        return self._start(do, item.session, session, arguments)

    def _start(self, do: str, key: str, session: Session, arguments: dict[str, Any]) -> Running:
        self._running += 1
        if self._running == 1:
            self._wait_for_it()
        session.running = running = Running(Call(key, do, arguments), session, self._loop.time())
        self._new.append(running)
        return running

    def _wait_for_it(self) -> None:
        """While one call is out the loop goes round instead of sleeping, where that is nobody's loss."""
        self._looks = self._awake.begin()
        if self._looks and not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Once a round, beside all else that there is to do."""
        self._looks = self._is_looking = self._looks and self._running == 1 and self._awake.look()
        if self._looks:
            self._loop.call_soon(self._look)

    # -- what comes back ---------------------------------------------------------------------------------

    def _came(self, running: Running, result: Result) -> None:
        """From a worker, in any thread."""
        if threading.get_ident() == self._thread:
            self._arrived(running, result)
        else:
            self._loop.call_soon_threadsafe(self._arrived, running, result)

    def _arrived(self, running: Running, result: Result) -> None:
        now = self._loop.time()
        self._running -= 1
        if not self._running:
            self._awake.end(awake=self._looks)
        running.session.running = None
        keep = self._config.linger if running.call.session in self._left else self._config.lease
        running.session.deadline = now + keep
        running.is_here(self._noted(running, result))
        if running.call.do in MOVES and isinstance(result, Answer):  # counted once the answer is on its way
            self._metrics.moved(running.session.env_id, running.call.do, now - running.began)

    def _noted(self, start: Running, result: Result) -> Result:
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
            return self._weighed(start.call.session, self._moved(start.session, result))
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
        held = 0
        for each in (session.opened, session.answer):
            if type(each) is Answer:
                held += len(each.body)
        for png in session.pngs:
            held += len(png.data)
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
        self._close(key)
        return Failure(TOO_COSTLY, why)

    def _close(self, key: str) -> None:
        """Free what a worker has for a session that has ended here."""
        self._pool.submit([Call(key, "close", {})], [lambda _: None])

    def _remove(self, key: str) -> Session | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._detach(key, session)
            session.holder.sessions -= 1
            session.holder.held -= session.held
        return session

    def _moved(self, session: Session, result: Result) -> Result:
        if isinstance(result, Answer):
            session.mark = result.mark
            if result.picture is not None:
                sha256, data = result.picture
                png = self._pngs.get(sha256)
                if png is None:
                    png = self._pngs[sha256] = Png(data)
                else:  # one copy of the bytes, however many sessions show it
                    result = result._replace(picture=(sha256, png.data))
                session.pngs.append(png)
        session.answer = result
        return result

    def _on_lost(self, sessions: list[str], cause: str) -> None:
        def end() -> None:
            for key in sessions:
                self._end(key, "lost", cause)

        if threading.get_ident() == self._thread:
            end()  # before who asks next opens them again
        else:
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


def _asked(do: str, after: str | None, arguments: dict[str, Any]) -> Hashable:
    """To tell a move that is said again from another one: what was said, or its digest where that is shorter."""
    reply = arguments.get("reply", "")
    return (do, after, *arguments.values()) if len(reply) <= SHORT else _digest(do, after, arguments)


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
