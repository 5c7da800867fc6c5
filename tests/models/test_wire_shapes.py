"""Our replies carry the keys and types of real ones.

A shape is a type ("str", "int", "number", "bool", "null", "object" for one with any keys, or several with "|"), a list of the shape
of its elements, or a dict; a key that ends in "?" is not in every such object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import pytest

from whichloop.models.server.server import segments
from whichloop.models.wires import WIRES
from whichloop.models.wires.base import Incoming, Refusal, Stamp
from whichloop.protocol import NativeCall, Reply, Usage

from .wire_clients import CLIENTS, NAME

Sample = Literal["text", "call", "text, streamed", "call, streamed", "error"]


class RealShape(NamedTuple):
    wire: str
    what: Sample
    shape: Any
    """Of a stream: the shape of its events by their names; "" for events without one."""


def keys(**named: str) -> dict[str, str]:
    """An object of simple values: type → its keys."""
    return {key: kind for kind, several in named.items() for key in several.split()}


_CHAT_USAGE = {
    "prompt_tokens": "int",
    "completion_tokens": "int",
    "total_tokens": "int",
    "prompt_tokens_details": {"cached_tokens": "int", "audio_tokens": "int"},
    "completion_tokens_details": keys(int="reasoning_tokens audio_tokens accepted_prediction_tokens rejected_prediction_tokens"),
}
_CHAT_MESSAGE = {"role": "str", "content": "str|null", "refusal": "null", "annotations": ["object"]}
_CHAT_CALL = {"id": "str", "type": "str", "function": {"name": "str", "arguments": "str"}}


def _chat(message: Any) -> Any:
    return {
        **keys(str="id object model service_tier system_fingerprint", int="created"),
        "choices": [{"index": "int", "message": message, "logprobs": "null", "finish_reason": "str"}],
        "usage": _CHAT_USAGE,
    }


def _chat_chunk(delta: Any) -> Any:
    choice = {"index": "int", "delta": delta, "logprobs": "null", "finish_reason": "str|null"}
    head = {"id": "str", "object": "str", "created": "int", "model": "str", "service_tier": "str", "system_fingerprint": "str"}
    return {**head, "choices": [choice], "usage": "object|null", "obfuscation": "str"}


_DELTA = {"role?": "str", "content?": "str|null", "refusal?": "null"}
_CALL_DELTA = {"index": "int", "id?": "str", "type?": "str", "function": {"name?": "str", "arguments": "str"}}

_RESPONSE = {
    **keys(
        str="id object status model service_tier tool_choice truncation",
        int="created_at top_logprobs",
        bool="background parallel_tool_calls store",
        null="error incomplete_details instructions max_output_tokens max_tool_calls "
        "moderation previous_response_id prompt_cache_key safety_identifier user",
        number="frequency_penalty presence_penalty temperature top_p",
        object="tool_usage metadata",
    ),
    "completed_at": "int|null",
    "prompt_cache_retention": "str|null",
    "reasoning": {"context": "str", "effort": "str|null", "mode": "str", "summary": "null"},
    "text": {"format": {"type": "str"}, "verbosity": "str"},
    "tools": [keys(str="type description name", null="output_schema", object="parameters", bool="strict")],
}
_RESPONSE_USAGE = {
    "input_tokens": "int",
    "input_tokens_details": {"cached_tokens": "int", "cache_write_tokens": "int"},
    "output_tokens": "int",
    "output_tokens_details": {"reasoning_tokens": "int"},
    "total_tokens": "int",
}
_FUNCTION_CALL = keys(str="id type status arguments call_id name")
_TEXT_PART = {"type": "str", "annotations": ["object"], "logprobs": ["object"], "text": "str"}
_MESSAGE = {**keys(str="id type status role"), "content": [_TEXT_PART]}
_BEGUN = _RESPONSE | {"output": ["object"], "usage": "null"}
_AT = keys(str="type item_id", int="sequence_number output_index")
_IN_TEXT = _AT | {"content_index": "int"}


def _lifecycle(output: Any) -> dict[str, Any]:
    ended = _RESPONSE | {"output": [output], "usage": _RESPONSE_USAGE}
    named = {"response.created": _BEGUN, "response.in_progress": _BEGUN, "response.completed": ended}
    return {name: {"type": "str", "sequence_number": "int", "response": response} for name, response in named.items()}


def _item(item: Any) -> Any:
    return {"type": "str", "sequence_number": "int", "output_index": "int", "item": item}


_CACHE = {"cache_creation_input_tokens": "int", "cache_read_input_tokens": "int"}
_MESSAGES_USAGE = {
    **keys(int="input_tokens output_tokens", str="service_tier inference_geo"),
    **_CACHE,
    "cache_creation": {"ephemeral_5m_input_tokens": "int", "ephemeral_1h_input_tokens": "int"},
}
_TEXT_BLOCK = {"type": "str", "text": "str"}
_TOOL_USE = {**keys(str="type id name", object="input"), "caller": {"type": "str"}}
_ENDING = {"container": "null", "stop_reason": "str|null", "stop_sequence": "null", "stop_details": "null"}


def _anthropic(block: Any) -> Any:
    head = {"model": "str", "id": "str", "type": "str", "role": "str", "content": [block]}
    return {**head, **_ENDING, "usage": _MESSAGES_USAGE, "diagnostics": "null"}


def _anthropic_stream(block: Any, delta: Any) -> dict[str, Any]:
    return {
        "message_start": {"type": "str", "message": _anthropic(block)},
        "content_block_start": {"type": "str", "index": "int", "content_block": block},
        "ping": {"type": "str"},
        "content_block_delta": {"type": "str", "index": "int", "delta": {"type": "str", **delta}},
        "content_block_stop": {"type": "str", "index": "int"},
        "message_delta": {"type": "str", "delta": _ENDING, "usage": {"input_tokens": "int", **_CACHE, "output_tokens": "int"}},
        "message_stop": {"type": "str"},
    }


_GEMINI_USAGE = {
    **keys(int="promptTokenCount totalTokenCount thoughtsTokenCount", str="serviceTier"),
    "candidatesTokenCount?": "int",
    "promptTokensDetails": [{"modality": "str", "tokenCount": "int"}],
}
_TEXT_OF_GEMINI = {"text": "str", "thoughtSignature?": "str"}
_FUNCTION_CALL_OF_GEMINI = {"functionCall": {"name": "str", "args": "object", "id": "str"}, "thoughtSignature?": "str"}


def _gemini(part: Any) -> Any:
    ending = {"finishReason?": "str", "finishMessage?": "str", "index": "int"}
    candidate = {"content": {"parts": [part], "role": "str"}, **ending}
    return {"candidates": [candidate], "usageMetadata": _GEMINI_USAGE, "modelVersion": "str", "responseId": "str"}


_OPENAI_ERROR = {"error": {"message": "str", "type": "str", "param": "str|null", "code": "str|null"}}
_CALL_EVENTS = {
    **_lifecycle(_FUNCTION_CALL),
    "response.output_item.added": _item(_FUNCTION_CALL),
    "response.function_call_arguments.delta": _AT | {"delta": "str", "obfuscation": "str"},
    "response.function_call_arguments.done": _AT | {"arguments": "str"},
    "response.output_item.done": _item(_FUNCTION_CALL),
}
_TEXT_EVENTS = {
    **_lifecycle(_MESSAGE),
    "response.output_item.added": _item(_MESSAGE),
    "response.content_part.added": _IN_TEXT | {"part": _TEXT_PART},
    "response.output_text.delta": _IN_TEXT | {"delta": "str", "logprobs": ["object"], "obfuscation": "str"},
    "response.output_text.done": _IN_TEXT | {"text": "str", "logprobs": ["object"]},
    "response.content_part.done": _IN_TEXT | {"part": _TEXT_PART},
    "response.output_item.done": _item(_MESSAGE),
}

REAL: tuple[RealShape, ...] = (
    RealShape("chat", "text", _chat(_CHAT_MESSAGE)),
    RealShape("chat", "call", _chat(_CHAT_MESSAGE | {"tool_calls": [_CHAT_CALL]})),
    RealShape("chat", "text, streamed", {"": _chat_chunk(_DELTA)}),
    RealShape("chat", "call, streamed", {"": _chat_chunk(_DELTA | {"tool_calls?": [_CALL_DELTA]})}),
    RealShape("chat", "error", _OPENAI_ERROR),
    RealShape("responses", "text", _RESPONSE | {"output": [_MESSAGE], "usage": _RESPONSE_USAGE}),
    RealShape("responses", "call, streamed", _CALL_EVENTS),
    RealShape("responses", "text, streamed", _TEXT_EVENTS),
    RealShape("responses", "error", _OPENAI_ERROR),
    RealShape("messages", "call", _anthropic(_TOOL_USE)),
    RealShape("messages", "call, streamed", _anthropic_stream(_TOOL_USE, {"partial_json": "str"})),
    RealShape("messages", "text, streamed", _anthropic_stream(_TEXT_BLOCK, {"text": "str"})),
    RealShape("messages", "error", {"type": "str", "error": {"type": "str", "message": "str"}, "request_id": "str"}),
    RealShape("gemini", "call", _gemini(_FUNCTION_CALL_OF_GEMINI)),
    RealShape("gemini", "text, streamed", {"": _gemini(_TEXT_OF_GEMINI)}),
    RealShape("gemini", "error", {"error": {"code": "int", "message": "str", "status": "str"}}),
)
"""From tests/models/cassettes of github.com/pydantic/pydantic-ai (OpenAI, 2025, 2026), the fixtures of packages/openai, anthropic
and google of github.com/vercel/ai (2026), github.com/openai/openai-openapi 2.3.0, and errors that users reported."""
LACKS: Mapping[str, set[str]] = {
    "chat": {"obfuscation"},  # random padding against those who measure the sizes of packets
    "responses": {"obfuscation", "tool_usage", "context", "mode"},  # of OpenAI's own tools, and of reasoning: there is none here
    "messages": {"container", "diagnostics", "inference_geo"},  # of code that is run, of the prompt cache, of where the model runs
    "gemini": {"thoughtsTokenCount", "serviceTier"},  # there are no thoughts and no queues here
}
"""Keys of real replies that ours lack, by wire."""
HAS: Mapping[str, set[str]] = {"responses": {"name"}}
"""Keys of ours that the real replies lack: ResponseFunctionCallArgumentsDoneEvent has it in the specification."""
STAMP = Stamp("0123456789abcdef01234567", 1_800_000_000)
SAID = {
    "text": Reply("It is 4.", usage=Usage(7, 3)),
    "call": Reply("", (NativeCall("call_0", NAME, '{"a": 2, "b": 2}'),), Usage(7, 3), "tool_calls"),
}
BY_NAME = {wire.name: wire for wire in WIRES}
_TYPES: dict[str, Any] = {
    "str": str, "int": int, "number": (int, float), "bool": bool, "null": type(None), "object": dict,
}  # fmt: skip


def ours(real: RealShape) -> Any:
    """Return what our wire writes in that place, once over JSON."""
    wire, client = BY_NAME[real.wire], CLIENTS[real.wire]
    if real.what == "error":
        return json.loads(json.dumps(wire.failure(Refusal(400, "no"))[1]))
    stream = real.what.endswith("streamed")
    path = segments(client.path(stream=stream))
    asked = wire.read(Incoming(client.body(stream=stream), path, headers=client.headers))
    reply = SAID[real.what.removesuffix(", streamed")]
    if not stream:
        return json.loads(json.dumps(wire.reply(asked, reply, STAMP)))
    return [(event.get("type", ""), json.loads(json.dumps(event))) for event in wire.events(asked, reply, STAMP)]


def problems(value: Any, shape: Any, real: RealShape, where: str = "") -> Iterator[str]:
    """Yield in what a value differs from a shape."""
    if isinstance(shape, str):
        kinds = [_TYPES[name] for name in shape.split("|")]
        if not any(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for kind in kinds):
            yield f"{where} is {value!r}, and {shape} in a real reply"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for item in value:
            yield from problems(item, shape[0], real, f"{where}[]")
    else:
        named = {key.removesuffix("?"): inner for key, inner in shape.items()}
        yield from (f"{where} lacks {key}" for key in shape if key not in {*value, *LACKS[real.wire]} and not key.endswith("?"))
        yield from (f"{where} has {key}" for key in value if key not in {*named, *HAS.get(real.wire, ())})
        for key in value.keys() & named.keys():
            yield from problems(value[key], named[key], real, f"{where}.{key}")


@pytest.mark.parametrize("real", REAL, ids=[f"{real.wire}: {real.what}" for real in REAL])
def test_our_reply_has_the_shape_of_a_real_one(real: RealShape) -> None:
    made = ours(real)
    if not real.what.endswith("streamed"):
        assert list(problems(made, real.shape, real)) == []
        return
    assert {name for name, _ in made} == set(real.shape)
    assert [said for name, data in made for said in problems(data, real.shape[name], real, name)] == []
