"""Design 2: React -> Extract, on DSPy.

One call per turn chooses a tool, in the text fields thought, name and arguments; the tool's result is added to the trajectory. When
the model chooses `finish`, or the limit is reached, a chain of thought over the whole trajectory states the answer.
Standalone use:

    agent = ReactExtractProgram([search, get_event])
    agent(query="What is on in Tokyo tonight?").answer              # with dspy.configure(lm=...), as any dspy.Module

    ReactExtract().run_sync(Query("..."), Toolbox([search]), model)   # with any Model

Follow a run, from the top:

- `ReactExtract.run` (react_extract.py) is the loop: each iteration adds a choice and its observation to the trajectory.
- `ReactExtract._decide` (react_extract.py) asks for the choice by `ReactAgent.decide`, again after an overflow;
  `ReactCodec.move` (react_extract_codecs.py) reads it.
- `ReactExtract._act` (react_extract.py) makes the call.
- `ReactExtract._end` (react_extract.py) asks for the answer, again after an unreadable reply or an overflow, by
  `ExtractAgent.answer` (react_extract.py), which `ExtractCodec.move` (react_extract_codecs.py) reads. Or it takes the last thought.

Rows such as S2-17 are those of docs/conformance.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, cast

from whichloop._lazy import explained_module
from whichloop.loops.shared.boundary import bounded
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    AnswerT,
    ContextOverflow,
    Model,
    Observer,
    Outcome,
    Program,
    ProviderError,
    Query,
    RunsSync,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    WireError,
    render_value,
)
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.events import ANSWERS_ONLY
from whichloop.protocol.loop import CallsIn
from whichloop.protocol.program import merged, repr_with_program
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_here

from .shared.option_checks import ToolSettings, at_least, checked_options, no_option

with explained_module(__name__):
    import dspy

    from whichloop.dspy_seam import ThroughPredictor, ask, program_of, with_prompt

    from .react_extract_codecs import (
        FINISH,
        ExtractAnswer,
        ReactCodec,
        ReactStep,
        extract_codec,
        instructions_with_tools,
        react_codec,
    )

logger = logger_of(__name__)

COMPLETED = "Completed."
Trajectory = dict[str, Any]


@checked_options
@dataclass(frozen=True, slots=True)
class ReactExtract(ToolSettings, RunsSync):
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
    program: ReactExtractProgram | None = no_option(None)
    """The predictors, with their instructions and demonstrations; None for the design's own."""

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
        program = self.program or _default_program()
        return program_of({"react": program.react, "extract": program.extract} if self.extract else {"react": program.react})

    def with_predictors(self, program: Program) -> Self:
        """Return the same loop with other prompts. Raises ValueError for a predictor that it does not have."""
        changed = copy.copy(self.program or _default_program())
        for name, prompt in merged(self.predictors, program).items():
            setattr(changed, name, with_prompt(getattr(changed, name), prompt))
        return replace(self, program=changed)

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_iterations=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        refuse_reserved(tools)
        tools = self.configured_tools(tools)
        agent = ReactAgent((self.program or _default_program()).react, extract=self.extract)
        codec, course = agent.codec(tools), _Course()
        for k in range(self.max_iterations):
            move: Act | Answer | None = None
            try:
                move = await self._decide(agent, query, codec, course, model, observer)
            except ContextOverflow:
                return await self._end(query, model, course, StopReason.CONTEXT_OVERFLOW)
            except ProviderError as error:
                return course.ended(None, StopReason.PROVIDER_ERROR, error=str(error))
            except WireError as error:
                problem = str(error)
            course.calls += 1

            if isinstance(move, Answer):
                course.add_choice(k, move, COMPLETED, COMPLETED)
                return await self._end(query, model, course, StopReason.FINISHED, move.value)
            if move is not None and (move.calls[0].name in tools or self.on_unknown_tool == "observe"):
                course.add_choice(k, move, *await self._act(move.calls[0], tools))
                continue
            if move is not None:
                problem = f"Unknown tool {move.calls[0].name}"
            observer.note("unreadable", error=problem)
            course.add_problem(k, problem)
            if move is not None or self.on_parse_error == "finish":
                return await self._end(query, model, course, StopReason.PARSE_FAILED)
        return await self._end(query, model, course, StopReason.FORCED)

    async def _decide(
        self, agent: ReactAgent, query: Query, codec: ReactCodec, course: _Course, model: Model, observer: Observer
    ) -> Act | Answer:
        """Ask for the next choice, without the oldest iterations once the context has overflowed.

        Raises ContextOverflow where that has happened too often, and as `ReactAgent.decide` does.
        """
        while True:
            try:
                return await agent.decide(query, codec, "\n\n".join(course.texts), model)
            except ContextOverflow:
                if course.overflows >= self.overflow_attempts or not course.texts:
                    raise
                course.overflows += 1
                observer.note("trimmed", oldest=course.texts.pop(0)[:80])

    async def _act(self, call: ToolCall, tools: Toolbox) -> tuple[Any, str]:
        """Run the tool; return the observation as the tool gave it, and as the prompt shows it (row S2-17).

        What a tool raises, and a call of an unknown tool, are observations that begin with `Error:` (rows B2-2, B2-3).
        """
        if call.name not in tools:
            error = f"Error: Unknown tool {call.name}"
            return error, error
        seen = await tools.call(call)
        return (seen.value, seen.data) if seen.ok else (f"Error: {seen.data}", f"Error: {seen.data}")

    async def _end(self, query: Query, model: Model, course: _Course, stop: StopReason, answer: Any = None) -> Outcome:
        """State the answer from the trajectory, or take it from there where that call is switched off."""
        if not self.extract:
            thoughts = [value for key, value in course.trajectory.items() if key.startswith("thought_")]
            answer = answer if answer is not None else (thoughts[-1] if thoughts else None)
            return course.ended(answer, StopReason.MAX_STEPS if stop is StopReason.FORCED else stop)
        agent = ExtractAgent((self.program or _default_program()).extract)
        notes = [f"[[ ## note ## ]]\n{_CUT_OFF[stop]}"] if self.tell_extract and stop in _CUT_OFF else []
        texts, retries, overflows = course.texts, 0, 0
        while True:
            try:
                move = await agent.answer(query, "\n\n".join([*texts, *notes]), model)
                if problem := query.problem(move.value):
                    raise WireError(problem)
            except ContextOverflow as error:
                if overflows >= self.overflow_attempts or not texts:
                    return course.ended(None, StopReason.CONTEXT_OVERFLOW, error=str(error))
                overflows, texts = overflows + 1, texts[1:]
            except ProviderError as error:
                return course.ended(None, StopReason.PROVIDER_ERROR, error=str(error))
            except WireError as error:
                if retries >= self.parse_retries:
                    return course.ended(None, StopReason.PARSE_FAILED, error=str(error))
                retries += 1
                notes.append(f"[[ ## error_{retries} ## ]]\nYour last reply could not be read: {error}")
            else:
                return course.ended(move.value, stop, reasoning=move.thought)


@dataclass(slots=True)
class _Course:
    """A run so far: its trajectory, and what the prompt shows of it."""

    trajectory: Trajectory = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    """One for each iteration that the prompt shows."""
    calls: int = 0
    """React calls that got a reply."""
    overflows: int = 0
    """How often the context has overflowed."""

    def add_choice(self, k: int, move: Act | Answer, observation: Any, text: str) -> None:
        """Add an iteration with a choice and what came of it. `text`: how the prompt shows the observation."""
        self.trajectory |= _choice_keys(k, move) | {f"observation_{k}": observation}
        self.texts.append(render_iteration(self.trajectory, k, text))

    def add_problem(self, k: int, problem: str) -> None:
        """Add an iteration without a choice, and why there is none."""
        logger.info("iteration %d: %s", k, problem)
        self.trajectory[f"error_{k}"] = problem
        self.texts.append(render_iteration(self.trajectory, k))

    def ended(self, answer: Any, stop: StopReason, **details: str) -> Outcome:
        if "error" in details:
            logger.info("the run ends as %s: %s", stop, details["error"])
        return Outcome(answer, stop, self.calls, None, {"trajectory": self.trajectory, **details})


_CUT_OFF = {
    StopReason.FORCED: "The run was cut off at its limit; the trajectory may be incomplete.",
    StopReason.PARSE_FAILED: "The last step could not be read, and the run ended there.",
    StopReason.CONTEXT_OVERFLOW: "The run ended because the trajectory no longer fits; its oldest part is not shown.",
}


def refuse_reserved(tools: Toolbox) -> None:
    """Raise ValueError for a user's tool named `finish` (row G-6)."""
    if FINISH in tools:
        raise ValueError(f"a tool is named {FINISH!r}: react_extract reserves that name")


def _choice_keys(k: int, move: Act | Answer) -> Trajectory:
    """Return thought, tool and arguments of a choice; an answer is the choice of `finish`."""
    name, args = FINISH, {} if isinstance(move, Act) or move.value is None else {"answer": move.value}
    if isinstance(move, Act):
        name, args = move.calls[0].name, dict(move.calls[0].arguments)
    return {f"thought_{k}": move.thought, f"tool_name_{k}": name, f"tool_args_{k}": args}


def render_iteration(trajectory: Trajectory, k: int, observation: str | None = None) -> str:
    """Return one iteration as text, its keys together and in order (row S2-17). `observation`: the text of its result, if known."""
    parts = []
    for kind in ("thought", "tool_name", "tool_args", "observation", "error"):
        key = f"{kind}_{k}"
        if key in trajectory:
            is_replaced = observation is not None and kind == "observation"
            parts.append(f"[[ ## {key} ## ]]\n{observation if is_replaced else render_value(trajectory[key])}")
    return "\n\n".join(parts)


def format_trajectory(trajectory: Trajectory) -> str:
    """Return the whole trajectory as the prompt shows it."""
    return "\n\n".join(filter(None, (render_iteration(trajectory, k) for k in range(_count(trajectory)))))


def _count(trajectory: Trajectory) -> int:
    """Count the iterations so far, unreadable ones included."""
    return 1 + max((int(key.rpartition("_")[2]) for key in trajectory), default=-1)


# --- the two agents and the program that holds their predictors ---


class ReactAgent:
    """Chooses the next tool."""

    def __init__(self, predictor: Any, *, extract: bool = True) -> None:
        self.predictor = predictor
        self.with_extract = extract

    def codec(self, tools: Toolbox) -> ReactCodec:
        """Return the format of the calls over these tools, which its instructions list."""
        signature = self.predictor.signature
        instructions = instructions_with_tools(signature.instructions, tools, extract=self.with_extract)
        return react_codec(signature, instructions, extract=self.with_extract)

    async def decide(self, query: Query, codec: ReactCodec, trajectory: str, model: Model) -> Act | Answer:
        """Make one React call. Raises WireError for an unreadable reply, ModelError where there is none."""
        move = await ask(self.predictor, {"query": query.full_text, "trajectory": trajectory}, codec=codec, model=model)
        return cast(Act | Answer, move)

    async def act(
        self, query: Query, tools: Toolbox, trajectory: Trajectory, model: Model
    ) -> tuple[Trajectory, str, dict[str, Any]]:
        """Make one React call; return `(trajectory, tool_name, tool_args)`, to which the caller adds the observation (row S2-9)."""
        move, k = await self.decide(query, self.codec(tools), format_trajectory(trajectory), model), _count(trajectory)
        choice = _choice_keys(k, move)
        return trajectory | choice, choice[f"tool_name_{k}"], choice[f"tool_args_{k}"]


class ExtractAgent:
    """States the answer from the complete trajectory."""

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor

    async def answer(self, query: Query, trajectory: str, model: Model) -> Answer:
        """Make one extract call. Raises WireError for an unreadable reply, ModelError where there is none."""
        signature = self.predictor.signature
        codec = extract_codec(signature, signature.instructions, canonical_json(query.schema))
        move = await ask(self.predictor, {"query": query.full_text, "trajectory": trajectory}, codec=codec, model=model)
        return cast(Answer, move)


class ReactExtractProgram(dspy.Module):
    """The two predictors as a dspy.Module: call it, save it, hand it to a teleprompter.

    Raises ValueError for a tool named `finish` (row G-6).
    """

    def __init__(
        self, tools: Sequence[Tool | Callable[..., Any]] = (), config: ReactExtract | None = None, schema: Any = None
    ) -> None:
        """`config`: the design's options. `schema`: JSON schema of the answer, whose properties become output fields."""
        super().__init__()
        self.react = dspy.Predict(ReactStep)
        self.extract = dspy.Predict(ExtractAnswer)
        self.toolbox = Toolbox(tools)
        self.config = config or ReactExtract()
        self.schema = schema
        refuse_reserved(self.toolbox)

    def forward(self, query: str) -> Any:
        return run_here(self.aforward(query))

    async def aforward(self, query: str) -> Any:
        """Return a dspy.Prediction of `answer`, `reasoning`, `trajectory` and `stop`, from the model that DSPy is configured with.

        An answer's properties are fields too, unless their names are among those four.
        """
        loop = replace(self.config, program=self)
        outcome = await loop.run(Query(query, schema=self.schema), self.toolbox, ThroughPredictor(), ANSWERS_ONLY)
        values = outcome.answer if self.schema and isinstance(outcome.answer, dict) else {}
        return dspy.Prediction(
            values,
            answer=outcome.answer,
            reasoning=outcome.details.get("reasoning"),
            trajectory=outcome.details["trajectory"],
            stop=outcome.stop.value,
        )


@lru_cache(maxsize=1)
def _default_program() -> ReactExtractProgram:
    return ReactExtractProgram()


LOOP = ReactExtract
