"""The HTTP client that the providers' SDKs send with, and what happens to one request.

httpx2 is the SDKs' own HTTP library. It reads HTTPS_PROXY, ALL_PROXY (SOCKS with socksio) and
NO_PROXY by itself.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx2

from vagen_adapters.context import Message
from vagen_benchmarks.clients.base import Answer, Client, Sampling, encodable
from vagen_benchmarks.clients.responses import read_answer
from vagen_benchmarks.clients.transport_errors import proxy_of, transport_error, with_proxy
from vagen_benchmarks.errors import EndpointError, ProtocolError, TooLargeError

LONGEST_CONNECT = 10.0
"""Seconds."""
LARGEST_ANSWER = 32 * 2**20
"""Bytes after decompression; no chat completion is longer."""
KEPT = 15.0
"""Seconds an idle connection is kept: servers close theirs after a while, and a request may cross
that.
"""


def trusted_certificates() -> ssl.SSLContext:
    """The certificates to trust: SSL_CERT_FILE and SSL_CERT_DIR, REQUESTS_CA_BUNDLE, else the
    machine's.

    Raises:
        ProtocolError: the file isn't there or holds no certificates.
    """
    # requests' name for it, which httpx2 doesn't read
    bundle = os.environ.get("REQUESTS_CA_BUNDLE")
    file = os.environ.get("SSL_CERT_FILE")
    if file and not Path(file).is_file():
        raise ProtocolError(
            f"SSL_CERT_FILE={file} is no file; unset it or name a file of certificates"
        )
    if not bundle or file or os.environ.get("SSL_CERT_DIR"):
        return httpx2.create_ssl_context()
    try:
        if Path(bundle).is_dir():
            return ssl.create_default_context(capath=bundle)
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:
        raise ProtocolError(
            f"REQUESTS_CA_BUNDLE={bundle} can't be read: {error}; name a file of certificates"
        ) from error


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that reads whole answers, up to `LARGEST_ANSWER`, and follows no redirect.

    A redirect would send the key to an address that nobody named.
    """

    def __init__(self, timeout: float, trust: ssl.SSLContext) -> None:
        super().__init__(
            verify=trust,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT)),
            # The run's own concurrency is the limit; the SDKs' default pool of 1,000 would queue
            # beyond it.
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEPT
            ),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer. Raises TooLargeError for one that doesn't end."""
        # The SDKs ask for redirects where their caller says nothing.
        response = await super().send(
            request, **{**options, "stream": True, "follow_redirects": False}
        )
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > LARGEST_ANSWER:
                    raise TooLargeError(f"it is longer than {LARGEST_ANSWER} bytes")
                pieces.append(piece)
        finally:
            await response.aclose()
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name not in _PACKING
        ]
        return httpx2.Response(
            response.status_code, headers=headers, content=b"".join(pieces), request=request
        )


_PACKING = ("content-encoding", "content-length", "transfer-encoding")


class SdkClient(Client):
    """A client over a provider's SDK, which makes the request and sends it.

    Answers are read from the HTTP response, not from the SDK's types: many servers speak a
    provider's API loosely.

    Args:
        model: the provider's name of the model.
        key: the API key.
        base_url: the endpoint; None for the SDK's own address. A path that the SDK adds may be part
            of it.
        timeout: seconds for one request, from its beginning to the last byte of its answer.
        headers: further headers.

    Raises:
        ProtocolError: a proxy or a certificate file named by the environment can't be used.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str | None,
        timeout: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self._key = key
        self._url = base_url
        self._timeout = timeout
        self._headers = dict(headers or {})
        if self._is_plain:  # needs no certificates, wherever the environment says they are
            self._trust = httpx2.create_ssl_context(trust_env=False)
        else:
            self._trust = trusted_certificates()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: BoundedClient | None = None
        self._sdk: Any = None
        self._new_http()  # says now what is wrong with the environment's proxies

    @property
    def _is_plain(self) -> bool:
        """Whether requests are sent without TLS."""
        return (self._url or "").startswith("http:")

    def _new_http(self) -> BoundedClient:
        try:
            return BoundedClient(self._timeout, self._trust)
        except (ValueError, ImportError) as error:
            raise ProtocolError(
                f"a proxy of the environment can't be used: {error}; see HTTPS_PROXY and ALL_PROXY"
            ) from error

    def _of_loop(self) -> Any:
        """The running loop's SDK client: connections don't leave their loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._http = self._new_http()
            self._loop = loop
            self._sdk = self._make_sdk(self._http)
        return self._sdk

    async def close(self) -> None:
        if self._http is not None and self._loop is asyncio.get_running_loop():
            await self._http.aclose()
        self._loop = self._http = None

    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        sdk = self._of_loop()
        proxy = proxy_of(self._url)
        try:
            # httpx2's own limit begins anew with each byte.
            async with asyncio.timeout(self._timeout):
                response = await self._send(sdk, encodable(messages), sampling)
        except EndpointError:
            raise
        except Exception as error:
            raise transport_error(error, proxy) from error
        try:
            return read_answer(response, self._read)
        except EndpointError as error:
            # Without TLS the answer may be the proxy's own.
            if proxy and self._is_plain:
                raise with_proxy(error, proxy) from error.__cause__
            raise

    @abstractmethod
    def _make_sdk(self, http: httpx2.AsyncClient) -> Any:
        """The SDK's asynchronous client over an HTTP client, without retries of its own."""

    @abstractmethod
    async def _send(self, sdk: Any, messages: list[Message], sampling: Sampling) -> httpx2.Response:
        """Make one request. Errors of the connection are the SDK's or httpx2's."""

    @abstractmethod
    def _read(self, data: Any) -> Answer:
        """The answer in a response. Raises TypeError, KeyError, IndexError or AttributeError if
        there is none.
        """


class PostingClient(SdkClient):
    """A client over an SDK that posts any JSON to a path and returns the HTTP response."""

    sdk_class: ClassVar[Callable[..., Any]]
    status_errors: ClassVar[type[Exception]]
    """The SDK's exception for an HTTP status, which holds the response."""
    path: ClassVar[str]
    ends: ClassVar[tuple[str, ...]]
    """What the SDK adds to a base URL."""

    def _make_sdk(self, http: httpx2.AsyncClient) -> Any:
        url, query = split_url(self._url, *self.ends)
        return type(self).sdk_class(
            api_key=self._key or "none",  # servers of one's own need none, which SDKs refuse
            base_url=url,
            http_client=http,
            max_retries=0,
            default_headers=self._headers,
            default_query=query,
        )

    async def _send(self, sdk: Any, messages: list[Message], sampling: Sampling) -> httpx2.Response:
        body = self._body(messages, sampling)
        try:
            # The SDK's call for endpoints without types: any field may be sent, any answer comes
            # back.
            response: httpx2.Response = await sdk.post(
                self.path, body=body, cast_to=httpx2.Response
            )
        except self.status_errors as error:
            response = error.response  # type: ignore[attr-defined]
        return response

    @abstractmethod
    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        """The JSON of a request."""


def split_url(url: str | None, *endings: str) -> tuple[str | None, dict[str, str]]:
    """A base URL without what the SDK adds to it (`endings`), and its query."""
    if url is None:
        return None, {}
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for ending in endings:
        path = path.removesuffix(ending)
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), dict(parse_qsl(parts.query))
