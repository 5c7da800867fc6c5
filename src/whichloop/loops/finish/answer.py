"""What `__finish__` takes, how a reply states it, and the wire formats: native calls, and XML where a model cannot be forced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from whichloop.protocol import Act, Answer, Inexpressible, Move, NativeCall, Reply, Role, ToolCall, WireError
from whichloop.protocol.values import shown_short
from whichloop.protocol.wire import from_json, json_text, native_call, read_back

from .xml_output import output_xml, read_output, resolved

FINISH = "__finish__"
DESCRIPTION = "Give your final answer. This ends the task."
WRAPPED = "answer"
"""The one argument that holds an answer which is not an object."""
MAX_PROBLEMS = 5
MAX_CALLS = 64
"""Calls of one reply that are run; the model is told of the others."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A native call as far as it could be read."""

    call: ToolCall
    problem: str = ""
    """What is wrong with the arguments; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """The answer that a reply states, or what is wrong with it."""

    call: ReadCall | None
    """The first `__finish__`; None if the reply has none."""
    value: Any = None
    problem: str = ""
    """What is wrong with the answer; empty if it is valid, and if no call states one."""


@dataclass(frozen=True, slots=True)
class Output:
    """The answer's form: a JSON schema, or a pydantic model.

    One of type "object" states the arguments of `__finish__` themselves, any other the one argument `answer`.
    """

    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""
    schema: Mapping[str, Any] | None = None
    """Of the answer; None for a text, and under a model."""
    model: type[BaseModel] | None = None
    is_wrapped: bool = False
    refusal: Callable[[Any], str] | None = None
    """Says what is wrong with an answer that the schema allows, empty if nothing is; None: all that it allows is right."""
    takes_null: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any] | None, refusal: Callable[[Any], str] | None = None, takes_null: bool = False) -> Output:
        """Return the output for an answer by JSON schema; None: for a text."""
        if schema is not None and schema.get("type") == "object":
            return cls(schema, schema, refusal=refusal)
        answer_schema: dict[str, Any] = {"type": "string"} if schema is None else dict(schema)
        definitions = {"$defs": answer_schema.pop("$defs")} if "$defs" in answer_schema else {}  # "#/$defs/…" means the root
        wrapped = {"type": "object", "properties": {WRAPPED: answer_schema}, "required": [WRAPPED], "additionalProperties": False}
        return cls(wrapped | definitions, schema, None, True, refusal, takes_null)

    @classmethod
    def of_model(cls, model: type[BaseModel]) -> Output:
        """Return the output for an instance of a model. Raises TypeError for one that is not an object."""
        return cls(parameters_of(model), model=model)

    def built(self, arguments: Mapping[str, Any]) -> Any:
        """Return the answer that arguments state. Raises ValueError, pydantic's where a model validates."""
        if self.model is not None:
            return self.model.model_validate(dict(arguments))
        if self.is_wrapped and arguments.keys() != {WRAPPED}:
            raise ValueError(f"exactly one argument is expected, {WRAPPED!r}; got {', '.join(arguments) or 'none'}")
        value = arguments[WRAPPED] if self.is_wrapped else dict(arguments)
        problem = "; ".join(_problems(value, self.schema, [WRAPPED] if self.is_wrapped else []))
        if problem or (self.refusal is not None and (problem := self.refusal(value))):
            raise ValueError(problem)
        return value

    def stated(self, calls: Sequence[ReadCall]) -> StatedAnswer:
        """Return the answer that the first `__finish__` among the calls states."""
        finish = next((call for call in calls if call.call.name == FINISH), None)
        if finish is None or finish.problem:
            return StatedAnswer(finish, problem=finish.problem if finish else "")
        try:
            return StatedAnswer(finish, self.built(finish.call.arguments))
        except ValueError as error:
            return StatedAnswer(finish, problem=f"{FINISH} was called with an invalid answer: {_problem_text(error)}")

    def stated_in_xml(self, text: str) -> StatedAnswer:
        """Return the answer that a text states; a model reads numbers, dates and the rest from text itself."""
        try:
            _, arguments = read_output(text, self.parameters, typed=self.model is None)
            return StatedAnswer(None, self.built(arguments))
        except (WireError, ValueError) as error:
            return StatedAnswer(None, problem=_problem_text(error))


@lru_cache(maxsize=256)
def parameters_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return a model's schema with its properties at the top; for a model that holds itself, pydantic puts a reference there."""
    schema = model.model_json_schema()
    if "$ref" in schema:
        schema = {**resolved(schema, schema), "$defs": schema["$defs"]}
    if schema.get("type") != "object":
        raise TypeError(f"{model.__name__} is not an object, as the arguments of {FINISH} are: give it a field for its value")
    return schema


def _problems(value: Any, schema: Mapping[str, Any] | None, above: list[str]) -> list[str]:
    if schema is None:
        return [] if isinstance(value, str) else [f"{_place(above)}: {shown_short(value)} is not of type 'string'"]
    from jsonschema.validators import validator_for  # noqa: PLC0415  # takes long, and plain text needs none
    from referencing import Registry  # noqa: PLC0415  # takes long, and plain text needs none

    validator = validator_for(schema)(schema, registry=Registry())  # an empty registry fetches nothing
    try:
        errors = [error for error, _ in zip(validator.iter_errors(value), range(MAX_PROBLEMS), strict=False)]
    except RecursionError:
        return [f"{_place(above)}: nested too deep"]
    return [f"{_place([*above, *error.absolute_path])}: {error.message[:300]}" for error in errors]


def _problem_text(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]
    return "; ".join(f"{_place(item['loc'])}: {item['msg']}" for item in problems)


def _place(path: Iterable[Any]) -> str:
    return ".".join(filter(None, map(str, path))) or "the arguments"


# --- reading calls ---


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


# --- formats ---


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
        if not isinstance(move, Act | Answer) or (isinstance(move, Act) and not self.max_calls):
            raise Inexpressible(f"the {type(move).__name__}: only calls and an answer can be given, when forced an answer alone")
        return read_back(self, move, lambda: self._written(move))

    def _written(self, move: Act | Answer) -> Reply:
        calls = move.calls if isinstance(move, Act) else (ToolCall(FINISH, _arguments(move, self.output)),)
        return Reply(move.thought, tuple(native_call(call, place) for place, call in enumerate(calls)), None, "tool_calls")

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return json_text(calls.get(FINISH, ""), WRAPPED) if self.output.is_wrapped else ""

    def parse(self, reply: Reply) -> Move:
        calls = read_calls(reply)
        if not calls:
            raise WireError(f"no tool was called; call {FINISH} to answer")
        finish = next((call for call in calls if call.call.name == FINISH), None)  # it wins
        for call in [finish] if finish else calls:
            if call.problem:
                raise WireError(call.problem)
        if finish is not None:
            return Answer(reply.text, _value(finish.call.arguments, self.output))
        return Act(reply.text, tuple(call.call for call in calls))


@dataclass(frozen=True, slots=True)
class XmlCodec:
    """The answer as `<output>` in the text, the thought before it; a native `__finish__` is read as well.

    Cannot say: what FinishCodec cannot; white space round the thought, `<output>` or a code fence at its end; values whose text
    reads as another value of the schema's type ("5" where a number may stand), objects and lists where the schema names none.
    """

    output: Output
    name: ClassVar[str] = "finish.xml"
    role: ClassVar[Role] = Role.ANSWER
    max_calls: ClassVar[int] = 0
    grows_as: ClassVar[str] = "finish"

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Answer):
            raise Inexpressible(f"the {type(move).__name__}: only an answer can be given now")
        thought = f"{move.thought}\n" if move.thought else ""
        return read_back(self, move, lambda: Reply(thought + output_xml(_arguments(move, self.output))))

    def parse(self, reply: Reply) -> Move:
        if any(call.call.name == FINISH for call in read_calls(reply)):
            return FinishCodec(self.output).parse(reply)
        thought, arguments = read_output(reply.text, self.output.parameters)
        return Answer(thought, _value(arguments, self.output))


def _arguments(move: Answer, output: Output) -> Mapping[str, Any]:
    """Return the arguments of `__finish__` that state an answer. Raises ValueError for one that does not fit."""
    arguments = {WRAPPED: move.value} if output.is_wrapped else move.value
    if not isinstance(arguments, Mapping) or (move.value is None and not output.takes_null):
        raise ValueError("an answer without a value, or that is no object")
    output.built(arguments)
    return arguments


def _value(arguments: Mapping[str, Any], output: Output) -> Any:
    """Return the answer that arguments state. Raises WireError where the one that holds it is missing."""
    if not output.is_wrapped:
        return dict(arguments)
    if WRAPPED not in arguments:
        raise WireError(f"the argument {WRAPPED!r} of {FINISH} is missing")
    return arguments[WRAPPED]
