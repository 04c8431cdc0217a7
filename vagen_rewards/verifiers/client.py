"""Asks a verifier service, many samples at a time, and again where it fails."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import VerifierError, VerifierServiceError
from vagen_rewards.scores import wait_for
from vagen_rewards.verifiers.base import SCORING
from vagen_rewards.verifiers.detection import PICTURE_SIZE


class VerifierClient:
    """Scores samples by a service, with the same results as `score_many`.

    A request that fails (nothing listens, the connection breaks, a status of 408, 429 or 5xx, an
    answer that isn't one) is sent again with growing waits. Scoring is a pure function, so that is
    always safe.

    Args:
        address: of the service, such as `http://127.0.0.1:8420`.
        batch: most samples in a request.
        concurrency: most requests in flight.
        attempts: for one request, before `score_many` raises.
        timeout: seconds for one request.
        wait: seconds before the second attempt; doubled each time, at most 10.

    Raises:
        MissingExtraError: httpx2 or tenacity isn't installed.
        VerifierError: an option is out of range.
    """

    most_bytes = 4 << 20
    """Of a request's items; the service takes twice as much."""

    def __init__(
        self,
        address: str,
        *,
        batch: int = 256,
        concurrency: int = 8,
        attempts: int = 6,
        timeout: float = 120.0,
        wait: float = 0.2,
    ) -> None:
        try:
            import httpx2
            import tenacity
        except ImportError as error:
            raise MissingExtraError(
                "the verifier client", "verify", error.name or "httpx2"
            ) from error
        if not address.startswith(("http://", "https://")):
            raise VerifierError(
                f"address={address!r} is not valid: it must begin with http:// or https://"
            )
        if min(batch, concurrency, attempts) < 1 or timeout <= 0 or wait < 0:
            raise VerifierError(
                "batch, concurrency and attempts must be at least 1, timeout above 0, wait at "
                "least 0"
            )
        self._http = httpx2
        self._tenacity = tenacity
        self.address = address.rstrip("/")
        self._batch = batch
        self._concurrency = concurrency
        self._attempts = attempts
        self._timeout = timeout
        self._wait = wait

    async def score_many(
        self, samples: Sequence[Sample], responses: Sequence[str], iou_threshold: float = 0.85
    ) -> list[VerifierResult]:
        """Score responses, in order. What the service can't score is an unscored verdict.

        Raises:
            VerifierError: there are not as many responses as samples, or the service refuses the
                request.
            VerifierServiceError: the service can't be reached, after all attempts.
        """
        if len(samples) != len(responses):
            raise VerifierError(
                f"{len(samples)} samples and {len(responses)} responses; give one response a sample"
            )
        slots = asyncio.Semaphore(self._concurrency)
        async with self._http.AsyncClient(timeout=self._timeout) as session:

            async def ask(items: list[bytes]) -> list[VerifierResult]:
                async with slots:
                    return await self._ask(session, items, iou_threshold)

            told = await asyncio.gather(
                *(ask(items) for items in self._batches(samples, responses))
            )
        return [verdict for batch in told for verdict in batch]

    def score_many_sync(
        self, samples: Sequence[Sample], responses: Sequence[str], iou_threshold: float = 0.85
    ) -> list[VerifierResult]:
        """Call `score_many` from synchronous code, with or without a running event loop."""
        return wait_for(self.score_many(samples, responses, iou_threshold))

    def _batches(
        self, samples: Sequence[Sample], responses: Sequence[str]
    ) -> Iterator[list[bytes]]:
        items: list[bytes] = []
        size = 0
        for sample, response in zip(samples, responses, strict=True):
            # The verifiers look at truth, parameters and the picture's size; neither pictures nor
            # their facts are sent.
            told = {PICTURE_SIZE: [*sample.images[0].size]} if sample.images else {}
            row = {**sample.to_row(images=False), "extra_info": told}
            item = json.dumps({"sample": row, "response": response}).encode()
            if items and (len(items) == self._batch or size + len(item) > self.most_bytes):
                yield items
                items = []
                size = 0
            items.append(item)
            size += len(item)
        if items:
            yield items

    async def _ask(
        self, session: Any, items: list[bytes], threshold: float
    ) -> list[VerifierResult]:
        body = b'{"iou_threshold": %s, "items": [%s]}' % (
            json.dumps(threshold).encode(),
            b",".join(items),
        )
        retrying = self._tenacity.AsyncRetrying(
            stop=self._tenacity.stop_after_attempt(self._attempts),
            wait=self._tenacity.wait_exponential(multiplier=self._wait, max=10),
            retry=self._tenacity.retry_if_exception_type(_FailedError),
            reraise=True,
        )
        try:
            told: list[VerifierResult] = await retrying(self._once, session, body, len(items))
        except _FailedError as error:
            raise VerifierServiceError(
                f"the verifier service at {self.address} failed {self._attempts} times, the last "
                f"time so: {error}; see whether it runs, and start it again"
            ) from error
        return told

    async def _once(self, session: Any, body: bytes, count: int) -> list[VerifierResult]:
        try:
            answer = await session.post(
                f"{self.address}/score", content=body, headers={"content-type": "application/json"}
            )
        except (self._http.HTTPError, self._http.InvalidURL, OSError) as error:
            raise _FailedError(f"{type(error).__name__}: {error}") from error
        if answer.status_code in (408, 429) or answer.status_code >= 500:
            raise _FailedError(f"status {answer.status_code}: {answer.text[:200]}")
        if answer.status_code != 200:
            raise VerifierError(
                f"the verifier service refuses the request ({answer.status_code}): "
                f"{answer.text[:300]}"
            )
        try:
            verdicts = [VerifierResult(**each) for each in answer.json()["verdicts"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _FailedError(
                f"an answer that isn't one ({type(error).__name__}: {error})"
            ) from error
        if len(verdicts) != count:
            raise _FailedError(f"{len(verdicts)} verdicts for {count} items")
        return verdicts


SERVICE_ADDRESS = "VAGEN_VERIFIERS"
"""The environment variable with the address of the service that `SERVICE` asks."""


class _ByService:
    """The verifiers of a running service, as `vagen/Sample-v0` finds them."""

    def __init__(self) -> None:
        self._clients: dict[str, VerifierClient] = {}

    def prepare(self) -> None:
        """Raises VerifierError without an address, MissingExtraError without the client's
        libraries.
        """
        self._client()

    def _client(self) -> VerifierClient:
        address = os.environ.get(SERVICE_ADDRESS, "")
        if not address:
            raise VerifierError(
                f"scoring by a service needs its address; set {SERVICE_ADDRESS}, such as "
                "http://127.0.0.1:8420"
            )
        if address not in self._clients:
            self._clients[address] = VerifierClient(address)
        return self._clients[address]

    def score(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        return self._client().score_many_sync([sample], [response], iou_threshold)[0]

    def reference(self, sample: Sample) -> str:
        return SCORING.reference(sample)


SERVICE = _ByService()
"""For the option `scoring` of `vagen/Sample-v0`: `vagen_rewards.verifiers.client:SERVICE`."""


class _FailedError(Exception):
    """An attempt failed in a way that another may not."""
