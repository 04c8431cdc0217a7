"""Who is connected, and who has to go: slow, silent and needless connections can't keep others out.

uvicorn bounds the bytes of a request's head and how long a connection may be idle, but not how long a head may take,
nor has it a place for those who may come in when it is full. So its protocols are told apart here by what they have
shown. A stranger has shown no key yet (or, where none is asked for, no whole request for a session); there is room for
a few, the longest there goes when another comes, so a flood of them passes by. A guest has, and can be pushed out by no
stranger; idle guests make room for others. `/healthz` is answered to strangers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import apply_mask
from websockets.protocol import State
from websockets.streams import StreamReader

from vagen_adapters.service.keys import Holder

SILENT_SECONDS = 5.0
"""In which a whole request head must have come, and what is left of a closed connection must have been read."""
STRANGERS = 256
"""At once. Enough for probes and handshakes: a stranger needs milliseconds; few enough that all of them together can't
hold up a turn for longer than some tens of milliseconds."""
ACCEPTED_AT_ONCE = 32
"""New connections between two looks at the others. asyncio takes as many as may queue, which takes a second; uvloop
one, so that each has to wait for as many looks as others wait before it."""
QUEUE = 4096
"""Connections that the kernel holds until they are taken in. One that finds it full is delayed by a second or more."""
AT_ONCE = 8192
"""Bytes of what a WebSocket said that are read between two looks at the others: frames of six take 20 µs each."""
BINARY, TEXT = 0x82, 0x81
"""The first byte of a message in one frame."""
FRAGMENTS = 4096
"""Of one message; our clients send one."""
WITHOUT_SOCKETS = 0.5
"""Seconds until the next try where the machine has no sockets left."""

Client = tuple[str, int]

log = logging.getLogger(__name__)


class Door:
    """The connections of a server.

    Args:
        most: guests at once.
        key_bytes: of a key's requests that have begun to come, and what else it holds.
        patience: seconds in which a stranger's request must have been answered.
        time: the clock.
        cut_off: told of each connection that is ended from here.
    """

    def __init__(
        self, most: int, key_bytes: int, patience: float, time: Callable[[], float],
        cut_off: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self._most, self.key_bytes, self._patience, self._time, self._cut_off = (
            most,
            key_bytes,
            patience,
            time,
            cut_off,
        )
        self._strangers: OrderedDict[Any, None] = OrderedDict()
        self._guests: OrderedDict[Any, None] = OrderedDict()
        self._since: dict[Any, float] = {}  # since when there has been no request, or the same one
        self._by_client: dict[Client, Any] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def open(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Take connections in, in the running loop, until it is told to watch the socket no more."""
        listening.setblocking(False)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening, protocol)

    def _accept(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                made, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # it is gone already
                continue
            except OSError:
                log.exception("no connection can be taken in; it is tried again")
                loop.remove_reader(listening)
                loop.call_later(WITHOUT_SOCKETS, self._again, listening, protocol)
                return
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(_connect(loop, protocol, made))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _again(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        if listening.fileno() >= 0:
            self.open(listening, protocol)

    def arrived(self, connection: Any) -> None:
        """Somebody is at the door."""
        self._since[connection] = self._time()
        self._by_client[connection.client] = connection
        self._strangers[connection] = None
        if len(self._strangers) > STRANGERS:
            self._abort(next(iter(self._strangers)))

    def gone(self, connection: Any) -> None:
        """A connection has ended, or is in other hands."""
        self._strangers.pop(connection, None)
        self._guests.pop(connection, None)
        self._since.pop(connection, None)
        known: Any = self._by_client.get(connection.client)
        if known is connection:
            del self._by_client[connection.client]

    def heard(self, connection: Any) -> None:
        """A request began or was answered."""
        if connection in self._since:
            self._since[connection] = self._time()

    def admit(self, client: Client, holder: Holder) -> bool:
        """Take a stranger in, who showed what it takes. False if there is no room."""
        connection = self._by_client.get(client)
        if connection is None or connection in self._guests:
            return True  # it is on its way out, or in
        if len(self._guests) >= self._most:
            idle = next((each for each in self._guests if _is_idle(each)), None)
            if idle is None:
                return False
            self._abort(idle)
        self._strangers.pop(connection, None)
        self._guests[connection] = None
        connection.holder = holder
        return True

    def read(self, connection: Any, size: int) -> bool:
        """Count bytes of a WebSocket's message that isn't complete. False if they are too many, and it is cut off."""
        connection.pending += size
        connection.holder.reading += size
        if connection.holder.reading + connection.holder.held <= self.key_bytes:
            return True
        self._abort(connection)
        return False

    def end(self, client: Client) -> None:
        """Cut a connection off."""
        connection = self._by_client.get(client)
        if connection is not None:
            self._abort(connection)

    def socket_of(self, client: Client) -> WebSockets | None:
        """The WebSocket of a client, if it is there."""
        connection = self._by_client.get(client)
        return connection if isinstance(connection, WebSockets) else None

    def now(self) -> float:
        """The clock."""
        return self._time()

    def look(self) -> None:
        """End those whose time is up. To be called about once a second."""
        now = self._time()
        for guest in list(self._guests):
            if isinstance(guest, WebSockets) and guest.unread_since and now - guest.unread_since > self._patience:
                self._abort(guest)
        for connection, since in list(self._since.items()):
            waits = _is_idle(connection) or connection.transport.is_closing()
            if now - since > (SILENT_SECONDS if waits else self._patience) and (waits or connection in self._strangers):
                self._abort(connection)

    def _abort(self, connection: Any) -> None:
        self._cut_off()
        self.gone(connection)
        connection.transport.abort()


async def _connect(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], made: socket.socket
) -> None:
    try:
        await loop.connect_accepted_socket(protocol, made)
    except OSError:  # it is gone already
        made.close()


def _is_idle(connection: Any) -> bool:
    """Whether an HTTP connection is between requests; a WebSocket has its pings."""
    return isinstance(connection, Http) and (connection.cycle is None or connection.cycle.response_complete)


class Http(H11Protocol):
    """uvicorn's protocol, which says at the door what happens to it. h11 bounds a head to 16 KiB."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.config.door.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.door.gone(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.config.door.heard(self)

    def on_response_complete(self) -> None:
        self.config.door.heard(self)
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        refused = self.config.refused_upgrade(self.scope)
        if refused is not None:
            self._refuse(*refused)
            return
        self.config.door.gone(self)
        super().handle_websocket_upgrade(event)

    def _refuse(self, status: int, body: bytes) -> None:
        """Here, since a WebSocket and the application take 1.2 ms to say the same, and this 0.5 ms."""
        length = str(len(body))
        headers = [("content-type", "application/json"), ("content-length", length), ("connection", "close")]
        head = h11.Response(status_code=status, reason=STATUS_PHRASES[status], headers=headers)
        for said in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(said) or b"")
        self.transport.close()


class WebSockets(WebSocketsSansIOProtocol):
    """The same for a WebSocket. Once somebody hears it, its messages don't go through the application any more."""

    frames: list[bytes]
    read_paused: bool
    _unparsed: bytearray
    _is_held = _is_behind = _is_between = False
    holder = Holder()  # nobody's, until it is admitted
    pending = 0
    hear: Callable[[bytes, bool], None] | None = None
    """Told each whole message, and whether it is text."""
    unread_since = 0.0
    """Since when the client doesn't read, by the door's clock; 0 while it does."""
    _once_read: list[Callable[[], object]]

    def connection_made(self, transport: Any) -> None:
        self._unparsed, self._once_read = bytearray(), []
        super().connection_made(transport)
        self.config.door.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.door.gone(self)
        self._read_up()
        super().connection_lost(exc)
        self._tell_read()

    def data_received(self, data: bytes) -> None:
        message = self._whole(data) if self._is_between else None
        if message is not None and self.hear is not None:
            self.hear(message, False)
            return
        self._is_between = False
        if self.handshake_complete and not self.config.door.read(self, len(data)):
            return
        self._unparsed += data
        if len(self._unparsed) == len(data):  # nobody is at it yet
            self._parse()

    def _parse(self) -> None:
        """A part of what came, and the others' turn: it may be thousands of frames of a few bytes."""
        data = bytes(self._unparsed[:AT_ONCE])
        if not self.disconnected and not self.transport.is_closing():
            super().data_received(data)
        del self._unparsed[: len(data)]
        if not self._unparsed:
            self._is_behind = False
            self._is_between = self.handshake_complete and _is_between_messages(self.conn)
            self._read_on(not self._is_held)
            return
        self._is_behind = True
        self._read_on(False)
        self.once_read(lambda: self.loop.call_soon(self._parse))  # what it doesn't read may be our answers to pings

    def _whole(self, data: bytes) -> bytes | None:
        """The message, if it came at once and in one binary frame, as nearly all do; the parser takes 30 µs for it."""
        size = len(data)
        if size < 6 or size > AT_ONCE or data[0] != BINARY or self.hear is None:
            return None
        if self.close_sent or self.conn.state is not State.OPEN:
            return None
        length, begin = data[1] - 0x80, 2  # the highest bit says that it is masked
        if length == 126:
            length, begin = int.from_bytes(data[2:4]), 4
        elif length > 126:
            return None
        if length < 0 or size != begin + 4 + length or length > self.config.ws_max_size:
            return None
        if self.holder.reading + self.holder.held + size > self.config.door.key_bytes:
            return None
        return apply_mask(data[begin + 4 :], data[begin : begin + 4])

    def handle_cont(self, event: Any) -> None:
        super().handle_cont(event)
        if len(self.frames) > FRAGMENTS:
            self.config.door.end(self.client)

    def send_receive_event_to_app(self) -> None:
        as_text = self.curr_msg_data_type == "text"
        if self.hear is None or self.close_sent:
            super().send_receive_event_to_app()
        elif as_text and not _is_text(self.frames):  # uvicorn does the same, and writes ten lines for it
            self.conn.send_close(1007)
            self.handle_parser_exception()
        else:
            message = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
            self.frames = []
            self.hear(message, as_text)
        self._read_up()

    def say(self, message: bytes, *, as_text: bool = False) -> None:
        """Send a message, unless the other end is gone."""
        if self.close_sent or self.disconnected or self.transport.is_closing() or self.conn.state is not State.OPEN:
            return
        size = len(message)
        if size < 126:
            head = struct.pack("!BB", TEXT if as_text else BINARY, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", TEXT if as_text else BINARY, 126, size)
        else:
            head = struct.pack("!BBQ", TEXT if as_text else BINARY, 127, size)
        frame = head + message
        # uvloop writes when all else that is to be done is done; a client that is written to at once can go on beside.
        if self.transport.get_write_buffer_size() == 0:
            with contextlib.suppress(OSError):  # it is full, or gone, which the transport finds, too
                frame = frame[os.write(self.transport.get_extra_info("socket").fileno(), frame) :]
        if frame:
            self.transport.write(frame)

    def once_read(self, told: Callable[[], object]) -> None:
        """Tell when the client has read most of what it was sent, which is at once for most, or is gone."""
        if self.writable.is_set():
            told()
            return
        self._once_read.append(told)
        self.unread_since = self.unread_since or self.config.door.now()

    def hold(self, on: bool) -> None:
        """Whether to read nothing from the client until it is told otherwise."""
        self._is_held = on
        self._read_on(not on and not self._is_behind)

    def _read_on(self, on: bool) -> None:
        if self.read_paused is on and not self.transport.is_closing():
            self.read_paused = not on
            (self.transport.resume_reading if on else self.transport.pause_reading)()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._tell_read()

    def _tell_read(self) -> None:
        waiting, self._once_read, self.unread_since = self._once_read, [], 0.0
        for told in waiting:
            told()

    def _read_up(self) -> None:
        self.holder.reading -= self.pending
        self.pending = 0


def _is_between_messages(conn: Any) -> bool:
    """Whether nothing of another message has come: the parser, a generator, waits for the first byte of a frame."""
    waits = conn.parser
    while waits.gi_yieldfrom is not None:
        waits = waits.gi_yieldfrom
    return waits.gi_code is StreamReader.at_eof.__code__ and conn.current_size is None


def _is_text(frames: Sequence[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True


class DoorConfig(uvicorn.Config):
    """uvicorn's configuration, which its protocols are given, with the door that they report to."""

    def __init__(
        self, app: Any, door: Door, refused_upgrade: Callable[[Any], tuple[int, bytes] | None], **options: Any
    ) -> None:
        super().__init__(app, http=Http, ws=WebSockets, **options)
        self.door = door
        self.refused_upgrade = refused_upgrade
        """The status and the JSON that somebody is refused with who asks for a WebSocket, by the request's scope."""
