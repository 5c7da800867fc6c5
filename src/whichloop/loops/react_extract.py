"""Design 2: React -> Extract, on DSPy.

One call per turn chooses a tool, in the text fields thought, name and arguments; the tool's result is added to the trajectory. When
the model chooses `finish`, or the limit is reached, a chain of thought over the whole trajectory states the answer.
Standalone use:

    agent = ReactExtractProgram([search, get_event])
    agent(query="What is on in Tokyo tonight?").answer              # with dspy.configure(lm=...), as any dspy.Module

    ReactExtract().run_sync(Query("..."), Toolbox([search]), model)   # with any Model

Follow a run, from the top:

- `ReactExtract.run` (react_extract.py) is the loop: each iteration adds a choice and its observation to the trajectory.
- `ReactExtract._decide` (react_extract.py) asks for the choice by `ReactAgent.decide` (react_extract.py), again after an overflow;
  `ReactCodec.move` (react_extract_codecs.py) reads it.
- `ReactExtract._act` (react_extract.py) makes the call.
- `ReactExtract._extract` (react_extract.py) asks for the answer, again after an unreadable reply or an overflow;
  `ExtractCodec.move` (react_extract_codecs.py) reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from whichloop._extras import needed_by
from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import ToolSettings, at_least, checked_options, no_option
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.loop import CallsIn, RunsSync
from whichloop.protocol.model import ContextOverflow, Model, ProviderError
from whichloop.protocol.moves import Act, Answer, WireError
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.program import Program, Prompt, TakesProgram, merged, repr_with_program
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import ToolCall
from whichloop.protocol.tools import Tool, Toolbox
from whichloop.protocol.values import render_value

with needed_by(__name__, is_module=True):
    from whichloop.dspy_seam import ask, prompt_of
    from whichloop.dspy_seam.program import LoopProgram

    from .react_extract_codecs import FINISH, ExtractAnswer, ReactStep, extract_codec, instructions_with_tools, react_codec

logger = logger_of(__name__)

COMPLETED = "Completed."
Trajectory = dict[str, Any]
_OWN: Program = {"react": prompt_of(ReactStep), "extract": prompt_of(ExtractAnswer)}
_CUT_OFF = {
    StopReason.FORCED: "The run was cut off at its limit; the trajectory may be incomplete.",
    StopReason.PARSE_FAILED: "The last step could not be read, and the run ended there.",
    StopReason.CONTEXT_OVERFLOW: "The run ended because the trajectory no longer fits; its oldest part is not shown.",
}


@checked_options
@dataclass(frozen=True, slots=True)
class ReactExtract(ToolSettings, TakesProgram, RunsSync):
    """React until `finish` or the limit, then extract. Raises ValueError for a limit below 1."""

    max_iterations: int = at_least(1, 5)
    """Most React calls; choosing `finish` is one of them."""
    extract: bool = True
    """State the answer in a call of its own; False takes `finish`'s answer, or the last thought."""
    on_parse_error: Literal["finish", "observe"] = "finish"
    """An unreadable React reply ends the loop (finish), or is shown to the model (observe)."""
    on_unknown_tool: Literal["observe", "finish"] = "observe"
    """An unknown tool is an observation (observe), or as bad as an unreadable reply (finish)."""
    parse_retries: int = at_least(0, 0)
    """How often an unreadable extract reply is asked for again, with the error shown."""
    overflow_attempts: int = at_least(0, 3)
    """How often the oldest iteration is left out of the prompt when the context overflows."""
    tell_extract: bool = False
    """Tell extract that the run was cut off or that its last step failed."""
    program: Program | None = no_option(None)
    """Instructions and demonstrations in place of the design's own."""

    name: ClassVar[str] = "react_extract"
    calls_in: ClassVar[CallsIn] = "text"
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        last = StopReason.FORCED if self.extract else StopReason.MAX_STEPS
        always = {StopReason.FINISHED, last, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
        readable = self.on_parse_error == "observe" and self.on_unknown_tool == "observe" and not self.extract
        return frozenset(always if readable else always | {StopReason.PARSE_FAILED})

    @property
    def predictors(self) -> Program:
        """`react` and, where it is on, `extract`; the list of tools and the answer's fields are added to them in any case."""
        return merged(_OWN if self.extract else {"react": _OWN["react"]}, self.program)

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_iterations=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        refuse_reserved(tools)
        tools = self.configured_tools(tools)
        predictors = self.predictors
        agent = ReactAgent(predictors["react"], tools, extract=self.extract)
        course = _Course()
        stop, answer = StopReason.FORCED, None

        while course.steps < self.max_iterations:
            try:
                move = await self._decide(agent, query, course, model, observer)
            except ContextOverflow:
                stop = StopReason.CONTEXT_OVERFLOW
                break
            except ProviderError as error:
                return course.ended(None, StopReason.PROVIDER_ERROR, error=str(error))
            except WireError as error:
                problem, ends = str(error), self.on_parse_error == "finish"
            else:
                if isinstance(move, Answer):
                    course.add(_choice(move) | {"observation": COMPLETED}, COMPLETED)
                    stop, answer = StopReason.FINISHED, move.value
                    break
                call = move.calls[0]
                if call.name in tools or self.on_unknown_tool == "observe":
                    observation, shown = await self._act(call, tools)
                    course.add(_choice(move) | {"observation": observation}, shown)
                    continue
                problem, ends = f"Unknown tool {call.name}", True
            logger.info("iteration %d: %s", course.steps, problem)
            observer.note("unreadable", error=problem)
            course.add({"error": problem}, problem)
            if ends:
                stop = StopReason.PARSE_FAILED
                break

        if not self.extract:
            thoughts = [value for key, value in course.trajectory.items() if key.startswith("thought_")]
            answer = thoughts[-1] if answer is None and thoughts else answer
            return course.ended(answer, StopReason.MAX_STEPS if stop is StopReason.FORCED else stop)
        return await self._extract(predictors["extract"], query, model, stop, course)

    async def _decide(self, agent: ReactAgent, query: Query, course: _Course, model: Model, observer: Observer) -> Act | Answer:
        """Ask for the next choice, without the oldest iterations once the context has overflowed.

        Raises ContextOverflow where that has happened too often, and as `ReactAgent.decide` does.
        """
        while True:
            try:
                return await agent.decide(query, "\n\n".join(course.texts), model)
            except ContextOverflow:
                if not (oldest := course.trim(self.overflow_attempts)):
                    raise
                observer.note("trimmed", oldest=oldest[:80])

    async def _act(self, call: ToolCall, tools: Toolbox) -> tuple[Any, str]:
        """Run the tool; return the observation as the tool gave it, and as the prompt shows it (row S2-17).

        What a tool raises, and a call of an unknown tool, are observations that begin with `Error:` (rows B2-2, B2-3).
        """
        if call.name not in tools:
            error = f"Error: Unknown tool {call.name}"
            return error, error
        seen = await tools.call(call)
        if seen.ok:
            return seen.value, seen.data
        return f"Error: {seen.data}", f"Error: {seen.data}"

    async def _extract(self, prompt: Prompt, query: Query, model: Model, stop: StopReason, course: _Course) -> Outcome:
        codec = extract_codec(prompt.instructions, canonical_json(query.schema))
        notes = [f"[[ ## note ## ]]\n{_CUT_OFF[stop]}"] if self.tell_extract and stop in _CUT_OFF else []
        retries = course.overflows = 0
        while True:
            inputs = {"query": query.full_text, "trajectory": "\n\n".join([*course.texts, *notes])}
            try:
                fields, _ = await ask(prompt, inputs, codec=codec, model=model)
                value = codec.move(fields).value
                if problem := query.problem(value):
                    raise WireError(problem)
            except ContextOverflow as error:
                if not course.trim(self.overflow_attempts):
                    return course.ended(None, StopReason.CONTEXT_OVERFLOW, error=str(error))
            except ProviderError as error:
                return course.ended(None, StopReason.PROVIDER_ERROR, error=str(error))
            except WireError as error:
                if retries >= self.parse_retries:
                    return course.ended(None, StopReason.PARSE_FAILED, error=str(error))
                retries += 1
                notes.append(f"[[ ## error_{retries} ## ]]\nYour last reply could not be read: {error}")
            else:
                return course.ended(value, stop, reasoning=fields["reasoning"])


@dataclass(slots=True)
class _Course:
    """A run so far: its trajectory, and what the prompt shows of it."""

    trajectory: Trajectory = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    """One for each iteration that the prompt shows."""
    steps: int = 0
    overflows: int = 0

    def add(self, parts: Mapping[str, Any], shown: str) -> None:
        """Add an iteration of these parts. `shown`: the last one as the prompt shows it."""
        self.trajectory |= {f"{kind}_{self.steps}": value for kind, value in parts.items()}
        told = {f"{kind}_{self.steps}": value for kind, value in {**parts, list(parts)[-1]: shown}.items()}
        self.texts.append(format_trajectory(told))
        self.steps += 1

    def trim(self, attempts: int) -> str:
        """Leave the oldest iteration out of the prompt after an overflow; return its text, empty if that helps no more."""
        if self.overflows >= attempts or not self.texts:
            return ""
        self.overflows += 1
        return self.texts.pop(0)

    def ended(self, answer: Any, stop: StopReason, **details: str) -> Outcome:
        """Return how the run ends."""
        return Outcome(answer, stop, self.steps, None, {"trajectory": self.trajectory, **details})


def refuse_reserved(tools: Toolbox) -> None:
    """Raise ValueError for a user's tool named `finish` (row G-6)."""
    if FINISH in tools:
        raise ValueError(f"a tool is named {FINISH!r}: react_extract reserves that name")


def _choice(move: Act | Answer) -> dict[str, Any]:
    """Return the parts of a choice; an answer is the choice of `finish`."""
    if isinstance(move, Act):
        name, args = move.calls[0].name, dict(move.calls[0].arguments)
    else:
        name, args = FINISH, {} if move.value is None else {"answer": move.value}
    return {"thought": move.thought, "tool_name": name, "tool_args": args}


def format_trajectory(trajectory: Trajectory) -> str:
    """Return a trajectory, or one iteration of it, as the prompt shows it: its parts in order (row S2-17)."""
    return "\n\n".join(f"[[ ## {key} ## ]]\n{render_value(value)}" for key, value in trajectory.items())


# --- the agent, and the design as a module ---


class ReactAgent:
    """Chooses the next tool."""

    def __init__(self, prompt: Prompt, tools: Iterable[Tool], *, extract: bool = True) -> None:
        """`extract`: another call states the answer."""
        self.prompt = prompt
        self.codec = react_codec(instructions_with_tools(prompt.instructions, tools, extract=extract), extract=extract)

    async def decide(self, query: Query, trajectory: str, model: Model) -> Act | Answer:
        """Make one React call. Raises WireError for an unreadable reply, ModelError where there is none."""
        inputs = {"query": query.full_text, "trajectory": trajectory}
        fields, _ = await ask(self.prompt, inputs, codec=self.codec, model=model)
        return self.codec.move(fields)

    async def act(self, query: Query, trajectory: Trajectory, model: Model) -> tuple[Trajectory, str, dict[str, Any]]:
        """Make one React call; return `(trajectory, tool_name, tool_args)`, to which the caller adds the observation (row S2-9)."""
        parts = _choice(await self.decide(query, format_trajectory(trajectory), model))
        k = 1 + max((int(key.rpartition("_")[2]) for key in trajectory), default=-1)
        return trajectory | {f"{kind}_{k}": value for kind, value in parts.items()}, parts["tool_name"], parts["tool_args"]


class ReactExtractProgram(LoopProgram):
    """The design as a dspy.Module: call it, save it, hand it to a teleprompter.

    Raises ValueError for a tool named `finish` (row G-6).
    """

    def __init__(
        self, tools: Sequence[Tool | Callable[..., Any]] = (), config: ReactExtract | None = None, schema: Any = None
    ) -> None:
        """`config`: the design's options. `schema`: JSON schema of the answer, whose properties become output fields."""
        refuse_reserved(Toolbox(tools))
        super().__init__(config or ReactExtract(), tools, schema)


LOOP = ReactExtract
