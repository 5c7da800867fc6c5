"""The codec for a program that brings none: made from its request, it answers as a model does that keeps to the request's rules."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.filling import Unfillable, fill, filled_value, fits, least, same
from whichloop.protocol.chat import NativeCall, Reply
from whichloop.protocol.model import Request
from whichloop.protocol.moves import Act, Answer, Inexpressible, Move, Role, Text, WireError
from whichloop.protocol.tool_calls import ToolCall, ToolSpec
from whichloop.protocol.values import render_value
from whichloop.protocol.wire import from_json, native_call, read_call, to_json

MANY = 64
FINISHING = frozenset(
    {
        "answer", "attemptcompletion", "complete", "done", "end", "exit", "final", "finalanswer", "finaloutput", "finalresponse",
        "finalresult", "finalize", "finish", "giveanswer", "output", "provideanswer", "providefinalanswer", "respond", "response",
        "result", "returnanswer", "submit", "submitanswer", "submitfinalanswer", "submitresult", "taskcomplete", "terminate",
    }
)  # fmt: skip
"""Names, in small letters and without marks, of the tools by which programs let a model finish."""


@dataclass(slots=True)
class ForeignCodec:
    """Native calls, and the answer in the way that the request leaves open: a finishing tool, JSON after a schema, else text.

    One serves one request. Cannot say: an answer that is None or has a confidence; an answer that the schema or the finishing tool
    has no place for, or whose place another reading has (JSON that is itself valid, written as text); a thought beside an answer
    in text; a value that JSON does not give back; several calls where one is allowed, and any where the request forbids them.
    """

    request: Request
    task_tools: Collection[str] = ()
    """Names of the tools that the task is solved with: none of them is the program's way to finish."""
    unsaid: list[Move] = field(default_factory=list, compare=False)
    """Moves that it was to say and could not, in order."""

    name = "foreign"
    role = Role.DECIDE

    @property
    def max_calls(self) -> int:
        """Most calls of a move; 0 if the request leaves no room for a call but the finishing one: then the model answers."""
        if not self.request.tools or self.request.tool_choice == "none" or (self.is_forced and self.finishing is not None):
            return 0
        return MANY if self.request.parallel_calls else 1

    @property
    def is_forced(self) -> bool:
        """Whether the request names the tool to be called."""
        return self.request.tool_choice not in (None, "auto", "none", "required")

    @property
    def finishing(self) -> ToolSpec | None:
        """The tool by which the program lets a model finish, if it offers one."""
        choice, program_tools = self.request.tool_choice, [tool for tool in self.request.tools if tool.name not in self.task_tools]
        if choice == "none":
            return None
        if self.is_forced:
            return next((tool for tool in program_tools if tool.name == choice), None)
        named = next((tool for tool in program_tools if re.sub("[-_ ]", "", tool.name.lower()) in FINISHING), None)
        return named or (program_tools[0] if program_tools and choice == "required" else None)

    def render(self, move: Move) -> Reply:
        """Write a move. Raises Inexpressible."""
        try:
            reply = self._written(move)
            read = self.parse(reply)
            if isinstance(read, Answer) and isinstance(move, Answer):
                is_same = read.thought == move.thought and same(read.value, move.value)
            else:
                is_same = read == move
            if not is_same:
                raise Inexpressible("what would be read as something else")
        except (Inexpressible, Unfillable, WireError) as error:
            self.unsaid.append(move)
            raise Inexpressible(str(error)) from None
        return reply

    def parse(self, reply: Reply) -> Move:
        """Read a move. Raises WireError."""
        finishing = self.finishing
        if finishing is not None and len(reply.calls) == 1 and reply.calls[0].name == finishing.name:
            arguments = dict(read_call(reply.calls[0]).arguments)
            if not arguments:
                return Answer("", reply.text)
            return Answer(reply.text, filled_value(finishing.parameters, arguments))
        if reply.calls:
            return Act(reply.text, tuple(read_call(call) for call in reply.calls))
        schema = self.request.response_schema
        if schema is None:
            return Answer("", reply.text)
        try:
            return Answer("", filled_value(schema, from_json(reply.text)))
        except ValueError as error:
            raise WireError(f"The reply is no JSON: {error}") from None

    def constrained(self, reply: Reply) -> Reply:
        """Return the reply, or what constrained decoding leaves of it if the request does not allow it.

        A model that is made to call a tool, or to write after a schema, does so even if it has nothing fitting to say.
        """
        schema = self.request.response_schema
        if self.request.tool_choice == "required" or self.is_forced:
            return reply if reply.calls else self._forced_call(reply)
        if schema is None or reply.calls or _is_valid(schema, reply.text):
            return reply
        return replace(reply, text=to_json(_filled(schema, self._value_unsaid(reply))))

    # --- saying ---

    def _written(self, move: Move) -> Reply:
        if isinstance(move, Act) and move.calls:
            if len(move.calls) > self.max_calls:
                raise Inexpressible(f"{len(move.calls)} calls where {self.max_calls} are allowed")
            if self.is_forced and any(call.name != self.request.tool_choice for call in move.calls):
                raise Inexpressible(f"a call of another tool than {self.request.tool_choice}")
            return Reply(move.thought, tuple(self._call(call, place) for place, call in enumerate(move.calls)), None, "tool_calls")
        if isinstance(move, Answer) and move.value is not None and move.confidence is None:
            return self._answer(move)
        raise Inexpressible(f"the {type(move).__name__} is neither calls nor an answer")

    def _call(self, call: ToolCall, place: int = 0) -> NativeCall:
        before = sum(len(message.calls) for message in self.request.messages)  # ids are unique within a conversation
        return replace(native_call(call), id=f"call_{before + place}")

    def _answer(self, move: Answer) -> Reply:
        if (tool := self.finishing) is not None:
            said, arguments = move.value, {}
            if tool.parameters.get("properties"):
                said, arguments = move.thought, fill(tool.parameters, move.value)
                if not isinstance(arguments, dict) or _is_valid_text(tool.parameters, move.value):
                    raise Inexpressible("arguments that are no object, or an object written as text")
            elif not isinstance(said, str) or move.thought:
                raise Inexpressible("an answer beside a call without arguments is text")
            return Reply(said, (self._call(ToolCall(tool.name, arguments)),), None, "tool_calls")
        if move.thought or self.request.tool_choice == "required" or self.is_forced:
            raise Inexpressible("a thought beside the answer, or an answer where a call is wanted")
        schema = self.request.response_schema
        if schema is None:
            if not isinstance(move.value, str):
                raise Inexpressible("an answer in text that is no text")
            return Reply(move.value)
        if _is_valid_text(schema, move.value):
            raise Inexpressible("JSON written as text, where the value itself is wanted")
        return Reply(to_json(fill(schema, move.value)))

    # --- what is left of a move that cannot be said ---

    def _forced_call(self, reply: Reply) -> Reply:
        offered = self.request.tools
        forced = next((tool for tool in offered if tool.name == self.request.tool_choice), offered[0])
        tool = self.finishing or forced
        ready = [call for move in self.unsaid if isinstance(move, Act) for call in move.calls if call.name == tool.name]
        if not ready or self.finishing is not None:
            arguments = _filled(tool.parameters, self._value_unsaid(reply)) if tool.parameters.get("properties") else {}
            ready = [ToolCall(tool.name, arguments if isinstance(arguments, dict) else {})]
        return Reply("", (self._call(ready[0]),), reply.usage, "tool_calls")

    def _value_unsaid(self, reply: Reply) -> Any:
        """Return the answer that could not be expressed, as well as the model can tell."""
        answers = [move.value for move in self.unsaid if isinstance(move, Answer) and move.value is not None]
        acts = [NOT_DETERMINED for move in self.unsaid if isinstance(move, Act)]
        texts = [move.text for move in self.unsaid if isinstance(move, Text)]
        return [*answers, *acts, *texts, reply.text][0]


def _is_valid(schema: Mapping[str, Any], text: str) -> bool:
    with contextlib.suppress(ValueError):
        return fits(schema, from_json(text))
    return False


def _is_valid_text(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value is text that is JSON for an object or list which the schema takes as it is."""
    return isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and _is_valid(schema, value)


def _filled(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value that fits the schema, with the answer in it if it has room; an empty object if no valid one is found."""
    for make in (partial(fill, schema, value), partial(fill, schema, render_value(value)), partial(least, schema)):
        with contextlib.suppress(Unfillable):
            return make()
    return {}
