"""Requests in lm15's types, which write the bodies of all providers, and what the bodies of some need besides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from dspy import lm15

from whichloop.protocol import Chunk, Message, ProviderError, Reply, Request
from whichloop.protocol.files import Image
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import from_json

MAX_NESTED = 60
"""Brackets within brackets that are read as JSON to be sent, or by DSPy's lenient reader: Python's own parser fails beyond."""
_FITTING = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names of tools that all providers take: OpenAI and Anthropic let them begin with a digit or a hyphen, Gemini does not."""


class ToolNames:
    """The names of a request's tools and calls as they are sent: what a provider refuses is replaced, and put back in the reply."""

    def __init__(self, request: Request) -> None:
        called = [call.name for message in request.messages for call in message.calls]
        names = dict.fromkeys([*(tool.name for tool in request.tools), *called])
        strange = [name for name in names if not _FITTING.fullmatch(name)]
        taken = names.keys() - set(strange)
        self._sent: dict[str, str] = {}
        for name in strange:
            plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
            plain = plain if _FITTING.fullmatch(plain) else f"_{plain[:63]}"
            number, sent = 2, plain
            while sent in taken:
                number, sent = number + 1, f"{plain[:60]}_{number}"
            taken = taken | {sent}
            self._sent[name] = sent
        self._own = {sent: name for name, sent in self._sent.items()}

    def sent(self, name: str) -> str:
        return self._sent.get(name, name)

    def in_chunk(self, chunk: Chunk) -> Chunk:
        """Return a piece of a reply with the tool's own name."""
        if not self._own or chunk.call is None:
            return chunk
        return Chunk(call=replace(chunk.call, name=self._own.get(chunk.call.name, chunk.call.name)))

    def in_reply(self, reply: Reply) -> Reply:
        """Return the reply with the tools' own names."""
        if not self._own or not reply.calls:
            return reply
        return replace(reply, calls=tuple(replace(call, name=self._own.get(call.name, call.name)) for call in reply.calls))


def lm15_request(request: Request, model: str, names: ToolNames) -> Any:
    """Return a request in lm15's types.

    Raises ProviderError for what lm15 refuses to send, such as the choice of a tool that is not offered.
    """
    try:
        return _lm15_request(request, model, names)
    except (TypeError, ValueError) as error:
        raise ProviderError(f"not sent: {one_line(redact(str(error)))}", "bad_request") from None


def _lm15_request(request: Request, model: str, names: ToolNames) -> Any:
    first = next((i for i, message in enumerate(request.messages) if message.role != "system"), len(request.messages))
    system = "\n\n".join(message.content for message in request.messages[:first])
    messages: list[Any] = []
    for are_results, group in groupby(request.messages[first:], lambda message: message.role == "tool"):
        neighbours = list(group)
        if are_results:  # one message, as Gemini requires for those of one turn
            parts = [lm15.ToolResultPart(id=m.call_id, content=(lm15.TextPart(sendable(m.content)),)) for m in neighbours]
            messages.append(lm15.Message(role="tool", parts=tuple(parts)))
        else:
            messages += [_lm15_message(message, names) for message in neighbours]
    sampling, schema = request.sampling, request.response_schema
    config = lm15.Config(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=sampling.stop,
        tool_choice=_choice(request, names),
        response_format=None if schema is None else {"type": "json_schema", "name": "answer", "schema": dict(schema)},
    )
    tools = tuple(
        lm15.FunctionTool(name=names.sent(tool.name), description=tool.description, parameters=dict(tool.parameters))
        for tool in request.tools
    )
    return lm15.Request(model=model, messages=tuple(messages), system=sendable(system) or None, tools=tools, config=config)


def _choice(request: Request, names: ToolNames) -> Any:
    """Return lm15's tool choice; None if the request says nothing about calls."""
    one = False if request.tools and not request.parallel_calls else None
    if request.tool_choice in (None, "auto", "required", "none"):
        silent = request.tool_choice is None and one is None
        return None if silent else lm15.ToolChoice(mode=request.tool_choice or "auto", parallel=one)
    return lm15.ToolChoice(mode="required", allowed=(names.sent(request.tool_choice),), parallel=one)


def _lm15_message(message: Message, names: ToolNames) -> Any:
    text = sendable(message.content)
    if message.role == "user":
        return lm15.Message.user([lm15.TextPart(text), *map(_image, message.images)] if message.images else text)
    if message.role == "system":
        return lm15.Message.developer(text)  # lm15 keeps it in its place; a provider without the role sees a marked user message
    parts: list[Any] = [lm15.TextPart(text)] if text or not message.calls else []
    parts += [
        lm15.ToolCallPart(id=call.id, name=names.sent(call.name), input=arguments_object(sendable(call.arguments)))
        for call in message.calls
    ]
    return lm15.Message.assistant(parts)


def _image(image: Image) -> Any:
    if image.data is None:
        return lm15.ImagePart(media_type=image.media_type, url=image.url)
    media_type, data = image.data
    return lm15.ImagePart(media_type=media_type, data=data)


def sendable(text: str) -> str:
    """Replace lone surrogates, which a model or a tool may produce but no provider takes, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def arguments_object(text: str) -> dict[str, Any]:
    """Return raw arguments as the object that lm15 requires; any other text stays readable under its own key."""
    try:
        value = from_json(text or "{}") if nesting(text) <= MAX_NESTED else None
        if "\\u" in text:  # an escape may hide a lone surrogate
            value = from_json(sendable(json.dumps(value, ensure_ascii=False)))
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_unparsed": text}


def nesting(text: str) -> int:
    """Return how many brackets are open at the deepest place of a text."""
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}" and depth:
            depth -= 1
    return deepest


def with_json_schemas(request: Any) -> Any:
    """Return an lm15 request for Gemini whose tools and whose reply keep their schemas.

    lm15 sends them in the fields for Google's own schemas, which have no place for `additionalProperties`, `$defs`, several types
    or none. It takes the field for JSON Schema for a reply whose schema says `additionalProperties`: true there changes nothing.
    """
    config = request.config
    if request.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters} for tool in request.tools
        ]
        config = replace(config, extensions={**(config.extensions or {}), "tools": [{"functionDeclarations": declared}]})
    wanted = config.response_format
    if wanted and "schema" in wanted:
        config = replace(config, response_format={**wanted, "schema": {"additionalProperties": True, **wanted["schema"]}})
    return replace(request, config=config)


def with_texts(request: Any) -> Any:
    """Return an lm15 request whose turns of calls alone have an empty text: Ollama and LM Studio refuse null."""
    messages = tuple(
        replace(message, parts=(lm15.TextPart(""), *message.parts))
        if message.role == "assistant" and not any(part.type == "text" for part in message.parts)
        else message
        for message in request.messages
    )
    return replace(request, messages=messages)


# --- turns as the provider sent them ---


Items = Sequence[Mapping[str, Any]]
"""Blocks, parts or items of a turn as its provider sent them; of chat completions one item, fields of the message."""


def turns_of(request: Request, wire: str) -> list[tuple[Items, int]]:
    """Return the turns of the assistant, in order: what came from this API, and how many items of Responses the turn is written as.

    Empty if nothing needs to go back: a loop that writes calls as text has no native calls in its conversation.
    """
    if not request.tools and not any(message.calls for message in request.messages):
        return []
    turns: list[tuple[Items, int]] = []
    for message in request.messages:
        if message.role == "assistant":
            is_from_here = isinstance(message.native, Mapping) and message.native["wire"] == wire
            size = len(message.calls) + bool(message.content or not message.calls)
            turns.append((message.native["items"] if is_from_here else (), size))
    return turns if any(items for items, _ in turns) else []


def with_turns(body: dict[str, Any], turns: list[tuple[Items, int]], wire: str) -> dict[str, Any]:
    """Return a body in which the assistant's turns have what came with them: signatures, reasoning, fields of calls."""
    if wire == "responses":
        body["input"] = _with_items(body["input"], turns)
        return body
    name, kind = {"chat": ("messages", ""), "messages": ("messages", "content"), "gemini": ("contents", "parts")}[wire]
    written = [message for message in body[name] if message["role"] in ("assistant", "model")]
    for message, (items, _) in zip(written, turns, strict=False):
        if items and kind:
            message[kind] = _merged(items, message[kind])
        elif items:
            message |= _filled(message, items[0])
    return body


def _with_items(written: list[dict[str, Any]], turns: list[tuple[Items, int]]) -> list[Any]:
    """Return the items of Responses, where a turn is a message, calls, or both."""
    if sum(map(_is_assistants, written)) != sum(size for _, size in turns):
        return written
    merged: list[Any] = []
    place, left = 0, iter(turns)
    while place < len(written):
        items, size = next(left, ((), 1)) if _is_assistants(written[place]) else ((), 1)
        run = written[place : place + size]
        merged += _merged(items, run) if items else run
        place += size
    return merged


def _is_assistants(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") == "function_call"


def _filled(sent: dict[str, Any], came: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of chat completions with the fields that came with it and that it lacks, and those of its calls."""
    theirs = {call.get("id"): call for call in came["tool_calls"]}
    calls = [
        {**call, **ours, "function": {**call["function"], **ours["function"]}}
        for ours in sent.get("tool_calls", ())
        for call in [theirs.get(ours["id"], {"function": {}})]
    ]
    filled = {key: value for key, value in came.items() if key != "tool_calls"} | sent
    return filled | ({"tool_calls": calls} if calls else {})


def _merged(came: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return a turn as it came, with the loop's calls in the places of those with their ids, and with the loop's text."""
    calls = {_call_id(item, place): item for place, item in enumerate(item for item in sent if _is_call(item))}
    texts = [item for item in sent if not _is_call(item)]
    is_same = _text(filter(_is_text, came)) == _text(texts)
    merged: list[Any] = []
    made = 0
    for item in came:
        if _is_call(item):
            call = calls.pop(_call_id(item, made), None)
            merged += [] if call is None else [{**item, **call}]
            made += 1
        elif not _is_text(item):
            merged.append(item)
        elif not is_same:
            merged, texts = [*merged, *texts], []
        elif item.get("text") != "" or "thoughtSignature" in item:  # Anthropic refuses a text that is empty
            merged.append(item)
    return [*merged, *([] if is_same else texts), *calls.values()]


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("tool_use", "function_call") or "functionCall" in item


def _call_id(item: Mapping[str, Any], place: int) -> str:
    """Return a call's id, as a reply has it."""
    call = item.get("functionCall", item)
    return str(call.get("call_id") or call.get("id") or f"call_{place}")


def _is_text(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("text", "message") or ("text" in item and not item.get("thought") and "type" not in item)


def _text(items: Iterable[Mapping[str, Any]]) -> str:
    texts: list[str] = []
    for item in items:
        content = item.get("content")
        for part in content if isinstance(content, list) else [item]:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
    return "".join(texts)
