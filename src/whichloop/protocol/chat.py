"""What passes between a loop and a model, free of any provider's or framework's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from whichloop.protocol.json_text import digest

from .files import Image

MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A tool call in a provider's own form. `arguments` is the raw string: it may be cut short, or not be JSON at all."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: MessageRole
    content: str = ""
    calls: tuple[NativeCall, ...] = ()
    """Native calls of an assistant message."""
    call_id: str = ""
    """On a tool message: the call that it answers."""
    sent: SentTurn | None = field(default=None, compare=False, repr=False)
    """On the user message that begins a turn of `outcome.messages`: the turn word for word as a model was sent it."""
    images: tuple[Image, ...] = ()
    """Images of a user message, which follow its text."""
    native: Any = field(default=None, compare=False, repr=False)
    """On an assistant message: the `native` of the reply that it repeats."""

    def as_dict(self) -> dict[str, Any]:
        """Return the message in OpenAI's chat format, with `sent` beside it where the message has that."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            data["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        if self.role == "tool":
            data["tool_call_id"] = self.call_id
        if self.images:
            image_parts = [{"type": "image_url", "image_url": {"url": image.url}} for image in self.images]
            data["content"] = [{"type": "text", "text": self.content}, *image_parts]
        if self.sent is not None:
            data["sent"] = self.sent.as_dict()
        return data

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Message:
        """Read OpenAI's chat format, as `as_dict` writes it; without content a message has an empty text.

        Raises ValueError for an unknown role, content that is neither a text nor, of a user, a list of texts and images, calls
        without id, name and arguments, and a wrong `sent`.
        """
        role, content = given.get("role"), given.get("content")
        if role not in get_args(MessageRole):
            raise ValueError(f"role must be one of {', '.join(get_args(MessageRole))}")
        images: tuple[Image, ...] = ()
        if isinstance(content, list) and role == "user":
            content, images = _read_parts(content)
        call_id = given.get("tool_call_id", "")
        for name, value in (("content", content or ""), ("tool_call_id", call_id)):
            if not isinstance(value, str):
                raise ValueError(f"{name} must be a text, not {type(value).__name__}")
        calls = tuple(_read_call(call) for call in given.get("tool_calls") or ())
        sent = None if given.get("sent") is None else SentTurn.from_dict(given["sent"])
        return cls(cast(MessageRole, role), content or "", calls, call_id, sent, images)


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A turn of a conversation, word for word as the last request of its run showed it, up to the last reply and without it.

    A later request that begins with the same words is read from a provider's prompt cache.
    """

    format: str
    """That in which the turn is written: only requests in the same format show it so."""
    messages: tuple[Message, ...]
    """Without images, which the conversation holds."""
    checksum: str
    """Of the turn in both forms: one that is changed in the conversation is shown as it was changed."""
    with_images: tuple[int, ...] = ()
    """Places of the messages that show the turn's images."""

    @classmethod
    def of(cls, turn: Iterable[Message], format_name: str, messages: Sequence[Message]) -> SentTurn:
        """Return a turn as `messages` of a request showed it. `turn`: the same turn as the conversation has it."""
        bare = tuple(replace(message, images=()) if message.images else message for message in messages)
        with_images = tuple(place for place, message in enumerate(messages) if message.images)
        return cls(format_name, bare, _checksum(turn, format_name, bare), with_images)

    def shown(self, turn: Sequence[Message]) -> tuple[Message, ...] | None:
        """Return the turn as it was sent; None if this is not the turn that the conversation has, because one was changed since."""
        if not turn or self.checksum != _checksum(turn, self.format, self.messages):
            return None
        return tuple(
            replace(message, images=turn[0].images) if place in self.with_images else message
            for place, message in enumerate(self.messages)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON."""
        messages = [message.as_dict() for message in self.messages]
        return {"format": self.format, "checksum": self.checksum, "messages": messages, "with_images": list(self.with_images)}

    @classmethod
    def from_dict(cls, given: Any) -> SentTurn:
        """Read what `as_dict` gives. Raises ValueError for anything else, and for messages that no history may hold."""
        match given:
            case {"format": str(name), "checksum": str(checksum), "messages": messages, "with_images": list(places)}:
                try:
                    return cls(name, earlier_messages(messages), checksum, tuple(places))
                except (TypeError, ValueError) as error:
                    raise ValueError(f"sent: {error}") from None
        raise ValueError('sent must be {"format": text, "checksum": text, "messages": [message, …], "with_images": [place, …]}')


def _checksum(turn: Iterable[Message], format_name: str, messages: Iterable[Message]) -> str:
    plain = [message.as_dict() if message.sent is None else replace(message, sent=None).as_dict() for message in turn]
    return digest([format_name, plain, [message.as_dict() for message in messages]])


def _read_parts(parts: list[Any]) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the images of a content in parts. Raises ValueError."""
    texts: list[str] = []
    images: list[Image] = []
    for place, part in enumerate(parts):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                images.append(Image(url))
            case _:
                form = '{"type": "text", "text": …} or {"type": "image_url", "image_url": {"url": …}}'
                raise ValueError(f"content[{place}] must be {form}")
    return "\n\n".join(texts), tuple(images)


def _read_call(data: Any) -> NativeCall:
    match data:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
            return NativeCall(call_id, name, arguments)
    raise ValueError('each of tool_calls must be {"id": text, "function": {"name": text, "arguments": text}}')


def earlier_messages(history: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return what was said before a query, checked: messages of a user and an assistant, each call followed by its result.

    A message may be a dict in OpenAI's chat format. Raises TypeError for anything else, and ValueError for a conversation that a
    provider would refuse; both name the place of the message.
    """
    messages: list[Message] = []
    waiting: list[str] = []
    for place, item in enumerate(history):
        if not isinstance(item, Message | Mapping):
            raise TypeError(f"history[{place}]: give a Message or a dict in OpenAI's chat format, not {type(item).__name__}")
        try:
            message = item if isinstance(item, Message) else Message.from_dict(item)
            _check_place(message, waiting)
        except ValueError as error:
            raise ValueError(f"history[{place}]: {error}") from None
        messages.append(message)
    if waiting:
        raise ValueError(f"history[{len(messages) - 1}]: the call {waiting[0]!r} has no result")
    return tuple(messages)


def _check_place(message: Message, waiting: list[str]) -> None:
    """Check a message behind those whose calls in `waiting` have no result yet. Raises ValueError."""
    if message.role == "system":
        raise ValueError("a system message belongs to the loop: give it as an option of the loop, or leave it out")
    if message.role == "tool":
        if message.call_id not in waiting:
            raise ValueError(f"the result of {message.call_id!r} follows no call of that id")
        waiting.remove(message.call_id)
        return
    if waiting:
        raise ValueError(f"the call {waiting[0]!r} has no result before it")
    waiting += [call.id for call in message.calls]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one reply, or of many added up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider served from its prompt cache."""
    estimated: bool = False
    """No provider counted: this is an offline estimate."""
    cost_usd: float | None = None
    """US dollars billed; None if no price is known."""
    nominal_usd: float | None = None
    """The cost without any cache, the provider's or a recording; None if no price is known."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def priced(self, taken: float, given: float, cached: float | None = None) -> Usage:
        """Return it with its cost, at US dollars per million tokens: of input, output, and input from a cache."""
        nominal = (self.input_tokens * taken + self.output_tokens * given) / 1_000_000
        saved = self.cached_tokens * (taken - (taken if cached is None else cached)) / 1_000_000
        return replace(self, cost_usd=max(0.0, nominal - saved), nominal_usd=nominal)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
            _added(self.cost_usd, other.cost_usd),
            _added(self.nominal_usd, other.nominal_usd),
        )


def _added(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "other"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole answer to one request."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()
    usage: Usage | None = None
    finish_reason: FinishReason = "stop"
    failed_attempts: tuple[str, ...] = ()
    """Kinds of provider failures that were overcome by asking again, in order: see `ProviderError.kind`."""
    native: Any = field(default=None, compare=False, repr=False)
    """The turn as the provider sent it, where it wants more back than text and calls, such as a signature of its reasoning."""

    def __post_init__(self) -> None:
        text: Any = self.text
        calls: Any = self.calls
        if not isinstance(text, str) or not isinstance(calls, tuple | list):
            kinds = f"{type(text).__name__} and {type(calls).__name__}"
            raise TypeError(f"Reply: text must be a text, calls a tuple of NativeCalls, not {kinds}")


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a native call in a stream."""

    index: int
    """0-based place among the reply's calls."""
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed reply; the last one, and only that, carries the whole reply."""

    text: str = ""
    call: CallDelta | None = None
    reply: Reply | None = None


def whole_pieces(reply: Reply) -> list[Chunk]:
    """Return what a reply says as pieces, its whole text and each whole call, for a stream that ends with the reply itself."""
    calls = [Chunk(call=CallDelta(place, one.id, one.name, one.arguments)) for place, one in enumerate(reply.calls)]
    return [*([Chunk(reply.text)] if reply.text else []), *calls]


def reply_of_pieces(text: str, deltas: Iterable[CallDelta]) -> Reply:
    """Return the reply that pieces of a stream make: the pieces of one call have one `index`."""
    calls: dict[int, NativeCall] = {}
    for delta in deltas:
        call_so_far = calls.get(delta.index, NativeCall("", "", ""))
        calls[delta.index] = NativeCall(
            delta.id or call_so_far.id, delta.name or call_so_far.name, call_so_far.arguments + delta.arguments
        )
    return Reply(text, tuple(calls[place] for place in sorted(calls)), finish_reason="tool_calls" if calls else "stop")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can be asked for."""

    native_tools: bool = True
    tool_choice: bool = True
    response_schema: bool = False
    streaming: bool = True
    parallel_calls: bool = True
    context_tokens: int | None = None
    """Longest request in tokens; None if unknown or unbounded."""
