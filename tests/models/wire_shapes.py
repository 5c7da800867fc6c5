"""The shapes of real replies, each with its date and source: keys and types only, nothing of what was said.

A shape is a type ("str", "int", "number", "bool", "null", "object" for one with any keys, or several with "|"), a list of the shape
of its elements, or a dict; a key that ends in "?" is not in every such object. `date`: when it was given or its page made.
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
_FIXTURES = "github.com/vercel/ai, packages"
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


# --- Messages ---

_CACHE = {"cache_creation_input_tokens": "int", "cache_read_input_tokens": "int"}
_MESSAGES_USAGE = {
    "input_tokens": "int",
    **_CACHE,
    "cache_creation": {"ephemeral_5m_input_tokens": "int", "ephemeral_1h_input_tokens": "int"},
    "output_tokens": "int",
    "service_tier": "str",
    "inference_geo": "str",
}
_TEXT_BLOCK = {"type": "str", "text": "str"}
_TOOL_USE = {"type": "str", "id": "str", "name": "str", "input": "object", "caller": {"type": "str"}}
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
    "promptTokenCount": "int",
    "candidatesTokenCount?": "int",
    "totalTokenCount": "int",
    "promptTokensDetails": [{"modality": "str", "tokenCount": "int"}],
    "thoughtsTokenCount": "int",
    "serviceTier": "str",
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
    **{"model": "str", "id": "str", "type": "str", "role": "str", "content": [_TOOL_USE]},
    **{"stop_reason": "str", "stop_sequence": "null", "stop_details": "null", "diagnostics": "null"},
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
