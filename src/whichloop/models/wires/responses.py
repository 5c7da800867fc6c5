"""OpenAI's Responses, the server's side.

It follows the API reference, "Responses" (platform.openai.com/docs/api-reference/responses).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, ToolSpec, Usage
from whichloop.protocol.chat import FinishReason
from whichloop.protocol.json_text import Json

from . import base
from .base import BadRequest, Fields, Incoming, Path, Refusal, Stamp, WireRequest
from .openai import Function, Name, OpenAIBody, OpenAIWire, ReplyFormat, ToolChoice, tools_of

RESPONSE = "resp_"
_OWN_ITEM = re.compile("(?:msg|fc)_([0-9a-f]{24})[0-9a-f]{4}")
"""Id of an item of ours; the digits of its answer's id are in it."""

# --- reading ---


class _Part(Fields):
    type: Literal["input_text", "output_text", "refusal"]
    text: str = Field(validation_alias=AliasChoices("text", "refusal"))


_Content = Annotated[
    base.Items[_Part],
    BeforeValidator(lambda content: [{"type": "input_text", "text": content}] if isinstance(content, str) else content),
]
_CallId = Annotated[str, Field(min_length=1, max_length=64)]


class _Message(Fields):
    type: Literal["message"]
    role: Literal["system", "developer", "user", "assistant"]
    content: _Content


class _Call(Fields):
    type: Literal["function_call"]
    call_id: _CallId
    name: Name
    arguments: base.Arguments


class _Result(Fields):
    type: Literal["function_call_output"]
    call_id: _CallId
    output: _Content


class _Items(Fields):
    input: base.Items[Annotated[_Message | _Call | _Result, Field(discriminator="type")] | None]


def _read(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an item with its type; None for reasoning and what OpenAI's own tools make, which clients keep in their history."""
    kind = item.get("type") or ("message" if "role" in item else "")
    return {**item, "type": kind} if kind in ("message", "function_call", "function_call_output", "") else None


def _messages(items: Sequence[Any]) -> tuple[Message, ...]:
    """Return items as messages. Calls belong to the text of the assistant's right before them, as in one message of a chat."""
    messages: list[Message] = []
    for item in base.read_body(_Items, {"input": [_read(item) for item in items]}).input:
        match item:
            case _Message():
                role = "system" if item.role == "developer" else item.role
                messages.append(Message(role, "".join(part.text for part in item.content)))
            case _Call():
                said = messages.pop() if messages and messages[-1].role == "assistant" else Message("assistant")
                messages.append(replace(said, calls=(*said.calls, NativeCall(item.call_id, item.name, item.arguments))))
            case _Result():
                messages.append(Message("tool", "".join(part.text for part in item.output), call_id=item.call_id))
    return tuple(messages)


def _items(body: _Body, recall: base.Recall) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the items of the answer that a request goes on from, and its own. Raises BadRequest."""
    previous: Sequence[Any] | None = ()
    if body.previous_response_id is not None:
        previous = recall(body.previous_response_id)
    if previous is None:
        where = "previous_response_id"
        raise BadRequest(f"{where}: no response has this id, or it is forgotten", where, "previous_response_not_found")
    items_of = cache(
        lambda answer: {item["id"]: item for item in recall(RESPONSE + answer) or () if isinstance(item.get("id"), str)}
    )
    own: list[Any] = []
    for place, item in enumerate(body.input or ()):
        if item.get("type") != "item_reference":
            own.append(item)
            continue
        answer = _OWN_ITEM.fullmatch(str(item.get("id")))
        if answer is None or answer[0] not in items_of(answer[1]):
            raise BadRequest(f"input.{place}.id: no item has this id, or it is forgotten", f"input.{place}.id", status=404)
        own.append(items_of(answer[1])[answer[0]])
    ids = [item["id"] for item in (*previous, *own) if isinstance(item.get("id"), str)]
    if len(set(ids)) < len(ids):  # a short reference, repeated, would make a conversation of any size
        raise BadRequest("input: two items have one id", "input")
    return previous, own


# --- reading: the body ---


class _Tool(Function):
    """A function, or a tool of OpenAI's own, which the model here never calls."""

    type: str
    name: str = ""


class _TextConfig(Fields):
    format: ReplyFormat | None = None


_Input = Annotated[
    base.Items[dict[str, Any]],
    Field(max_length=base.MAX_MESSAGES),
    BeforeValidator(lambda given: [{"role": "user", "content": given}] if isinstance(given, str) else given),
]


class _Body(OpenAIBody):
    input: _Input | None = None
    instructions: str | None = None
    tools: base.Items[_Tool] | None = None
    tool_choice: ToolChoice | None = None
    text: _TextConfig | None = None
    reasoning: dict[str, Any] | None = None
    max_output_tokens: int | None = Field(None, ge=16)
    previous_response_id: str | None = None
    store: bool | None = None
    background: Literal[False] | None = None
    conversation: None = None
    prompt: None = None

    def choice(self, tools: Sequence[ToolSpec]) -> str | None:
        """Return how the model is to call, as a Request has it. Of a choice among tools of OpenAI's own nothing is left."""
        choice, others = self.tool_choice, [tool.type for tool in self.tools or () if tool.type != "function"]
        if choice is None or (not tools and (others or choice.type == "auto")):
            return None
        for other in others:
            if other.startswith(choice.type) or choice.type.startswith(other):  # one of them may name a version
                return None
        return choice.chosen(tools)


_UNUSED = frozenset(
    {
        "access_programs", "client_metadata", "context_management", "include", "max_tool_calls", "moderation", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "stream_options", "top_logprobs",
        "truncation", "user",
    }
)  # fmt: skip
"""Fields of the API that change nothing here, and two that the Codex command line sends."""

_ECHOED: Mapping[str, Json] = {
    **dict.fromkeys(("instructions", "max_output_tokens", "max_tool_calls", "moderation", "previous_response_id", "user")),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "safety_identifier")),
    **dict.fromkeys(("frequency_penalty", "presence_penalty"), 0.0),
    **dict.fromkeys(("temperature", "top_p"), 1.0),
    "background": False,
    "parallel_tool_calls": True,
    "store": True,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
}
"""What a response repeats of its request, with OpenAI's defaults."""


def _echo(body: Mapping[str, Any]) -> dict[str, Json]:
    unsaid = {"strict": True, "parameters": None, "output_schema": None, "description": None}
    text = {name: value for name, value in (body.get("text") or {}).items() if value is not None}
    return {
        **{name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()},
        "metadata": body.get("metadata") or {},
        "reasoning": {"effort": None, "summary": None} | (body.get("reasoning") or {}),
        "service_tier": "default",
        "text": {"format": {"type": "text"}, "verbosity": "medium"} | text,
        "tools": [unsaid | tool if tool["type"] == "function" else tool for tool in body.get("tools") or ()],
    }


class ResponsesWire(OpenAIWire):
    """Responses: requests for `/v1/responses` and below."""

    name = "responses"
    begun_events = 5

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return path[:2] == ("v1", "responses")

    def page(self, path: Path) -> base.Page | None:
        return "reply" if path == ("v1", "responses") else None

    def read(self, incoming: Incoming) -> WireRequest:
        body = base.read_body(_Body, incoming.body, _UNUSED)
        previous, own = _items(body, incoming.recall)
        conversation = (*_messages(previous), *_messages(own))
        base.check_history(conversation, "input")
        tools = tools_of([tool for tool in body.tools or () if tool.type == "function"])
        metadata = body.metadata or {}
        request = Request(
            (Message("system", body.instructions), *conversation) if body.instructions else conversation,
            tools,
            body.choice(tools),
            body.text.format.schema_for(conversation, "text.format") if body.text and body.text.format else None,
            Sampling(body.temperature, body.max_output_tokens, body.top_p),
            body.parallel_tool_calls is not False,
            **base.own_fields(metadata, len(conversation)),
        )
        echo = _echo(incoming.body)
        return WireRequest(request, body.model, bool(body.stream), metadata=metadata, echo=echo, items=(*previous, *own))

    def remembered(self, request: WireRequest, reply: Reply, stamp: Stamp) -> tuple[str, Sequence[Any]] | None:
        return (RESPONSE + stamp.id, (*request.items, *_output(reply, stamp))) if request.echo["store"] else None

    # --- writing ---

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        reason = _REASONS.get(reply.finish_reason)
        ending = {"completed_at": stamp.created} if reason is None else {"incomplete_details": {"reason": reason}}
        usage = reply.usage or Usage()
        counts = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.total_tokens,
        }
        status = "completed" if reason is None else "incomplete"
        return _response(request, stamp, status) | {"output": _output(reply, stamp), "usage": counts} | ending

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        return _numbered(self._events(request, reply, stamp))

    def failed_events(self, request: WireRequest, begun: Reply, failure: Refusal, stamp: Stamp) -> Iterator[dict[str, Any]]:
        """The last two came in a real stream (github.com/vercel/ai, `openai-error.1.chunks.txt`); the first makes clients raise."""
        error = {"code": "server_error", "message": str(failure)}
        told = {"type": "error", "error": {"type": "server_error", **error, "param": None}}
        failed = {"type": "response.failed", "response": _response(request, stamp, "failed") | {"error": error}}
        return _numbered(chain(islice(self._events(request, begun, stamp), self.begun_events), (told, failed)))

    def _events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        """Yield the events without their numbers.

        Of an item that is cut the deltas stop, and what closes its text or arguments does not come: OpenAI ends it with
        `output_item.done` alone, and the stream with `response.incomplete` (github.com/vercel/ai/pull/20405).
        """
        for kind in ("created", "in_progress"):
            yield {"type": f"response.{kind}", "response": _response(request, stamp, "in_progress")}
        response = self.reply(request, reply, stamp)
        for place, item in enumerate(response["output"]):
            is_text = item["type"] == "message"
            empty: dict[str, Json] = {"content": []} if is_text else {"arguments": ""}
            yield {"type": "response.output_item.added", "output_index": place, "item": item | empty | {"status": "in_progress"}}
            at = {"item_id": item["id"], "output_index": place}
            yield from _text_events(item, at) if is_text else _argument_events(item, at)
            yield {"type": "response.output_item.done", "output_index": place, "item": item}
        yield {"type": f"response.{response['status']}", "response": response}


_REASONS: Mapping[FinishReason, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete; those that end otherwise are complete."""


def _response(request: WireRequest, stamp: Stamp, status: str) -> dict[str, Any]:
    head = {"id": RESPONSE + stamp.id, "object": "response", "created_at": stamp.created, "status": status, "model": request.model}
    return {**head, **dict.fromkeys(("completed_at", "error", "incomplete_details", "usage")), "output": [], **request.echo}


def _output(reply: Reply, stamp: Stamp) -> list[dict[str, Any]]:
    """Write a reply's items: a message, if there is text or nothing else, and the calls. The last of a cut reply is incomplete."""
    items: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    for call in reply.calls:
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
    for place, item in enumerate(items):
        prefix = "msg" if item["type"] == "message" else "fc"
        item |= {"id": f"{prefix}_{stamp.id}{place:04x}", "status": "completed"}
    if reply.finish_reason in _REASONS:
        items[-1]["status"] = "incomplete"
    return items


def _numbered(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (event | {"sequence_number": number} for number, event in enumerate(events))


def _text_events(item: dict[str, Any], at: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    at, (part,) = {**at, "content_index": 0}, item["content"]
    yield {"type": "response.content_part.added", **at, "part": part | {"text": ""}}
    for piece in pieces(Reply(part["text"])):
        if piece.text:
            yield {"type": "response.output_text.delta", **at, "delta": piece.text, "logprobs": []}
    if item["status"] == "completed":
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}


def _argument_events(item: dict[str, Any], at: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for piece in pieces(Reply(calls=(NativeCall("", "", item["arguments"]),))):
        if piece.call and piece.call.arguments:
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece.call.arguments}
    if item["status"] == "completed":
        yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]}


RESPONSES = ResponsesWire()
