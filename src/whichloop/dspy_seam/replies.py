"""Replies as four APIs send them, whole and in streams: each stream is put together to the body that a whole reply has.

lm15 writes the requests. Its readers are not used: they replace arguments that are no object, take a model's own slip (a call
without a name, one that Gemini could not read) for a failure of the provider, and drop what a reasoning model wants back.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from whichloop.protocol import CallDelta, Chunk, NativeCall, Reply, Usage
from whichloop.protocol.chat import FinishReason

from .errors import refused

_REASONS: Mapping[Any, FinishReason] = {
    **dict.fromkeys(("length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST"), "content_filter"),
    **dict.fromkeys(("PROHIBITED_CONTENT", "SPII"), "content_filter"),
    "error": "other",
}


class Reading(ABC):
    """One reply of an API: `push` takes the events of a stream, `body` is what they make, and `read` reads a body."""

    wire: ClassVar[str]

    def __init__(self) -> None:
        self.is_empty = True
        self.ended = False
        self.calls: list[Any] = []
        """What tells the calls of a stream apart, in the order in which they began."""

    @abstractmethod
    def push(self, event: Mapping[str, Any]) -> Iterator[Chunk]:
        """Take one event, and yield what it adds to the text and the calls."""

    @property
    @abstractmethod
    def body(self) -> Mapping[str, Any]:
        """The events so far as one body."""

    @classmethod
    @abstractmethod
    def read(cls, body: Mapping[str, Any]) -> Reply:
        """Return the reply of a body."""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _first(value: Any) -> Mapping[str, Any]:
    return next(iter(_mappings(value)), {})


def _says(value: Any) -> bool:
    """Return whether a value holds anything but null, empty texts, lists and objects."""
    if isinstance(value, Mapping | list):
        return any(map(_says, value.values() if isinstance(value, Mapping) else value))
    return value not in (None, "")


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of these counts that is there."""
    return next((int(counts[name]) for name in names if isinstance(counts.get(name), int | float)), None)


def _usage(taken: int | None, given: int | None, cached: int | None) -> Usage | None:
    """Return counts with one meaning for all providers: the input includes cached tokens, the output includes reasoning."""
    return None if taken is None or given is None else Usage(taken, given, cached or 0)


def _call(call_id: Any, place: int, name: Any, arguments: Any) -> NativeCall:
    """Return a call with its arguments as they were sent: a text, or JSON."""
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return NativeCall(str(call_id or f"call_{place}"), str(name or ""), text)


def _turn(wire: str, items: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an assistant's turn as its provider sent it, to be sent back. Its calls lack arguments: the loop's are sent."""
    kept = [
        {**item, "functionCall": {"id": _mapping(item["functionCall"]).get("id")}} if "functionCall" in item else item
        for item in items
    ]
    return {"wire": wire, "items": [{key: each[key] for key in each if key not in ("input", "arguments")} for each in kept]}


def _reply(texts: list[Any], calls: list[NativeCall], usage: Usage | None, reason: Any, turn: dict[str, Any] | None) -> Reply:
    finish = _REASONS.get(reason if isinstance(reason, str) else None) or ("tool_calls" if calls else "stop")
    return Reply("".join(text for text in texts if isinstance(text, str)), tuple(calls), usage, finish, native=turn)


class ChatReading(Reading):
    """OpenAI's chat completions, and all that speaks like them."""

    wire = "chat"
    _GROWING = frozenset({"content", "refusal", "reasoning", "reasoning_content", "arguments", "text", "summary", "thinking"})
    _PLAIN = frozenset({"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call"})
    _PLAIN_CALL = frozenset({"id", "type", "index", "function"})

    def __init__(self) -> None:
        super().__init__()
        self._message: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}

    def push(self, event: Mapping[str, Any]) -> Iterator[Chunk]:
        choice = _first(event.get("choices"))
        if choice.get("finish_reason"):
            self.ended = True
            self._rest["finish_reason"] = choice["finish_reason"]
        if event.get("usage"):
            self._rest["usage"] = event["usage"]
        delta = dict(_mapping(choice.get("delta")))
        deltas = _mappings(delta.pop("tool_calls", None))
        self._message = self._joined(self._message, delta, "")
        for text in (self._text(delta.get("content")), delta.get("refusal")):
            if text and isinstance(text, str):
                yield Chunk(text)
        for call in deltas:
            place = self._place(call)
            self.calls[place] = self._joined(self.calls[place], call, "")
            function = _mapping(call.get("function"))
            pieces = [value if isinstance(value, str) else "" for value in map(function.get, ("name", "arguments"))]
            yield Chunk(call=CallDelta(place, str(call.get("id") or ""), *pieces))

    def _place(self, call: Mapping[str, Any]) -> int:
        """Return which call a piece belongs to. Gemini numbers all calls 0, each with an id of its own."""
        index, call_id = call.get("index", 0), call.get("id")
        for place in reversed(range(len(self.calls))):
            if self.calls[place].get("index", 0) == index and call_id in (None, "", self.calls[place].get("id")):
                return place
        self.calls.append({})
        return len(self.calls) - 1

    def _joined(self, old: Any, new: Any, key: str) -> Any:
        if new is None or new == "":
            return old
        match old, new:
            case str(), str() if key in self._GROWING:
                return old + new
            case dict(), Mapping():
                return old | {name: self._joined(old.get(name), value, name) for name, value in new.items()}
            case list(), list():
                grown = list(old)
                for item in new:
                    place = _mapping(item).get("index")
                    same = next(
                        (n for n, each in enumerate(grown) if place is not None and _mapping(each).get("index") == place), None
                    )
                    if same is None:
                        grown.append(item)
                    else:
                        grown[same] = self._joined(grown[same], item, "")
                return grown
        return new

    @property
    def body(self) -> Mapping[str, Any]:
        message = self._message | ({"tool_calls": self.calls} if self.calls else {})
        return {
            "choices": [{"message": message, "finish_reason": self._rest.get("finish_reason")}],
            "usage": self._rest.get("usage"),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Reply:
        choice, counts = _first(body.get("choices")), _mapping(body.get("usage"))
        if not choice or choice.get("error"):
            raise refused(None, choice or "the reply has no choice")
        message = _mapping(choice.get("message"))
        items = _mappings(message.get("tool_calls"))
        functions = [_mapping(item.get("function")) for item in items]
        calls = [
            _call(item.get("id"), place, function.get("name"), function.get("arguments"))
            for place, (item, function) in enumerate(zip(items, functions, strict=True))
        ]
        cached = _count(_mapping(counts.get("prompt_tokens_details")), "cached_tokens")
        cached = _count(counts, "prompt_cache_hit_tokens") if cached is None else cached
        usage = _usage(_count(counts, "prompt_tokens"), _count(counts, "completion_tokens"), cached)
        more = {key: value for key, value in message.items() if key not in cls._PLAIN and _says(value)}
        of_calls = [
            {key: value for key, value in item.items() if key not in cls._PLAIN_CALL}
            | {"function": {key: value for key, value in function.items() if key not in ("name", "arguments")}}
            for item, function in zip(items, functions, strict=True)
        ]
        told = [{**item, "id": call.id} for item, call in zip(of_calls, calls, strict=True)]
        turn = _turn(cls.wire, [{**more, "tool_calls": told}]) if more or _says(of_calls) else None
        return _reply([cls._text(message.get("content")), message.get("refusal")], calls, usage, choice.get("finish_reason"), turn)

    @staticmethod
    def _text(content: Any) -> str:
        parts = _mappings(content)
        return content if isinstance(content, str) else "".join(str(part["text"]) for part in parts if part.get("type") == "text")


class ResponsesReading(Reading):
    """OpenAI's Responses, whose streams end with the whole body."""

    wire = "responses"

    def __init__(self) -> None:
        super().__init__()
        self._body: Mapping[str, Any] = {}
        self._items: list[Mapping[str, Any]] = []

    def push(self, event: Mapping[str, Any]) -> Iterator[Chunk]:
        item, index = _mapping(event.get("item")), event.get("output_index", 0)
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                yield Chunk(str(event.get("delta") or ""))
            case "response.output_item.added" if item.get("type") == "function_call":
                self.calls.append(index)
                call_id = item.get("call_id") or item.get("id") or ""
                arguments = str(item.get("arguments") or "")
                yield Chunk(call=CallDelta(len(self.calls) - 1, str(call_id), str(item.get("name") or ""), arguments))
            case "response.function_call_arguments.delta" if index in self.calls:
                yield Chunk(call=CallDelta(self.calls.index(index), arguments=str(event.get("delta") or "")))
            case "response.output_item.done":
                self._items.append(item)
            case "response.completed" | "response.incomplete":
                self.ended, self._body = True, _mapping(event.get("response"))
            case "response.failed":
                raise refused(None, _mapping(event.get("response")))

    @property
    def body(self) -> Mapping[str, Any]:
        return self._body if self._body.get("output") else {**self._body, "output": self._items}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Reply:
        if not isinstance(body.get("output"), list):
            raise refused(None, "the reply has no output")
        items, counts = _mappings(body["output"]), _mapping(body.get("usage"))
        parts = [part for item in items if item.get("type") == "message" for part in _mappings(item.get("content"))]
        made = [item for item in items if item.get("type") == "function_call"]
        calls = [
            _call(item.get("call_id") or item.get("id"), n, item.get("name"), item.get("arguments")) for n, item in enumerate(made)
        ]
        cached = _count(_mapping(counts.get("input_tokens_details")), "cached_tokens")
        usage = _usage(_count(counts, "input_tokens"), _count(counts, "output_tokens"), cached)
        reason = _mapping(body.get("incomplete_details")).get("reason")
        turn = _turn(cls.wire, items) if any(item.get("type") == "reasoning" for item in items) else None
        return _reply([part.get("text") or part.get("refusal") for part in parts], calls, usage, reason, turn)


class MessagesReading(Reading):
    """Anthropic's Messages."""

    wire = "messages"
    _GROWS: ClassVar = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

    def __init__(self) -> None:
        super().__init__()
        self._body: dict[str, Any] = {}
        self._blocks: dict[Any, dict[str, Any]] = {}

    def push(self, event: Mapping[str, Any]) -> Iterator[Chunk]:
        index, delta = event.get("index", 0), _mapping(event.get("delta"))
        match event.get("type"):
            case "message_start":
                self._body = dict(_mapping(event.get("message")))
            case "content_block_start":
                block = self._blocks[index] = dict(_mapping(event.get("content_block")))
                if block.get("type") == "tool_use":
                    self.calls.append(index)
                    block["input"] = block.get("input") or ""  # an empty object stands for what is to come
                    started = _call(block.get("id"), 0, block.get("name"), block["input"])
                    yield Chunk(call=CallDelta(len(self.calls) - 1, started.id, started.name, started.arguments))
            case "content_block_delta":
                block, kind = self._blocks.setdefault(index, {"type": "text"}), delta.get("type")
                if kind == "input_json_delta" and index in self.calls:
                    piece = str(delta.get("partial_json") or "")
                    block["input"] = f"{block['input']}{piece}" if isinstance(block["input"], str) else piece
                    yield Chunk(call=CallDelta(self.calls.index(index), arguments=piece))
                elif kind in self._GROWS:
                    name = self._GROWS[kind]
                    piece = str(delta.get(name) or "")
                    block[name] = f"{block.get(name) or ''}{piece}"
                    if name == "text" and piece:
                        yield Chunk(piece)
            case "message_delta":
                self._body["stop_reason"] = delta.get("stop_reason") or self._body.get("stop_reason")
                self._body["usage"] = {**_mapping(self._body.get("usage")), **_mapping(event.get("usage"))}
                self.ended = self.ended or bool(self._body["stop_reason"])
            case "message_stop":
                self.ended = True

    @property
    def body(self) -> Mapping[str, Any]:
        return self._body | {"content": list(self._blocks.values())}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Reply:
        if not isinstance(body.get("content"), list):
            raise refused(None, "the reply has no content")
        blocks, counts = _mappings(body["content"]), _mapping(body.get("usage"))
        made = [block for block in blocks if block.get("type") == "tool_use"]
        calls = [_call(block.get("id"), n, block.get("name"), block.get("input")) for n, block in enumerate(made)]
        cached = _count(counts, "cache_read_input_tokens") or 0
        taken, written = _count(counts, "input_tokens"), _count(counts, "cache_creation_input_tokens") or 0
        usage = _usage(None if taken is None else taken + cached + written, _count(counts, "output_tokens"), cached)
        turn = _turn(cls.wire, blocks) if any(block.get("type") not in ("text", "tool_use") for block in blocks) else None
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        return _reply(texts, calls, usage, body.get("stop_reason"), turn)


class GeminiReading(Reading):
    """Google's generateContent, whose streams are bodies with some parts each."""

    wire = "gemini"
    _SLIPS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"})
    """Ends of a reply whose calls Gemini could not read or take: they are the model's, which a loop answers as any such call."""

    def __init__(self) -> None:
        super().__init__()
        self._body: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[Mapping[str, Any]] = []

    def push(self, event: Mapping[str, Any]) -> Iterator[Chunk]:
        candidate = _first(event.get("candidates"))
        self._body |= event
        self._candidate |= candidate
        self.ended = self.ended or bool(candidate.get("finishReason") or event.get("promptFeedback"))
        for part in _mappings(_mapping(candidate.get("content")).get("parts")):
            last = self._parts[-1] if self._parts else {}
            if "functionCall" in part:
                made = _mapping(part["functionCall"])
                call = _call(made.get("id"), len(self.calls), made.get("name"), made.get("args"))
                yield Chunk(call=CallDelta(len(self.calls), call.id, call.name, call.arguments))
                self.calls.append(call)
            elif isinstance(part.get("text"), str) and not part.get("thought") and part["text"]:
                yield Chunk(part["text"])
            if "text" in part and last.keys() <= {"text", "thought"} and last.get("thought") == part.get("thought") and last:
                self._parts[-1] = {**part, "text": f"{last['text']}{part['text']}"}
            else:
                self._parts.append(part)

    @property
    def body(self) -> Mapping[str, Any]:
        return self._body | {"candidates": [self._candidate | {"content": {"parts": self._parts}}]}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Reply:
        candidate, counts = _first(body.get("candidates")), _mapping(body.get("usageMetadata"))
        blocked = _mapping(body.get("promptFeedback")).get("blockReason")
        if blocked:
            raise refused(None, {"message": f"the prompt is blocked: {blocked}", "code": "400"})
        if not candidate:
            raise refused(None, "the reply has no candidate")
        reason = candidate.get("finishReason")
        parts = _mappings(_mapping(candidate.get("content")).get("parts"))
        made = [_mapping(part["functionCall"]) for part in parts if "functionCall" in part]
        calls = [_call(call.get("id"), n, call.get("name"), call.get("args", {})) for n, call in enumerate(made)]
        if reason in cls._SLIPS and not calls:
            calls = [_call(None, 0, "malformed_call", str(candidate.get("finishMessage") or reason))]
        thoughts = _count(counts, "thoughtsTokenCount") or 0
        given = (_count(counts, "candidatesTokenCount") or 0) + thoughts
        cached = _count(counts, "cachedContentTokenCount")
        usage = _usage(_count(counts, "promptTokenCount") or 0, given, cached) if counts else None
        turn = _turn(cls.wire, parts) if any("thoughtSignature" in part or part.get("thought") for part in parts) else None
        return _reply([part.get("text") for part in parts if not part.get("thought")], calls, usage, reason, turn)


READINGS: Mapping[str, type[Reading]] = {
    each.wire: each for each in (ChatReading, ResponsesReading, MessagesReading, GeminiReading)
}
