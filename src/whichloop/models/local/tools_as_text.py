"""Native tools for models that know text only: offered in the system message, called in `<tool_call>` tags, as Hermes has it.

The form is that of the templates of Hermes, Qwen and SmolLM2's larger sister, which put the same texts into the prompt:
https://github.com/NousResearch/Hermes-Function-Calling#prompt-format-for-function-calling. That of the small SmolLM2 drops tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from whichloop.protocol import AnyCall, Grammar, GrammarPart, Message, NativeCall, Reply, Request, ToolSpec, json_object
from whichloop.protocol.wire import from_json

OPEN, CLOSE = "<tool_call>\n", "\n</tool_call>"
_OWN_ID = re.compile(r"call_([0-9]{1,9})")
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
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
    """Return the request without native tools: offer, calls, results and a choice among the tools are text and grammar."""
    messages = tuple(_messages(request.messages))
    if request.tools and request.tool_choice != "none":
        offer = _OFFER.format(tools="\n".join(map(_tool_line, request.tools)))
        opens_with_system = bool(messages) and messages[0].role == "system"
        first = [messages[0].content] if opens_with_system else []
        messages = (Message("system", "\n\n".join([*first, offer])), *messages[opens_with_system:])
    return replace(request, messages=messages, tools=(), tool_choice=None, grammar=_grammar(request))


def _grammar(request: Request) -> Grammar | None:
    """Return the request's grammar with calls written out; without one, that of the call that it demands."""
    choice, grammar = request.tool_choice, request.grammar
    offered = [tool for tool in request.tools if choice in (None, "auto", "required", tool.name)]
    if choice not in (None, "auto", "none"):
        grammar = Grammar(((AnyCall(),),))
    if grammar is None:
        return None
    calls: list[tuple[GrammarPart, ...]] = [
        (OPEN, json_object({"name": {"const": tool.name}, "arguments": tool.parameters}), CLOSE) for tool in offered
    ]
    return Grammar(
        tuple(alternative for parts in grammar.alternatives for alternative in (calls if AnyCall() in parts else [parts]))
    )


def with_calls_read(reply: Reply, request: Request) -> Reply:
    """Return the reply with the calls of its text as native ones. What is not a call stays text; nothing else changes."""
    if not request.tools or request.tool_choice == "none":
        return reply
    calls: list[NativeCall] = []
    first = _first_free(request.messages)

    def take_call(match: re.Match[str]) -> str:
        call = _read_call(match[1], first + len(calls))
        if call is None:
            return match[0]
        calls.append(call)
        return ""

    text = _CALL.sub(take_call, reply.text)
    if not calls:
        return reply
    return replace(reply, text=text.strip(), calls=tuple(calls), finish_reason="tool_calls")


def _first_free(messages: Iterable[Message]) -> int:
    """Return the first number that is above those of all calls so far: a result names its call by it."""
    numbers = (_OWN_ID.fullmatch(call.id) for message in messages for call in message.calls)
    return 1 + max((int(number[1]) for number in numbers if number), default=-1)


def _tool_line(tool: ToolSpec) -> str:
    described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return json.dumps({"type": "function", "function": described}, ensure_ascii=False)


def _messages(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages; results of one turn, which stand side by side, are one message of the user."""
    for are_results, turn in groupby(messages, lambda message: message.role == "tool"):
        if are_results:
            yield Message("user", "\n".join(f"<tool_response>\n{result.content}\n</tool_response>" for result in turn))
        else:
            yield from map(_with_calls_written, turn)


def _with_calls_written(message: Message) -> Message:
    if not message.calls:
        return message
    written = [f'{OPEN}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}{CLOSE}' for call in message.calls]
    return Message(message.role, "\n".join(filter(None, [message.content, *written])))


def _read_call(text: str, number: int) -> NativeCall | None:
    """Return the call that a text states; None if it states none."""
    try:
        data = from_json(text)
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return None
    return NativeCall(f"call_{number}", data["name"], json.dumps(data.get("arguments", {}), ensure_ascii=False))
