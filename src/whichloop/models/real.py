"""Real models by name, through DSPy's model layer: `openai/…`, `anthropic/…`, or any OpenAI-compatible server by address."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from whichloop.dspy_seam import DspyModel, open_lm
from whichloop.protocol.chat import Capabilities, Chunk, Reply
from whichloop.protocol.model import ContextOverflow, Model, ProviderError, Request, estimate_input
from whichloop.protocol.names import nearest
from whichloop.protocol.redact import logger_of

from .limits import Limits, Permit
from .metering import waits
from .prices import Price

logger = logger_of(__name__)

FIRST_PAUSE_S = 0.5
"""Seconds before the second attempt; twice as many before each further one."""
MAX_PAUSE_S = 30.0
"""Longest pause in seconds, unless the provider asks for more."""
ABILITIES = frozenset({"tool_choice", "response_schema", "streaming"})
"""Capabilities that can be taken away: those that designs have another way for."""
TYPICAL_OUTPUT = 256
"""Tokens expected of the first reply; later ones are expected to be as long as those before."""
NEW_SHARE = 0.1
"""How much the latest reply counts in what is expected of the next one."""
REFUSALS = ("rate_limit", "overloaded")
"""Failures that say that there were too many requests."""

Value = TypeVar("Value")
Attempt = Callable[[Permit, float], Awaitable[Value]]
"""A function that makes one attempt, by a permit, until a deadline on the event loop's clock."""


@dataclass(frozen=True, slots=True)
class RealOptions:
    """How a real model is asked."""

    call_timeout_s: float = 60.0
    """Longest wait for one attempt, in seconds; a stream has as long in all."""
    attempts: int = 4
    """Most tries at one request, where a failure may pass."""
    patience_s: float = 120.0
    """Longest wait for all attempts at one request and the pauses between them, in seconds; waiting for a turn does not count."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Input and output together: estimated before, corrected after."""
    most_in_flight: int = 64
    """Requests under way at once; refusals bring it down for a while."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices by model name; a price given here wins over DSPy's list."""
    without: frozenset[str] = frozenset()
    """Capabilities that the model is to be treated as lacking: see `ABILITIES`."""
    context_tokens: int | None = None
    """Longest request in tokens, estimated: a longer one is not sent. None: what the provider takes."""

    def __post_init__(self) -> None:
        for name in ("call_timeout_s", "attempts", "patience_s", "most_in_flight"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)!r}")
        for name in ("requests_per_minute", "tokens_per_minute", "context_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be greater than 0, got {value!r}")
        for name in sorted(self.without - ABILITIES):
            raise ValueError(f"unknown capability {name!r}; {nearest(name, sorted(ABILITIES))}")


DEFAULTS = RealOptions()


class RealModel:
    """A provider's model: asked in turn, asked again after a failure that may pass. Close it when done.

    Pauses between attempts are as long as the provider asks for (Retry-After), else they grow from `FIRST_PAUSE_S`. What would
    have to wait beyond `patience_s` fails at once. Of one event loop at a time; all trials of a run share it.
    """

    def __init__(self, model: Model, options: RealOptions = DEFAULTS) -> None:
        self.model = model
        self.options = options
        self.capabilities = _reduced(model.capabilities, options)
        self.limits = Limits(options.most_in_flight, options.requests_per_minute, options.tokens_per_minute)
        self._typical_output = float(TYPICAL_OUTPUT)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def is_priced(self) -> bool:
        """Whether what it costs is known."""
        return self.name in self.options.prices or bool(getattr(self.model, "is_priced", False))

    def with_capabilities(self, capabilities: Capabilities) -> RealModel:
        """Return the same model with these capabilities, less `without`; limits start anew."""
        model = RealModel(self.model, self.options)
        model.capabilities = _reduced(capabilities, self.options)
        return model

    async def complete(self, request: Request) -> Reply:
        """Return a reply. Raises ContextOverflow, or ProviderError: the last attempt's, or a `timeout` out of patience."""

        async def attempt(permit: Permit, deadline: float) -> Reply:
            async with asyncio.timeout_at(deadline):
                reply = await self.model.complete(request)
            return self._received(reply, permit)

        self._check_length(request)
        failed: list[str] = []
        reply = await self._insist(request, attempt, failed)
        return replace(reply, failed_attempts=tuple(failed)) if failed else reply

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield a reply's chunks; tries again only before the first. Closing early closes the connection. Raises as `complete`."""
        if not self.capabilities.streaming:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)
            return
        self._check_length(request)
        failed: list[str] = []

        async def attempt(permit: Permit, deadline: float) -> tuple[Any, Chunk | None, Permit, float]:
            chunks = self.model.stream(request)
            try:
                async with asyncio.timeout_at(deadline):
                    return chunks, await anext(chunks, None), permit, deadline
            except BaseException:
                await _close(chunks)
                raise

        chunks, chunk, permit, deadline = await self._insist(request, attempt, failed)
        try:
            while chunk is not None:
                if chunk.reply is not None:
                    chunk = replace(chunk, reply=replace(self._received(chunk.reply, permit), failed_attempts=tuple(failed)))
                yield chunk
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks, None)
        except TimeoutError:
            raise ProviderError("the stream did not end in time", "timeout", failed_attempts=tuple(failed)) from None
        except ProviderError as error:
            self.limits.leave(permit, refused=error.kind in REFUSALS)
            error.failed_attempts = tuple(failed)
            raise
        finally:
            self.limits.leave(permit)
            await _close(chunks)

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await _close(self.model)

    async def _insist(self, request: Request, attempt: Attempt[Value], failed: list[str]) -> Value:
        """Make one attempt after the other; `failed` gets the kinds of failures that were overcome."""
        clock, lost, left_s, attempts = asyncio.get_running_loop().time, waits(), self.options.patience_s, self.options.attempts
        number = expected = 0
        if self.options.tokens_per_minute is not None:
            output, longest = self._typical_output, request.sampling.max_tokens
            expected = estimate_input(request) + round(output if longest is None else min(output, longest))
        while True:
            number += 1
            with lost.counted():
                permit = await self.limits.enter(expected)
            began = clock()
            try:
                return await self._once(attempt, permit, left_s)
            except ProviderError as error:
                lost.lost(clock() - began)
                left_s -= clock() - began
                pause_s = _pause_s(error, number - 1)
                if not error.is_transient or number >= attempts or pause_s >= left_s:
                    error.failed_attempts = tuple(failed)
                    raise
                failed.append(error.kind)
                logger.info("%s: attempt %d of %d failed (%s): %s", self.name, number, attempts, error.kind, error)
            with lost.counted():
                await asyncio.sleep(pause_s)
            left_s -= pause_s

    async def _once(self, attempt: Attempt[Value], permit: Permit, left_s: float) -> Value:
        """Make one attempt. What it gives keeps its permit until it is read; a failure gives it back here."""
        allowed_s = min(self.options.call_timeout_s, left_s)
        try:
            return await attempt(permit, asyncio.get_running_loop().time() + allowed_s)
        except BaseException as error:
            self.limits.leave(permit, refused=isinstance(error, ProviderError) and error.kind in REFUSALS)
            if not isinstance(error, TimeoutError):
                raise
        limit_s = self.options.patience_s if allowed_s < self.options.call_timeout_s else allowed_s
        raise ProviderError(f"no reply within {limit_s:g} s", "timeout")

    def _check_length(self, request: Request) -> None:
        """Raise ContextOverflow for a request that is longer than the options allow."""
        longest = self.options.context_tokens
        if longest is not None and (tokens := estimate_input(request)) > longest:
            raise ContextOverflow(f"the request has about {tokens} tokens, and {longest} are allowed")

    def _received(self, reply: Reply, permit: Permit) -> Reply:
        """Return a whole reply with its price, and give the permit back."""
        usage, price = reply.usage, self.options.prices.get(self.name)
        self.limits.leave(permit, replied=True, tokens=None if usage is None else usage.total_tokens)
        if usage is None:
            return reply
        self._typical_output += NEW_SHARE * (usage.output_tokens - self._typical_output)
        return reply if price is None else replace(reply, usage=price.on(usage))


async def _close(thing: object) -> None:
    close = getattr(thing, "aclose", None)
    if close is not None:
        await close()


def _reduced(capabilities: Capabilities, options: RealOptions) -> Capabilities:
    lost = dict.fromkeys(options.without, False)
    return replace(capabilities, **lost, context_tokens=options.context_tokens or capabilities.context_tokens)


def _pause_s(error: ProviderError, failed: int) -> float:
    retry_after_s = error.retry_after_s
    pause = retry_after_s if retry_after_s is not None else min(FIRST_PAUSE_S * 2**failed, MAX_PAUSE_S)
    return pause + random.uniform(0, min(pause, 2.0) / 2)  # trials that were refused together come back apart


def open_remote_model(name: str, base_url: str | None = None, options: RealOptions = DEFAULTS) -> RealModel:
    """Open a model by DSPy's name for it, `provider/model`; its key comes from the environment. Makes no connection.

    `base_url`: an OpenAI-compatible server or gateway; left out: what `PROVIDER_BASE_URL` names, else the provider's own.
    Raises ValueError, in one line, for an unknown provider, a provider without its key, and an address that cannot be used.
    """
    model = DspyModel(open_lm(name, base_url))
    if name in options.prices:  # which may not be its name there: `openai/responses/m` is `openai/m`
        options = replace(options, prices={**options.prices, model.name: options.prices[name]})
    return RealModel(model, options)
