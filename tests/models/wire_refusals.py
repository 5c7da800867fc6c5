"""Requests that the vendors refuse, with the field at fault: a row for each rule."""

from __future__ import annotations

from typing import Any, NamedTuple

from .wire_clients import NAME, PARAMETERS


class Refused(NamedTuple):
    """A request that is refused."""

    wire: str
    what: str
    change: dict[str, Any]
    """Fields of the body in the place of those of a good one."""
    param: str
    """Where the path of the field at fault begins."""
    status: int = 400
    code: str = ""
    """What the error is called, if not as most are."""

    def body(self, client: Any) -> Any:
        return client.body() | self.change


USER = {"role": "user", "content": "?"}
CALL = {"id": "c1", "type": "function", "function": {"name": NAME, "arguments": "{}"}}
FLAT = {"id": "c1", "type": "function", "name": NAME, "arguments": "{}"}
TOOL = {"type": "function", "function": {"name": NAME, "parameters": PARAMETERS}}


def _said(*items: Any) -> dict[str, Any]:
    return {"messages": [USER, *items]}


def _calling(**change: Any) -> dict[str, Any]:
    calls = [CALL | change]
    return _said({"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "c1", "content": "2"})


def _tool(**function: Any) -> dict[str, Any]:
    return {"tools": [TOOL | {"function": {"name": NAME, **function}}]}


_CHAT: tuple[tuple[Any, ...], ...] = (
    ("no model", {"model": None}, "model"),
    ("no messages", {"messages": []}, "messages"),
    ("a role that there is not", _said({"role": "function", "content": "x"}), "messages.1.role"),
    ("an image", _said({"role": "user", "content": [{"type": "image_url"}]}), "messages.1.content.0"),
    ("an answer of the assistant without content and calls", _said({"role": "assistant", "content": None}), "messages.1"),
    ("a call of a name with other characters", _calling(function={"name": "a b", "arguments": "{}"}), "messages.1.tool_calls.0"),
    ("a call without its function", _said({"role": "assistant", "tool_calls": [FLAT]}), "messages.1.tool_calls.0.function"),
    ("more than 128 tools", {"tools": [TOOL | {"function": {"name": f"t{n}"}} for n in range(129)]}, "tools"),
    ("a tool's name such as a.b", _tool(name="a.b"), "tools"),
    ("parameters that are not an object's", _tool(parameters={}), "tools.0.function.parameters"),
    ("a choice without tools", {"tools": None, "tool_choice": "auto"}, "tool_choice"),
    ("parallel_tool_calls without tools", {"tools": None, "parallel_tool_calls": True}, "parallel_tool_calls"),
    ("both limits of tokens", {"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
    ("a temperature beyond 2", {"temperature": 2.1}, "temperature"),
    ("more than one choice", {"n": 2}, "n"),
    ("json_object where no message says JSON", {"response_format": {"type": "json_object"}}, "response_format"),
    ("a schema without a name", {"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
    ("a field that the API lacks", {"top_k": 5}, "top_k"),
)

ITEM = {"type": "function_call", "call_id": "c1", "name": NAME, "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
_NOT_FOUND = "previous_response_not_found"

_RESPONSES: tuple[tuple[Any, ...], ...] = (
    ("no input", {"input": None}, "input"),
    ("an unknown answer to go on from", {"previous_response_id": "resp_1"}, "previous_response_id", 400, _NOT_FOUND),
    ("a reference to an unknown item", {"input": [{"type": "item_reference", "id": "rs_1"}]}, "input.0.id", 404),
    ("a part of a chat message", {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "input.0.content.0"),
    (
        "parameters that are not an object's",
        {"tools": [{"type": "function", "name": NAME, "parameters": {}}]},
        "tools.0.parameters",
    ),
    ("a tool of OpenAI's own that is not offered", {"tool_choice": {"type": "file_search"}}, "tool_choice"),
    ("max_output_tokens under 16", {"max_output_tokens": 10}, "max_output_tokens"),
)

USE = {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"}
TEXT = {"type": "text", "text": "And?"}
ADD = {"name": NAME, "input_schema": PARAMETERS}


def _talk(*contents: list[Any]) -> dict[str, Any]:
    roles = ("assistant", "user") * len(contents)
    return {"messages": [USER, *({"role": role, "content": content} for role, content in zip(roles, contents, strict=False))]}


_MESSAGES: tuple[tuple[Any, ...], ...] = (
    ("no max_tokens", {"max_tokens": None}, "max_tokens"),
    ("a last message of the assistant", _talk([TEXT]), "messages"),
    ("an empty text block", _talk([TEXT | {"text": ""}], [TEXT]), "messages.1.content.0.text"),
    ("an image", _talk([TEXT], [{"type": "image", "source": {}}]), "messages.2.content.0"),
    ("a call of the user's", _talk([TEXT], [USE], [TEXT], [RESULT]), "messages"),
    ("a tool of OpenAI's form", {"tools": [TOOL]}, "tools.0"),
    ("a tool without a schema", {"tools": [{"name": NAME}]}, "tools.0.input_schema"),
    ("a schema without a type", {"tools": [ADD | {"input_schema": {}}]}, "tools.0.input_schema"),
    (
        "a schema that is several at its top",
        {"tools": [ADD | {"input_schema": PARAMETERS | {"anyOf": []}}]},
        "tools.0.input_schema",
    ),
    ("a thread that is not kept", {"thread": {"type": "continue", "previous_message_id": "m"}}, "thread", 404, "not_found_error"),
    ("a field that the API lacks", {"response_format": {}}, "response_format"),
)

ASK = {"role": "user", "parts": [{"text": "?"}]}
ANSWER = {"functionResponse": {"id": "c1", "name": NAME, "response": {"result": "2"}}}


def _functions(*functions: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(functions)}]}


def _taking(**schema: Any) -> dict[str, Any]:
    return _functions({"name": NAME, "parameters": {"type": "OBJECT", "properties": {"a": schema}}})


_TAKEN = "tools.0.functionDeclarations.0.parameters.properties.a"
_BROKEN = {"maxLength": "abc", "required": 5, "enum": 5, "pattern": 5, "minimum": "1", "anyOf": {}}
"""Values that these fields of a schema do not take."""

_GEMINI: tuple[tuple[Any, ...], ...] = (
    ("no contents", {"contents": []}, "contents"),
    ("an image", {"contents": [{"parts": [{"inlineData": {}}]}]}, "contents.0"),
    ("a role such as function", {"contents": [ASK, {"role": "function", "parts": [ANSWER]}]}, "contents.1.role"),
    ("a function's name such as 1a", _functions({"name": "1a"}), "tools"),
    ("more than 512 functions", _functions(*({"name": f"t{n}"} for n in range(513))), "tools"),
    ("additionalProperties in parameters", _taking(type="OBJECT", additionalProperties=False), f"{_TAKEN}.additionalProperties"),
    *((f"no {name} of a schema", _taking(type="STRING", **{name: value}), f"{_TAKEN}.{name}") for name, value in _BROKEN.items()),
    ("a schema beside a reply in text", {"tools": None, "generationConfig": {"responseSchema": {"type": "STRING"}}}, "generation"),
    ("more than one candidate", {"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount"),
    ("a field that the API lacks", {"messages": []}, "messages"),
)

REFUSALS = (
    *(Refused("chat", *row) for row in _CHAT),
    *(Refused("responses", *row) for row in _RESPONSES),
    *(Refused("messages", *row) for row in _MESSAGES),
    *(Refused("gemini", *row) for row in _GEMINI),
)
