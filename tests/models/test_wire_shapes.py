"""Our replies carry the keys and types of real ones: each shape has its date and source, and nothing of what was said.

A shape is a type ("str", "int", "number", "bool", "null", "object" for one with any keys, or several with "|"), a list of the shape
of its elements, or a dict; a key that ends in "?" is not in every such object. `date`: when it was given or its page made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import pytest

from whichloop.models.server.server import segments
from whichloop.models.wires import WIRES
from whichloop.models.wires.base import Incoming, Stamp, WireFailure
from whichloop.protocol import NativeCall, Reply, Usage

from .wire_clients import CLIENTS, NAME

Sample = Literal["text", "call", "text, streamed", "call, streamed", "error"]


class RealShape(NamedTuple):
    """One real reply."""

    wire: str
    what: Sample
    date: str
    source: str
    shape: Any
    """Of a stream: the shape of its events by their names; "" for events without one."""


def keys(**named: str) -> dict[str, str]:
    """An object of simple values: type → its keys."""
    return {key: kind for kind, several in named.items() for key in several.split()}


# --- chat completions ---

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


_CASSETTES = "github.com/pydantic/pydantic-ai, tests/models/cassettes"
_FIXTURES = "github.com/vercel/ai, packages"
_DELTA = {"role?": "str", "content?": "str|null", "refusal?": "null"}
_CALL_DELTA = {"index": "int", "id?": "str", "type?": "str", "function": {"name?": "str", "arguments": "str"}}

# --- Responses ---

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


# --- Messages ---

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


# --- Gemini ---

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


# --- all of them ---

_WITH_CALLS = f"{_CASSETTES}/test_openai/test_openai_instructions_with_tool_calls.yaml"
_STREAMED = f"{_CASSETTES}/test_openai/test_run_stream_sync_streams_real_model.yaml"
_SPECIFIED = "github.com/openai/openai-openapi (2.3.0)"
_OPENAI_CHUNKS = f"{_FIXTURES}/openai/src/responses/__fixtures__/issue-19493-gpt-5.1-tool-call.chunks.txt"
_UNION = f"{_FIXTURES}/anthropic/src/__fixtures__/anthropic-tool-call-root-union.1"
_TEXT_CHUNKS = f"{_FIXTURES}/anthropic/src/__fixtures__/anthropic-text.chunks.txt; later keys from the call that is streamed"
_GOOGLE = f"{_FIXTURES}/google/src/__fixtures__/google"
_BEFORE = "before 2026-11-25"
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
_KEPT_BY_CLAUDE_CODE = {
    **{**keys(str="model id type role"), "content": [_TOOL_USE]},
    **keys(str="stop_reason", null="stop_sequence stop_details diagnostics"),
    "usage": _MESSAGES_USAGE | {"server_tool_use": "object", "iterations": ["object"], "speed": "str"},
}
_ANTHROPIC_ERROR = {"type": "str", "error": {"type": "str", "message": "str"}, "request_id": "str"}
_GOOGLE_ERROR = {"error": {"code": "int", "message": "str", "status": "str"}}
_CHAT_CALLING = _chat(_CHAT_MESSAGE | {"tool_calls": [_CHAT_CALL]})
_CHAT_CALL_CHUNKS = {"": _chat_chunk(_DELTA | {"tool_calls?": [_CALL_DELTA]})}
_RESPONSE_OF_TEXT = _RESPONSE | {"output": [_MESSAGE], "usage": _RESPONSE_USAGE}
_MESSAGE_CALL_EVENTS = _anthropic_stream(_TOOL_USE, {"partial_json": "str"})
_MESSAGE_TEXT_EVENTS = _anthropic_stream(_TEXT_BLOCK, {"text": "str"})

REAL: tuple[RealShape, ...] = (
    RealShape("chat", "text", "2025-04-16", f"{_WITH_CALLS}, the second reply", _chat(_CHAT_MESSAGE)),
    RealShape("chat", "call", "2025-04-16", f"{_WITH_CALLS}, the first reply", _CHAT_CALLING),
    RealShape("chat", "text, streamed", "2026-07-02", f"{_STREAMED}, the second reply", {"": _chat_chunk(_DELTA)}),
    RealShape("chat", "call, streamed", "2026-07-02", f"{_STREAMED}, the first reply", _CHAT_CALL_CHUNKS),
    RealShape("chat", "error", "2026-05-09", "github.com/ultimatejimmy/xray.koplugin/issues/33", _OPENAI_ERROR),
    RealShape("responses", "text", "2026-08-21", f"{_SPECIFIED}, an example; later keys from {_OPENAI_CHUNKS}", _RESPONSE_OF_TEXT),
    RealShape("responses", "call, streamed", "2026-08-25", _OPENAI_CHUNKS, _CALL_EVENTS),
    RealShape("responses", "text, streamed", "2026-08-21", f"{_SPECIFIED}, an example and the schemas of its events", _TEXT_EVENTS),
    RealShape("responses", "error", "2026-06-05", "github.com/microsoft/vscode/issues/320060", _OPENAI_ERROR),
    RealShape("messages", "call", _BEFORE, f"{_UNION}.json", _anthropic(_TOOL_USE)),
    RealShape("messages", "call, streamed", _BEFORE, f"{_UNION}.chunks.txt", _MESSAGE_CALL_EVENTS),
    RealShape("messages", "text, streamed", _BEFORE, _TEXT_CHUNKS, _MESSAGE_TEXT_EVENTS),
    RealShape("messages", "call", "2026-06-23", "github.com/daaain/claude-code-log/issues/227", _KEPT_BY_CLAUDE_CODE),
    RealShape("messages", "error", "2025-11-27", "github.com/anthropics/claude-code/issues/12526", _ANTHROPIC_ERROR),
    RealShape("gemini", "call", "2026-08-11", f"{_GOOGLE}-strict-forced-tool-choice-any.json", _gemini(_FUNCTION_CALL_OF_GEMINI)),
    RealShape(
        "gemini",
        "text, streamed",
        "2026-09-16",
        f"{_GOOGLE}-stream-gemini-3.7-flash-2026-09-16.chunks.txt",
        {"": _gemini(_TEXT_OF_GEMINI)},
    ),
    RealShape("gemini", "error", "2026-03-07", "github.com/continuedev/continue/issues/11164", _GOOGLE_ERROR),
)

LACKS: Mapping[str, Mapping[str, str]] = {
    "chat": {"obfuscation": "padding against those who measure the sizes of packets; it is random, and no client reads it"},
    "responses": {
        "obfuscation": "padding against those who measure the sizes of packets; it is random, and no client reads it",
        "tool_usage": "what OpenAI's own tools cost; none is run here",
        "context": "how reasoning is carried on; there is none here",
        "mode": "how reasoning is done; there is none here",
    },
    "messages": {
        "container": "what code runs in; none is run here",
        "diagnostics": "of the prompt cache, for those who ask",
        "inference_geo": "where the model runs",
        "iterations": "what each of several runs within one request cost; there is one here",
        "server_tool_use": "what the vendor's own tools cost; none is run here",
        "speed": "how fast the model runs",
    },
    "gemini": {
        "thoughtsTokenCount": "counts of zero are left out, and there are no thoughts here",
        "serviceTier": "which of the vendor's queues the request was in",
    },
}
"""Keys of real replies that ours lack, by wire, and why."""
HAS: Mapping[str, Mapping[str, str]] = {
    "chat": {},
    "responses": {"name": "ResponseFunctionCallArgumentsDoneEvent has it in the specification"},
    "messages": {},
    "gemini": {},
}
"""Keys of ours that the real replies lack, by wire, and why."""


# --- ours ---


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
        return json.loads(json.dumps(wire.failure(WireFailure(400, "no")).body))
    stream = real.what.endswith("streamed")
    path = segments(client.path(stream=stream))
    asked = wire.read(Incoming(client.body(stream=stream), path, headers=client.headers))
    reply = SAID[real.what.removesuffix(", streamed")]
    if not stream:
        return json.loads(json.dumps(wire.reply(asked, reply, STAMP)))
    return [(event.name, json.loads(json.dumps(event.data))) for event in wire.events(asked, reply, STAMP)]


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
        yield from (f"{where} has {key}" for key in value if key not in {*named, *HAS[real.wire]})
        for key in value.keys() & named.keys():
            yield from problems(value[key], named[key], real, f"{where}.{key}")


@pytest.mark.parametrize("real", REAL, ids=[f"{real.wire}: {real.what}, {real.date}" for real in REAL])
def test_our_reply_has_the_shape_of_a_real_one(real: RealShape) -> None:
    assert real.date
    assert real.source
    made = ours(real)
    if not real.what.endswith("streamed"):
        assert list(problems(made, real.shape, real)) == []
        return
    assert {name for name, _ in made} == set(real.shape)
    assert [said for name, data in made for said in problems(data, real.shape[name], real, name)] == []


def test_every_wire_has_real_shapes_and_no_exception_is_idle() -> None:
    assert {real.wire for real in REAL} == set(BY_NAME)
    for real in REAL:
        assert real.wire in LACKS.keys() & HAS.keys()
    for wire in BY_NAME:
        shapes = [real.shape for real in REAL if real.wire == wire]
        for key in LACKS[wire]:
            assert f"'{key}'" in repr(shapes), f"no real reply has {key}"


def test_a_difference_is_found() -> None:
    (real,) = (real for real in REAL if (real.wire, real.what) == ("chat", "error"))
    broken = {"error": {"message": 1, "type": "x", "param": None, "kind": None}}
    assert len(list(problems(broken, real.shape, real))) == 3
