"""The input of OpenAI's Responses: items as a conversation, with its rules, in OpenAI's words (sources: docs/serve.md).

Items that only OpenAI's own tools make are let pass unread: the model here makes none, and clients keep them in their history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from whichloop.protocol import Message, NativeCall, ToolSpec
from whichloop.protocol.chat import MessageRole
from whichloop.protocol.json_text import Json

from .contract import Recall
from .fields import (
    BadRequest,
    bounded_text,
    invalid_value,
    name_field,
    optional,
    optional_list,
    required,
    required_text,
    wrong_type,
)
from .openai_fields import MAX_MESSAGES, function_tool, normalized_arguments, tool_choice, tool_list

MAX_ID_CHARS = 64
RESPONSE_PREFIX = "resp_"
_OWN_ITEM = re.compile(r"(?:msg|fc)_([0-9a-f]{24})[0-9a-f]{4}")
"""Id of an item of ours; the digits of its answer's id are in it (see `item_id`)."""

_ROLES: Mapping[str, MessageRole] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
"""Beginning of an item's id, by type."""
_UNREAD = frozenset(
    {
        "additional_tools", "apply_patch_call", "apply_patch_call_output", "code_interpreter_call", "compaction",
        "compaction_trigger", "computer_call", "computer_call_output", "custom_tool_call", "custom_tool_call_output",
        "file_search_call", "image_generation_call", "local_shell_call", "local_shell_call_output", "mcp_approval_request",
        "mcp_approval_response", "mcp_call", "mcp_list_tools", "program", "program_output", "reasoning", "shell_call",
        "shell_call_output", "tool_search_call", "tool_search_output", "web_search_call",
    }
)  # fmt: skip
"""Types of InputItem in OpenAI's specification (github.com/openai/openai-openapi, 2.3.0) beside those that are read."""
_READ = ("message", "function_call", "function_call_output", "item_reference")
_INPUT_PARTS = ("input_text", "output_text", "refusal")
_OUTPUT_PARTS = ("output_text", "refusal")


def item_id(prefix: str, answer: str, place: int) -> str:
    """Return the id of an answer's item, from which the answer's own can be told."""
    return f"{prefix}_{answer}{place:04x}"


def read_input(body: Mapping[str, object], recall: Recall) -> tuple[tuple[Any, ...], tuple[Message, ...]]:
    """Return the items of a request's whole conversation, and the same as messages. Raises BadRequest.

    The conversation begins with that of the answer that `previous_response_id` names.
    """
    previous = _previous(body, recall)
    items_of = cache(lambda answer: _items_by_id(recall(RESPONSE_PREFIX + answer) or ()))  # to read an answer again takes long
    items = [*previous, *(_resolved(item, items_of, place) for place, item in enumerate(_input_items(body)))]
    if not items:
        raise BadRequest("Missing required parameter: 'input'.", "input", "missing_required_parameter")
    _check_ids(items)
    messages = tuple(_messages(items, len(previous)))
    waiting: dict[str, None] = {}
    call_ids: set[str] = set()
    for message in messages:
        waiting |= dict.fromkeys(call.id for call in message.calls)
        call_ids.update(call.id for call in message.calls)
        if message.role != "tool":
            continue
        if message.call_id not in call_ids:
            raise BadRequest(f"No tool call found for function call output with call_id {message.call_id}.", "input")
        waiting.pop(message.call_id, None)
    for call_id in waiting:
        raise BadRequest(f"No tool output found for function call {call_id}.", "input")
    return tuple(items), messages


def _previous(body: Mapping[str, object], recall: Recall) -> Sequence[Any]:
    previous_id = optional(body, "previous_response_id", str)
    if previous_id is None:
        return ()
    items = recall(previous_id) if previous_id.startswith(RESPONSE_PREFIX) else None
    if items is None:
        problem = f"Previous response with id '{previous_id[:MAX_ID_CHARS]}' not found."
        raise BadRequest(problem, "previous_response_id", "previous_response_not_found")
    return items


def _input_items(body: Mapping[str, object]) -> list[Any]:
    items = body.get("input")
    if isinstance(items, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": items}]}]
    if items is not None and not isinstance(items, list):
        raise wrong_type("input", "a string or an array of items", items)
    return optional_list(body, "input", MAX_MESSAGES)


def _check_ids(items: Sequence[Any]) -> None:
    """Check that no item comes twice: a short reference, repeated, would make a conversation of any size."""
    ids: set[str] = set()
    for item in items:
        item_id = item.get("id")
        if not isinstance(item_id, str):
            continue
        if item_id in ids:
            problem = (
                f"Duplicate item found with id {item_id[:MAX_ID_CHARS]}. Remove duplicate items from your input and try again."
            )
            raise BadRequest(problem, "input")
        ids.add(item_id)


def _items_by_id(items: Sequence[Any]) -> Mapping[str, Json]:
    return {item["id"]: item for item in reversed(items) if isinstance(item.get("id"), str)}


def _resolved(item: object, items_of: Callable[[str], Mapping[str, object]], place: int) -> object:
    """Return an item, or the one that it refers to. `items_of`: returns the items of an answer by their ids."""
    data = required(item, dict, f"input[{place}]")
    if data.get("type") != "item_reference":
        return data
    reference = required_text(data, "id", f"input[{place}].id")
    own_id = _OWN_ITEM.fullmatch(reference)
    if own_id is not None and reference in (items := items_of(own_id[1])):
        return items[reference]
    raise BadRequest(f"Item with id '{reference[:MAX_ID_CHARS]}' not found.", "input", status=404)


# --- messages ---


@dataclass(slots=True)
class _Draft:
    role: MessageRole
    text: str = ""
    calls: list[NativeCall] = field(default_factory=list)
    call_id: str = ""


def _messages(items: Sequence[Any], first: int) -> Iterator[Message]:
    """Yield the messages of items. `first`: place of the first item that the request itself has.

    Calls belong to the text of the assistant's right before them, as they do where both come in one message.
    """
    drafts: list[_Draft] = []
    for place, item in enumerate(items):
        where = f"input[{max(place - first, 0)}]"
        kind = _kind(item, where)
        _check_id(item, kind, where)
        if kind == "message":
            drafts.append(_message(item, where))
        elif kind == "function_call_output":
            drafts.append(_Draft("tool", _content(item, "output", ("input_text",), where), call_id=_call_id(item, where)))
        elif kind == "function_call":
            if not drafts or drafts[-1].role != "assistant":
                drafts.append(_Draft("assistant"))
            drafts[-1].calls.append(_call(item, where))
    return (Message(draft.role, draft.text, tuple(draft.calls), draft.call_id) for draft in drafts)


def _kind(item: Mapping[str, object], where: str) -> str:
    if item.get("type") is None and "role" in item:
        return "message"
    kind = required_text(item, "type", f"{where}.type")
    if kind not in _READ and kind not in _UNREAD:
        kinds = ", ".join(f"'{name}'" for name in sorted({*_READ, *_UNREAD}))
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: {kinds}.")
    return kind


def _check_id(item: Mapping[str, Any], kind: str, where: str) -> None:
    prefix = _PREFIXES.get(kind)
    if prefix is None or item.get("id") is None:
        return
    given = bounded_text(item, "id", MAX_ID_CHARS, f"{where}.id")
    if not given.startswith(prefix):
        problem = f"Invalid '{where}.id': '{given}'. Expected an ID that begins with '{prefix}'."
        raise invalid_value(f"{where}.id", problem)


def _message(item: Mapping[str, Any], where: str) -> _Draft:
    role_name = required_text(item, "role", f"{where}.role")
    role = _ROLES.get(role_name)
    if role is None:
        role_names = ", ".join(f"'{name}'" for name in _ROLES)
        raise invalid_value(f"{where}.role", f"Invalid value: '{role_name[:64]}'. Supported values are: {role_names}.")
    parts = _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS
    return _Draft(role, _content(item, "content", parts, where))


def _content(item: Mapping[str, Any], name: str, kinds: Sequence[str], where: str) -> str:
    """Return a text, or the texts of its parts joined. `kinds`: the types that a part may have."""
    where = f"{where}.{name}"
    content = item.get(name)
    if isinstance(content, str):
        return content
    if content is None:
        raise BadRequest(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if not isinstance(content, list):
        raise wrong_type(where, "a string or an array of parts", content)
    parts = optional_list(item, name, MAX_MESSAGES, where)
    return "".join(_part(part, kinds, f"{where}[{place}]") for place, part in enumerate(parts))


def _part(part: object, kinds: Sequence[str], where: str) -> str:
    data = required(part, dict, where)
    kind = required_text(data, "type", f"{where}.type")
    if kind not in kinds:
        *others, last = [f"'{name}'" for name in kinds]
        names = f"{', '.join(others)} and {last}" if others else last
        only = "" if kinds is _OUTPUT_PARTS else " This model reads text only."
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: {names}.{only}")
    field_name = "refusal" if kind == "refusal" else "text"
    return required(data.get(field_name), str, f"{where}.{field_name}")


def _call(item: Mapping[str, Any], where: str) -> NativeCall:
    call_id, name = _call_id(item, where), name_field(item, f"{where}.name")
    arguments = required(item.get("arguments"), str, f"{where}.arguments")
    return NativeCall(call_id, name, normalized_arguments(arguments))


def _call_id(item: Mapping[str, Any], where: str) -> str:
    return bounded_text(item, "call_id", MAX_ID_CHARS, f"{where}.call_id")


_VENDORS_TOOLS = frozenset(
    {
        "apply_patch", "code_interpreter", "computer", "computer_use_preview", "custom", "file_search", "image_generation",
        "local_shell", "mcp", "namespace", "programmatic_tool_calling", "shell", "tool_search", "web_search",
        "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
    }
)  # fmt: skip
"""Types of Tool in the specification beside functions."""
_LABELS: Mapping[str, str] = {"custom": "name", "mcp": "server_label"}
"""The field by which a choice names a tool, where its type does not tell which one is meant."""
_VERSION = re.compile(r"_(use|preview|\d{4}_\d{2}_\d{2})")
"""What a choice may leave out of a type: `computer_use` is OpenAI's word for a tool `computer_use_preview`."""


def read_tools(data: Mapping[str, object]) -> tuple[ToolSpec, ...]:
    """Return the functions of a request. Raises BadRequest."""
    return tool_list(data, _tool, "name") if data.get("tools") else ()


def _tool(item: object, where: str) -> ToolSpec | None:
    data = required(item, dict, where)
    kind = required_text(data, "type", f"{where}.type")
    if kind in _VENDORS_TOOLS:
        return None
    if kind != "function":
        kinds = ", ".join(f"'{name}'" for name in sorted({"function", *_VENDORS_TOOLS}))
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: {kinds}.")
    return function_tool(data, name_field(data, f"{where}.name"), where)


def read_tool_choice(data: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str | None:
    """Return how the model is to call, as a Request has it. Raises BadRequest. `tools`: what `read_tools` returns."""
    choice = data.get("tool_choice")
    if choice == "auto" and not tools:
        return None  # clients send it without tools, and it asks for nothing
    vendors_tools = [tool for tool in data.get("tools") or () if tool["type"] in _VENDORS_TOOLS]
    if choice == "required" and vendors_tools and not tools:
        return "auto"
    if not isinstance(choice, dict):
        return tool_choice(data, tools, _chosen_name, None)
    if _is_own(choice):
        return _own_tool(choice, vendors_tools)
    if choice.get("type") == "allowed_tools" and isinstance(choice.get("tools"), list):
        functions = [item for item in choice["tools"] if not _is_own(item)]
        for item in choice["tools"]:
            if _is_own(item):
                _own_tool(item, vendors_tools)
        if choice["tools"] and not functions and choice.get("mode") in ("auto", "required"):
            return "auto"
        return tool_choice({"tool_choice": {**choice, "tools": functions}}, tools, _chosen_name, None)
    return tool_choice(data, tools, _chosen_name, None)


def _is_own(item: object) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and _family(kind) in _FAMILIES


def _own_tool(choice: Mapping[str, Any], vendors_tools: Sequence[Any]) -> str:
    """Return what becomes of the choice of a tool of OpenAI's own. Raises BadRequest if the request does not offer it."""
    kind = choice["type"]
    label = _LABELS.get(kind, "type")
    for tool in vendors_tools:
        if _family(tool["type"]) == _family(kind) and (label == "type" or tool.get(label) == choice.get(label)):
            return "auto"
    named = kind if label == "type" else str(choice.get(label))
    raise invalid_value("tool_choice", f"Tool choice '{named[:64]}' not found in 'tools' parameter.")


def _family(kind: str) -> str:
    return _VERSION.sub("", kind)


_FAMILIES = frozenset(map(_family, _VENDORS_TOOLS))


def _chosen_name(choice: Mapping[str, object], where: str) -> str:
    return name_field(choice, f"{where}.name")
