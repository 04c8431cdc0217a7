"""The judge that asks a language model (VAGEN, appendix D.1)."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from vagen_rewards.errors import JudgeConfigError, MissingExtraError
from vagen_rewards.llm.cache import ReplyCache, key_of
from vagen_rewards.llm.endpoint import Endpoint, key_for
from vagen_rewards.llm.extract import facts_in
from vagen_rewards.llm.verdicts import JudgePrompts, read_object, read_verdict
from vagen_rewards.reader import Claim, Reading, mark
from vagen_rewards.rule_judge import RuleJudge
from vagen_rewards.scores import Judge, Score, Statement, wait_for
from vagen_rewards.usage import Price, Spending

_REASONS = re.compile(r"(?:.*/)?(?:gpt-5|o\d)", re.IGNORECASE)
"""Models that take neither a temperature nor `max_tokens`; their hidden reasoning counts as
completion.
"""
_REFUSED = re.compile(r"(?s)400.*(?:max_tokens|temperature)")


class LLMJudge(Judge):
    """Asks a model at an OpenAI-compatible endpoint. A judge that failed gives an unscored `Score`.

    In structured mode it also reads: the claims that the model extracted can be weighed by what
    they tell. A reply that is cut, fenced or a page of HTML where a verdict was asked for is asked
    for again, three times in all.

    Args:
        model: the endpoint's name of the model; the paper's is `gpt-4.1-nano`.
        mode: `"direct"`: the model says YES or NO (appendix D.1.1). `"structured"`: the model only
            turns the text into a dictionary, which is compared with the truth here, by F1 (appendix
            D.1.2).
        base_url: as in the OpenAI SDK; `OPENAI_BASE_URL` by default.
        api_key: by default `OPENAI_API_KEY`, unless `base_url` names another host than OpenAI's.
        key_from: the environment variable of the key, which is sent to whatever `base_url` names.
        temperature: 0.1 in the paper's released code.
        max_tokens: of a reply.
        concurrency: requests in flight at most.
        timeout: seconds for one request.
        item_timeout: seconds for a statement with all its retries.
        retries: tries after the first, for broken connections, time-outs, 408, 409, 429 and 5xx.
        cache: path of the file of replies; `None` keeps them in memory.
        price: of the model, see `Price`.
        max_dollars: cap on the cost; statements beyond it are unscored.
        max_tokens_total: cap on tokens; statements beyond it are unscored.
        prompts: folder of prompts that replace ours by file name.
        grading: how an extracted dictionary is graded, see `RuleJudge`.

    Raises:
        JudgeConfigError: an option is out of bounds, or the variable of `key_from` isn't set.
        MissingExtraError: the extra `judge` isn't installed.
    """

    def __init__(
        self,
        model: str,
        mode: Literal["direct", "structured"] = "direct",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        key_from: str | None = None,
        temperature: float = 0.1,
        max_tokens: int = 512,
        concurrency: int = 32,
        timeout: float = 30.0,
        item_timeout: float = 120.0,
        retries: int = 5,
        cache: str | Path | None = None,
        price: Price | None = None,
        max_dollars: float | None = None,
        max_tokens_total: int | None = None,
        prompts: str | Path | None = None,
        grading: Literal["f1", "direct"] = "f1",
    ) -> None:
        self._given = {
            name: value for name, value in locals().items() if name not in ("self", "api_key")
        }
        try:
            import openai  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("LLMJudge", "judge", error.name or "openai") from error
        if mode not in ("direct", "structured"):
            raise JudgeConfigError(f"mode {mode!r} is not known; use 'direct' or 'structured'")
        if concurrency < 1 or retries < 0 or timeout <= 0 or item_timeout <= 0:
            raise JudgeConfigError(
                "concurrency must be at least 1, retries at least 0, timeouts above 0"
            )
        self.model = model
        self.mode = mode
        self.max_tokens = max_tokens
        self.name = f"llm:{model}:{mode}"
        self.reads = mode == "structured"
        self._sampling: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
        if _REASONS.match(model):  # these refuse both
            self._sampling = {"max_completion_tokens": 8 * max_tokens}
        self.cache = ReplyCache(cache)
        self.spending = Spending(price, max_dollars, max_tokens_total)
        client = {
            "base_url": base_url,
            "api_key": key_for(base_url, api_key, key_from),
            "timeout": timeout,
            "max_retries": retries,
        }
        self.endpoint = Endpoint(client, concurrency, item_timeout, self.spending)
        self.prompts = JudgePrompts(prompts)
        self._rules = RuleJudge(grading)
        self._in_flight: dict[bytes, asyncio.Task[str]] = {}

    # -- the interface -----------------------------------------------------------------------------

    def score(self, statement: Statement) -> Score:
        """Score one statement; blocks until the model has answered."""
        return wait_for(self.score_many([statement]))[0]

    async def score_many(self, statements: Sequence[Statement]) -> list[Score]:
        """Score a batch; equal statements are asked once."""
        replies = await self._replies(statements)
        return [self._scored(*each) for each in zip(statements, replies, strict=True)]

    async def read_many(self, statements: Sequence[Statement]) -> list[Reading | Score]:
        """The claims that the model extracts; equal statements are asked once. `"structured"` only.

        Where in the text a claim stands the model doesn't say: the spans are the whole text.
        """
        if not self.reads:
            return await super().read_many(statements)
        replies = await self._replies(statements)
        return [_claims_of(*each) for each in zip(statements, replies, strict=True)]

    def close(self) -> None:
        """Stop the judge's thread and close its files."""
        self.endpoint.close()
        self.cache.close()

    # -- asking ------------------------------------------------------------------------------------

    def _request(self, statement: Statement) -> dict[str, Any]:
        asked = self.prompts.direct if self.mode == "direct" else self.prompts.structured
        return {"model": self.model, "messages": asked(statement), **self._sampling}

    def _key(self, request: dict[str, Any]) -> bytes:
        """Models of one name at two endpoints are two models."""
        return key_of({**request, "endpoint": self.endpoint.address})

    def _scored(self, statement: Statement, reply: str | Score) -> Score:
        if not statement.text or statement.text.isspace():
            return Score(0.0, "the statement is empty")
        if isinstance(reply, Score):
            return reply
        if self.mode == "direct":
            return read_verdict(reply)
        reading = _claims_of(statement, reply)
        if isinstance(reading, Score):
            return reading
        return self._rules.graded(reading, mark(statement.state, reading, statement.part))

    async def _replies(self, statements: Sequence[Statement]) -> list[str | Score]:
        """The model's replies, asked for on the endpoint's own thread."""

        async def asked() -> list[str | Score]:
            return list(await asyncio.gather(*[self._reply(statement) for statement in statements]))

        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(asked(), self.endpoint.running_loop())
        )

    async def _reply(self, statement: Statement) -> str | Score:
        """The model's reply, known or asked for; unscored if there is none."""
        if not statement.text or statement.text.isspace():
            return ""
        request = self._request(statement)
        key = self._key(request)
        known = self.cache.get(key)
        if known is not None:
            return known

        def readable(reply: str) -> bool:
            if self.mode == "direct":
                return read_verdict(reply).scored
            return not isinstance(_claims_of(statement, reply), Score)

        task = self._in_flight.get(key)
        if task is None:
            task = self._in_flight[key] = asyncio.create_task(self.endpoint.ask(request, readable))
            task.add_done_callback(lambda _: self._in_flight.pop(key, None))
        try:
            reply = await task
        except Exception as error:  # whatever a server or a proxy does, the statement is unscored
            # A model of another name that reasons.
            if "temperature" in request and _REFUSED.search(str(error)):
                self._sampling = {"max_completion_tokens": 8 * self.max_tokens}
                return await self._reply(statement)
            why = " ".join(self.endpoint.without_key(str(error)).split())
            is_refused = getattr(error, "status_code", None) in (401, 403)
            hint = self.endpoint.withheld_key() if is_refused else ""
            return Score.unscored(f"{type(error).__name__}: {why[:300]}{hint}")
        if readable(reply):
            self.cache.put(key, reply)
        return reply

    def __reduce__(self) -> tuple[Any, ...]:
        """For vector environments. A pickle may be stored: the key is taken from the environment
        where it is read.
        """
        return functools.partial(type(self), **self._given), ()


def _claims_of(statement: Statement, reply: str | Score) -> Reading | Score:
    """The claims that the model extracted; their spans are the whole text."""
    if isinstance(reply, Score) or not statement.text or statement.text.isspace():
        return reply if isinstance(reply, Score) else Reading()
    data = read_object(reply)
    facts = None if data is None else facts_in(statement.state.kind, data)
    if facts is None:
        return Score.unscored(
            f"the judge's reply is no dictionary of claims: {' '.join(reply[:200].split())}"
        )
    whole = (0, len(statement.text))
    return Reading(tuple([Claim(whole, fact) for fact in facts]))
