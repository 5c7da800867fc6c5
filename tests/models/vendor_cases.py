"""Requests that OpenAI's API refuses, one for each row of the table in docs/serve.md."""

from __future__ import annotations

from typing import Any, NamedTuple

USER = {"role": "user", "content": "What comes out?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
OTHER = {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "2"}
LONG = "x" * 65


class RefusedCase(NamedTuple):
    """A request that is refused."""

    what: str
    """The row's first column."""
    change: dict[str, Any]
    """Fields of the body beside, or in the place of, those of a good one."""
    param: str | None
    code: str | None
    said: str
    """A part of the message."""


def tool(name: str = "add", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def taking(**properties: Any) -> dict[str, Any]:
    return tool(parameters={"type": "object", "properties": properties})


def strictly(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "integer"}}, **schema}


def replying(schema: dict[str, Any], name: str = "x", *, strict: bool = True) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}}}


_TOOL = "tools[0].function"
_SCHEMA = "invalid_function_parameters"
_NO_ITEMS = "array schema missing items"

CASES = (
    # --- the conversation ---
    RefusedCase(
        "a call without an answer",
        {"messages": [USER, CALLING, USER]},
        "messages.[2].role",
        None,
        "The following tool_call_ids did not have response messages: c1",
    ),
    RefusedCase(
        "a call without an answer, last",
        {"messages": [USER, CALLING | {"tool_calls": [CALL, OTHER]}, RESULT]},
        "messages",
        None,
        "did not have response messages: c2",
    ),
    RefusedCase(
        "a tool message that answers nothing",
        {"messages": [USER, RESULT]},
        "messages.[1].role",
        None,
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    ),
    RefusedCase(
        "a tool message with the id of no call before it",
        {"messages": [USER, CALLING, RESULT | {"tool_call_id": "c9"}]},
        "messages.[2].tool_call_id",
        None,
        "'tool_call_id' of 'c9' not found in 'tool_calls' of previous message",
    ),
    RefusedCase(
        "a call that is answered twice",
        {"messages": [USER, CALLING, RESULT, RESULT]},
        "messages.[3].tool_call_id",
        None,
        "Duplicate value for 'tool_call_id' of 'c1', in messages[2] and messages[3]",
    ),
    RefusedCase(
        "a tool message without an id",
        {"messages": [USER, CALLING, {"role": "tool", "content": "2"}]},
        "messages.[2].tool_call_id",
        None,
        "messages with role 'tool' must have a 'tool_call_id'",
    ),
    RefusedCase(
        "an id of more than 40 characters",
        {"messages": [USER, CALLING | {"tool_calls": [CALL | {"id": "c" * 41}]}]},
        "messages[1].tool_calls[0].id",
        "string_above_max_length",
        "maximum length 40, but got a string with length 41",
    ),
    RefusedCase(
        "an empty `tool_calls`",
        {"messages": [USER, CALLING | {"tool_calls": []}]},
        "messages[1].tool_calls",
        "empty_array",
        "minimum length 1",
    ),
    RefusedCase(
        "a call without `type` or `arguments`",
        {"messages": [USER, CALLING | {"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": "{}"}}]}]},
        "messages[1].tool_calls[0].type",
        "missing_required_parameter",
        "Missing required parameter",
    ),
    RefusedCase(
        "a call of a name with other characters",
        {"messages": [USER, CALLING | {"tool_calls": [CALL | {"function": {"name": "a b", "arguments": "{}"}}]}]},
        "messages[1].tool_calls[0].function.name",
        "invalid_value",
        "'^[a-zA-Z0-9_-]+$'",
    ),
    RefusedCase(
        "an answer of the assistant that is null, without calls",
        {"messages": [USER, {"role": "assistant", "content": None}]},
        "messages.[1].content",
        None,
        "Invalid value for 'content': expected a string, got null.",
    ),
    RefusedCase(
        "an empty list of parts",
        {"messages": [USER | {"content": []}]},
        "messages[0].content",
        "empty_array",
        "minimum length 1",
    ),
    # --- tools ---
    RefusedCase("`tools: []`", {"tools": []}, "tools", "empty_array", "Invalid 'tools': empty array."),
    RefusedCase(
        "more than 128 tools",
        {"tools": [tool(f"t{n}") for n in range(129)]},
        "tools",
        "array_above_max_length",
        "maximum length 128, but got an array with length 129",
    ),
    RefusedCase("a tool's name such as `a.b`", {"tools": [tool("a.b")]}, f"{_TOOL}.name", "invalid_value", "'^[a-zA-Z0-9_-]+$'"),
    RefusedCase(
        "a tool's name of more than 64 characters",
        {"tools": [tool(LONG)]},
        f"{_TOOL}.name",
        "string_above_max_length",
        "maximum length 64, but got a string with length 65",
    ),
    RefusedCase(
        "two tools of one name",
        {"tools": [tool(), tool()]},
        "tools[1].function.name",
        "invalid_value",
        "tool names must be unique",
    ),
    RefusedCase(
        "a tool without `type`",
        {"tools": [{"function": {"name": "add"}}]},
        "tools[0].type",
        "missing_required_parameter",
        "Missing required parameter: 'tools[0].type'.",
    ),
    RefusedCase(
        "parameters that are not an object's",
        {"tools": [tool(parameters={})]},
        f"{_TOOL}.parameters",
        _SCHEMA,
        "got 'type: \"None\"'",
    ),
    RefusedCase(
        "parameters without `properties`",
        {"tools": [tool(parameters={"type": "object"})]},
        f"{_TOOL}.parameters",
        _SCHEMA,
        "Invalid schema for function 'add': In context=(), object schema missing properties.",
    ),
    RefusedCase(
        "an array without `items`",
        {"tools": [taking(a={"type": "array"})]},
        f"{_TOOL}.parameters",
        _SCHEMA,
        f"In context=('properties', 'a'), {_NO_ITEMS}.",
    ),
    RefusedCase(
        "a `strict` tool that leaves arguments open",
        {"tools": [tool(strict=True, parameters=strictly(required=["a"]))]},
        f"{_TOOL}.parameters",
        _SCHEMA,
        "In context=(), 'additionalProperties' is required to be supplied and to be false.",
    ),
    RefusedCase(
        "a `strict` tool with an argument that is not required",
        {"tools": [tool(strict=True, parameters=strictly(additionalProperties=False))]},
        f"{_TOOL}.parameters",
        _SCHEMA,
        "including every key in properties. Missing 'a'.",
    ),
    RefusedCase("`tool_choice` without tools", {"tool_choice": "auto"}, "tool_choice", None, "only allowed when 'tools'"),
    RefusedCase(
        "`parallel_tool_calls` without tools",
        {"parallel_tool_calls": True},
        "parallel_tool_calls",
        None,
        "'parallel_tool_calls' is only allowed when 'tools' are specified.",
    ),
    # --- the rest of the body ---
    RefusedCase(
        "`max_tokens` beside `max_completion_tokens`",
        {"max_tokens": 5, "max_completion_tokens": 5},
        "max_tokens",
        "invalid_parameter_combination",
        "at the same time is not supported",
    ),
    RefusedCase("`stop: []`", {"stop": []}, "stop", "empty_array", "minimum length 1"),
    RefusedCase(
        "`json_object` where no message says JSON",
        {"response_format": {"type": "json_object"}},
        "messages",
        None,
        "must contain the word 'json' in some form",
    ),
    RefusedCase(
        "a `strict` reply that leaves fields open",
        replying(strictly(required=["a"])),
        "response_format",
        None,
        "Invalid schema for response_format 'x': In context=(), 'additionalProperties'",
    ),
    RefusedCase(
        "a reply's name with other characters",
        replying(strictly(), "my answer", strict=False),
        "response_format.json_schema.name",
        "invalid_value",
        "'^[a-zA-Z0-9_-]+$'",
    ),
    RefusedCase("a field that the API lacks", {"top_k": 5}, None, None, "Unrecognized request argument supplied: top_k"),
)
