"""A model as an agent: prompts by a context policy, retries, and the cost of each reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from vagen_adapters.context import ContextPolicy, Message, chat_messages, summary_messages
from vagen_benchmarks.agents.base import AsyncAgent, Call, ContextSummary, Game, Ledger, Reply
from vagen_benchmarks.agents.hidden_thoughts import reply_of, without_thoughts
from vagen_benchmarks.agents.request_fields import check_fields, sent_fields
from vagen_benchmarks.clients.base import Answer, Ending, Sampling
from vagen_benchmarks.clients.budget import RunBudget, picture_tokens, prompt_tokens, text_tokens
from vagen_benchmarks.clients.models import Model, Profile
from vagen_benchmarks.clients.retries import Retries
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.redaction import note_environment, redact, withheld
from vagen_benchmarks.stop_reasons import Stop, is_about_pictures


class ChatAgent(AsyncAgent):
    """A model that answers. Subclass it and override `messages` for an agent of yours with other
    prompts.

    Args:
        model: which, and where.
        base_url: of the endpoint, if not the provider's.
        context: what prompts show of the past; all of it by default.
        labelled: whether the agent's name ends with the context, such as `gpt-4o+last:2`.
        profile: how it writes, if not as the registry says.
        attempts: requests for one reply before the episode fails, outages aside.
        timeout: seconds for one request, to the last byte of its answer.
        first_wait: seconds before the second attempt; it doubles, with jitter.
        patience: seconds that an outage is waited for.
        headers: further ones of each request; `$NAME` in them is taken from the environment.
        key_from: the environment variable of the key, if not the provider's own or for another host
            than its.

    Raises:
        ProtocolError: the provider's SDK or its key is missing, or it can't be asked for this.
    """

    def __init__(
        self,
        model: Model,
        *,
        base_url: str | None = None,
        sampling: Sampling | None = None,
        context: ContextPolicy | None = None,
        labelled: bool = False,
        profile: Profile | None = None,
        attempts: int = 6,
        timeout: float = 120.0,
        first_wait: float = 1.0,
        patience: float = 3600.0,
        headers: Mapping[str, str] | None = None,
        key_from: str | None = None,
    ) -> None:
        self.context = context or ContextPolicy()
        self.name = f"{model.name}+{self.context}" if labelled else model.name
        self.model = model
        self.is_stateless = type(self) is ChatAgent
        self.price = model.price
        note_environment()
        self.sampling = sampling or model.sampling()
        self._fields = sent_fields(self.sampling.extra or {})
        self.profile = profile or model.profile
        self.env_options = self.profile.options
        self.budget = RunBudget({self.name: self.price})
        self._client = model.client(base_url, timeout, headers, key_from)
        self.withheld_key = model.withheld_key(base_url, key_from)
        self._client.check(self.sampling)
        if self.context.reasoning != "drop":
            self._client.check_reasoning()
        check_fields(self.sampling.extra or {})
        self.retries = Retries(attempts, first_wait, patience)
        self._in_flight = 0
        self._longest = -1  # turns before a prompt that was answered, at most
        self._worse = 1.0  # by how much a prompt has been larger than its worst case

    def describe(self) -> dict[str, Any]:
        price = None if self.price is None else {**asdict(self.price), "date": str(self.price.date)}
        return {
            "name": self.name,
            "id": self.model.id,
            "sampling": {**asdict(self.sampling), "extra": withheld(self.sampling.extra)},
            "context": str(self.context),
            "profile": asdict(self.profile),
            "price": price,
        }

    def join(self, budget: RunBudget, notify: Callable[[str], None]) -> None:
        self.budget = budget
        self.retries.breaker.notify = notify

    @property
    def waits(self) -> bool:
        return self.retries.breaker.down_since is not None

    async def aclose(self) -> None:
        await self._client.close()

    async def areply(self, game: Game) -> Reply:
        now = len(game.turns)
        is_there = any(summary.before == now for summary in game.summaries)
        if self.context.summarises_before(now) and not is_there:
            asked = summary_messages(game.env.system_prompt, game.turns, **self._past(game))
            sampling = replace(self.sampling, max_tokens=self.context.summary_tokens)
            shown = without_thoughts(asked, self.profile, game.env.config)
            text, call = await self._answer(game, shown, sampling, summary=True)
            game.summaries.append(ContextSummary(now, text, call))
        return Reply(*await self._answer(game, self.messages(game), self.sampling))

    async def _answer(
        self, game: Game, messages: list[Message], sampling: Sampling, *, summary: bool = False
    ) -> tuple[str, Call]:
        """A reply or a summary and what it cost, taken from the budget."""
        if sampling.seed is not None and game.repeat:
            sampling = replace(sampling, seed=sampling.seed + game.repeat)
        shown = game.now.picture
        of_picture = picture_tokens(*shown.shape[:2]) if shown else (0, 0)
        about, worst = prompt_tokens(messages, of_picture)
        await self._budget(game, worst)
        began = time.perf_counter()
        answer, attempts, request = await self._asked(game, messages, sampling, worst)
        call = self._call(answer, round(time.perf_counter() - began, 4), attempts, about)
        self.budget.add(self.name, [call.to_json()])
        if answer.prompt_tokens is not None:
            self._worse = max(self._worse, answer.prompt_tokens / worst)
        text = answer.text if summary else reply_of(answer, self.profile, game.env.config)
        text = redact(text)
        game.ledger.answered(game, text, call, request=request, summary=summary)
        return text, call

    async def _budget(self, game: Game, worst: int) -> None:
        """Tell the budget what the episode may still take; wait before its first request until
        there is enough.
        """
        left = game.env.config.max_turns - len(game.turns)
        if self.context.summary:
            left += left // self.context.summary
        dollars, tokens = self.budget.worst(
            self.name, round(worst * self._worse), self.sampling.limit
        )
        if game.turns:
            self.budget.expect(id(game), left * dollars, left * tokens)
        else:
            await self.budget.admit(id(game), left * dollars, left * tokens)

    def over(self, game: Game) -> None:
        self.budget.over(id(game))

    def messages(self, game: Game) -> list[Message]:
        """The messages of a request."""
        whole = chat_messages(game.env.system_prompt, game.turns, game.now, **self._past(game))
        return without_thoughts(whole, self.profile, game.env.config)

    def _past(self, game: Game) -> dict[str, Any]:
        return {
            "context": self.context,
            "summaries": {summary.before: summary.text for summary in game.summaries},
            "hidden": [call and call.hidden for call in game.calls],
            "pictures": self._client.pictures,
            "answer_tag": game.env.config.tags[-1],
        }

    def _call(self, answer: Answer, seconds: float, attempts: int, about: int) -> Call:
        """What it cost, counted by us where the endpoint doesn't say."""
        asked = answer.prompt_tokens
        written = answer.completion_tokens
        estimated = asked is None or written is None
        if asked is None:
            asked = about
        if written is None:
            written = text_tokens(answer.text + (answer.reasoning or ""))
        cached = min(answer.cached_tokens or 0, asked)
        cache_write = min(answer.cache_write_tokens or 0, asked - cached)
        dollars = None
        if self.price is not None:
            dollars = self.price.of(asked, written, cached, cache_write)
        return Call(
            answer.ending,
            seconds,
            attempts,
            asked,
            written,
            reasoning=answer.reasoning,
            cached_tokens=None if answer.cached_tokens is None else cached,
            cache_write_tokens=None if answer.cache_write_tokens is None else cache_write,
            reasoning_tokens=answer.reasoning_tokens,
            dollars=dollars,
            estimated=estimated,
            hidden=None if self.context.reasoning == "drop" else answer.hidden,
            served=answer.served,
            fingerprint=answer.fingerprint,
            said=answer.said,
        )

    async def _asked(
        self, game: Game, messages: list[Message], sampling: Sampling, worst: int
    ) -> tuple[Answer, int, int]:
        """An answer, the requests that it took, and the number of the last."""
        turn = len(game.turns)
        try:
            (answer, request), made = await self.retries.call(
                lambda: self._ask(game.ledger, messages, sampling, worst)
            )
        except EndpointError as error:
            if error.kind is Stop.CONTEXT and (fix := await self._fix_of_setup(str(error), turn)):
                raise EndpointError(
                    Stop.REJECTED, f"{error} ({fix})", retry=False, hopeless=True
                ) from error
            raise
        self._longest = max(self._longest, turn)
        keeps_reasoning = self.context.reasoning != "drop"
        is_withheld = bool(answer.reasoning_tokens) and answer.hidden is None
        if keeps_reasoning and is_withheld and answer.text:
            raise EndpointError(
                Stop.REJECTED,
                f"the endpoint reasoned for {answer.reasoning_tokens} tokens and returned none "
                f"of it, so --context {self.context} can't be honoured; have it return its "
                "reasoning (--extra), or use reasoning=drop",
                retry=False,
                hopeless=True,
            )
        return answer, made, request

    async def _fix_of_setup(self, words: str, turn: int) -> str:
        """What to change where a prompt is refused as too large and no prompt of its kind was ever
        answered.

        A first prompt that doesn't fit is the server's setting and not the model's loss, and so is
        a server that takes one picture in a request. Empty where it is the model's history that has
        grown too long.
        """
        pictures = is_about_pictures(words)
        if turn > (1 if pictures else 0):
            return ""
        # Others may be on their way to an answer, and one level's prompt the longest of all.
        for _ in range(20):
            if self._longest >= turn or not self._in_flight:
                break
            await asyncio.sleep(0.05)
        if self._longest >= turn:
            return ""
        if turn and pictures:
            return (
                f"the server takes {turn} picture(s) in a request: --context last:{turn - 1}, or "
                "raise its limit"
            )
        if pictures:
            return (
                "the server takes no picture in a request: raise its limit, or -o observation=text"
            )
        return (
            "the first prompt doesn't fit: serve the model with a longer context (vLLM "
            "--max-model-len, llama.cpp -c, Ollama num_ctx), or lower --max-tokens"
        )

    async def _ask(
        self, ledger: Ledger, messages: list[Message], sampling: Sampling, worst: int
    ) -> tuple[Answer, int]:
        held = await self.budget.reserve(self.name, round(worst * self._worse), sampling.limit)
        self._in_flight += 1
        request = ledger.asked(*held)
        try:
            sent = replace(sampling, extra=self._fields or None)
            return await self._client.ask(messages, sent), request
        except EndpointError as error:
            error.args = (redact(str(error)),)
            if ending := BLOCKED.get(error.kind):
                # A status for what other providers say in a field of their answer: the reply that
                # it would be.
                return Answer("", ending, 0, 0, said=str(error)), request
            spent = error.kind is Stop.TIMEOUT  # nobody knows what became of it
            if spent:
                self.budget.spend(*held)
            ledger.failed(request, str(error), spent=spent)
            raise
        finally:
            self._in_flight -= 1
            self.budget.release(held)


BLOCKED: dict[Stop, Ending] = {Stop.FILTERED: "filtered", Stop.REFUSED: "refused"}
"""Errors of an endpoint that are the end of a reply."""
