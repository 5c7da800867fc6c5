"""Design 4: a bare think-act-observe loop over JSON replies. Standard library only.

The model answers `{"thought", "tool_name", "arguments"}` or `{"final_answer"}`; every error, of the model or of a tool, becomes an
observation that it sees next; a valve ends the run after too many errors in a row. `bare_standalone.py` runs the loop over plain
functions.

Follow a run, from the top:

- `Bare.run` (bare.py) is the whole loop: each step asks once, and ends the run or adds an observation to the conversation.
- `Bare._requests_of` (bare.py) makes the system text and the demonstrations that every request begins with.
- `_Requests.request` (bare.py) makes each request.
- `Bare._read` (bare.py) reads a reply by the codec of the format, such as `BareCodec.read` (bare_codecs.py).
- `Bare._act` (bare.py) checks and makes the call that a reply states, and tells the model what came of it.
- `Bare._refuse` (bare.py) tells the model why the query's type does not take its answer.
- `_Conversation.observe` (bare.py) adds what the model sees next.

Rows such as B4-6 are those of docs/conformance.md.
"""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    AnswerT,
    ContextOverflow,
    Message,
    Model,
    Observation,
    Observer,
    Outcome,
    Program,
    Prompt,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    RunsSync,
    StopReason,
    TakesProgram,
    Toolbox,
    ToolCall,
    ToolSpec,
    WireError,
    in_own_format,
    own_prompt,
    prompted,
    render_value,
)
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.json_text import Encoder
from whichloop.protocol.loop import CallsIn
from whichloop.protocol.program import merged, repr_with_program
from whichloop.protocol.redact import logger_of

from .bare_codecs import CODEC, FENCED_CODEC, FORMATS, BadMove, BareCodec, FieldsCodec, NativeCallCodec
from .shared.boundary import bounded
from .shared.call_ids import needs_approval
from .shared.option_checks import ToolSettings, checked_options


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
    )


def validate_tool_arguments(func: Callable[..., Any], args: Mapping[str, Any], name: str, *, bound: bool = False) -> str | None:
    """Check the names of the arguments against the signature; return what is wrong, or None (rows S4-9, B4-3).

    `bound`: the caller puts arguments in their places, as a typed tool of a Toolbox does.
    """
    signature = signature_of(func)
    names = signature.bound if bound else signature.by_name
    if names is None:
        return None
    if not signature.is_open:
        for argument in args:
            if argument not in names:
                return f"Error: Tool '{name}' does not accept argument '{argument}'. Valid parameters: {', '.join(names)}"
    for parameter, is_required in names.items():
        if is_required and parameter not in args:
            return f"Error: Tool '{name}' missing required argument '{parameter}'"
    return None


logger = logger_of(__name__)

MAX_STEPS_TEXT = "Maximum steps reached without final answer"
NOT_TAKEN = (
    "The answer is not taken, and {tool} has not been called: call {tool} alone and read its result, or answer without a call"
)
VALVE_TEXT = "Agent terminated: {errors} consecutive errors detected"
BAD_REPLY_CHARS = 2000
"""How much of an unreadable reply the model is shown again (row B4-6)."""
INSTRUCTIONS = f"{CODEC.task} {CODEC.form}"
DECIDE = "decide"
"""The name of the one predictor, which makes every request."""

History = list[dict[str, str]]
_ENCODER = Encoder(ensure_ascii=False)


@checked_options
@dataclass(frozen=True, slots=True)
class Bare(ToolSettings, TakesProgram, RunsSync):
    """Think, act, observe. Raises ValueError for a limit below 1 (row B4-16)."""

    max_steps: int = 10
    """Most replies that may fail or call a tool, plus the one that answers."""
    max_consecutive_errors: int | None = 3
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
    """stop: the run ends without an answer. observe: the failure is fed back and counts as an error."""
    answer_retries: int = 2
    """How often an answer that the query's type refuses is asked for again, until a call gives a result; each takes a step."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """Instructions and demonstrations in place of the design's own."""

    def __post_init__(self) -> None:
        ToolSettings.__post_init__(self)
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {self.max_steps}")
        if self.max_consecutive_errors is not None and self.max_consecutive_errors < 1:
            raise ValueError(f"max_consecutive_errors must be at least 1 or None, not {self.max_consecutive_errors}")
        if self.answer_retries < 0:
            raise ValueError(f"answer_retries must be 0 or more, not {self.answer_retries}")

    name: ClassVar[str] = "bare"
    takes_images: ClassVar[bool] = True
    __repr__ = repr_with_program

    @property
    def calls_in(self) -> CallsIn:
        return "native" if self.decision_format == "native" else "text"

    @property
    def _codec(self) -> BareCodec | FieldsCodec | NativeCallCodec:
        return FENCED_CODEC if self.decision_format == "json" and self.fences == "read" else FORMATS[self.decision_format]

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
        text = self._codec.task if self.instructions == INSTRUCTIONS else self.instructions or ""
        return merged({DECIDE: own_prompt(text, "reply")}, self.program or {})

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop; `details["history"]` has query, replies, observations (row S4-7). Raises TypeError for wrong arguments."""
        tools, codec = self.configured_tools(tools), replace(self._codec, takes_null=True) if query.takes_null else self._codec
        requests = self._requests_of(tools, query, codec)
        talk = requests.conversation(query)
        steps, errors, refused = 0, 0, list[WireError]()  # refused: why the query's type did not take the last answers

        def ended(answer: str | None, stop: StopReason, cause: Exception | None = None) -> Outcome:
            details: dict[str, Any] = {"history": talk.history, "consecutive_errors": errors}
            if cause is not None:
                details["error"] = str(cause)
                logger.info("the run ends as %s: %s", stop, cause)
            return Outcome(answer, stop, steps, None, details, gave_up=stop in (StopReason.MAX_STEPS, StopReason.ERROR_VALVE))

        while steps < self.max_steps:
            if self.max_consecutive_errors is not None and errors >= self.max_consecutive_errors:
                return ended(VALVE_TEXT.format(errors=self.max_consecutive_errors), StopReason.ERROR_VALVE, *refused[-1:])
            status = "error"  # unless an answer is refused, or a call gives a result
            try:
                reply = await model.complete(requests.request(talk.messages))
            except ContextOverflow as error:
                return ended(None, StopReason.CONTEXT_OVERFLOW, error)
            except ProviderError as error:
                if self.on_provider_error == "stop":
                    return ended(None, StopReason.PROVIDER_ERROR, error)
                talk.observe("error", f"LLM call failed - {error}")
            else:
                move, dropped = self._read(reply, codec, talk)
                if isinstance(move, Answer) and _must_call(dropped, talk, observer):
                    status = "refused"
                elif isinstance(move, Answer):
                    answer = move.value if isinstance(move.value, str | None) else _ENCODER.encode(move.value)
                    if not (problem := query.problem(answer)):
                        return ended(answer, StopReason.FINISHED)
                    status = "refused"
                    if self._refuse(problem, refused, talk, observer):
                        return ended(None, StopReason.PARSE_FAILED, refused[-1])
                elif move is not None:
                    status = await self._act(move.calls[0], tools, talk)
            errors += status == "error"
            if status == "success":
                errors, refused = 0, []
            steps += 1

        return ended(MAX_STEPS_TEXT, StopReason.MAX_STEPS, *refused[-1:])

    def _read(
        self, reply: Reply, codec: BareCodec | FieldsCodec | NativeCallCodec, talk: _Conversation
    ) -> tuple[Act | Answer | None, str]:
        """Return the move in a reply, and the tool that it calls besides an answer; None for a move tells that it is unreadable."""
        try:
            move, dropped = codec.read(reply)
        except WireError as error:
            talk.keep_unread(reply, error, self.keep_bad_replies)
            talk.observe("error", str(error), error.tool_name if isinstance(error, BadMove) else None)
            return None, ""
        talk.keep(reply)
        return move, dropped

    def _refuse(self, problem: str, refused: list[WireError], talk: _Conversation, observer: Observer) -> bool:
        """Tell the model why its answer is refused; return whether it was the last that is asked for."""
        observer.note("invalid_answer", problem=problem)
        refused.append(WireError(problem))
        talk.observe("error", problem)
        return len(refused) > self.answer_retries

    def _requests_of(self, tools: Toolbox, query: Query[Any], codec: BareCodec | FieldsCodec | NativeCallCodec) -> _Requests:
        """Return what all requests of a run have in common: they begin with a system message, if any, and demonstrations."""
        prompt = self.predictors[DECIDE]
        rendered_prompt = in_own_format(prompt)
        text = rendered_prompt.text
        if self.instructions == INSTRUCTIONS:
            text = f"{text} {codec.form}" if text == codec.task else f"{text}\n\n{codec.form}"
        if self.instructions is not None:
            text = system_text(text, tools)
        if query.schema is not None:
            text = f"{text}\n{codec.typed}{canonical_json(query.schema)}".lstrip("\n")
        system = [Message("system", text)] if text or self.instructions is not None else []
        offered = tools.specs if self.decision_format == "native" else ()
        return _Requests(prompt, (*system, *rendered_prompt.turns), len(rendered_prompt.turns), offered, codec)

    async def _act(self, call: ToolCall, tools: Toolbox, talk: _Conversation) -> str:
        """Check and run one call, and show the model what came of it; return the observation's status."""
        status, text = await self._result_of(call, tools)
        talk.observe(status, text, call.name)
        return status

    async def _result_of(self, call: ToolCall, tools: Toolbox) -> tuple[str, str]:
        """Check and run one call; return the observation's status and data."""
        tool = tools.get(call.name)
        if tool is None:
            available = f". Available tools: {', '.join(tools.names)}" if self.list_tools_in_error else ""
            return "error", f"Tool '{call.name}' not found{available}"
        if self.validate_arguments:
            problem = validate_tool_arguments(tool.function, call.arguments, call.name, bound=tool.arguments is not None)
            if problem is not None:
                return "error", problem
        seen = await tools.call(call, validate=self.check_types)
        return seen.status, seen.data if seen.ok else self._error_text(seen)

    def _error_text(self, seen: Observation) -> str:
        if not self.error_type_in_text or seen.error_type == "InvalidArguments":
            return seen.data
        between = " - " if seen.error_type == "ValueError" else ": "  # the seed words the two in two ways
        return f"{seen.error_type}{between}{seen.data}"


@dataclass(frozen=True, slots=True)
class _Requests:
    """What all requests of a run have in common."""

    prompt: Prompt
    opening: tuple[Message, ...]
    """What every request begins with."""
    examples: int
    """How many messages of it are demonstrations."""
    tools: tuple[ToolSpec, ...]
    """The tools that are offered for native calls."""
    codec: BareCodec | FieldsCodec | NativeCallCodec

    def conversation(self, query: Query[Any]) -> _Conversation:
        """Return the conversation of a run that is about to start."""
        question = Message("user", query.full_text, images=query.images)
        return _Conversation([*self.opening, question], [{"role": "user", "content": query.full_text}])

    def request(self, messages: Sequence[Message]) -> Request:
        """Return the request that shows a conversation, which begins with the opening."""
        return Request(
            tuple(messages),
            self.tools,
            parallel_calls=not self.tools,
            role=Role.DECIDE,
            codec=self.codec,
            examples=self.examples,
            prompted=prompted(DECIDE, self.prompt, messages[len(self.opening) :]),
        )


@dataclass(frozen=True, slots=True)
class _Conversation:
    """One run so far: as the model is sent it, and as the outcome tells it."""

    messages: list[Message]
    history: History

    def keep(self, reply: Reply, most: int | None = None) -> None:
        """Add a reply, cut after `most` characters."""
        self.history.append({"role": "assistant", "content": reply.text[:most]})
        self.messages.append(Message("assistant", reply.text[:most], reply.calls, native=reply.native))

    def keep_unread(self, reply: Reply, error: WireError, keep_bad: bool) -> None:
        """Add a reply that could not be read: whole if it is legible, as every raw reply (row S4-7), else cut, if such are kept."""
        if isinstance(error, BadMove):
            self.keep(reply)
        elif keep_bad:
            self.keep(reply, BAD_REPLY_CHARS)

    def observe(self, status: str, data: str, tool_name: str | None = None) -> None:
        """Add an observation, in answer to each native call of the last reply if it made any."""
        content = _ENCODER.encode(create_observation(status, data, tool_name))
        self.history.append({"role": "observation", "content": content})
        if self.messages[-1].calls:
            self.messages.extend([Message("tool", content, call_id=call.id) for call in self.messages[-1].calls])
        else:
            self.messages.append(Message("user", content))  # no provider knows the role "observation" (row B4-12)


def _must_call(dropped: str, talk: _Conversation, observer: Observer) -> bool:
    """Tell of a call beside an answer, if any. Return whether a person has to know of it, so that the answer is not taken."""
    if needs_approval(observer, [dropped]):
        talk.observe("error", NOT_TAKEN.format(tool=dropped))
        return True
    if dropped:
        observer.note("not_run", tool_name=dropped, reason="final_answer wins")
    return False


def system_text(instructions: str, tools: Toolbox) -> str:
    """Return the instructions, then `name(signature): docstring` for each tool."""
    lines = [f"{tool.name}{signature_of(tool.function).text}: {tool.description}".rstrip(": ") for tool in tools]
    return "\n".join([instructions, *lines])


def create_observation(status: str, data: Any, tool_name: str | None = None) -> dict[str, str]:
    """Return `{"status", "data": text, "tool_name"?}`; anything but text is rendered (row B4-10)."""
    observation = {"status": status, "data": render_value(data)}
    if tool_name is not None:
        observation["tool_name"] = tool_name
    return observation


LOOP = Bare


if __name__ == "__main__":  # `python -m whichloop.loops.bare` runs the demo (row S4-18)
    runpy.run_module("whichloop.loops.bare_standalone", run_name="__main__")
