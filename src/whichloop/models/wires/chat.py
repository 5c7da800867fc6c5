"""OpenAI's chat completions, the server's side.

It follows the API reference, "Chat" (platform.openai.com/docs/api-reference/chat).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, Usage

from . import base
from .base import BadRequest, Fields, Incoming, Path, Stamp, WireRequest
from .openai import Function, Name, OpenAIBody, OpenAIWire, ReplyFormat, ToolChoice, tools_of

# --- reading ---


class _Part(Fields):
    type: Literal["text", "refusal"]
    text: str = Field(validation_alias=AliasChoices("text", "refusal"))


_Content = Annotated[
    base.Items[_Part],
    Field(min_length=1),
    BeforeValidator(lambda content: [{"type": "text", "text": content}] if isinstance(content, str) else content),
]
_CallId = Annotated[str, Field(min_length=1, max_length=40)]


class _CalledFunction(Fields):
    name: Name
    arguments: base.Arguments


class _Call(Fields):
    id: _CallId
    type: Literal["function"]
    function: _CalledFunction


class _Message(Fields):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: _Content | None = None
    tool_calls: base.Items[_Call] | None = Field(None, min_length=1)
    tool_call_id: _CallId | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("content is needed")
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("tool_call_id is needed")
        return self

    def message(self) -> Message:
        text = "".join(part.text for part in self.content or ())
        if self.role == "tool":
            return Message("tool", text, call_id=self.tool_call_id or "")
        if self.role != "assistant":
            return Message("user" if self.role == "user" else "system", text)
        made = self.tool_calls or ()
        return Message("assistant", text, tuple(NativeCall(one.id, one.function.name, one.function.arguments) for one in made))


class _Tool(Fields):
    type: Literal["function"]
    function: Function


_Stops = Annotated[
    list[str], Field(min_length=1, max_length=4), BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop)
]


_UNUSED = frozenset(
    {
        "audio", "frequency_penalty", "logit_bias", "logprobs", "modalities", "moderation", "prediction", "presence_penalty",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "safety_identifier",
        "service_tier", "store", "top_logprobs", "user", "verbosity", "web_search_options",
    }
)  # fmt: skip
"""Fields of the API that change nothing here."""


class _Body(OpenAIBody):
    messages: base.Items[_Message]
    tools: base.Items[_Tool] | None = Field(None, min_length=1)
    tool_choice: ToolChoice | None = None
    response_format: ReplyFormat | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: _Stops | None = None
    n: Literal[1] | None = None
    stream_options: dict[str, Any] | None = None
    functions: None = None
    function_call: None = None


class ChatWire(OpenAIWire):
    """Chat Completions. Every request that is not addressed to another vendor's API is addressed to this one."""

    name = "chat"
    stream_end = b"data: [DONE]\n\n"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return True

    def page(self, path: Path) -> base.Page | None:
        if path == ("v1", "models"):
            return "models"
        return "reply" if path == ("v1", "chat", "completions") else None

    def read(self, incoming: Incoming) -> WireRequest:
        body = base.read_body(_Body, incoming.body, _UNUSED)
        messages = tuple(each.message() for each in body.messages)
        base.check_history(messages)
        tools = tools_of([tool.function for tool in body.tools or ()])
        if body.parallel_tool_calls is not None and not tools:
            raise BadRequest("parallel_tool_calls: no tools are offered", "parallel_tool_calls")
        if body.max_tokens is not None and body.max_completion_tokens is not None:
            raise BadRequest("max_tokens: not beside max_completion_tokens", "max_tokens")
        metadata = body.metadata or {}
        request = Request(
            messages,
            tools,
            body.tool_choice.chosen(tools) if body.tool_choice else None,
            body.response_format.schema_for(messages, "response_format") if body.response_format else None,
            Sampling(
                body.temperature, body.max_completion_tokens or body.max_tokens, body.top_p, body.seed, tuple(body.stop or ())
            ),
            body.parallel_tool_calls is not False,
            **base.own_fields(metadata, len(messages)),
        )
        include_usage = (body.stream_options or {}).get("include_usage") is True
        return WireRequest(request, body.model, bool(body.stream), include_usage, metadata)

    # --- writing ---

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        message = Message("assistant", reply.text, reply.calls).as_dict() | {"refusal": None, "annotations": []}
        if reply.calls and not reply.text:
            message["content"] = None
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return _head(request, stamp, "chat.completion") | {"choices": [choice], "usage": _usage(reply)}

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        head = _head(request, stamp, "chat.completion.chunk") | ({"usage": None} if request.include_usage else {})

        def chunk(delta: Mapping[str, object], finish: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return head | {"choices": [choice]}

        yield chunk({"role": "assistant", "content": "" if reply.text or not reply.calls else None, "refusal": None})
        for piece in pieces(reply):
            if piece.call is not None:
                function = {"name": piece.call.name} if piece.call.name else {}
                delta: dict[str, object] = {"index": piece.call.index, "function": function | {"arguments": piece.call.arguments}}
                yield chunk({"tool_calls": [{"id": piece.call.id, "type": "function"} | delta if piece.call.id else delta]})
            elif piece.text:
                yield chunk({"content": piece.text})
        yield chunk({}, _finish(reply))
        if request.include_usage:
            yield head | {"choices": [], "usage": _usage(reply)}


def _head(request: WireRequest, stamp: Stamp, kind: str) -> dict[str, Any]:
    served = {"service_tier": "default", "system_fingerprint": "fp_whichloop"}
    return {"id": f"chatcmpl-{stamp.id}", "object": kind, "created": stamp.created, "model": request.model, **served}


def _finish(reply: Reply) -> str:
    return "stop" if reply.finish_reason == "other" else reply.finish_reason  # OpenAI has no name for other reasons


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage or Usage()
    kinds = ("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": dict.fromkeys(kinds, 0),
    }


CHAT = ChatWire()
