"""Replies as the providers of four APIs send them, whole and streamed, and what a request shows of the assistant's turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whichloop.models.local.model import open_model
from whichloop.models.real import RealModel, RealOptions
from whichloop.protocol import Reply, Request, WrappedModel

from .provider import CannedAnswer, Server

Items = list[dict[str, Any]]
"""Blocks, parts or items of a turn; of chat completions the message alone."""
NAMES = {"chat": "openai/m", "responses": "openai/responses/m", "messages": "anthropic/claude-test", "gemini": "gemini/gemini-test"}
KEYS = {"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "x", "GEMINI_API_KEY": "x"}


def opened(wire: str, server: Server, attempts: int = 1) -> RealModel:
    url = f"{server.url}beta" if wire == "gemini" else server.url
    return open_model(NAMES[wire], url, RealOptions(attempts=attempts))


class Streamed(WrappedModel):
    """A model that is asked for streams alone."""

    async def complete(self, request: Request) -> Reply:
        chunks = [chunk async for chunk in self.model.stream(request)]
        reply = chunks[-1].reply
        assert reply is not None
        return reply


def call(wire: str, name: Any, arguments: Any = None, call_id: str = "c1", **more: Any) -> dict[str, Any]:
    """A call as it stands in a turn. `arguments`: an object, or a text where the API takes one."""
    given = {} if arguments is None else arguments
    if wire == "messages":
        return {"type": "tool_use", "id": call_id, "name": name, "input": given, **more}
    if wire == "gemini":
        return {"functionCall": {"name": name, "args": given}, **more}
    text = given if isinstance(given, str) else json.dumps(given)
    if wire == "responses":
        return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": text, **more}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}, **more}


def text(wire: str, said: str) -> dict[str, Any]:
    if wire == "responses":
        return {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    return {"text": said} if wire == "gemini" else {"type": "text", "text": said}


def turn(wire: str, said: str = "", *calls: dict[str, Any], **more: Any) -> Items:
    """A turn of a text and calls. `more`: fields of a message of chat completions."""
    if wire == "chat":
        return [{"role": "assistant", "content": said, **({"tool_calls": list(calls)} if calls else {}), **more}]
    return [*([text(wire, said)] if said else []), *calls]


def body(wire: str, items: Items, reason: str = "") -> dict[str, Any]:
    if wire == "chat":
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return {"id": "1", "model": "m", "choices": [{"index": 0, "message": items[0], "finish_reason": "stop"}], "usage": usage}
    usage = {"input_tokens": 10, "output_tokens": 5}
    if wire == "responses":
        return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": items, "usage": usage}
    if wire == "messages":
        head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": items}
        return head | {"stop_reason": "end_turn", "usage": usage}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    candidate = {"content": {"role": "model", "parts": items}, "finishReason": reason or "STOP", "finishMessage": "Malformed call."}
    return {"candidates": [candidate], "usageMetadata": usage}


def halves(said: str) -> Sequence[str]:
    return said[: len(said) // 2], said[len(said) // 2 :]


def frames(wire: str, items: Items, reason: str = "") -> list[Any]:
    """The same reply as a stream of small pieces."""
    return list({"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}[wire](items, reason))


def _chat(items: Items, reason: str) -> Any:
    def delta(given: dict[str, Any], end: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": given, "finish_reason": end}]}

    message = dict(items[0])
    calls = message.pop("tool_calls", [])
    for key, value in message.items():
        if isinstance(value, str) and key != "role":
            for piece in halves(value):
                yield delta({"role": "assistant", key: piece})
        elif isinstance(value, list):
            for index, detail in enumerate(value):
                for piece in halves(detail["text"]):
                    yield delta({key: [{"type": detail["type"], "index": index, "text": piece}]})
                yield delta({key: [{**detail, "index": index, "text": None}]})
    for index, one in enumerate(calls):
        yield delta({"tool_calls": [{**one, "index": index, "function": {"name": one["function"].get("name"), "arguments": ""}}]})
        for piece in halves(one["function"]["arguments"]):
            yield delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield delta({}, "stop")
    yield {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    yield "[DONE]"


def _responses(items: Items, reason: str) -> Any:
    yield {"type": "response.created", "response": {"id": "r"}}
    for index, item in enumerate(items):
        at = {"output_index": index}
        if item["type"] == "function_call":
            yield {"type": "response.output_item.added", **at, "item": {**item, "arguments": ""}}
            for piece in halves(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        elif item["type"] == "message":
            for piece in halves(item["content"][0]["text"]):
                yield {"type": "response.output_text.delta", **at, "delta": piece}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": "response.completed", "response": body("responses", items)}


def _messages(items: Items, reason: str) -> Any:
    grows = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}
    yield {"type": "message_start", "message": body("messages", []) | {"stop_reason": None}}
    for index, block in enumerate(items):
        at = {"index": index}
        if block["type"] == "tool_use":
            yield {"type": "content_block_start", **at, "content_block": {**block, "input": {}}}
            for piece in halves(json.dumps(block["input"])):
                yield {"type": "content_block_delta", **at, "delta": {"type": "input_json_delta", "partial_json": piece}}
        elif block["type"] in grows:
            key, kind = grows[block["type"]]
            yield {"type": "content_block_start", **at, "content_block": {"type": block["type"], key: ""}}
            for piece in halves(block[key]):
                yield {"type": "content_block_delta", **at, "delta": {"type": kind, key: piece}}
            if "signature" in block:
                yield {"type": "content_block_delta", **at, "delta": {"type": "signature_delta", "signature": block["signature"]}}
        else:
            yield {"type": "content_block_start", **at, "content_block": block}
        yield {"type": "content_block_stop", **at}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _gemini(items: Items, reason: str) -> Any:
    for part in items:
        pieces = halves(part["text"]) if "text" in part else ()
        for piece in pieces[:-1]:
            yield {"candidates": [{"content": {"parts": [{"text": piece, **({"thought": True} if part.get("thought") else {})}]}}]}
        yield {"candidates": [{"content": {"parts": [{**part, **({"text": pieces[-1]} if pieces else {})}]}}]}
    yield body("gemini", [], reason)


def answer(wire: str, items: Items, request: dict[str, Any], path: str, reason: str = "") -> CannedAnswer:
    """The answer to a request, streamed if it asks for that."""
    if request.get("stream") or "streamGenerateContent" in path:
        return CannedAnswer(None, frames=frames(wire, items, reason))
    return CannedAnswer(body(wire, items, reason))


def tool_names(wire: str, request: dict[str, Any]) -> list[str]:
    """The names of the tools that a request offers."""
    tools = request.get("tools") or []
    if wire == "gemini":
        return [each["name"] for tool in tools for each in tool["functionDeclarations"]]
    return [tool["function"]["name"] if wire == "chat" else tool["name"] for tool in tools]


def turns(wire: str, request: dict[str, Any]) -> list[Items]:
    """The assistant's turns in a request."""
    if wire == "chat":
        return [[message] for message in request["messages"] if message["role"] == "assistant"]
    if wire == "responses":
        ours = [item for item in request["input"] if item.get("role") != "user" and item.get("type") != "function_call_output"]
        return [[item for item in ours if item.get("role") not in ("system", "developer")]]
    name, kind, role = ("contents", "parts", "model") if wire == "gemini" else ("messages", "content", "assistant")
    return [message[kind] for message in request[name] if message["role"] == role]
