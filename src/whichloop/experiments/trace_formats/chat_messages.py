"""Messages as OpenAI's chat format has them, which most logs keep: replies with raw arguments, and results by call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichloop.experiments.import_runs.values import located, mapping, objects_at, short_value
from whichloop.protocol.chat import NativeCall

from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel

ResultReader = Callable[[Mapping[str, Any], str], CallResult]
"""A function of a tool's message and its text that says what came of the call."""


def untold_result(message: Mapping[str, Any], text: str) -> CallResult:
    """Read a tool's message that does not say whether the call failed."""
    call_id = message.get("tool_call_id")
    name = message.get("name")
    return CallResult(text, call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "")


def items_of(messages: Sequence[Any], read_result: ResultReader = untold_result) -> Iterator[ConversationItem]:
    """Yield what a list of messages says. Raises ValueError that names the message."""
    for number, message in enumerate(messages, 1):
        with located(f"message {number}"):
            item = _item(mapping(message, "the message"), read_result)
        if item is not None:
            yield item


def _item(message: Mapping[str, Any], read_result: ResultReader) -> ConversationItem | None:
    role, text = message.get("role"), text_in(message.get("content"))
    if role in ("system", "developer"):
        return SaidToModel("system", text)
    if role == "user":
        return SaidToModel("user", text)
    if role == "assistant":
        thought = message.get("reasoning_content")
        turn = ModelTurn(text, calls_of(message), thought if isinstance(thought, str) else "")
        old = message.get("function_call")
        return turn if turn.calls or not isinstance(old, Mapping) else replace(turn, calls=(_call({"id": "", "function": old}),))
    if role in ("tool", "function"):
        return read_result(message, text)
    raise ValueError(f"role is {short_value(role)}, not system, user, assistant or tool")


def calls_of(message: Mapping[str, Any]) -> tuple[NativeCall, ...]:
    """Return a message's calls, in OpenAI's form or with name and arguments beside the id. Raises ValueError."""
    return tuple(map(_call, objects_at(message, "tool_calls", "a tool call")))


def _call(call: Mapping[str, Any]) -> NativeCall:
    function = mapping(call.get("function"), "function") or call
    name, call_id = function.get("name"), call.get("id")
    if not isinstance(name, str):
        raise ValueError(f"the name of a tool call is not a text: {short_value(name)}")
    return NativeCall(call_id if isinstance(call_id, str) else "", name, raw_arguments(function.get("arguments")))


def raw_arguments(arguments: Any) -> str:
    """Return a call's arguments as text: as the model wrote them where the log has that, and else as JSON."""
    return arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def text_in(content: Any) -> str:
    """Return a message's content as text; parts that are not text by their kind. Raises ValueError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"content is neither a text nor a list of parts: {short_value(content)}")
    return "\n".join(map(_part, content))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    data = mapping(part, "a part of the content")
    text = data.get("text")
    return text if isinstance(text, str) else f"[{data.get('type')}]"
