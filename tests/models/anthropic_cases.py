"""Requests that Anthropic's API refuses, one for each row of the table in docs/serve.md."""

from __future__ import annotations

from typing import Any, NamedTuple

HEADERS = {"anthropic-version": "2026-10-21"}
USER = {"role": "user", "content": "What comes out?"}
BODY = {"model": "scripted", "max_tokens": 99, "messages": [USER]}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"}
TEXT = {"type": "text", "text": "And?"}
CALLING = {"role": "assistant", "content": [CALL]}
ANSWERING = {"role": "user", "content": [RESULT]}
KEPT = {"cache_control": {"type": "ephemeral"}}
ADD = {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


class RefusedMessages(NamedTuple):
    """A request that is refused."""

    what: str
    """The row's first column."""
    said: str
    """What the error says, or begins with."""
    change: dict[str, Any]
    """Fields of the body beside, or in the place of, those of a good one; None takes one away."""
    headers: dict[str, str] = HEADERS


def talk(*messages: Any) -> dict[str, Any]:
    return {"messages": list(messages)}


def tool(**change: Any) -> dict[str, Any]:
    return {"tools": [{name: value for name, value in (ADD | change).items() if value is not None}]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


_SCHEMA = "tools.0.custom.input_schema"

CASES = (
    # --- the request ---
    RefusedMessages("no header `anthropic-version`", "anthropic-version: header is required", {}, {}),
    RefusedMessages(
        "another version of the API",
        'anthropic-version: "2023-06-01, 2023-06-01" is not a valid version',
        {},
        {"anthropic-version": "2023-06-01, 2023-06-01"},
    ),
    RefusedMessages("no `max_tokens`", "max_tokens: Field required", {"max_tokens": None}),
    RefusedMessages("a field that the API lacks", "response_format: Extra inputs are not permitted", {"response_format": {}}),
    RefusedMessages(
        "`temperature`, `top_p` or `top_k` since version 2026-10-21",
        "temperature: Extra inputs are not permitted",
        {"temperature": 1.0},
    ),
    RefusedMessages(
        "a stop sequence of white space",
        "stop_sequences: each stop sequence must contain non-whitespace",
        {"stop_sequences": ["\n"]},
    ),
    RefusedMessages(
        "more than four cache marks",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        talk(user(*[TEXT | KEPT] * 5)),
    ),
    RefusedMessages(
        "a thinking budget beyond `max_tokens`",
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    RefusedMessages(
        "thinking with a forced call",
        "Thinking may not be enabled when tool_choice forces tool use.",
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "max_tokens": 2048,
            "tools": [ADD],
            "tool_choice": {"type": "any"},
        },
    ),
    # --- the conversation ---
    RefusedMessages(
        "a first message of the assistant",
        'messages: first message must use the "user" role',
        talk({"role": "assistant", "content": "Hello."}, USER),
    ),
    RefusedMessages(
        "a first message of the system",
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
        talk({"role": "system", "content": "Be brief."}, USER),
    ),
    RefusedMessages(
        "a last message of the assistant",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        talk(USER, {"role": "assistant", "content": "So"}),
    ),
    RefusedMessages(
        "a message without content",
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
        talk(USER, {"role": "assistant", "content": []}, USER),
    ),
    RefusedMessages("an empty text block", "messages: text content blocks must be non-empty", talk(user(TEXT | {"text": ""}))),
    RefusedMessages(
        "a text block of white space",
        "messages: text content blocks must contain non-whitespace text",
        talk(user(TEXT | {"text": " \n"})),
    ),
    RefusedMessages(
        "a field of a message that the API lacks", "messages.0.name: Extra inputs are not permitted", talk(USER | {"name": "Init"})
    ),
    RefusedMessages(
        "citations in a text of the user since version 2026-10-21",
        "messages.0.content.0.text.citations: Extra inputs are not permitted",
        talk(user(TEXT | {"citations": [{"type": "char_location"}]})),
    ),
    RefusedMessages(
        "a field of a block that the API lacks",
        "messages.1.content.0.tool_use.text: Extra inputs are not permitted",
        talk(USER, {"role": "assistant", "content": [CALL | {"text": ""}]}, ANSWERING),
    ),
    RefusedMessages(
        "a call without a result",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block",
        talk(USER, CALLING, USER),
    ),
    RefusedMessages(
        "text before a result",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block",
        talk(USER, CALLING, user(TEXT, RESULT)),
    ),
    RefusedMessages(
        "a result without a call",
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_2. Each `tool_result` block must have",
        talk(USER, CALLING, user(RESULT | {"tool_use_id": "toolu_2"}, RESULT)),
    ),
    RefusedMessages(
        "two results for a call",
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1",
        talk(USER, CALLING, user(RESULT, RESULT)),
    ),
    RefusedMessages(
        "two calls with one id",
        "messages.1.content.1: `tool_use` ids must be unique",
        talk(USER, {"role": "assistant", "content": [CALL, CALL]}, ANSWERING),
    ),
    RefusedMessages(
        "an id with other characters",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        talk(USER, {"role": "assistant", "content": [CALL | {"id": "add:0"}]}, ANSWERING),
    ),
    RefusedMessages(
        "input that is not an object",
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        talk(USER, {"role": "assistant", "content": [CALL | {"input": '{"a": 1}'}]}, ANSWERING),
    ),
    # --- tools ---
    RefusedMessages(
        "a tool of OpenAI's form",
        "tools.0: Input tag 'function' found using 'type' does not match any of the expected tags: 'custom'",
        {"tools": [{"type": "function", "function": ADD}]},
    ),
    RefusedMessages(
        "a tool's name such as `a.b`",
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        tool(name="a.b"),
    ),
    RefusedMessages(
        "a tool's name of more than 128 characters",
        "tools.0.custom.name: String should have at most 128 characters",
        tool(name="a" * 129),
    ),
    RefusedMessages("two tools of one name", "tools: Tool names must be unique.", {"tools": [ADD, ADD]}),
    RefusedMessages("a schema without a type", f"{_SCHEMA}.type: Field required", tool(input_schema={"properties": {}})),
    RefusedMessages(
        "a schema that is several at its top",
        f"{_SCHEMA}: input_schema does not support oneOf, allOf, or anyOf at the top level",
        tool(input_schema={"type": "object", "anyOf": [{"required": ["a"]}]}),
    ),
    RefusedMessages(
        "an argument's name such as `filter[id]`",
        _SCHEMA + ".properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
        tool(input_schema={"type": "object", "properties": {"filter[id]": {}}}),
    ),
    RefusedMessages(
        "a schema that is none",
        f"{_SCHEMA}: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        tool(input_schema={"type": "object", "properties": {"a": {"type": "int"}}}),
    ),
    RefusedMessages(
        "a `strict` tool with an open object",
        "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false",
        tool(strict=True),
    ),
    RefusedMessages(
        "a reply's schema with an open object",
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
    ),
    RefusedMessages(
        "`tool_choice` without tools",
        "tool_choice.any: may only be specified while providing tools",
        {"tool_choice": {"type": "any"}},
    ),
)
