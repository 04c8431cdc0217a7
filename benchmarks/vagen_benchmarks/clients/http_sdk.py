"""What OpenAI's and Anthropic's APIs share: JSON over HTTP, to where the provider's SDK says and with its headers."""

from __future__ import annotations

import asyncio
import html
import json
import re
import ssl
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from vagen_benchmarks.clients.base import Answer, Client, Sampling, status_error
from vagen_benchmarks.endings import Stop, recognise
from vagen_benchmarks.errors import EndpointError
from vagen_envs.chat import Message

LARGEST_ANSWER = 32 * 2**20
"""Bytes; what is longer is no chat completion."""
LONGEST_CONNECT = 10.0
"""Seconds."""
_TITLE = re.compile(r"<title[^>]*>([^<]{0,200})", re.IGNORECASE)


class HttpSdkClient(Client):
    """A client over such an SDK.

    Requests are sent here and not by the SDK's own methods, which take 2 to 6 times the CPU, and by aiohttp: the SDKs'
    own HTTP library takes 1.4 ms of CPU for each asynchronous request at 16 in flight and 3.4 ms at 256 where
    aiohttp takes 0.35 and 0.41 (measured beside each other on two cores).

    Args:
        made: the SDK's client, which says where requests go by default and with which headers.
        base_url: where they go, if not there; may have a query.
        path: of the request, below the base URL.
        timeout: seconds for one request, from its beginning to the last byte of its answer.
        headers: further ones, over the SDK's.
    """

    def __init__(
        self, made: Any, base_url: str | None, path: str, timeout: float, headers: Mapping[str, str] | None
    ) -> None:
        parts = urlsplit(base_url or str(made.base_url))
        self.url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, fragment=""))
        given = {**made.default_headers, **made.auth_headers, **(headers or {})}
        self._headers = {name: value for name, value in given.items() if isinstance(value, str)}
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, LONGEST_CONNECT))
        self._trust = ssl.create_default_context() if parts.scheme == "https" else None
        self._session: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None = None

    async def close(self) -> None:
        """Cut what is under way."""
        if self._session is not None:
            await self._session[1].close()

    def _http(self) -> aiohttp.ClientSession:
        """The running loop's own session: connections don't leave their loop."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session[0] is not loop:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._trust if self._trust is not None else True)
            # No cookies: an episode must not depend on another.
            session = aiohttp.ClientSession(
                connector=connector, headers=self._headers, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
            self._session = (loop, session)
        return self._session[1]

    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        content = json.dumps(self._body(messages, sampling), separators=(",", ":")).encode()
        try:
            # A redirect would send the key, and pictures, to an address that nobody named.
            async with self._http().post(self.url, data=content, allow_redirects=False) as response:
                self.heard(response.headers)
                body = await _whole(response)
        except TimeoutError as error:
            raise EndpointError("timeout", "no whole answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EndpointError("unreachable", f"{type(error).__name__}: {error}") from error
        text = body.decode("utf-8-sig", errors="replace")
        if 300 <= response.status < 400:
            where = response.headers.get("location", "nowhere")
            raise EndpointError(
                "rejected", f"HTTP {response.status}: it redirects to {where:.200}", retry=False, status=response.status
            )
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            if response.status >= 400:
                raise _status_error(response, text, {}) from error
            raise EndpointError("nonsense", f"not an answer: {_seen(response, text)}") from error
        if response.status >= 400:
            raise _status_error(response, text, data)
        if isinstance(data, Mapping) and isinstance(data.get("error"), Mapping):  # proxies say so with a status of 200
            raise told_error(data["error"])
        try:
            return self._read(data)
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise EndpointError("nonsense", f"not an answer ({error!r}): {data!r:.300}") from error

    @abstractmethod
    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        """The request."""

    @abstractmethod
    def _read(self, data: Any) -> Answer:
        """The answer in a response. Raises TypeError, KeyError, IndexError or AttributeError if there is none."""


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises EndpointError if it doesn't end."""
    declared = response.content_length
    if declared is not None and declared <= LARGEST_ANSWER and "content-encoding" not in response.headers:
        return await response.read()
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise EndpointError("nonsense", f"not an answer: it is longer than {LARGEST_ANSWER} bytes", retry=False)
    return b"".join(pieces)


def _seen(response: aiohttp.ClientResponse, text: str) -> str:
    """What came instead of JSON, in words."""
    if text.lstrip().startswith("data:") or response.content_type == "text/event-stream":
        return "it is a stream of events, which nobody asked for"
    if title := _TITLE.search(text):
        return f"it is a web page, {html.unescape(title[1]).strip()!r}"
    return f"it is {response.content_type}: {text!r:.300}" if text else "it is empty"


def told_error(error: Mapping[str, Any]) -> EndpointError:
    """What an answer with a status of 200 says that is an error: by its `code`, where that is a status."""
    code, message = str(error.get("code")), str(error.get("message") or "an error without words")
    status = int(code) if re.fullmatch("[45][0-9]{2}", code) else None
    if status is not None:
        return status_error(status, message, {}, body=json.dumps(error))
    if ending := recognise(400, json.dumps(error)):
        return EndpointError(ending, message, retry=False)
    return EndpointError(Stop.SERVER_ERROR, f"an answer that is an error: {message}")


def _status_error(response: aiohttp.ClientResponse, text: str, data: Any) -> EndpointError:
    """What a response says that isn't a success: `{"error": {"message": …, "code": …}}` by custom."""
    error = data.get("error") if isinstance(data, Mapping) else None
    told = error if isinstance(error, Mapping) else {"message": error}
    page = _TITLE.search(text)
    message = told.get("message") or (html.unescape(page[1]).strip() if page else text) or response.reason or ""
    out_of_money = told.get("code") == "insufficient_quota"
    return status_error(response.status, str(message), response.headers, body=text, final=out_of_money)
