"""What the vendors' APIs have in common: a request that is read, a reply, a stream or an error that is written.

Pure: nothing here knows a socket, a policy or a fault. `WIRES` in `wires/__init__.py` lists the four.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from whichloop.protocol import Message, NativeCall, Reply, Request, Role, ToolSpec
from whichloop.protocol.moves import Inexpressible
from whichloop.protocol.wire import from_json, to_json

Path = tuple[str, ...]
"""The segments of a path below the server's root or a trial's, decoded."""
Recall = Callable[[str], Sequence[Any] | None]
"""Returns what was kept of the answer with this id (see `Wire.remembered`), None if nothing was."""
MAX_DEPTH = 100
"""Levels of nesting in a request's body."""
MAX_MESSAGES = 10_000
MAX_SHOWN = 200
"""Longest part of a client's text that an error repeats, in characters."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as a wire has read it."""

    request: Request
    """The request, without a codec."""
    model: str
    stream: bool = False
    include_usage: bool = False
    """Whether a stream of chat completions ends with a chunk that holds the usage."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the vendor's reply repeats of the request."""
    items: tuple[Any, ...] = ()
    """The conversation in the vendor's own form, where a later request may refer to it."""
    listed: bool = False
    """Whether a stream is the items of one JSON list instead of server-sent events."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request for a reply or for a count as it comes from the network."""

    body: Any
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
    stopped_at: str = ""
    """The stop sequence at which the reply ends; empty if it ends for another reason."""


Page = Literal["reply", "count", "models"]
"""What a path stands for; the list of models is for GET, the others are for POST."""


class Refusal(Exception):
    """Why a request gets no reply, in no vendor's form."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, wait_s: float | None = None
    ) -> None:
        """`status`: as OpenAI has it, 503 if the model is overloaded. `param`: path of the field at fault, such as
        `messages.2.content`. `wait_s`: seconds until another attempt may succeed.
        """
        super().__init__(message)
        self.status, self.param, self.code, self.wait_s = status, param, code, wait_s


class BadRequest(Refusal):
    """A request that the vendor's API would refuse."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(status, " ".join(message.split()), param, code)


class Wire(ABC):
    """One vendor's API."""

    name: ClassVar[str]
    stream_end: ClassVar[bytes] = b""
    """What follows the last event of a stream."""
    begun_events: ClassVar[int] = 2
    """Events of a stream up to its first piece of text."""

    @abstractmethod
    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        """Say whether a request is meant for this vendor's API, known page or not; `headers`: names in small letters."""

    @abstractmethod
    def page(self, path: Path) -> Page | None:
        """Return what a path stands for; None for one that the API does not have."""

    @abstractmethod
    def read(self, incoming: Incoming) -> WireRequest:
        """Read a request for a reply or for a count. Raises BadRequest."""

    @abstractmethod
    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        """Write the body of a whole reply."""

    @abstractmethod
    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        """Write the events of a streamed reply, without `stream_end`; an event's `type`, where it has one, is its name."""

    def failed_events(self, request: WireRequest, begun: Reply, failure: Refusal, stamp: Stamp) -> Iterator[dict[str, Any]]:
        """Write the events of a stream that begins with `begun`, does not end it, and reports an error; nothing follows them.

        An error may come at any place of Anthropic's streams (platform.claude.com/docs/en/build-with-claude/streaming). OpenAI's
        and Gemini's own clients raise for an event with the field `error` (diegosouzapw/OmniRoute#4177).
        """
        yield from islice(self.events(request, begun, stamp), self.begun_events)
        yield self.failure(failure)[1]

    @abstractmethod
    def failure(self, failure: Refusal) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Write an error: its status, body and headers."""

    def models(self, names: Sequence[str], created: int) -> Any:
        """Write the list of models; `created`: seconds since 1970."""
        raise NotImplementedError(f"{self.name} has no such page")

    def count(self, tokens: int) -> Any:
        """Write the answer of a page of the kind `count`."""
        raise NotImplementedError(f"{self.name} has no such page")

    def remembered(self, request: WireRequest, reply: Reply, stamp: Stamp) -> tuple[str, Sequence[Any]] | None:
        """Return the id of an answer and what a later request may recall by it; None for nothing."""
        return None


# --- reading ---


class Fields(BaseModel):
    """An object in a request's body. Fields that it does not name change nothing."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", hide_input_in_errors=True)


Body = TypeVar("Body", bound=Fields)
Item = TypeVar("Item")
Items = Annotated[list[Item], Field(fail_fast=True)]
"""A list that is read up to its first item at fault: a body may have millions of them."""


def read_body(kind: type[Body], body: Any, unused: Collection[str] = ()) -> Body:
    """Read a body or a part of one. Raises BadRequest, which names the field at fault and what is allowed.

    `unused`: the fields that the API has beside those of `kind`; any other is refused.
    """
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    check_depth(body)
    try:
        read = kind.model_validate(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        places = [(_path(body, each["loc"], is_missing=each["type"] == "missing"), each["msg"]) for each in errors]
        where, problem = max(places, key=lambda place: place[0].count("."))  # of a choice, the one that was meant fails deepest
        problem = problem.removeprefix("Value error, ").partition(" or instance of ")[0][:MAX_SHOWN]
        raise BadRequest(f"{where}: {problem}" if where else problem, where or None) from None
    names = {name for field, info in kind.model_fields.items() for name in (field, info.alias)}
    for name in (name for name in body if name not in names and name not in unused):
        raise BadRequest(f"{name[:MAX_SHOWN]}: the API has no such field", name[:MAX_SHOWN])
    return read


def _path(body: Any, place: Sequence[str | int], *, is_missing: bool) -> str:
    """Return the path of a field, without the names of choices that pydantic puts into it."""
    parts, value = list[str](), body
    for number, part in enumerate(place):
        is_there = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if is_there or (is_missing and number == len(place) - 1):
            parts.append(str(part))
        value = value[part] if is_there else value
    return ".".join(parts)[:MAX_SHOWN]


def object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments. Raises ValueError for one that is no object's."""
    if schema.get("type") != "object":
        raise ValueError("the schema must have the type 'object'")
    return schema


ObjectSchema = Annotated[dict[str, Any], AfterValidator(object_schema)]


def check_depth(body: Any) -> None:
    """Raise BadRequest for a body that is nested too deep."""
    level, depth = [body] if isinstance(body, dict | list) else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BadRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]


def check_history(messages: Sequence[Message], where: str = "messages") -> None:
    """Check a conversation: right after calls comes one result of each, and no result comes elsewhere. Raises BadRequest.

    `where`: the field that holds it.
    """
    if not messages or len(messages) > MAX_MESSAGES:
        raise BadRequest(f"{where}: a conversation has 1 to {MAX_MESSAGES} messages, not {len(messages)}", where)
    waiting = Counter[str]()
    for message in messages:
        if message.role == "tool":
            if not waiting[message.call_id]:
                raise BadRequest(f"{where}: the result of '{message.call_id[:MAX_SHOWN]}' follows no call of that id", where)
            waiting[message.call_id] -= 1
            continue
        if +waiting:
            break
        waiting = Counter(call.id for call in message.calls)
    if open_calls := +waiting:
        raise BadRequest(f"{where}: the call '{next(iter(open_calls))[:MAX_SHOWN]}' has no result right after it", where)


def checked_tools(tools: Sequence[ToolSpec], most: int, name: re.Pattern[str]) -> tuple[ToolSpec, ...]:
    """Return the tools of a request. Raises BadRequest for too many, and for a name that is not allowed or given twice."""
    if len(tools) > most:
        raise BadRequest(f"tools: at most {most}, not {len(tools)}", "tools")
    names: set[str] = set()
    for tool in tools:
        if not name.fullmatch(tool.name):
            raise BadRequest(f"tools: the name '{tool.name[:MAX_SHOWN]}' does not match {name.pattern}", "tools")
        if tool.name in names:
            raise BadRequest(f"tools: the name '{tool.name}' is given twice", "tools")
        names.add(tool.name)
    return tuple(tools)


def checked_choice(choice: str | None, tools: Sequence[ToolSpec], where: str = "tool_choice") -> str | None:
    """Return how the model is to call, as a Request has it. Raises BadRequest where no tool, or not the chosen one, is offered."""
    if choice in (None, "none"):
        return choice
    if not tools:
        raise BadRequest(f"{where}: no tools are offered", where)
    if choice not in ("auto", "required") and all(tool.name != choice for tool in tools):
        raise BadRequest(f"{where}: the tool '{str(choice)[:MAX_SHOWN]}' is not offered", where)
    return choice


def written_arguments(arguments: str) -> str:
    """Write arguments of the history as the scripted model does, whatever a client has made of their white space and escapes.

    `{"_unparsed": text}`, which lm15 and some clients make of arguments that are not JSON, becomes the text again.
    """
    try:
        value = from_json(arguments or "{}")
        if isinstance(value, dict) and value.keys() == {"_unparsed"} and isinstance(value["_unparsed"], str):
            return value["_unparsed"]
        return to_json(value) if isinstance(value, dict) else arguments
    except (ValueError, Inexpressible):
        return arguments


Arguments = Annotated[str, AfterValidator(written_arguments)]


def own_fields(given: Mapping[str, Any], messages: int) -> dict[str, Any]:
    """Return what a loop's own client says of its request in the metadata, as fields of Request (docs/serve.md)."""
    metadata = {name: value for name, value in given.items() if isinstance(value, str)}
    role, examples = metadata.get("role", Role.DECIDE), metadata.get("examples", "0")
    if role not in [*Role]:
        raise BadRequest(f"metadata.role: one of {', '.join(Role)}", "metadata.role")
    if not (examples.isascii() and examples.isdigit()) or len(examples) > 5 or int(examples) > messages:
        raise BadRequest(f"metadata.examples: a number of messages up to {messages}", "metadata.examples")
    return {"role": Role(role), "scope": metadata.get("scope", ""), "examples": int(examples)}


# --- names of tools ---

SERVER = "whichloop"
"""What a client has to call the server, so that its tools are known by their names."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
"""What providers refuse in a tool's name."""
_PREFIXED = re.compile(rf"(?:mcp[_.:/-]+)?{SERVER}[_.:/-]+(?P<tool>.+)", re.DOTALL)


def with_suite_names(wire_request: WireRequest, task_tools: Collection[str]) -> tuple[WireRequest, Mapping[str, str]]:
    """Return the request with the suite's own names, and each of these as the client has it; none if it puts nothing in front.

    A client whose server is called `whichloop` offers `add` as `mcp__whichloop__add` (Claude Code, Codex, Qwen Code) or
    `whichloop_add` (OpenCode, Mistral Vibe), and one may send `shop_price` for `shop.price`. The trial's model knows the tool by
    its own name.
    """
    offered = {tool.name for tool in wire_request.request.tools}
    as_sent = {sent: name for name in task_tools for sent in (_UNFIT.sub("_", name), name)}
    suite_names: dict[str, str] = {}
    for name in offered - set(task_tools):
        match = _PREFIXED.fullmatch(name)
        tool = as_sent.get(name if match is None else match["tool"])
        if tool is not None and tool not in offered:
            suite_names[name] = tool
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
