"""A plain client for each wire: it asks one question with one tool, and reads what comes as the vendor's documentation has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

from .served import QUESTION

NAME, DESCRIPTION = "add", "The sum."
MODES = ("auto", "none", "required")
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the client got it."""

    id: str = ""
    name: str = ""
    arguments: Any = ""
    """A text, or an object where the vendor sends one."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a client makes of an answer with status 200."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""
    """Why it ends, in the vendor's word; empty if nothing says so."""
    error: str = ""
    """What an error in a stream is called."""
    ended: bool = False
    """Whether a stream has had all that closes one."""
    tokens: tuple[int, int] | None = None
    """Of the request and of the reply."""


class WireClient:
    """A vendor's API from the client's side: the `path` and `body` of a request, what a whole answer adds to the conversation with
    the results of its calls (`turn`), how the model is to call (`choice`), and what is read of an answer, a stream and an error."""

    wire: ClassVar[str]
    finish: ClassVar[Mapping[str, str]]
    """Why a reply ends, in our word → in the vendor's."""
    conversation: ClassVar[str]
    """The field of a request that holds it."""
    refused: ClassVar[str] = "invalid_request_error"
    """What the error of a request is called that breaks a rule."""
    headers: ClassVar[Mapping[str, str]] = {}

    @property
    def length(self) -> str:
        """The vendor's word for a reply that is cut for its length."""
        return self.finish["length"]

    def user(self, text: str) -> Any:
        """Return a message of the user."""
        return {"role": "user", "content": text}

    def wait(self, body: Any) -> str:
        """Return the part of an error that says how long to wait; empty if none does: most vendors say it in a header."""
        return ""


@dataclass(slots=True)
class _Growing:
    """Calls of which pieces come."""

    calls: dict[int, Call] = field(default_factory=dict)

    def add(self, place: int, arguments: Any = "", **named: str) -> None:
        known = self.calls.get(place, Call())
        self.calls[place] = replace(known, arguments=known.arguments + arguments, **named)

    def all(self) -> tuple[Call, ...]:
        return tuple(self.calls[place] for place in sorted(self.calls))


def _data(events: list[tuple[str, str]]) -> Iterator[Any]:
    for _, data in events:
        if data != "[DONE]":
            yield json.loads(data)


class ChatClient(WireClient):
    wire, conversation = "chat", "messages"
    finish = MappingProxyType({name: name for name in ("stop", "tool_calls", "length", "content_filter")})

    def path(self, *, stream: bool) -> str:
        return "/v1/chat/completions"

    def body(self, *, stream: bool = False, max_tokens: int | None = None) -> dict[str, Any]:
        function = {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS}
        made: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        made |= {"tools": [{"type": "function", "function": function}], "max_tokens": max_tokens}
        return made | ({"stream_options": {"include_usage": True}} if stream else {})

    def turn(self, body: Any, results: Sequence[tuple[Call, str]]) -> list[Any]:
        made = [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results]
        return [body["choices"][0]["message"], *made]

    def choice(self, choice: str) -> dict[str, Any]:
        named = {"type": "function", "function": {"name": choice}}
        return {"tool_choice": choice if choice in MODES else named}

    def read(self, body: Any) -> Said:
        (choice,) = body["choices"]
        message = choice["message"]
        calls = tuple(
            Call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
        )
        return Said(message["content"] or "", calls, choice["finish_reason"], tokens=self._tokens(body))

    def _tokens(self, body: Any) -> tuple[int, int] | None:
        usage = body.get("usage")
        return usage and (usage["prompt_tokens"], usage["completion_tokens"])

    def read_stream(self, events: list[tuple[str, str]]) -> Said:
        text, finish, error, calls, tokens = "", "", "", _Growing(), None
        for data in _data(events):
            if "error" in data:
                error = self.error(data)
                continue
            tokens = self._tokens(data) or tokens
            if not data["choices"]:
                continue
            (choice,) = data["choices"]
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                named = {"id": call["id"], "name": call["function"]["name"]} if "id" in call else {}
                calls.add(call["index"], call["function"].get("arguments", ""), **named)
            finish = choice["finish_reason"] or finish
        return Said(text, calls.all(), finish, error, events[-1][1] == "[DONE]", tokens)

    def error(self, body: Any) -> str:
        return str(body["error"]["code"] or body["error"]["type"])


class ResponsesClient(WireClient):
    wire, conversation = "responses", "input"
    finish = MappingProxyType(
        dict.fromkeys(("stop", "tool_calls"), "completed") | {"length": "max_output_tokens", "content_filter": "content_filter"}
    )

    def path(self, *, stream: bool) -> str:
        return "/v1/responses"

    def body(self, *, stream: bool = False, max_tokens: int | None = None) -> dict[str, Any]:
        tool = {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS}
        return {"model": "scripted", "input": QUESTION, "tools": [tool], "stream": stream, "max_output_tokens": max_tokens}

    def turn(self, body: Any, results: Sequence[tuple[Call, str]]) -> list[Any]:
        return [*body["output"], *({"type": "function_call_output", "call_id": call.id, "output": text} for call, text in results)]

    def choice(self, choice: str) -> dict[str, Any]:
        return {"tool_choice": choice if choice in MODES else {"type": "function", "name": choice}}

    def read(self, body: Any) -> Said:
        texts = [part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]]
        calls = [
            Call(item["call_id"], item["name"], item["arguments"]) for item in body["output"] if item["type"] == "function_call"
        ]
        details = body["incomplete_details"]
        usage = body["usage"]
        tokens = usage and (usage["input_tokens"], usage["output_tokens"])
        return Said("".join(texts), tuple(calls), body["status"] if details is None else details["reason"], tokens=tokens)

    def read_stream(self, events: list[tuple[str, str]]) -> Said:
        text, calls, end = "", _Growing(), Said()
        for data in _data(events):
            match data["type"]:
                case "response.output_text.delta":
                    text += data["delta"]
                case "response.output_item.added" if data["item"]["type"] == "function_call":
                    calls.add(data["output_index"], id=data["item"]["call_id"], name=data["item"]["name"])
                case "response.function_call_arguments.delta":
                    calls.add(data["output_index"], data["delta"])
                case "response.completed" | "response.incomplete":
                    end = replace(self.read(data["response"]), ended=True)
                case "response.failed":
                    end = Said(error=data["response"]["error"]["code"])
        return Said(text, calls.all(), end.finish, end.error, end.ended, end.tokens)

    def error(self, body: Any) -> str:
        return str(body["error"]["code"] or body["error"]["type"])


class MessagesClient(WireClient):
    wire, conversation = "messages", "messages"
    finish = MappingProxyType({"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"})
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def path(self, *, stream: bool) -> str:
        return "/v1/messages"

    def body(self, *, stream: bool = False, max_tokens: int | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        tool = {"name": NAME, "description": DESCRIPTION, "input_schema": PARAMETERS}
        return made | {"tools": [tool], "max_tokens": max_tokens or 4096}

    def turn(self, body: Any, results: Sequence[tuple[Call, str]]) -> list[Any]:
        made = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in results]
        return [{"role": "assistant", "content": body["content"]}, *([{"role": "user", "content": made}] if made else [])]

    def choice(self, choice: str) -> dict[str, Any]:
        kind = {"required": "any"}.get(choice, choice)
        return {"tool_choice": {"type": kind} if choice in MODES else {"type": "tool", "name": choice}}

    def read(self, body: Any) -> Said:
        texts = [block["text"] for block in body["content"] if block["type"] == "text"]
        calls = [Call(block["id"], block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]
        return Said("".join(texts), tuple(calls), body["stop_reason"], tokens=self._tokens(body["usage"]))

    def _tokens(self, usage: Any) -> tuple[int, int]:
        return usage["input_tokens"], usage["output_tokens"]

    def read_stream(self, events: list[tuple[str, str]]) -> Said:
        text, finish, error, calls, tokens = "", "", "", _Growing(), None
        for data in _data(events):
            match data["type"]:
                case "content_block_start" if data["content_block"]["type"] == "tool_use":
                    calls.add(data["index"], id=data["content_block"]["id"], name=data["content_block"]["name"])
                case "content_block_delta":
                    text += data["delta"].get("text", "")
                    if "partial_json" in data["delta"]:
                        calls.add(data["index"], data["delta"]["partial_json"])
                case "message_delta":
                    finish, tokens = data["delta"]["stop_reason"], self._tokens(data["usage"])
                case "error":
                    error = self.error(data)
        return Said(text, calls.all(), finish, error, events[-1][0] == "message_stop", tokens)

    def error(self, body: Any) -> str:
        return str(body["error"]["type"])


class GeminiClient(WireClient):
    wire, conversation, refused = "gemini", "contents", "INVALID_ARGUMENT"
    finish = MappingProxyType({"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"})

    def path(self, *, stream: bool) -> str:
        return f"/v1beta/models/scripted:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def body(self, *, stream: bool = False, max_tokens: int | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
        function = {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS}
        limit = {} if max_tokens is None else {"maxOutputTokens": max_tokens}
        return made | {"tools": [{"functionDeclarations": [function]}], "generationConfig": limit}

    def user(self, text: str) -> Any:
        return {"role": "user", "parts": [{"text": text}]}

    def turn(self, body: Any, results: Sequence[tuple[Call, str]]) -> list[Any]:
        made = [{"functionResponse": {"id": call.id, "name": call.name, "response": {"result": text}}} for call, text in results]
        return [body["candidates"][0]["content"], *([{"role": "user", "parts": made}] if made else [])]

    def choice(self, choice: str) -> dict[str, Any]:
        mode = {"required": "ANY", "none": "NONE", "auto": "AUTO"}.get(choice)
        named = {"mode": mode} if mode else {"mode": "ANY", "allowedFunctionNames": [choice]}
        return {"toolConfig": {"functionCallingConfig": named}}

    def read(self, body: Any) -> Said:
        (candidate,) = body["candidates"]
        parts = candidate.get("content", {}).get("parts", [])
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        made = tuple(Call(call.get("id", ""), call["name"], call.get("args", {})) for call in calls)
        usage = body.get("usageMetadata", {})
        tokens = (usage.get("promptTokenCount", 0), usage.get("candidatesTokenCount", 0)) if usage else None
        return Said("".join(part.get("text", "") for part in parts), made, candidate.get("finishReason", ""), tokens=tokens)

    def read_stream(self, events: list[tuple[str, str]]) -> Said:
        text, finish, error = "", "", ""
        calls: tuple[Call, ...] = ()
        tokens = None
        for data in _data(events):
            if "error" in data:
                error = self.error(data)
                continue
            said = self.read(data)
            text, calls, finish, tokens = text + said.text, (*calls, *said.calls), said.finish or finish, said.tokens or tokens
        return Said(text, calls, finish, error, bool(finish), tokens)

    def error(self, body: Any) -> str:
        return str(body["error"]["status"])

    def wait(self, body: Any) -> str:
        delays = [item["retryDelay"] for item in body["error"].get("details", ()) if "retryDelay" in item]
        return f"retryDelay: {delays[0]}" if delays else ""


CLIENTS: Mapping[str, Any] = {client.wire: client for client in (ChatClient(), ResponsesClient(), MessagesClient(), GeminiClient())}
