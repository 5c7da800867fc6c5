"""Design 4: a bare think-act-observe loop over JSON replies. Standard library only.

The model answers `{"thought", "tool_name", "arguments"}` or `{"final_answer"}`; every error, of the model or of a tool, becomes an
observation that it sees next; a valve ends the run after too many errors in a row. `bare_standalone.py` runs the loop over plain
functions.

Follow a run, from the top:

- `Bare.run` (bare.py) is the whole loop: each step asks once, by `Predictor.ask`, and ends the run or adds an observation.
- `Bare._system` (bare.py) makes the text that every request begins with: what to do, the format, the tools, the answer's schema.
- `BareCodec.parse` (bare_codecs.py), or that of another format, reads a reply.
- `Bare._act` (bare.py) checks and makes the call that a reply states.
- `Conversation.observe` (bare.py) adds what the model sees next.
- `Bare._is_taken` (bare.py) says whether an answer ends the run.
"""

from __future__ import annotations

import inspect
import json
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

from whichloop.protocol.chat import Message, Reply
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.loop import CallsIn, RunsSync
from whichloop.protocol.model import ContextOverflow, Model, ProviderError, is_plain, schema_text, whole_parameters
from whichloop.protocol.moves import Act, Answer, WireError
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.program import Program, TakesProgram, merged, repr_with_program
from whichloop.protocol.tool_calls import ToolCall
from whichloop.protocol.tools import Tool, Toolbox
from whichloop.protocol.values import render_value
from whichloop.protocol.wire import Predictor, own_prompt

from .bare_codecs import FORMATS, INSTRUCTIONS, BadMove, BareCodec, FieldsCodec, NativeCallCodec
from .shared.boundary import bounded
from .shared.call_ids import needs_approval
from .shared.option_checks import ToolSettings, at_least, checked_options, no_option

MAX_STEPS_TEXT = "Maximum steps reached without final answer"
NOT_TAKEN = (
    "The answer is not taken, and {tool} has not been called: call {tool} alone and read its result, or answer without a call"
)
VALVE_TEXT = "Agent terminated: {errors} consecutive errors detected"
BAD_REPLY_CHARS = 2000
"""How much of an unreadable reply the model is shown again (row B4-6)."""
DECIDE = "decide"
"""The name of the one predictor, which makes every request."""
_ENCODER = json.JSONEncoder(ensure_ascii=False)

# --- the tools as the model sees them ---


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The parameters of one function."""

    text: str
    """The signature as the model sees it."""
    by_name: Mapping[str, bool] | None = None
    """Parameters that an argument can name, in order, and whether each is required; None if the function has no signature."""
    bound: Mapping[str, bool] | None = None
    """The same for a caller that puts arguments in their places: positional-only ones and `*args` have names too."""
    is_open: bool = False
    """The function takes arguments of any name."""
    has_own_types: bool = True
    """The text names types that say nothing to who has not read the code, as `OrderId` does."""


_SIGNATURES: WeakKeyDictionary[Callable[..., Any], ToolSignature] = WeakKeyDictionary()


def signature_of(func: Callable[..., Any]) -> ToolSignature:
    """Return a function's signature; it is read once, and forgotten with the function."""
    try:
        return _SIGNATURES[func]
    except KeyError:
        signature = _SIGNATURES[func] = _read_signature(func)
    except TypeError:  # a callable object may be unhashable, or take no weak reference
        signature = _read_signature(func)
    return signature


def _read_signature(func: Callable[..., Any]) -> ToolSignature:
    try:
        signature = inspect.signature(func)
    except (ValueError, TypeError):  # some builtins have none
        return ToolSignature("(...)")
    parameters = signature.parameters.values()
    bound = {p.name: p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters if p.kind is not p.VAR_KEYWORD}
    by_place = {p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    return ToolSignature(
        re.sub(r" at 0x[0-9a-f]+", "", str(signature)).replace("'", ""),
        {name: is_required for name, is_required in bound.items() if name not in by_place},
        bound,
        is_open=len(bound) < len(parameters),
        has_own_types=any(
            not _PLAIN_TYPE.fullmatch(word) for p in parameters if p.annotation is not p.empty for word in _words(p.annotation)
        ),
    )


_PLAIN_TYPE = re.compile(
    r"str|int|float|bool|bytes|None|list|dict|tuple|set|frozenset|List|Dict|Tuple|Set|FrozenSet|Any|Optional|Union|Literal|Sequence|Mapping|Iterable"
    r"|typing|collections|abc|datetime|date|time|timedelta|[dD]ecimal|uuid|UUID"
)


def _words(annotation: Any) -> set[str]:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"""'[^']*'|"[^"]*\"""", "", text)))


def validate_tool_arguments(func: Callable[..., Any], args: Mapping[str, Any], name: str, *, bound: bool = False) -> str | None:
    """Check the names of the arguments against the signature; return what is wrong, or None (rows S4-9, B4-3).

    `bound`: the caller puts arguments in their places, as a typed tool of a Toolbox does.
    """
    signature = signature_of(func)
    names = signature.bound if bound else signature.by_name
    if names is None:
        return None
    for argument in () if signature.is_open else args:
        if argument not in names:
            return f"Error: Tool '{name}' does not accept argument '{argument}'. Valid parameters: {', '.join(names)}"
    for parameter, is_required in names.items():
        if is_required and parameter not in args:
            return f"Error: Tool '{name}' missing required argument '{parameter}'"
    return None


def _says_more(schema: Any, line: str) -> bool:
    """Return whether the schema of an argument has fields or a description, which the line of its tool does not show."""
    if not isinstance(schema, dict):
        return False
    has_fields = "properties" in schema or "properties" in schema.get("items", ())
    return has_fields or ("description" in schema and str(schema["description"]).replace("'", "") not in line)


def tool_line(tool: Tool) -> str:
    """Return `name(signature): docstring`, and the JSON schema of the arguments where the signature does not say what they are."""
    signature = signature_of(tool.function)
    line = f"{tool.name}{signature.text}: {tool.description}".rstrip(": ")
    properties = tool.parameters.get("properties", {})
    is_said = not (signature.is_open or signature.has_own_types) and not any(_says_more(item, line) for item in properties.values())
    if is_plain(tool.parameters) and (is_said or not properties):
        return line
    shown = whole_parameters(tool.parameters)
    return f"{line} Arguments: {schema_text(shown)}"


def create_observation(status: str, data: Any, tool_name: str | None = None) -> dict[str, str]:
    """Return `{"status", "data": text, "tool_name"?}`; anything but text is rendered (row B4-10)."""
    observation = {"status": status, "data": render_value(data)}
    if tool_name is not None:
        observation["tool_name"] = tool_name
    return observation


History = list[dict[str, str]]


@dataclass(slots=True)
class Conversation:
    """One run so far: as the model is sent it, after what every request begins with, and as the outcome tells it."""

    messages: list[Message]
    history: History
    errors: int = 0
    """Errors with no result of a call between them."""
    refused: list[WireError] = field(default_factory=list)
    """Why the query's type did not take the last answers."""
    steps: int = 0

    def keep(self, reply: Reply, most: int | None = None) -> None:
        """Add a reply, cut after `most` characters."""
        self.history.append({"role": "assistant", "content": reply.text[:most]})
        self.messages.append(Message("assistant", reply.text[:most], reply.calls, native=reply.native))

    def observe(self, status: str, data: str, tool_name: str | None = None) -> None:
        """Add an observation, in answer to each native call of the last reply if it made any."""
        content = _ENCODER.encode(create_observation(status, data, tool_name))
        self.history.append({"role": "observation", "content": content})
        if self.messages[-1].calls:
            self.messages.extend([Message("tool", content, call_id=call.id) for call in self.messages[-1].calls])
        else:
            self.messages.append(Message("user", content))  # no provider knows the role "observation" (row B4-12)

    def ended(self, answer: str | None, stop: StopReason, *causes: Exception) -> Outcome[Any]:
        """Return how the run ends. `causes`: the error behind it, if any."""
        details: dict[str, Any] = {"history": self.history, "consecutive_errors": self.errors}
        for cause in causes:
            details["error"] = str(cause)
        return Outcome(answer, stop, self.steps, None, details, gave_up=stop in (StopReason.MAX_STEPS, StopReason.ERROR_VALVE))

    def error(self, data: str, tool_name: str | None = None) -> None:
        """Add an observation of an error, which counts."""
        self.observe("error", data, tool_name)
        self.errors += 1


@checked_options
@dataclass(frozen=True, slots=True)
class Bare(ToolSettings, TakesProgram, RunsSync):
    """Think, act, observe. Raises ValueError for a limit below 1 (row B4-16)."""

    max_steps: int = at_least(1, 10)
    """Most replies that may fail or call a tool, plus the one that answers."""
    max_consecutive_errors: int | None = at_least(1, 3)
    """The valve: this many errors with no result of a call between them end the run; None for no valve. An answer that the query's
    type refuses is no error."""
    decision_format: Literal["json", "fields", "native"] = "json"
    """How a decision is written: one JSON object, lines of text, or a native tool call."""
    fences: Literal["refuse", "read"] = "refuse"
    """Whether a JSON object in a code fence is read, too. Of `json` alone: `fields` reads fences, and a native call has none."""
    instructions: str | None = INSTRUCTIONS
    """System text in the place of the design's own and of its format; the tools follow. None: only the schema of a typed answer."""
    keep_bad_replies: bool = True
    """Show the model its own unreadable reply before the error."""
    validate_arguments: bool = True
    """Check the arguments' names against the signature before the call."""
    check_types: bool = False
    """Refuse arguments of wrong types; otherwise they are handed over as they are."""
    list_tools_in_error: bool = True
    """An unknown tool's error lists the known ones."""
    error_type_in_text: bool = True
    """A tool's error names the exception's type."""
    on_provider_error: Literal["stop", "observe"] = "stop"
    """stop: the run ends without an answer; observe: the failure is fed back and counts as an error."""
    answer_retries: int = at_least(0, 2)
    """How often an answer that the query's type refuses is asked for again, until a call gives a result; each takes a step."""
    program: Program | None = no_option(None)
    """Instructions and demonstrations in place of the design's own."""

    name: ClassVar[str] = "bare"
    takes_images: ClassVar[bool] = True
    __repr__ = repr_with_program

    @property
    def calls_in(self) -> CallsIn:
        return "native" if self.decision_format == "native" else "text"

    @property
    def stops(self) -> frozenset[StopReason]:
        reached = {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.CONTEXT_OVERFLOW}
        if self.max_consecutive_errors is not None and self.max_consecutive_errors < self.max_steps:
            reached.add(StopReason.ERROR_VALVE)
        if self.on_provider_error == "stop":
            reached.add(StopReason.PROVIDER_ERROR)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """`decide`: what the model is to do.

        The format of a reply follows it, unless the option `instructions` has a text of its own, which has to state the format.
        The list of tools follows either, and the schema of the query's answer if it has one.
        """
        text = FORMATS[self.decision_format].task if self.instructions == INSTRUCTIONS else self.instructions or ""
        return merged({DECIDE: own_prompt(text, "reply")}, self.program)

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop; `details["history"]` has query, replies, observations (row S4-7). Raises TypeError for wrong arguments."""
        tools, codec = self.configured_tools(tools), FORMATS[self.decision_format]
        if isinstance(codec, BareCodec) and self.fences == "read":
            codec = BareCodec(reads_fences=True)
        codec = replace(codec, takes_null=query.takes_null)
        decide = Predictor(DECIDE, self.predictors[DECIDE])
        opening = decide.opening(self._system(decide.shown.text, tools, query, codec))
        offered = tools.specs if self.decision_format == "native" else ()
        talk = Conversation([Message("user", query.full_text, images=query.images)], [{"role": "user", "content": query.full_text}])

        while talk.steps < self.max_steps:
            if self.max_consecutive_errors is not None and talk.errors >= self.max_consecutive_errors:
                text = VALVE_TEXT.format(errors=self.max_consecutive_errors)
                return talk.ended(text, StopReason.ERROR_VALVE, *talk.refused[-1:])
            try:
                move, reply = await decide.ask(model, codec, opening, talk.messages, tools=offered, parallel_calls=not offered)
            except ContextOverflow as error:
                return talk.ended(None, StopReason.CONTEXT_OVERFLOW, error)
            except ProviderError as error:
                if self.on_provider_error == "stop":
                    return talk.ended(None, StopReason.PROVIDER_ERROR, error)
                talk.error(f"LLM call failed - {error}")
            except BadMove as error:  # legible, as every raw reply it is kept whole (row S4-7)
                talk.keep(error.reply)
                talk.error(str(error), error.tool_name)
            except WireError as error:
                if self.keep_bad_replies:
                    talk.keep(error.reply, BAD_REPLY_CHARS)
                talk.error(str(error))
            else:
                talk.keep(reply)
                if isinstance(move, Act):
                    await self._act(move.calls[0], tools, talk)
                elif self._is_taken(move, query, talk, observer):
                    return talk.ended(_text(move), StopReason.FINISHED)
                elif len(talk.refused) > self.answer_retries:
                    return talk.ended(None, StopReason.PARSE_FAILED, talk.refused[-1])
            talk.steps += 1

        return talk.ended(MAX_STEPS_TEXT, StopReason.MAX_STEPS, *talk.refused[-1:])

    def _system(self, text: str, tools: Toolbox, query: Query[Any], codec: BareCodec | FieldsCodec | NativeCallCodec) -> str | None:
        """Return the system text: `text`, the format, `name(signature): docstring` for each tool, the schema of the answer."""
        if self.instructions == INSTRUCTIONS:
            text = f"{text} {codec.form}" if text == codec.task else f"{text}\n\n{codec.form}"
        if self.instructions is not None:
            text = "\n".join([text, *map(tool_line, tools)])
        if query.schema is not None:
            text = f"{text}\n{codec.typed}{canonical_json(query.schema)}".lstrip("\n")
        return text if text or self.instructions is not None else None

    def _is_taken(self, move: Answer, query: Query[Any], talk: Conversation, observer: Observer) -> bool:
        """Return whether an answer ends the run; if it does not, the model is told why."""
        if move.instead_of:
            if needs_approval(observer, move.instead_of):  # a person has to know of the call
                talk.observe("error", NOT_TAKEN.format(tool=move.instead_of[0]))
                return False
            observer.note("not_run", tool_name=move.instead_of[0], reason="final_answer wins")
        if problem := query.problem(_text(move)):
            observer.note("invalid_answer", problem=problem)
            talk.observe("error", problem)
            talk.refused.append(WireError(problem))
        return not problem

    async def _act(self, call: ToolCall, tools: Toolbox, talk: Conversation) -> None:
        """Check and make one call, and show the model what came of it."""
        tool = tools.get(call.name)
        if tool is None:
            available = f". Available tools: {', '.join(tools.names)}" if self.list_tools_in_error else ""
            return talk.error(f"Tool '{call.name}' not found{available}", call.name)
        if self.validate_arguments:
            problem = validate_tool_arguments(tool.function, call.arguments, call.name, bound=tool.arguments is not None)
            if problem is not None:
                return talk.error(problem, call.name)
        seen = await tools.call(call, validate=self.check_types)
        if not seen.ok:
            between = " - " if seen.error_type == "ValueError" else ": "  # the seed words the two in two ways
            has_type = self.error_type_in_text and seen.error_type != "InvalidArguments"
            return talk.error(f"{seen.error_type}{between}{seen.data}" if has_type else seen.data, call.name)
        talk.observe("success", seen.data, call.name)
        talk.errors, talk.refused = 0, []
        return None


def _text(answer: Answer) -> str | None:
    return answer.value if isinstance(answer.value, str | None) else _ENCODER.encode(answer.value)


LOOP = Bare


if __name__ == "__main__":  # `python -m whichloop.loops.bare` runs the demo (row S4-18)
    runpy.run_module("whichloop.loops.bare_standalone", run_name="__main__")
