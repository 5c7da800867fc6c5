"""The shapes of real replies, each with its date and source: keys and types only, nothing of what was said.

A shape is a type ("str", "int", "number", "bool", "null", "object" for one with any keys, or several with "|"), a list of the shape
of its elements, or a dict; a key that ends in "?" is not in every such object. `date`: when the reply was given, or its page made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Sample = Literal["text", "call", "text, streamed", "call, streamed", "error"]


class RealShape(NamedTuple):
    """One real reply."""

    wire: str
    what: Sample
    date: str
    source: str
    shape: Any
    """Of a stream: the shape of its events by their names; "" for events without one."""


# --- chat completions ---

_CHAT_USAGE = {
    "prompt_tokens": "int",
    "completion_tokens": "int",
    "total_tokens": "int",
    "prompt_tokens_details": {"cached_tokens": "int", "audio_tokens": "int"},
    "completion_tokens_details": {
        "reasoning_tokens": "int",
        "audio_tokens": "int",
        "accepted_prediction_tokens": "int",
        "rejected_prediction_tokens": "int",
    },
}
_CHAT_MESSAGE = {"role": "str", "content": "str|null", "refusal": "null", "annotations": ["object"]}
_CHAT_CALL = {"id": "str", "type": "str", "function": {"name": "str", "arguments": "str"}}


def _chat(message: Any) -> Any:
    return {
        "id": "str",
        "object": "str",
        "created": "int",
        "model": "str",
        "choices": [{"index": "int", "message": message, "logprobs": "null", "finish_reason": "str"}],
        "usage": _CHAT_USAGE,
        "service_tier": "str",
        "system_fingerprint": "str",
    }


def _chat_chunk(delta: Any) -> Any:
    choice = {"index": "int", "delta": delta, "logprobs": "null", "finish_reason": "str|null"}
    head = {"id": "str", "object": "str", "created": "int", "model": "str", "service_tier": "str", "system_fingerprint": "str"}
    return {**head, "choices": [choice], "usage": "object|null", "obfuscation": "str"}


_CASSETTES = "github.com/pydantic/pydantic-ai, tests/models/cassettes"
_DELTA = {"role?": "str", "content?": "str|null", "refusal?": "null"}
_CALL_DELTA = {"index": "int", "id?": "str", "type?": "str", "function": {"name?": "str", "arguments": "str"}}

# --- Responses ---

_RESPONSE = {
    "id": "str",
    "object": "str",
    "created_at": "int",
    "status": "str",
    "background": "bool",
    "completed_at": "int|null",
    "error": "null",
    "frequency_penalty": "number",
    "incomplete_details": "null",
    "instructions": "null",
    "max_output_tokens": "null",
    "max_tool_calls": "null",
    "model": "str",
    "moderation": "null",
    "parallel_tool_calls": "bool",
    "presence_penalty": "number",
    "previous_response_id": "null",
    "prompt_cache_key": "null",
    "prompt_cache_retention": "str|null",
    "reasoning": {"context": "str", "effort": "str|null", "mode": "str", "summary": "null"},
    "safety_identifier": "null",
    "service_tier": "str",
    "store": "bool",
    "temperature": "number",
    "text": {"format": {"type": "str"}, "verbosity": "str"},
    "tool_choice": "str",
    "tool_usage": "object",
    "tools": [
        {"type": "str", "description": "str", "name": "str", "output_schema": "null", "parameters": "object", "strict": "bool"}
    ],
    "top_logprobs": "int",
    "top_p": "number",
    "truncation": "str",
    "user": "null",
    "metadata": "object",
}
_RESPONSE_USAGE = {
    "input_tokens": "int",
    "input_tokens_details": {"cached_tokens": "int", "cache_write_tokens": "int"},
    "output_tokens": "int",
    "output_tokens_details": {"reasoning_tokens": "int"},
    "total_tokens": "int",
}
_FUNCTION_CALL = {"id": "str", "type": "str", "status": "str", "arguments": "str", "call_id": "str", "name": "str"}
_TEXT_PART = {"type": "str", "annotations": ["object"], "logprobs": ["object"], "text": "str"}
_MESSAGE = {"id": "str", "type": "str", "status": "str", "content": [_TEXT_PART], "role": "str"}
_BEGUN = _RESPONSE | {"output": ["object"], "usage": "null"}
_AT = {"type": "str", "sequence_number": "int", "item_id": "str", "output_index": "int"}
_IN_TEXT = _AT | {"content_index": "int"}


def _lifecycle(output: Any) -> dict[str, Any]:
    ended = _RESPONSE | {"output": [output], "usage": _RESPONSE_USAGE}
    named = {"response.created": _BEGUN, "response.in_progress": _BEGUN, "response.completed": ended}
    return {name: {"type": "str", "sequence_number": "int", "response": response} for name, response in named.items()}


def _item(item: Any) -> Any:
    return {"type": "str", "sequence_number": "int", "output_index": "int", "item": item}


# --- all of them ---

REAL: tuple[RealShape, ...] = (
    RealShape(
        "chat",
        "text",
        "2025-04-16",
        f"{_CASSETTES}/test_openai/test_openai_instructions_with_tool_calls.yaml, the second reply",
        _chat(_CHAT_MESSAGE),
    ),
    RealShape(
        "chat",
        "call",
        "2025-04-16",
        f"{_CASSETTES}/test_openai/test_openai_instructions_with_tool_calls.yaml, the first reply",
        _chat(_CHAT_MESSAGE | {"tool_calls": [_CHAT_CALL]}),
    ),
    RealShape(
        "chat",
        "text, streamed",
        "2026-07-02",
        f"{_CASSETTES}/test_openai/test_run_stream_sync_streams_real_model.yaml, the second reply",
        {"": _chat_chunk(_DELTA)},
    ),
    RealShape(
        "chat",
        "call, streamed",
        "2026-07-02",
        f"{_CASSETTES}/test_openai/test_run_stream_sync_streams_real_model.yaml, the first reply",
        {"": _chat_chunk(_DELTA | {"tool_calls?": [_CALL_DELTA]})},
    ),
    RealShape(
        "chat",
        "error",
        "2026-05-09",
        "github.com/ultimatejimmy/xray.koplugin/issues/33",
        {"error": {"message": "str", "type": "str", "param": "str|null", "code": "str|null"}},
    ),
    RealShape(
        "responses",
        "text",
        "2026-08-21",
        "github.com/openai/openai-openapi (2.3.0), the example of a text; keys that it lacks from the reply streamed on 2026-08-25",
        _RESPONSE | {"output": [_MESSAGE], "usage": _RESPONSE_USAGE},
    ),
    RealShape(
        "responses",
        "call, streamed",
        "2026-08-25",
        "github.com/vercel/ai, packages/openai/src/responses/__fixtures__/issue-19493-gpt-5.1-tool-call.chunks.txt",
        {
            **_lifecycle(_FUNCTION_CALL),
            "response.output_item.added": _item(_FUNCTION_CALL),
            "response.function_call_arguments.delta": _AT | {"delta": "str", "obfuscation": "str"},
            "response.function_call_arguments.done": _AT | {"arguments": "str"},
            "response.output_item.done": _item(_FUNCTION_CALL),
        },
    ),
    RealShape(
        "responses",
        "text, streamed",
        "2026-08-21",
        "github.com/openai/openai-openapi (2.3.0), the example of a stream and the schemas of its events",
        {
            **_lifecycle(_MESSAGE),
            "response.output_item.added": _item(_MESSAGE),
            "response.content_part.added": _IN_TEXT | {"part": _TEXT_PART},
            "response.output_text.delta": _IN_TEXT | {"delta": "str", "logprobs": ["object"], "obfuscation": "str"},
            "response.output_text.done": _IN_TEXT | {"text": "str", "logprobs": ["object"]},
            "response.content_part.done": _IN_TEXT | {"part": _TEXT_PART},
            "response.output_item.done": _item(_MESSAGE),
        },
    ),
    RealShape(
        "responses",
        "error",
        "2026-06-05",
        "github.com/microsoft/vscode/issues/320060",
        {"error": {"message": "str", "type": "str", "param": "str|null", "code": "str|null"}},
    ),
)

LACKS: Mapping[str, Mapping[str, str]] = {
    "chat": {"obfuscation": "padding against those who measure the sizes of packets; it is random, and no client reads it"},
    "responses": {
        "obfuscation": "padding against those who measure the sizes of packets; it is random, and no client reads it",
        "tool_usage": "what OpenAI's own tools cost; none is run here",
        "context": "how reasoning is carried on; there is none here",
        "mode": "how reasoning is done; there is none here",
    },
}
"""Keys of real replies that ours lack, by wire, and why."""
HAS: Mapping[str, Mapping[str, str]] = {
    "chat": {},
    "responses": {"name": "ResponseFunctionCallArgumentsDoneEvent has it in the specification"},
}
"""Keys of ours that the real replies lack, by wire, and why."""
