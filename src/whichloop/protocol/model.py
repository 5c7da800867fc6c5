"""The request, the model that answers it, and the ways in which it may not; token counts offline, which are estimates."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

from .chat import CallDelta, Capabilities, Chunk, Message, Reply, Usage, reply_of_pieces, whole_pieces
from .json_text import canonical_json
from .moves import Codec, Role
from .program import Prompted
from .threads import beside_event_loop
from .tool_calls import ToolSpec


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw the reply; None leaves a setting to the model's default."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the values that are set."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(value) if name == "stop" else value for name, value in values.items() if value not in (None, ())}


DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model. `role`, `scope`, `codec`, `examples` and `prompted` are for the harness; no provider sees them."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    """Tools offered natively."""
    tool_choice: str | None = None
    """"auto", "required", "none", or the name of the tool that must be called."""
    response_schema: Mapping[str, Any] | None = None
    """JSON schema that the text must follow."""
    sampling: Sampling = DEFAULT_SAMPLING
    parallel_calls: bool = True
    """False: at most one call in the reply."""
    role: Role = field(default=Role.DECIDE, compare=False)
    scope: str = field(default="", compare=False)
    """Distinguishes requests that a loop sends concurrently; two requests of equal scope are never in flight together."""
    codec: Codec | None = field(default=None, compare=False)
    examples: int = field(default=0, compare=False)
    """How many messages are demonstrations: those after the leading system message, or the first ones if there is none."""
    prompted: Prompted | None = field(default=None, compare=False, repr=False)
    """The predictor that asks, if an optimizer may change its prompt."""

    @property
    def demonstrations(self) -> slice:
        """The places of the messages that are demonstrations."""
        start = sum(message.role == "system" for message in self.messages[:1])  # a later one may be of a demonstration
        return slice(start, start + self.examples)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON, without the fields for the harness."""
        data: dict[str, object] = {"messages": [message.as_dict() for message in self.messages]}
        if self.tools:
            data["tools"] = [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in self.tools
            ]
        if self.tool_choice is not None:
            data["tool_choice"] = self.tool_choice
        if self.tools and not self.parallel_calls:
            data["parallel_calls"] = False
        if self.response_schema is not None:
            data["response_schema"] = self.response_schema
        return data | self.sampling.as_dict()


@runtime_checkable
class Model(Protocol):
    """Answers requests: scripted, recorded or real."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises ModelError, and nothing else for what the provider does: any other exception leaves the loop."""

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the same reply in pieces; the last chunk holds it whole. Raises ModelError."""


class WrappedModel:
    """A model that passes everything on to another; override what should differ."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def capabilities(self) -> Capabilities:
        return self.model.capabilities

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(request)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(request)


Asks = Callable[[Request], AsyncGenerator[Chunk, None]]
"""Asks a model for a reply in pieces; one that is asked for whole is a single chunk."""


class ModelAround(WrappedModel):
    """A model around another that treats replies alike, whether they are asked for whole or in pieces; override `chunks`."""

    def __init__(self, model: Model, change: Callable[[Request], Request] | None = None) -> None:
        """`change`: makes of a request the one that the model within gets."""
        super().__init__(model)
        self._change = change

    def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        """Yield the reply in pieces; the last chunk holds it whole. `ask`: asks the model within, as this one was asked."""
        return ask(request if self._change is None else self._change(request))

    async def complete(self, request: Request) -> Reply:
        return await whole_reply(self.chunks(request, self.ask_whole))

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        return self.chunks(request, self.ask_in_pieces)

    async def ask_whole(self, request: Request) -> AsyncGenerator[Chunk, None]:
        yield Chunk(reply=await self.model.complete(request))

    def ask_in_pieces(self, request: Request) -> AsyncGenerator[Chunk, None]:
        return cast(AsyncGenerator[Chunk, None], self.model.stream(request))


async def whole_reply(chunks: AsyncGenerator[Chunk, None]) -> Reply:
    """Return the reply that a stream ends with. Raises ProviderError if it has none."""
    reply = None
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            reply = chunk.reply or reply
    if reply is None:
        raise ProviderError("the stream ended without a reply", "server")
    return reply


class StreamsWhole:
    """Gives a model `stream`, which yields the reply of its `complete` in one chunk."""

    async def stream(self: Model, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


Piece = str | CallDelta | Reply
"""What a `FunctionModel`'s generator yields: a piece of text, a piece of a native call, or, as the last one, the whole reply."""


class FunctionModel:
    """A model of a function of the request; it raises what the function raises.

    The function, async or not, returns a Reply or a text. Or it is an async generator, and its reply streams: it yields pieces of
    text and `CallDelta`s, and last, if it knows tokens or a finish reason, a Reply: the whole one, or one with these alone, which
    gets text and calls from the pieces. A plain function runs as a tool does: on a thread of its own, or on that of `run_sync`'s
    caller.
    """

    def __init__(
        self, function: Callable[[Request], Any], *, name: str = "function", capabilities: Capabilities | None = None
    ) -> None:
        """`capabilities`: what the function can be asked for; None: what most providers offer. Raises TypeError for no function."""
        if not callable(function):
            raise TypeError(f"function: give a function of the request, not {type(function).__name__}")
        self.function = function
        self.name = name
        self.capabilities = capabilities or Capabilities()

    async def complete(self, request: Request) -> Reply:
        """Raises TypeError for what is neither a Reply nor a text nor made of pieces."""
        async with contextlib.aclosing(self.stream(request)) as chunks:
            async for chunk in chunks:
                if chunk.reply is not None:
                    return chunk.reply
        raise AssertionError("a stream ends with its reply")

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the pieces as the function does; a reply that it returns whole is one piece of text and one of each call."""
        is_async = inspect.iscoroutinefunction(self.function) or inspect.isasyncgenfunction(self.function)
        answer = self.function(request) if is_async else await beside_event_loop(self.function, request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncGenerator):
            async with contextlib.aclosing(answer), contextlib.aclosing(self._chunks(answer)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        reply = Reply(answer) if isinstance(answer, str) else answer
        if not isinstance(reply, Reply):
            raise TypeError(f"model {self.name}: return a Reply or a text, or yield pieces, not {type(answer).__name__}")
        for chunk in whole_pieces(reply):
            yield chunk
        yield Chunk(reply=reply)

    async def _chunks(self, pieces: AsyncGenerator[Any, None]) -> AsyncGenerator[Chunk, None]:
        text, deltas = list[str](), list[CallDelta]()
        whole: Reply | None = None
        async for piece in pieces:
            if whole is not None:
                raise TypeError(f"model {self.name}: yield a whole Reply as the last piece, or none")
            if isinstance(piece, str):
                text.append(piece)
                yield Chunk(piece)
            elif isinstance(piece, CallDelta):
                deltas.append(piece)
                yield Chunk(call=piece)
            elif isinstance(piece, Reply):
                whole = piece
            else:
                raise TypeError(f"model {self.name}: yield texts, CallDeltas or a last Reply, not {type(piece).__name__}")
        if whole is not None and not text and not deltas:
            for chunk in whole_pieces(whole):
                yield chunk
        streamed = reply_of_pieces("".join(text), deltas)
        if whole is not None:
            streamed = replace(whole, text=streamed.text or whole.text, calls=streamed.calls or whole.calls)
        yield Chunk(reply=streamed)


class ModelError(Exception):
    """A request that got no reply. A Model raises this, or a subclass, for every failure of its provider: loops expect no other."""

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        return False


ProviderTrouble = Literal["rate_limit", "server", "overloaded", "timeout", "connection", "auth", "setup", "refused", "bad_request"]
"""`overloaded`: the provider has too many requests, of everyone (OpenAI and Gemini: 503, Anthropic: 529).

`setup`: the client on this machine lacks something, and no provider was asked.
"""


class ProviderError(ModelError):
    """The provider failed, after the model's own retries."""

    def __init__(
        self,
        message: str,
        kind: ProviderTrouble = "server",
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        injected: bool = False,
        failed_attempts: tuple[str, ...] = (),
    ) -> None:
        """`injected`: a fault profile caused it; it is the treatment, not an infrastructure failure.

        `failed_attempts`: kinds of the earlier failures, in order, if the request was repeated.
        """
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        self.injected = injected
        self.failed_attempts = failed_attempts

    @property
    def hits_every_request(self) -> bool:
        """Whether any other request would have failed as well, now or until someone mends it."""
        return self.is_transient or self.kind in ("auth", "setup")

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in ("rate_limit", "server", "overloaded", "timeout", "connection")


class ContextOverflow(ModelError):
    """The request is longer than the model's context."""


CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English text; deterministic, and wrong by a quarter either way."""
MESSAGE_OVERHEAD = 4
"""Tokens that a chat format adds to each message."""
IMAGE_TOKENS = 1_000
"""Of one image, whose size is not looked at: a square of 1,024 pixels costs 765 of OpenAI's gpt-4o, 1,398 of Anthropic's models."""


def estimate_tokens(text: str) -> int:
    return (len(text) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN


def estimate_input(request: Request) -> int:
    """Estimate the tokens of all that a request shows."""
    total = sum(map(tool_tokens, request.tools))
    if request.response_schema is not None:
        total += estimate_tokens(schema_text(request.response_schema))
    for message in request.messages:
        total += MESSAGE_OVERHEAD + (len(message.content) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN  # a call costs more than this
        for call in message.calls:
            total += estimate_tokens(call.name) + estimate_tokens(call.arguments)
        if message.images:
            total += IMAGE_TOKENS * len(message.images)
    return total


_TEXTS: dict[int, tuple[Mapping[str, Any], str]] = {}
MAX_TEXTS = 4096


def schema_text(schema: Mapping[str, object]) -> str:
    """Return a schema's canonical JSON, made once for the very same object: a suite's tools keep theirs from trial to trial."""
    cached = _TEXTS.get(id(schema))
    if cached is None or cached[0] is not schema:
        if len(_TEXTS) >= MAX_TEXTS:
            _TEXTS.clear()
        cached = _TEXTS[id(schema)] = (schema, canonical_json(schema))
    return cached[1]


_UNSAID = frozenset({"type", "title", "description", "$schema"})
_PLAIN_WORDS = _UNSAID | {"properties", "required", "additionalProperties"}


def whole_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's JSON schema without what every tool's says."""
    return {
        name: part
        for name, part in parameters.items()
        if name not in _UNSAID and not (name == "additionalProperties" and part is False)
    }


def is_plain(parameters: Mapping[str, Any]) -> bool:
    """Return whether the properties, and which are required, are all that a tool's JSON schema says."""
    return parameters.keys() <= _PLAIN_WORDS and not parameters.get("additionalProperties")


def shown_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a prompt shows of a tool's JSON schema: its properties, or all where these do not say all that a call needs."""
    properties: Mapping[str, Any] = parameters.get("properties", {})
    required = parameters.get("required", ())
    has_defaults = all(name in required or (isinstance(item, Mapping) and "default" in item) for name, item in properties.items())
    return properties if has_defaults and is_plain(parameters) else whole_parameters(parameters)


def tool_tokens(tool: ToolSpec) -> int:
    return sum(map(estimate_tokens, (tool.name, tool.description, schema_text(tool.parameters))))


def estimate_usage(input_tokens: int, reply: Reply) -> Usage:
    """Estimate the usage of a reply that no provider counted."""
    output = estimate_tokens(reply.text)
    for call in reply.calls:
        output += estimate_tokens(call.name) + estimate_tokens(call.arguments)
    return Usage(input_tokens, output, estimated=True)
