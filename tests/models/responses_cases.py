"""Requests that OpenAI's Responses refuses, one for each row of their table in docs/serve.md."""

from __future__ import annotations

from typing import Any

from .vendor_cases import RefusedCase

USER = {"role": "user", "content": "What comes out?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}


def tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "add", **more}


def _shaped(**more: Any) -> dict[str, Any]:
    shape = {"type": "object", "properties": {"a": {"type": "integer"}}}
    return {"text": {"format": {"type": "json_schema", "name": "x", "schema": shape, "strict": True, **more}}}


CASES = (
    # --- the conversation ---
    RefusedCase("a call without an output", {"input": [USER, CALL]}, "input", None, "No tool output found for function call c1."),
    RefusedCase(
        "an output without its call",
        {"input": [USER, OUTPUT]},
        "input",
        None,
        "No tool call found for function call output with call_id c1.",
    ),
    RefusedCase(
        "an unknown answer to go on from",
        {"previous_response_id": "resp_1"},
        "previous_response_id",
        "previous_response_not_found",
        "Previous response with id 'resp_1' not found.",
    ),
    RefusedCase(
        "a reference to an unknown item (404)",
        {"input": [USER, {"type": "item_reference", "id": "rs_1"}]},
        "input",
        None,
        "Item with id 'rs_1' not found.",
    ),
    RefusedCase(
        "an item that comes twice",
        {"input": [USER, *[{"type": "reasoning", "id": "rs_1", "summary": []}] * 2]},
        "input",
        None,
        "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
    ),
    RefusedCase(
        "an id of a call that is no item's",
        {"input": [USER, CALL | {"id": "call_1"}, OUTPUT]},
        "input[1].id",
        "invalid_value",
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
    ),
    RefusedCase(
        "an id of reasoning that is no item's",
        {"input": [USER, {"type": "reasoning", "id": "item_1", "summary": []}]},
        "input[1].id",
        "invalid_value",
        "Expected an ID that begins with 'rs'.",
    ),
    RefusedCase(
        "a `call_id` of more than 64 characters",
        {"input": [USER, CALL | {"call_id": "c" * 65}]},
        "input[1].call_id",
        "string_above_max_length",
        "maximum length 64, but got a string with length 65",
    ),
    RefusedCase(
        "a part of a chat message",
        {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        "input[0].content[0].type",
        "invalid_value",
        "Invalid value: 'text'. Supported values are: 'input_text'",
    ),
    RefusedCase(
        "a part of the user's in a message of the assistant",
        {"input": [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
        "input[1].content[0].type",
        "invalid_value",
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
    ),
    RefusedCase(
        "a part of the assistant's in an output",
        {"input": [USER, CALL, OUTPUT | {"output": [{"type": "output_text", "text": "x"}]}]},
        "input[2].output[0].type",
        "invalid_value",
        "Invalid value: 'output_text'. Supported values are: 'input_text'",
    ),
    # --- tools and formats ---
    RefusedCase(
        "a tool of chat completions",
        {"tools": [{"type": "function", "function": {"name": "add"}}]},
        "tools[0].name",
        "missing_required_parameter",
        "Missing required parameter: 'tools[0].name'.",
    ),
    RefusedCase(
        "an array without `items`",
        {"tools": [tool(parameters={"type": "object", "properties": {"a": {"type": "array"}}})]},
        "tools[0].parameters",
        "invalid_function_parameters",
        "array schema missing items",
    ),
    RefusedCase(
        "a `strict` reply that leaves fields open",
        _shaped(),
        "text.format.schema",
        "invalid_json_schema",
        "Invalid schema for response_format 'x': In context=(), 'additionalProperties'",
    ),
    RefusedCase(
        "a format without a name",
        _shaped(name=None),
        "text.format.name",
        "missing_required_parameter",
        "Missing required parameter: 'text.format.name'.",
    ),
    # --- the rest of the body ---
    RefusedCase(
        "`messages`",
        {"messages": [USER]},
        "messages",
        "unsupported_parameter",
        "In the Responses API, this parameter has moved to 'input'.",
    ),
    RefusedCase(
        "`max_completion_tokens`",
        {"max_completion_tokens": 99},
        "max_completion_tokens",
        "unsupported_parameter",
        "this parameter has moved to 'max_output_tokens'.",
    ),
    RefusedCase(
        "`max_output_tokens` under 16",
        {"max_output_tokens": 10},
        "max_output_tokens",
        "integer_below_min_value",
        "Expected a value >= 16, but got 10 instead.",
    ),
    RefusedCase("a field that the API lacks", {"top_k": 5}, "top_k", "unknown_parameter", "Unknown parameter: 'top_k'."),
)
