"""Errors for what kept an answer from coming: the connection, a proxy, an answer that isn't one."""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from vagen_benchmarks.errors import EndpointError, TooLargeError
from vagen_benchmarks.stop_reasons import Stop


def proxy_of(url: str | None) -> str:
    """Host and port of the proxy that the environment names for an address; empty without one."""
    parts = urlsplit(url or "https://api.openai.com")
    if proxy_bypass(parts.hostname or ""):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return urlsplit(proxy).netloc.rpartition("@")[2] or proxy


def with_proxy(error: EndpointError, proxy: str) -> EndpointError:
    """An error that came over a proxy and may be the proxy's, with its name."""
    if error.status == 407:
        return EndpointError("proxy", f"the proxy {proxy} refuses: {error}", status=407)
    if error.kind is Stop.PROXY or error.status in (502, 503):
        error.args = (f"{error} (by the proxy {proxy})",)
    return error


def transport_error(error: BaseException, proxy: str = "") -> Exception:
    """An EndpointError for what kept an answer from coming; other errors as they are.

    SDKs wrap what happened in an error of theirs, whose cause says it. `proxy` is the one on the
    way.
    """
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    for each in chain:
        message = f"{type(each).__name__}: {each}" if str(each) else type(each).__name__
        if isinstance(each, TooLargeError):
            return EndpointError("nonsense", f"not an answer: {each}", retry=False)
        is_timeout = isinstance(each, TimeoutError | httpx2.TimeoutException)
        if is_timeout and not isinstance(each, httpx2.ConnectTimeout):
            return EndpointError("timeout", "no whole answer in time")
        if isinstance(each, httpx2.DecodingError):
            return EndpointError("nonsense", f"not an answer: it can't be unpacked: {each}")
        is_closed = re.search("disconnected|closed connection", message) is not None
        if isinstance(each, httpx2.RemoteProtocolError) and not is_closed:
            return EndpointError("nonsense", f"not an answer in HTTP: {each}")
        if isinstance(each, httpx2.ProxyError):
            return EndpointError("proxy", f"the proxy {proxy} refuses: {each}")
        if isinstance(each, httpx2.TransportError | httpx2.InvalidURL | OSError):
            way = f" (by the proxy {proxy})" if proxy else ""
            return EndpointError("unreachable", (_root(each) or message) + way)
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def _root(error: BaseException) -> str:
    """The operating system's message, which the HTTP library hides behind "All connection attempts
    failed".
    """
    words = ""
    cause: BaseException | None = error
    while cause is not None:
        cause = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
        if isinstance(cause, OSError) and cause.strerror:
            words = f"{type(cause).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return words
