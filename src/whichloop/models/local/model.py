"""Opens a model by its name: a provider's, or `local`, in this process behind the same retries and limits. Imports DSPy.

Native tools for models that know text only have the form of the templates of Hermes, Qwen and SmolLM2's larger sister:
https://github.com/NousResearch/Hermes-Function-Calling#prompt-format-for-function-calling. That of the small SmolLM2 drops tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from whichloop.dspy_seam import local_client
from whichloop.models.real import DEFAULTS, RealModel, RealOptions, open_remote_model
from whichloop.protocol import Capabilities, Chunk, Message, NativeCall, ProviderError, Reply, Request
from whichloop.protocol.names import is_local_model
from whichloop.protocol.wire import from_json

from .server import find_weights, started_server

OPEN, CLOSE = "<tool_call>\n", "\n</tool_call>"
_OWN_ID = re.compile(r"call_([0-9]{1,9})")
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_DEMANDED_CALL = re.compile(r"\A\s*(\{.*\})\s*\Z", re.DOTALL)
_OFFER = """# Tools

You may call these functions:
<tools>
{tools}
</tools>

To call a function, reply with its name and arguments as one JSON object in tags:
<tool_call>
{{"name": "function", "arguments": {{"argument": value}}}}
</tool_call>"""


def with_tools_as_text(request: Request) -> Request:
    """Return the request without native tools: offer, calls and results are text, a demanded call is a JSON schema."""
    messages = tuple(_messages(request.messages))
    if request.tools and request.tool_choice != "none":
        described = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in request.tools]
        lines = [json.dumps({"type": "function", "function": each}, ensure_ascii=False) for each in described]
        offer = _OFFER.format(tools="\n".join(lines))
        opens_with_system = bool(messages) and messages[0].role == "system"
        first = [messages[0].content] if opens_with_system else []
        messages = (Message("system", "\n\n".join([*first, offer])), *messages[opens_with_system:])
    return replace(request, messages=messages, tools=(), tool_choice=None, response_schema=_schema(request))


def _schema(request: Request) -> Mapping[str, Any] | None:
    """Return the JSON schema of the reply, within bounds: that of the call which the request demands, or its own; None for none."""
    if not request.tools or request.tool_choice in (None, "auto", "none"):
        return None if request.response_schema is None else bounded(request.response_schema)
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": tool.parameters},
            "required": ["name", "arguments"],
        }
        for tool in request.tools
        if request.tool_choice in ("required", tool.name)
    ]
    shared = {name: schema for tool in request.tools for name, schema in tool.parameters.get("$defs", {}).items()}
    whole: Mapping[str, Any] = bounded({"anyOf": calls, "$defs": shared})
    return whole


def _messages(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages; results of one turn, which stand side by side, are one message of the user."""
    for are_results, turn in groupby(messages, lambda message: message.role == "tool"):
        if are_results:
            yield Message("user", "\n".join(f"<tool_response>\n{result.content}\n</tool_response>" for result in turn))
            continue
        for message in turn:
            written = [
                f'{OPEN}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}{CLOSE}' for call in message.calls
            ]
            yield Message(message.role, "\n".join(filter(None, [message.content, *written]))) if written else message


def with_calls_read(reply: Reply, request: Request) -> Reply:
    """Return the reply with the calls of its text as native ones. What is not a call stays text; nothing else changes."""
    if not request.tools or request.tool_choice == "none":
        return reply
    numbers = (_OWN_ID.fullmatch(call.id) for message in request.messages for call in message.calls)
    first = 1 + max((int(number[1]) for number in numbers if number), default=-1)
    calls: list[NativeCall] = []

    def take_call(match: re.Match[str]) -> str:
        try:
            data = from_json(match[1])
        except ValueError:
            data = None
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return match[0]
        arguments = json.dumps(data.get("arguments", {}), ensure_ascii=False)
        calls.append(NativeCall(f"call_{first + len(calls)}", data["name"], arguments))
        return ""

    is_demanded = request.tool_choice not in (None, "auto")
    text = (_DEMANDED_CALL if is_demanded and OPEN not in reply.text else _CALL).sub(take_call, reply.text)
    return replace(reply, text=text.strip(), calls=tuple(calls), finish_reason="tool_calls") if calls else reply


MAX_TEXT_CHARS = 120
"""Characters of a text in JSON whose schema does not bound it."""
MAX_ITEMS = 6
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
_SCHEMAS = ("items", "additionalProperties", "not")


def bounded(schema: Any) -> Any:
    """Return a JSON schema with bounds on texts, lists and properties where it has none. What fits it fits the given one, too."""
    if not isinstance(schema, Mapping):  # true and false are schemas, too
        return schema
    copy = dict(schema)
    for name, value in schema.items():
        if name in _SCHEMAS:
            copy[name] = bounded(value)
        elif name in _LISTS_OF_SCHEMAS and isinstance(value, list):
            copy[name] = list(map(bounded, value))
        elif name in _NAMED_SCHEMAS and isinstance(value, Mapping):
            copy[name] = {key: bounded(each) for key, each in value.items()}
    kinds = copy["type"] if isinstance(copy.get("type"), list) else [copy.get("type")]
    if "string" in kinds and not copy.keys() & {"enum", "const", "pattern", "format"}:
        copy["maxLength"] = copy.get("maxLength", max(MAX_TEXT_CHARS, copy.get("minLength", 0)))
    if "array" in kinds:
        copy["maxItems"] = copy.get("maxItems", max(MAX_ITEMS, copy.get("minItems", 0)))
    if "object" in kinds and "properties" in copy:
        copy["additionalProperties"] = copy.get("additionalProperties", False)
    return copy


ABILITIES = Capabilities(native_tools=True, tool_choice=True, response_schema=True, streaming=True, parallel_calls=False)


class LocalModel:
    """The model behind a server of this process. Native tools go there as text."""

    def __init__(self, name: str, server: Any) -> None:
        self.name = name
        self.capabilities = ABILITIES
        self.server = server
        """Held, so that it answers as long as the model is there."""
        self.client = local_client(f"{server.listening_address}/v1", model="local")

    async def complete(self, request: Request) -> Reply:
        """Return the reply, in which calls that stand as text are read. Raises ModelError."""
        return with_calls_read(await self.client.complete(_as_served(request)), request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the reply in pieces; one that may call tools comes whole, as it is text until it is read. Raises ModelError."""
        if request.tools:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)
            return
        async for chunk in self.client.stream(_as_served(request)):
            yield chunk

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self.client.aclose()


def _as_served(request: Request) -> Request:
    if any(message.images for message in request.messages):
        raise ProviderError("the local model takes no images: it reads text alone", "bad_request")
    return with_tools_as_text(request)


def open_model(name: str, base_url: str | None = None, options: RealOptions = DEFAULTS) -> RealModel:
    """Open a model: `provider/model` as DSPy names it, whose key comes from the environment; or `local` or `local:FILE`.

    `base_url`: an OpenAI-compatible server or gateway; left out: what `PROVIDER_BASE_URL` names, else the provider's own.
    Makes no connection; the weights of a local model are loaded, which takes seconds.
    Raises ValueError, in one line: for an unknown provider, a provider without its key, an address that cannot be used or that a
    local model has no use for, and for weights or a package that are not there.
    """
    if not is_local_model(name):
        return open_remote_model(name, base_url, options)
    if base_url is not None:
        raise ValueError(f"model {name!r} runs in this process and takes no base_url")
    return RealModel(LocalModel(name, started_server(name, find_weights(name), options.context_tokens)), options)
