"""Messages of a chat as clients log them: OpenAI's, Anthropic's, Bedrock's, Gemini's, those of the Responses API, of Vercel's AI
SDK, of LangChain, pydantic-ai and smolagents, and of the conventions for spans.

Calls and results are read wherever they stand: beside the text, as blocks in it, or as items of their own. What is not understood
is refused with its place, for a call that is left out would look as if nothing had been called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall
from whichloop.protocol.values import shown_short
from whichloop.protocol.wire import from_json

from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel
from .values import list_of, located, mapping

_ROLES: Mapping[str, MessageRole] = {
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("user", "human", "HumanMessage", "request"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "AIMessageChunk", "model", "tool-call", "response"), "assistant"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage", "tool-response"), "tool"),
}
_CALLS = (
    *("tool_use", "server_tool_use", "mcp_tool_use", "tool-call", "tool_call", "server_tool_call"),
    *("function_call", "custom_tool_call", "mcp_call"),
)
_RESULTS = (
    *("tool_result", "tool-result", "tool_call_response", "server_tool_call_response", "tool-return"),
    *("function_call_output", "custom_tool_call_output"),
)
_WRAPPED = {
    **dict.fromkeys(("toolUse", "functionCall", "function_call", "toolCall"), "tool_use"),
    **dict.fromkeys(("toolResult", "functionResponse", "function_response", "toolResponse"), "tool_result"),
    **dict.fromkeys(("reasoningContent", "executableCode", "codeExecutionResult"), "reasoning"),
}
"""Key under which a block stands alone → what the block is."""
_TEXTS = ("text", "input_text", "output_text", "refusal", "system-prompt", "user-prompt", "reasoning_text", "summary_text")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_SKIPPED = ("step-start", "cachePoint", "item_reference")
_ITEMS = ("message", *_CALLS, *_RESULTS, *_THOUGHTS)
"""What the items of the Responses API are; those that follow each other are one reply."""
_MEDIA = re.compile(
    r"(input_?)?(image|audio|video|file|document|media|blob|uri|binary|inline|source|data|search|guard).*", re.IGNORECASE
)
_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "id")
_NAMES = ("name", "toolName", "tool_name", "function_name", "function")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_OUTPUTS = ("output", "result", "response", "content", "errorText")
MAX_LEVELS = 24


def read_chat(data: Any) -> list[ConversationItem]:
    """Return what a list of messages says, or a request's inputs with one in them."""
    items: list[ConversationItem] = []
    if isinstance(data, str):
        return [SaidToModel("user", data)]
    if isinstance(data, Mapping):
        system = next(
            (data[key] for key in ("system", "instructions", "systemInstruction", "system_instruction") if data.get(key)), None
        )
        items = [] if system is None else [SaidToModel("system", _text_of(system))]
        held = next((data[key] for key in ("messages", "input", "contents", "prompt") if data.get(key) is not None), None)
        return [*items, *(_message(data) if held is None and ({"content", "parts"} & data.keys()) else read_chat(held))]
    messages = list_of(data, "the messages")
    if len(messages) == 1 and isinstance(messages[0], list):  # a batch of one
        messages = messages[0]
    for number, message in enumerate(messages, 1):
        with located(f"message {number}"):
            items += [SaidToModel("user", message)] if isinstance(message, str) else _message(mapping(message, "the message"))
    return _joined(items) if _are_items(messages) else items


def read_reply(data: Any, levels: int = MAX_LEVELS) -> ModelTurn | None:
    """Return the reply in a request's outputs, in whatever it is wrapped; None if there is none."""
    if isinstance(data, str):
        return ModelTurn(data)
    if levels and isinstance(data, Mapping):
        for key in ("choices", "generations", "candidates", "output", "message", "response"):
            if isinstance(data.get(key), Mapping | list | str) and data[key] and "role" not in data:
                return read_reply(data[key], levels - 1)
        if isinstance(data.get("content"), Mapping):  # a candidate of Gemini's
            return read_reply(data["content"], levels - 1)
    if levels and isinstance(data, list) and data and not _are_items(data):
        return read_reply(data[0], levels - 1)
    listed = data if isinstance(data, list) else [data]
    said = [item for part in listed if isinstance(part, Mapping) and _is_message(part) for item in _message(part, "assistant")]
    return next((item for item in _joined(said) if isinstance(item, ModelTurn)), None)


def _are_items(messages: Sequence[Any]) -> bool:
    return any(isinstance(message, Mapping) and _kind_of(message) in _ITEMS for message in messages)


def as_messages(items: Iterable[ConversationItem]) -> tuple[Message, ...]:
    """Return a conversation as the messages of a prompt."""
    made = list[Message]()
    for item in items:
        if isinstance(item, SaidToModel):
            made.append(Message(item.role, item.text))
        elif isinstance(item, CallResult):
            made.append(Message("tool", item.text, call_id=item.call_id))
        else:
            made.append(Message("assistant", item.text, item.calls))
    return tuple(made)


def as_text(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def parsed(value: Any) -> Any:
    """Return the JSON value of a text, or what it is."""
    try:
        return from_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def asked_in(items: Iterable[ConversationItem]) -> str:
    """Return the first thing that a user said; empty if there is none."""
    return next((item.text for item in items if isinstance(item, SaidToModel) and item.role == "user"), "")


def _is_message(data: Mapping[str, Any]) -> bool:
    inner, _ = _unwrapped(data)
    return bool({"content", "contents", "parts", "text", "tool_calls"} & inner.keys()) or _are_items([data])


def said_in(data: Any) -> str:
    """Return inputs or outputs as text: of one value the value, of messages the last one's, and of anything else JSON."""
    if isinstance(data, Mapping) and len(data) == 1:
        data = next(iter(data.values()))
    value = data[-1] if isinstance(data, list) and data else data
    if isinstance(value, Mapping) and _is_message(value):
        try:
            return next((item.text for item in reversed(_message(value, "assistant"))), "")
        except ValueError:
            return as_text(value)
    return as_text(value)


# --- one message ---


def _message(data: Mapping[str, Any], default: str = "") -> list[ConversationItem]:
    """Return what a message says: a reply with its calls, results of tools, or what was said to the model. `default`: its role."""
    data, named = _unwrapped(data)
    content = _first(data, ("parts", "content", "contents", "text"))
    kind = _kind_of(data)
    names = (data.get("role"), kind, named, data.get("kind"))
    role = next((_ROLES[str(name)] for name in names if str(name) in _ROLES), None)
    if kind in _SKIPPED:
        return []
    if role is None and kind in _ITEMS:
        role, content, data = ("tool" if kind in _RESULTS else "assistant"), [data], {}
    if role is None and data.get("role") is None:
        role = _ROLES.get(default)
    if role is None:
        raise ValueError(f"role is {shown_short(data.get('role', kind))}, not system, user, assistant or tool")
    if role == "assistant":
        return [item for part in _steps(content) for item in _reply(data, _Blocks(part))]
    blocks = _Blocks(as_text(content) if isinstance(content, Mapping) else content)
    if role == "tool":
        return list(blocks.results) or [_result(data, blocks.text)]
    prompts = [SaidToModel("system", text) for text in blocks.system]
    said = [SaidToModel("system" if role == "system" else "user", blocks.text)]
    return [*prompts, *blocks.results, *(said if blocks.text or not (blocks.results or prompts) else [])]


def _steps(content: Any) -> list[Any]:
    """Return the contents of the replies that a message for a page holds; any other one holds one."""
    steps: list[Any] = [[]]
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and _kind_of(part) == "step-start":
            steps.append([])
        else:
            steps[-1].append(part)
    return [step for step in steps if step] if len(steps) > 1 else [content]


def _reply(data: Mapping[str, Any], blocks: _Blocks) -> list[ConversationItem]:
    more = data.get("additional_kwargs")
    raw = more.get("tool_calls") if isinstance(more, Mapping) else None  # LangChain has the arguments as the model wrote them there
    listed = list_of(raw or data.get("tool_calls") or None, "tool_calls")
    calls = [_call(mapping(item, "a tool call")) for item in listed] or blocks.calls
    old = data.get("function_call")
    calls = [_call(old)] if isinstance(old, Mapping) and not calls else calls
    thought = next((data[key] for key in ("reasoning_content", "reasoning") if isinstance(data.get(key), str)), "")
    return [ModelTurn(blocks.text, tuple(calls), thought or blocks.thought), *blocks.results]


def _unwrapped(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return a message without what is around it, and the name of LangChain's class for it."""
    kind = data.get("id")
    named = str(kind[-1]) if isinstance(kind, list) and kind else ""
    for key in ("kwargs", "message", "data"):
        inner = data.get(key)
        if isinstance(inner, Mapping) and "content" not in data and "role" not in data:
            return ({"role": data["type"]} if key == "data" and "type" in data else {}) | dict(inner), named
    return data, named


def _kind_of(part: Mapping[str, Any]) -> str:
    return str(part.get("type") or part.get("part_kind") or "")


class _Blocks:
    def __init__(self, content: Any) -> None:
        self.calls: list[NativeCall] = []
        self.results: list[CallResult] = []
        self.system: list[str] = []
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        if content is not None and not isinstance(content, str | list):
            raise ValueError(f"content is neither a text nor a list of parts: {shown_short(content)}")
        for part in [content or ""] if isinstance(content, str | None) else content:
            self._add({"type": "text", "text": part} if isinstance(part, str) else mapping(part, "a part of the content"))

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    @property
    def thought(self) -> str:
        return "\n".join(filter(None, self._thoughts))

    def _add(self, part: Mapping[str, Any]) -> None:
        part = part["message_content"] if isinstance(part.get("message_content"), Mapping) else part
        key = next((key for key in _WRAPPED if isinstance(part.get(key), Mapping)), None)
        kind = _kind_of(part)
        if key is not None and kind in ("", key):
            kind, part = _WRAPPED[key], part[key]
        if kind in _CALLS:
            self.calls.append(_call(part))
            if kind == "mcp_call" and part.get("output") is not None:
                self.results.append(_result(part))
        elif kind in _RESULTS or kind.endswith("_tool_result"):
            self.results.append(_result(part))
        elif kind == "retry-prompt":
            self.results.append(replace(_result(part), failed=True))
        elif kind in _THOUGHTS or part.get("thought") is True:
            self._thoughts.append(_thought(part))
        elif kind == "system-prompt":
            self.system.append(as_text(part.get("content")))
        elif kind.startswith("tool-") or kind == "dynamic-tool":  # of a message for a page, which has a call with its result
            self.calls.append(_call({"toolName": kind.removeprefix("tool-"), **part}))
            if str(part.get("state")) in ("output-available", "output-error"):
                self.results.append(_result(part, failed=part.get("state") == "output-error" or None))
        elif kind in _TEXTS or (not kind and "text" in part):
            self._texts.append(as_text(_first(part, ("text", "content", "refusal"))))
        elif _MEDIA.fullmatch(label := kind or str(next(iter(part), ""))):
            self._texts.append(f"[{label}]")
        elif label not in _SKIPPED:
            raise ValueError(f"a part of kind {shown_short(label)} is not understood")


def _thought(part: Mapping[str, Any]) -> str:
    inner = part.get("reasoningText")
    part = inner if isinstance(inner, Mapping) else part
    said = next((part[key] for key in ("thinking", "reasoning", "text", "content", "summary") if part.get(key)), "")
    return _text_of(said) if isinstance(said, str | list) else as_text(said)


def _text_of(content: Any) -> str:
    """Return the text of content, of a message with content, or of an object."""
    if isinstance(content, Mapping):
        content = content.get("parts", content.get("content", content.get("text")))
    return _Blocks(content).text


def _call(data: Mapping[str, Any]) -> NativeCall:
    data = data["tool_call"] if isinstance(data.get("tool_call"), Mapping) else data
    function = data.get("function")
    inner = function if isinstance(function, Mapping) else data
    name, raw = _first(inner, _NAMES), _first(inner, _ARGUMENTS)
    if not isinstance(name, str):
        raise ValueError(f"the name of a tool call is not a text: {shown_short(name)}")
    if _kind_of(data) == "custom_tool_call":  # a free text, and no object
        raw = {"input": raw}
    return NativeCall(as_text(_first(data, _IDS)), name, raw if isinstance(raw, str) else as_text({} if raw is None else raw))


def _first(data: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)


def _result(data: Mapping[str, Any], text: str | None = None, *, failed: bool | None = None) -> CallResult:
    """Return a result, and whether it says that the call failed."""
    output = _first(data, _OUTPUTS)
    if isinstance(output, Mapping) and {"type", "value"} <= output.keys():  # of Vercel's AI SDK
        failed = True if str(output["type"]).startswith("error") else failed
        output = output["value"]
    if failed is None:
        told = next((data[key] for key in ("is_error", "isError", "error") if isinstance(data.get(key), bool)), None)
        failed = {"error": True, "success": False}.get(str(data.get("status"))) if told is None else told
    names = [value for value in (data.get(key) for key in _NAMES) if isinstance(value, str)]
    return CallResult(
        _output_text(output) if text is None else text,
        as_text(_first(data, _IDS)),
        names[0] if names else "",
        failed,
        "Error" if failed else None,
    )


def _output_text(output: Any) -> str:
    """Return a result's content: texts of its parts, or JSON."""
    if not isinstance(output, list):
        return as_text(output)
    parts = [part.get("text", part.get("json", part)) if isinstance(part, Mapping) else part for part in output]
    return "\n".join(map(as_text, parts)) if all(isinstance(part, str | Mapping) for part in output) else as_text(output)


def _joined(items: Sequence[ConversationItem]) -> list[ConversationItem]:
    joined: list[ConversationItem] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, ModelTurn) and isinstance(last, ModelTurn):
            texts, thoughts = (filter(None, pair) for pair in ((last.text, item.text), (last.thought, item.thought)))
            joined[-1] = ModelTurn("\n".join(texts), last.calls + item.calls, "\n".join(thoughts))
        else:
            joined.append(item)
    return joined
