"""The wire formats: native calls with `__finish__` among them, the forced `__finish__`, and XML where a model cannot be forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from whichloop.protocol import (
    Act,
    Answer,
    Inexpressible,
    Move,
    NativeCall,
    Reply,
    Role,
    ToolCall,
    WireError,
)
from whichloop.protocol.wire import from_json, json_text, native_call, read_once, to_json

from .output import FINISH, WRAPPED, InvalidOutput, Output, converted
from .xml_output import output_xml, read_output


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A native call as far as it could be read."""

    call: ToolCall
    problem: str = ""
    """What is wrong with the arguments; empty if nothing is."""

    @property
    def is_finish(self) -> bool:
        return self.call.name == FINISH


MAX_CALLS = 64
"""Calls of one reply that are run; the model is told of the others."""


@read_once
def read_calls(reply: Reply) -> list[ReadCall]:
    """Return a reply's calls in order; never raises."""
    problem = f"at most {MAX_CALLS} calls of one reply are run"
    calls = [_read_call(call) for call in reply.calls[:MAX_CALLS]]
    return calls + [ReadCall(ToolCall(call.name, {}, call.id), problem) for call in reply.calls[MAX_CALLS:]]


def _read_call(native: NativeCall) -> ReadCall:
    try:
        arguments = from_json(native.arguments or "{}")
    except ValueError as error:
        return ReadCall(ToolCall(native.name, {}, native.id), f"the arguments of '{native.name}' are not valid JSON: {error}")
    if not isinstance(arguments, dict):
        return ReadCall(ToolCall(native.name, {}, native.id), f"the arguments of '{native.name}' must be a JSON object")
    return ReadCall(ToolCall(native.name, arguments, native.id))


@dataclass(frozen=True, slots=True)
class FinishCodec:
    """Native calls; the answer is the arguments of `__finish__`, or their one property `answer`.

    Cannot say: a confidence, an answer of None unless the output `takes_null`, one that does not fit the schema, an Act without
    calls, a call of `__finish__`, arguments that JSON does not give back as they were. It reads what does not fit all the same: the
    loop tells the model.
    """

    output: Output
    name: str = "finish.native"
    role: Role = Role.DECIDE
    max_calls: int = MAX_CALLS
    grows_as: ClassVar[str] = "finish"

    def render(self, move: Move) -> Reply:
        if isinstance(move, Answer):
            calls = [ToolCall(FINISH, arguments_of(move, self.output))]
        elif isinstance(move, Act) and 0 < len(move.calls) <= self.max_calls and all(c.name != FINISH for c in move.calls):
            calls = list(move.calls)
        else:
            reason = "only an answer can be given now" if self.max_calls == 0 else "it is neither calls nor an answer"
            raise Inexpressible(f"the {type(move).__name__}: {reason}")
        native_calls = tuple(native_call(call, place) for place, call in enumerate(calls))
        return Reply(move.thought, native_calls, None, "tool_calls")

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return json_text(calls.get(FINISH, ""), WRAPPED) if self.output.is_wrapped else ""

    def parse(self, reply: Reply) -> Move:
        calls = read_calls(reply)
        if not calls:
            raise WireError(f"no tool was called; call {FINISH} to answer")
        wanted = [call for call in calls if call.is_finish] or calls  # `__finish__` wins
        for call in wanted:
            if call.problem:
                raise WireError(call.problem)
        if wanted[0].is_finish:
            return Answer(reply.text, value_of(wanted[0].call.arguments, self.output))
        return Act(reply.text, tuple(call.call for call in calls))


def arguments_of(move: Answer, output: Output) -> Mapping[str, Any]:
    """Return the arguments of `__finish__` that state an answer. Raises Inexpressible."""
    if move.confidence is not None or (move.value is None and not output.takes_null):
        raise Inexpressible("an answer without a value, or with a confidence")
    arguments = {WRAPPED: move.value} if output.is_wrapped else move.value
    if not isinstance(arguments, Mapping):
        raise Inexpressible("an answer that is no object")
    to_json(dict(arguments))
    try:
        output.validate(arguments)
    except InvalidOutput as error:
        raise Inexpressible(f"an answer that does not fit: {error}") from None
    return arguments


def value_of(arguments: Mapping[str, Any], output: Output) -> Any:
    """Return the answer that arguments state. Raises WireError where the one that holds it is missing."""
    if not output.is_wrapped:
        return dict(arguments)
    if WRAPPED not in arguments:
        raise WireError(f"the argument {WRAPPED!r} of {FINISH} is missing")
    return arguments[WRAPPED]


@dataclass(frozen=True, slots=True)
class XmlCodec:
    """The answer as `<output>` in the text, the thought before it; a native `__finish__` is read as well.

    Cannot say: what FinishCodec cannot; white space round the thought, `<output>` or a code fence at its end; values whose text
    reads as another value of the schema's type ("5" where a number may stand), objects and lists where the schema names none.
    """

    output: Output
    name: str = "finish.xml"
    role: Role = Role.ANSWER
    max_calls: int = 0
    grows_as: ClassVar[str] = "finish"

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Answer):
            raise Inexpressible(f"the {type(move).__name__}: only an answer can be given now")
        arguments = arguments_of(move, self.output)
        try:
            text = output_xml(arguments)
            reply = Reply(f"{move.thought}\n{text}" if move.thought else text)
            same = self.parse(reply) == move
        except (WireError, RecursionError, TypeError, ValueError) as error:
            raise Inexpressible(f"no XML: {error}") from None
        if not same:
            raise Inexpressible("an answer that XML does not give back as it was")
        return reply

    def parse(self, reply: Reply) -> Move:
        finish = next((call for call in read_calls(reply) if call.is_finish), None)
        if finish is not None:
            if finish.problem:
                raise WireError(finish.problem)
            return Answer(reply.text, value_of(finish.call.arguments, self.output))
        parameters = self.output.parameters
        thought, tree = read_output(reply.text, parameters)
        return Answer(thought, value_of(converted(tree, parameters, parameters), self.output))


def native_codec(output: Output, role: Role) -> FinishCodec:
    """Return the codec of a deciding request (role decide), or of the forced `__finish__` (role answer) without other calls."""
    return FinishCodec(output) if role is Role.DECIDE else FinishCodec(output, "finish.forced", role, 0)


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """The answer that a reply states, or what is wrong with it."""

    call: ReadCall | None
    """The first `__finish__`; None if the reply has none."""
    value: Any = None
    problem: str = ""
    """What is wrong with the answer; empty if it is valid, and if no call states one."""


def stated_answer(output: Output, calls: Sequence[ReadCall]) -> StatedAnswer:
    """Return the answer that the first `__finish__` among the calls states."""
    finish = next((call for call in calls if call.is_finish), None)
    if finish is None or finish.problem:
        return StatedAnswer(finish, problem=finish.problem if finish else "")
    try:
        return StatedAnswer(finish, output.validate(finish.call.arguments))
    except InvalidOutput as error:
        return StatedAnswer(finish, problem=f"{FINISH} was called with an invalid answer: {error}")


def stated_in_xml(output: Output, text: str) -> StatedAnswer:
    """Return the answer that an XML reply states."""
    try:
        _, tree = read_output(text, output.parameters)
        return StatedAnswer(None, output.validate(output.converted(tree)))
    except (WireError, InvalidOutput) as error:
        return StatedAnswer(None, problem=str(error))
