"""An HTTP response as an answer, or as the error that it means."""

from __future__ import annotations

import codecs
import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from vagen_benchmarks.clients.base import Answer, in_a_line, status_error
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.redaction import redact
from vagen_benchmarks.stop_reasons import Stop, is_permanent, recognise

_TITLE = re.compile(r"<title[^>]*>([^<]{0,200})", re.IGNORECASE)


def read_answer(response: httpx2.Response, reader: Callable[[Any], Answer]) -> Answer:
    """What `reader` makes of the JSON of a response.

    Raises:
        EndpointError: it says an error, or isn't JSON, or not what the reader reads.
    """
    # Before anything is cut to a length, which would leave a part of a key that is no longer known
    # as one.
    text = redact(response.content.removeprefix(codecs.BOM_UTF8).decode(errors="replace"))
    status = response.status_code
    if 300 <= status < 400:
        where = redact(response.headers.get("location", "nowhere"))
        raise EndpointError(
            "rejected", f"HTTP {status}: it redirects to {where:.200}", retry=False, status=status
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if status >= 400:
            raise _status_error(response, text, {}) from error
        raise EndpointError("nonsense", f"not an answer: {_seen(response, text)}") from error
    if status >= 400:
        raise _status_error(response, text, data)
    # Proxies report errors with a status of 200.
    message = _error_in(data) if isinstance(data, Mapping) else None
    if message is not None:
        raise error_of(message)
    try:
        return reader(data)
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise EndpointError(
            "nonsense", f"not an answer ({error!r}): {in_a_line(text):.300}"
        ) from error


def _seen(response: httpx2.Response, text: str) -> str:
    """What came instead of JSON, in words."""
    kind = (
        response.headers.get("content-type", "application/octet-stream")
        .partition(";")[0]
        .strip()
        .lower()
    )
    if text.lstrip().startswith("data:") or kind == "text/event-stream":
        return "it is a stream of events, which nobody asked for"
    if title := _TITLE.search(text):
        return f"it is a web page, {html.unescape(title[1]).strip()!r}"
    return f"it is {kind}: {text!r:.300}" if text else "it is empty"


def _error_in(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What an answer says that is none."""
    error = data.get("error")
    if data.get("object") == "error":
        error = data
    elif (
        isinstance(error, str) and error and not data.keys() & {"choices", "content", "candidates"}
    ):
        error = {"message": error}
    told = data.get("base_resp")  # MiniMax's
    if (
        not error
        and isinstance(told, Mapping)
        and told.get("status_code")
        and not data.get("choices")
    ):
        error = {"message": f"{told.get('status_msg')} ({told['status_code']})"}
    return error if isinstance(error, Mapping) and error else None


def error_of(error: Mapping[str, Any]) -> EndpointError:
    """What an answer with a status of 200 says that is an error: by its `code`, where that is a
    status.
    """
    code = str(error.get("code"))
    message = in_a_line(_words(error) or "an error without words")
    body = json.dumps(error)
    if re.fullmatch("[45][0-9]{2}", code):
        return status_error(int(code), message, {}, body=body)
    if (ending := recognise(400, body)) or is_permanent(body):
        return EndpointError(ending or Stop.REJECTED, message, retry=False)
    return EndpointError(Stop.SERVER_ERROR, f"an answer that is an error: {message}")


def _status_error(response: httpx2.Response, text: str, data: Any) -> EndpointError:
    page = _TITLE.search(text)
    message = _words(data) or (html.unescape(page[1]) if page else text) or response.reason_phrase
    return status_error(response.status_code, message, response.headers, body=text)


def _words(data: Any, depth: int = 4) -> str:
    """The message of an error, wherever it stands: `{"error": {"message": …}}` by custom."""
    if depth == 0 or isinstance(data, str):
        return data if isinstance(data, str) else ""
    if isinstance(data, list):
        return "; ".join(filter(None, (_words(each, depth - 1) for each in data[:3])))
    if not isinstance(data, Mapping):
        return ""
    names = ("error", "message", "msg", "detail", "errors", "error_description")
    message = next((words for name in names if (words := _words(data.get(name), depth - 1))), "")
    if message and isinstance(data.get("loc"), list):  # pydantic's
        message = f"{'.'.join(map(str, data['loc']))}: {message}"
    raw = data.get("metadata")  # OpenRouter's, of the provider behind it
    behind = raw.get("raw") if isinstance(raw, Mapping) else None
    return f"{message}: {behind}" if message and isinstance(behind, str) else message
