"""The wire formats of the guard's own requests: which tools a task needs, and whether a call is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from whichloop.protocol import (
    Completion,
    Grammar,
    Inexpressible,
    Move,
    Reply,
    Role,
    ToolSpec,
    Understanding,
    WireError,
    json_object,
)
from whichloop.protocol.wire import read_object, read_once, to_json


@dataclass(frozen=True, slots=True)
class NeededToolsCodec:
    """`{"intent", "tools"}`. Cannot say anything but an Understanding."""

    name: str = "guarded.needed"
    role: Role = Role.UNDERSTAND
    max_calls: int = 0
    asks_about_task: ClassVar[bool] = True
    """Of a conversation it is shown what the user said, and no result or reply."""
    form: ClassVar[str] = """\
An assistant is about to solve a task with tools. Name the tools that the task needs; the assistant gets no others.
Reply with one JSON object and nothing else: {"intent": "what is wanted", "tools": ["name", ...]}"""

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Understanding):
            raise Inexpressible("it takes an Act or an Answer")
        return Reply(to_json({"intent": move.intent, "tools": list(move.entities)}))

    @read_once
    def parse(self, reply: Reply) -> Understanding:
        data = read_object(reply.text)
        intent, tools = data.get("intent"), data.get("tools")
        if not isinstance(intent, str):
            raise WireError('"intent" must be text')
        if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
            raise WireError('"tools" must be a list of names')
        return Understanding(intent, tuple(tools))

    def grammar(self, tools: Sequence[ToolSpec]) -> Grammar:
        names = {"enum": [tool.name for tool in tools]} if tools else {"type": "string"}  # an empty enum allows no value
        return Grammar(((json_object({"intent": {"type": "string"}, "tools": {"type": "array", "items": names}}),),))


@dataclass(frozen=True, slots=True)
class ConfirmCodec:
    """`{"confirmed", "reason"}`. Cannot say anything but a Completion, nor what is missing, nor a confidence."""

    name: str = "guarded.confirm"
    role: Role = Role.CONFIRM
    max_calls: int = 0
    asks_about_task: ClassVar[bool] = True
    """Of a conversation it is shown what the user said, and no result or reply."""
    form: ClassVar[str] = """\
An assistant wants to make a call that may change something. You are shown the task that it was given and the call, nothing else. \
Confirm the call if the task asks for it or needs it; refuse one that whoever gave the task would not expect.
Reply with one JSON object and nothing else: {"confirmed": true or false, "reason": "why"}"""

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Completion) or move.missing or move.confidence is not None:
            raise Inexpressible("anything but whether, and why")
        return Reply(to_json({"confirmed": move.done, "reason": move.reason}))

    @read_once
    def parse(self, reply: Reply) -> Completion:
        data = read_object(reply.text)
        confirmed, reason = data.get("confirmed"), data.get("reason", "")
        if not isinstance(confirmed, bool):
            raise WireError('"confirmed" must be true or false')
        if not isinstance(reason, str):
            raise WireError('"reason" must be text')
        return Completion(confirmed, reason)

    def grammar(self, tools: Sequence[ToolSpec]) -> Grammar:
        return Grammar(((json_object({"confirmed": {"type": "boolean"}, "reason": {"type": "string"}}),),))
