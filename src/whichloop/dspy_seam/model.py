"""A `dspy.LM` as a Model: one attempt per call, streamed or whole, with the provider's own words for a failure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import dspy
from dspy import lm15
from dspy._vendor.lm15.result import StreamAccumulator
from dspy.clients.costs import estimate_cost
from dspy.clients.errors import wrap_error
from dspy.clients.model_metadata import model_info
from dspy.utils.exceptions import LMError

from whichloop.protocol import CallDelta, Capabilities, Chunk, ModelError, NativeCall, ProviderError, Reply, Request
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.redact import redact

from .clients import Client, LocalClient, client_of
from .errors import missing_module, model_error
from .gemini import malformed_calls
from .wire import Streamed, lm15_request, reply_of, uncached

_PRICE_DIGITS = 9
"""Digits behind the point of dollars for a million tokens: 1.5e-07 a token are 0.15."""
_SETTINGS = frozenset(
    [
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "cache",
        "extra_body",
        "extra_headers",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "min_p",
        "model_type",
        "n",
        "num_retries",
        "organization",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "retry_delay",
        "rollout_id",
        "seed",
        "stop",
        "temperature",
        "thinking",
        "timeout",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    ]
)
"""What `dspy.LM` and the providers behind it take by these names; they take more."""
Extensions = Callable[[Request], Mapping[str, Any]]
"""Returns further top-level fields of a request's body."""


class Lm15Model:
    """A Model over a client that speaks lm15's types."""

    def __init__(self, name: str, client: Client, capabilities: Capabilities, extensions: Extensions | None = None) -> None:
        self.name = name
        self.client = client
        self.capabilities = capabilities
        self.extensions = extensions

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises ProviderError and ContextOverflow, without cause and context: those may hold a key."""
        sent = self._lm15(request)
        try:
            return self._reply(await self.client.complete(sent))
        except Exception as error:
            if calls := malformed_calls(error):
                return Reply("", calls, finish_reason="tool_calls")
            failure = self._as_our_error(error)
        raise failure  # outside of the handler, which would set a context

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the reply in pieces. Closing the stream early closes the connection. Raises what `complete` raises."""
        if not self.client.streams:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)
            return
        sent = self._lm15(request)
        whole, texts = StreamAccumulator(sent), list[str]()
        try:
            async with aclosing(self.client.stream(sent)) as events:
                async for event in events:
                    whole.push(event)
                    chunk = _chunk_of(event, whole)
                    if chunk is not None:
                        texts.append(chunk.text)
                        yield chunk
            yield Chunk(reply=self._reply(whole.response(), Streamed("".join(texts), _streamed_calls(whole))))
            return
        except Exception as error:
            calls, failure = malformed_calls(error), self._as_our_error(error)
        if not calls:
            raise failure
        yield Chunk(reply=Reply("".join(texts), calls, finish_reason="tool_calls"))

    async def aclose(self) -> None:
        """Close connections that belong to this event loop."""
        await self.client.aclose()

    def _lm15(self, request: Request) -> object:
        try:
            return lm15_request(request, self.client.model, self.extensions and self.extensions(request))
        except (TypeError, ValueError) as error:
            failure = _not_sent(error)
        raise failure

    def _as_our_error(self, error: Exception) -> Exception:
        """Return whatever a client raises as one of our errors."""
        if not isinstance(error, ModelError) and (missing := missing_module(error)) is not None:
            return missing
        match error:
            case ModelError():
                return error
            case LMError():
                return model_error(error)
            case lm15.LM15Error():
                return model_error(wrap_error(error, model=self.name, provider=self.client.provider))
            case UnicodeEncodeError():
                return _not_sent(error)
        # An undocumented form of a body fails anywhere in lm15's readers.
        message = " ".join(redact(f"{type(error).__name__}: {error}").split())
        return ProviderError(f"the reply cannot be read: {message}", "server")

    def _reply(self, response: object, streamed: Streamed | None = None) -> Reply:
        reply = reply_of(response, self.client.provider, streamed)
        if reply.usage is None:
            return reply
        billed = self._cost_usd(response)
        nominal = billed if not reply.usage.cached_tokens else self._cost_usd(uncached(response, self.client.provider))
        return replace(reply, usage=replace(reply.usage, cost_usd=billed, nominal_usd=nominal))

    def _cost_usd(self, response: object) -> float | None:
        """Return US dollars by a price list; None without one."""
        return None


def _not_sent(error: Exception) -> ProviderError:
    return ProviderError(f"not sent: {' '.join(redact(str(error)).split())}", "bad_request")


def _chunk_of(event: Any, whole: Any) -> Chunk | None:
    """Return what one event adds to the reply; None if it adds nothing."""
    delta = event.delta if event.type == "delta" else None
    if delta is None:
        return None
    if delta.type == "text":
        return Chunk(delta.text)
    if delta.type == "tool_call":
        place = [*whole.tool_call_meta].index(delta.part_index)
        return Chunk(call=CallDelta(place, delta.id or "", delta.name or "", delta.input))
    return None


def _streamed_calls(whole: Any) -> tuple[NativeCall, ...]:
    """Return the calls in the order in which they began, with their arguments as they came."""
    return tuple(
        NativeCall(meta.get("id") or f"tool_call_{part}", meta["name"], whole.tool_call_raw[part])
        for part, meta in whole.tool_call_meta.items()
    )


class DspyModel(Lm15Model):
    """Any `dspy.LM` as a Model: OpenAI, Anthropic, Ollama, vLLM, or an OpenAI-compatible server."""

    def __init__(self, lm: Any, capabilities: Capabilities | None = None, extensions: Extensions | None = None) -> None:
        client = client_of(lm)
        self.lm = lm
        self._listed_as = client.model.removeprefix(f"{client.provider}/")
        # LiteLLM's price list, shipped with DSPy and read offline.
        self._listed: dict[str, Any] = model_info(client.provider, self._listed_as) if client.provider else {}
        super().__init__(str(lm.model), client, capabilities or self._supported(client), extensions)

    def _supported(self, client: Client) -> Capabilities:
        """Look the model up in DSPy's list. One that is missing there is assumed to take tools; if it does not, it will say so."""
        tools = (client.provider is not None and not self._listed) or bool(self.lm.supports_function_calling)
        longest = self._listed.get("max_input_tokens")
        return Capabilities(
            native_tools=tools,
            tool_choice=tools and self._listed.get("supports_tool_choice") is not False,
            response_schema=bool(self.lm.supports_response_schema),
            streaming=client.streams,
            parallel_calls=tools,
            context_tokens=longest if isinstance(longest, int) else None,
        )

    @property
    def is_priced(self) -> bool:
        """Whether DSPy's list has the model's price."""
        return "input_cost_per_token" in self._listed

    def _cost_usd(self, response: object) -> float | None:
        if not self.is_priced:
            return None
        cost, _ = estimate_cost(response, provider=self.client.provider, requested_model=self._listed_as)
        return None if cost is None else float(cost)


def listed_price(name: str) -> tuple[float, ...]:
    """Return what a million tokens of a model cost, `openai/gpt-4o-mini`, from the list that DSPy ships, in US dollars.

    Input, output and, where the list has it, input from a cache; empty for a model that it does not price.
    """
    provider, _, model = name.partition("/")
    listed = model_info(provider, model) if model else {}
    prices = [listed.get(key) for key in ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")]
    amounts = [round(each * 1_000_000, _PRICE_DIGITS) for each in prices if each is not None]
    return tuple(amounts) if None not in prices[:2] else ()


def local_client(url: str, extensions: Extensions | None = None, model: str = SCRIPTED, wire: str = "chat") -> Lm15Model:
    """Return a model behind a server on this machine: without retries, key, price and proxy. Cheap to make.

    `wire`: what the server speaks, as `models/server/chatting.py` names it.
    """
    return Lm15Model(f"openai/{model}", LocalClient(url, model, wire), Capabilities(response_schema=True), extensions)


def model_named(name: str, settings: Mapping[str, object]) -> DspyModel:
    """Return the model that DSPy knows by a name. `settings`: of `dspy.LM`; without them nothing is cached or tried again.

    Raises ValueError for a setting that is all but the name of a known one; any other may be its provider's own.
    """
    for setting in settings:
        meant = [] if setting in _SETTINGS else get_close_matches(setting, _SETTINGS, n=1, cutoff=0.85)
        if meant:
            raise ValueError(f"model: unknown setting {setting!r}; did you mean {meant[0]!r}?")
    return DspyModel(dspy.LM(name, **{"cache": False, "num_retries": 0} | dict(settings)))
