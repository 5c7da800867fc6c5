"""What a wire is: one vendor's API, which reads a request into ours and writes a reply, a stream of it, a count or an error.

Pure: no wire knows a socket, a policy or a fault. `wires/registry.py` lists them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

from whichloop.protocol import NativeCall, Reply, Request

Path = tuple[str, ...]
"""The segments of a path below the server's root or a trial's, decoded."""
Recall = Callable[[str], Sequence[Any] | None]
"""Returns what was kept of the answer with this id (see `Wire.remembered`), None if nothing was."""


class CacheMark(NamedTuple):
    """A beginning of a request that its client wants to be kept in the provider's prompt cache."""

    digest: str
    tokens: int
    """Estimated tokens of this beginning."""
    is_written: bool = True
    """False: it is only looked for, because an earlier request may have wanted it to be kept."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as a wire has read it."""

    request: Request
    """The request, without a codec."""
    model: str
    stream: bool = False
    include_usage: bool = False
    """Whether a stream of chat completions ends with a chunk that holds the usage."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the vendor's reply repeats of the request."""
    items: tuple[Any, ...] = ()
    """The conversation in the vendor's own form, where a later request may refer to it."""
    marks: tuple[CacheMark, ...] = ()
    """Beginnings to be cached, the shortest first."""
    listed: bool = False
    """Whether a stream is the items of one JSON list instead of server-sent events."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request for a reply or for a count as it comes from the network."""

    body: Any
    """The decoded JSON body."""
    path: Path = ()
    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the path's question mark, decoded; of a name that is given twice, the first value."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The case of a name does not count."""
    recall: Recall = lambda _: None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the server adds to a reply."""

    id: str
    """24 hexadecimal digits, to which a wire adds its prefix."""
    created: int
    """Seconds since 1970."""
    cache_read: int = 0
    cache_written: int = 0
    """Tokens of the request that come from the prompt cache, and that were put there."""
    stopped_at: str = ""
    """The stop sequence at which the reply ends; empty if it ends for another reason."""


class StreamEvent(NamedTuple):
    """One event of a stream."""

    name: str
    """Empty where the vendor's events have no name."""
    data: Any


class WirePage(NamedTuple):
    """What a path stands for."""

    kind: Literal["reply", "count", "models"]
    method: Literal["GET", "POST"] = "POST"
    model: str | None = None
    """The one model that a page of models is about; None for the list of all."""


@dataclass(frozen=True, slots=True)
class WireFailure:
    """Why a request gets no reply, in no vendor's form."""

    status: int
    """As OpenAI has it; 503 if the model is overloaded."""
    message: str
    param: str | None = None
    """Path of the field at fault, as OpenAI writes paths."""
    code: str | None = None
    wait_s: float | None = None
    """Seconds until another attempt may succeed."""


class ErrorAnswer(NamedTuple):
    """A failure in a vendor's form."""

    status: int
    body: Any
    headers: Mapping[str, str]


class RateLimitState(NamedTuple):
    """What is left of the limits on requests and tokens of a minute."""

    max_requests: int
    max_tokens: int
    requests: int
    tokens: int
    """Left of each."""
    requests_reset_s: float
    tokens_reset_s: float
    """Seconds until all of it is there again."""


class Wire(ABC):
    """One vendor's API."""

    name: ClassVar[str]
    stream_end: ClassVar[bytes] = b""
    """What follows the last event of a stream."""

    @abstractmethod
    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        """Say whether a request is meant for this vendor's API, known page or not; `headers`: names in small letters."""

    @abstractmethod
    def page(self, path: Path) -> WirePage | None:
        """Return what a path stands for; None for one that the API does not have."""

    @abstractmethod
    def read(self, incoming: Incoming) -> WireRequest:
        """Read a request for a reply or for a count. Raises BadRequest in the vendor's words."""

    @abstractmethod
    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        """Write the body of a whole reply."""

    @abstractmethod
    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[StreamEvent]:
        """Write the events of a streamed reply, without `stream_end`."""

    @abstractmethod
    def failed_events(self, request: WireRequest, begun: Reply, failure: WireFailure, stamp: Stamp) -> Iterator[StreamEvent]:
        """Write the events of a stream that begins with `begun`, does not end it, and reports an error; nothing follows them."""

    @abstractmethod
    def failure(self, failure: WireFailure, limits: RateLimitState | None = None) -> ErrorAnswer:
        """Write an error. `limits`: what is left of the limits, where one of them is the reason."""

    @abstractmethod
    def models(self, names: Sequence[str], created: int) -> Any:
        """Write the list of models; `created`: seconds since 1970."""

    @abstractmethod
    def model(self, name: str, created: int) -> Any:
        """Write one entry of that list."""

    def limit_headers(self, limits: RateLimitState, stamp: Stamp) -> dict[str, str]:
        """Write the headers of a reply."""
        return {}

    def count(self, tokens: int) -> Any:
        """Write the answer of a page of the kind `count`."""
        raise NotImplementedError(f"{self.name} has no such page")

    def remembered(self, request: WireRequest, reply: Reply, stamp: Stamp) -> tuple[str, Sequence[Any]] | None:
        """Return the id of an answer and what a later request may recall by it; None for nothing."""
        return None


SERVER = "whichloop"
"""What a client has to call the server, so that its tools are known by their names."""
_PREFIXED = re.compile(rf"(?:mcp[_.:/-]+)?{SERVER}[_.:/-]+(?P<tool>.+)", re.DOTALL)


def with_suite_names(wire_request: WireRequest, task_tools: Collection[str]) -> tuple[WireRequest, Mapping[str, str]]:
    """Return the request with the suite's own names, and each of these as the client has it; none if it puts nothing in front.

    A client whose server is called `whichloop` offers `add` as `mcp__whichloop__add` (Claude Code, Codex, Qwen Code) or
    `whichloop_add` (OpenCode, Mistral Vibe). The trial's model knows the tool by its own name.
    """
    offered = {tool.name for tool in wire_request.request.tools}
    suite_names: dict[str, str] = {}
    for name in offered:
        match = _PREFIXED.fullmatch(name)
        if match is not None and match["tool"] in task_tools and match["tool"] not in offered:
            suite_names[name] = match["tool"]
    if not suite_names:
        return wire_request, {}
    request = wire_request.request
    tools = tuple(replace(tool, name=suite_names.get(tool.name, tool.name)) for tool in request.tools)
    choice = request.tool_choice if request.tool_choice is None else suite_names.get(request.tool_choice, request.tool_choice)
    messages = tuple(
        replace(message, calls=_calls(message.calls, suite_names)) if message.calls else message for message in request.messages
    )
    renamed = replace(request, tools=tools, tool_choice=choice, messages=messages)
    return replace(wire_request, request=renamed), {name: client_name for client_name, name in suite_names.items()}


def _calls(calls: tuple[NativeCall, ...], names: Mapping[str, str]) -> tuple[NativeCall, ...]:
    return tuple(replace(call, name=names.get(call.name, call.name)) for call in calls)


def with_client_names(reply: Reply, names: Mapping[str, str]) -> Reply:
    """Return a reply with the names that the client knows. `names`: as `with_suite_names` gave them."""
    return replace(reply, calls=_calls(reply.calls, names)) if names and reply.calls else reply
