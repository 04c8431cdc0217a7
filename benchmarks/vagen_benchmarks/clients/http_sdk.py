"""What OpenAI's and Anthropic's APIs share: JSON over HTTP, to where the provider's SDK says and with its headers."""

from __future__ import annotations

import asyncio
import codecs
import functools
import html
import json
import re
import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from vagen_adapters.quick_json import read, written
from vagen_benchmarks.clients.base import Answer, Client, Sampling, in_a_line, status_error
from vagen_benchmarks.clients.http_exchange import Exchange, GarbledError, Response, TooLargeError
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop, recognise, stays
from vagen_envs.chat import Message

LONGEST_CONNECT = 10.0
"""Seconds."""
_TITLE = re.compile(r"<title[^>]*>([^<]{0,200})", re.IGNORECASE)


class HttpSdkClient(Client):
    """A client over such an SDK.

    Requests are sent here and not by the SDK's own methods, which take 2 to 6 times the CPU, nor by their HTTP library,
    which takes 1.4 ms of CPU for each asynchronous request at 16 in flight and 3.4 ms at 256; see `http_exchange`.

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
        self.url = urlunsplit(parts._replace(path=_below(parts.path, path), fragment=""))
        given = {**made.default_headers, **made.auth_headers, **(headers or {})}
        self._headers = {name: value for name, value in given.items() if isinstance(value, str)}
        self._timeout = timeout
        self._trust = ssl.create_default_context() if parts.scheme == "https" else None
        self._exchange: tuple[asyncio.AbstractEventLoop, Exchange] | None = None

    async def close(self) -> None:
        """Cut what is under way."""
        if self._exchange is not None:
            self._exchange[1].close()

    def _http(self) -> Exchange:
        """The running loop's own: connections don't leave their loop. Knows no cookies, follows no redirect."""
        loop = asyncio.get_running_loop()
        if self._exchange is None or self._exchange[0] is not loop:
            connect = min(self._timeout, LONGEST_CONNECT)
            self._exchange = loop, Exchange(self.url, self._headers, self._timeout, connect, self._trust)
        return self._exchange[1]

    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        write = functools.partial(written, self._body(messages, sampling))
        try:
            response = await self._http().post(write)
        except TimeoutError as error:
            raise EndpointError("timeout", "no whole answer in time") from error
        except TooLargeError as error:
            raise EndpointError("nonsense", f"not an answer: {error}", retry=False) from error
        except GarbledError as error:
            raise EndpointError("nonsense", str(error)) from error
        except (OSError, ValueError) as error:
            raise EndpointError("unreachable", f"{type(error).__name__}: {error}") from error
        self.heard(response.headers)
        return answered(response, self._read)

    @abstractmethod
    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        """The request."""

    @abstractmethod
    def _read(self, data: Any) -> Answer:
        """The answer in a response. Raises TypeError, KeyError, IndexError or AttributeError if there is none."""


def _below(base: str, path: str) -> str:
    """A path below that of a base URL, which may hold it already, or its version."""
    base = base.rstrip("/")
    if base.endswith(path):
        return base
    version = "/v1"
    return base + (path.removeprefix(version) if base.endswith(version) else path)


def answered(response: Response, reader: Callable[[Any], Answer]) -> Answer:
    """What `reader` makes of the JSON of a response.

    Raises:
        EndpointError: it says an error, or isn't JSON, or not what the reader reads.
    """
    text = response.body.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    if 300 <= response.status < 400:
        where = response.headers.get("location", "nowhere")
        raise EndpointError(
            "rejected", f"HTTP {response.status}: it redirects to {where:.200}", retry=False, status=response.status
        )
    try:
        data = read(text)
    except (ValueError, RecursionError) as error:
        if response.status >= 400:
            raise _status_error(response, text, {}) from error
        raise EndpointError("nonsense", f"not an answer: {_seen(response, text)}") from error
    if response.status >= 400:
        raise _status_error(response, text, data)
    said = _error_in(data) if isinstance(data, Mapping) else None  # proxies say so with a status of 200
    if said is not None:
        raise told_error(said)
    try:
        return reader(data)
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise EndpointError("nonsense", f"not an answer ({error!r}): {in_a_line(text):.300}") from error


def _seen(response: Response, text: str) -> str:
    """What came instead of JSON, in words."""
    if text.lstrip().startswith("data:") or response.content_type == "text/event-stream":
        return "it is a stream of events, which nobody asked for"
    if title := _TITLE.search(text):
        return f"it is a web page, {html.unescape(title[1]).strip()!r}"
    packed = response.headers.get("content-encoding", "identity").lower()
    if packed not in ("identity", "gzip", "x-gzip", "deflate"):
        return f"it is packed as {packed:.40}, for which nobody asked"
    return f"it is {response.content_type}: {text!r:.300}" if text else "it is empty"


def _error_in(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What an answer says that is none."""
    error = data.get("error")
    if data.get("object") == "error":
        error = data
    elif isinstance(error, str) and error and not data.keys() & {"choices", "content", "candidates"}:
        error = {"message": error}
    told = data.get("base_resp")  # MiniMax's
    if not error and isinstance(told, Mapping) and told.get("status_code") and not data.get("choices"):
        error = {"message": f"{told.get('status_msg')} ({told['status_code']})"}
    return error if isinstance(error, Mapping) and error else None


def told_error(error: Mapping[str, Any]) -> EndpointError:
    """What an answer with a status of 200 says that is an error: by its `code`, where that is a status."""
    code, message = str(error.get("code")), in_a_line(_words(error) or "an error without words")
    body = json.dumps(error)
    status = int(code) if re.fullmatch("[45][0-9]{2}", code) else None
    if status is not None:
        return status_error(status, message, {}, body=body)
    if ending := recognise(400, body):
        return EndpointError(ending, message, retry=False)
    if stays(body):
        return EndpointError(Stop.REJECTED, message, retry=False)
    return EndpointError(Stop.SERVER_ERROR, f"an answer that is an error: {message}")


def _status_error(response: Response, text: str, data: Any) -> EndpointError:
    """What a response says that isn't a success."""
    page = _TITLE.search(text)
    message = _words(data) or (html.unescape(page[1]) if page else text) or response.reason
    return status_error(response.status, message, response.headers, body=text)


def _words(data: Any, depth: int = 4) -> str:
    """What an error says in words, wherever it says so: `{"error": {"message": …}}` by custom."""
    if depth == 0 or isinstance(data, str):
        return data if isinstance(data, str) else ""
    if isinstance(data, list):
        return "; ".join(filter(None, (_words(each, depth - 1) for each in data[:3])))
    if not isinstance(data, Mapping):
        return ""
    names = ("error", "message", "msg", "detail", "errors", "error_description")
    said = next((words for name in names if (words := _words(data.get(name), depth - 1))), "")
    if said and isinstance(data.get("loc"), list):  # pydantic's
        said = f"{'.'.join(map(str, data['loc']))}: {said}"
    raw = data.get("metadata")  # OpenRouter's, of the provider behind it
    behind = raw.get("raw") if isinstance(raw, Mapping) else None
    return f"{said}: {behind}" if said and isinstance(behind, str) else said
