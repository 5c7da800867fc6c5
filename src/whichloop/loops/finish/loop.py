"""The loop of design 3: its configuration, `run`, and the core that both faces share.

The docstring of the package (`__init__.py`) follows a run from the top.

Rows such as B3-5 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.call_ids import needs_approval
from whichloop.loops.shared.option_checks import ToolSettings, checked_options
from whichloop.protocol import (
    SILENT,
    AnswerT,
    Codec,
    ContextOverflow,
    Message,
    Model,
    ModelError,
    Observation,
    Observer,
    Outcome,
    Predictor,
    Program,
    ProviderError,
    Query,
    Reply,
    Role,
    RunsSync,
    Sampling,
    StopReason,
    TakesProgram,
    Toolbox,
    own_prompt,
    render_value,
)
from whichloop.protocol.loop import CallsIn
from whichloop.protocol.program import merged, repr_with_program
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import error_text

from .codec import ReadCall, StatedAnswer, XmlCodec, native_codec, read_calls, stated_answer, stated_in_xml
from .output import FINISH, CurrentTools, JsonOutput, Output, refuse_reserved, spec_of
from .run import Ending, History, Run, ToolResult, Unfinished, entry
from .step import HookFailed, ParseError, Step, call_hook, resolve_model, streamed
from .xml_output import input_xml, instruction

logger = logger_of(__name__)

SYSTEM_PROMPT = """\
Solve the task in the user's message. Call the tools that you are given where they help, one or several at a time, and look at \
what they return. When you know the answer, call __finish__ with it: that is the only way to answer."""
REMINDER = (
    "You must respond by calling one of the available tools. Use the provided tools to take action, "
    "or call __finish__ with the appropriate arguments to complete the task."
)
MAX_STEPS_TEXT = "Maximum steps reached without a final answer"
NOT_RUN = "Tool error: not run, __finish__ was called"
NOT_RUN_FORCED = "Tool error: not run, only __finish__ can be called now"
NOT_ACCEPTED = "Not accepted yet: other tools were called with it. Look at their results, then call __finish__ again."
DECIDE = "decide"
"""The only predictor: it makes every request, the forced ones too."""
REFUSALS = frozenset({"refused", "bad_request"})
"""Kinds of provider errors that a forced tool choice may meet where it is not supported."""


@checked_options
@dataclass(frozen=True, slots=True)
class Finish(ToolSettings, TakesProgram, RunsSync):
    """Call tools until `__finish__` is called with a valid answer. Raises ValueError for a negative limit."""

    max_steps: int | None = None
    """Most steps before the answer is forced, including the step that finishes; 0 forces it at once, None is a single turn."""
    parse_retries: int = 2
    """How many invalid finishes in a row may be corrected, in the loop and again when forced."""
    retries_consume_steps: bool = True
    """A correction uses a step; never in a single turn."""
    finish_with_tools: Literal["stop", "ask_again"] = "stop"
    """A valid finish beside other calls wins (stop), or waits until the others have run (ask_again; not in a single turn)."""
    forced_finish: Literal["both", "tool_choice", "xml", "off"] = "both"
    """At the limit: a forced call, then XML where that fails (both), one of the two alone, or a canned text (off)."""
    parallel_tools: bool = False
    """The calls of a step run concurrently; results stay in call order."""
    list_tools_in_error: bool = False
    """An unknown tool's error lists the known ones."""
    typed_output: bool = True
    """The answer follows the query's schema; False asks for a text, whatever the schema."""
    system_prompt: str | None = SYSTEM_PROMPT
    """System text in the place of the design's own; None for none. Nothing follows it: tools and `__finish__` are native."""
    temperature: float | None = None
    """Sampling temperature of every request; None leaves it to the model."""
    max_tokens: int | None = None
    """Most tokens of a reply; None leaves it to the model."""
    on_step: Callable[[Step], Any] | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """Called after a step's tools and before the next request. A def gets a thread of its own, an async def none."""
    on_stream: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """Called with every StreamChunk, on threads as `on_step` is; if given, replies are streamed."""
    resolver: Callable[[Any], Model] = field(default=resolve_model, repr=False, compare=False, metadata={"option": False})
    """Makes a Model of a name or a dict that `on_step` puts into `step.model`."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """Instructions and demonstrations in the place of the design's own."""

    def __post_init__(self) -> None:
        ToolSettings.__post_init__(self)
        if self.max_steps is not None and self.max_steps < 0:
            raise ValueError(f"max_steps must be 0 or more, or None for a single turn, not {self.max_steps}")
        if self.parse_retries < 0:
            raise ValueError(f"parse_retries must be 0 or more, not {self.parse_retries}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, or None, not {self.max_tokens}")
        for name in ("on_step", "on_stream", "resolver"):
            hook = getattr(self, name)
            if not callable(hook) and not (hook is None and name != "resolver"):
                raise TypeError(f"{name} must be a function, not {hook!r}")

    name: ClassVar[str] = "finish"
    calls_in: ClassVar[CallsIn] = "native"
    takes_images: ClassVar[bool] = True
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        steps = self.max_steps
        reached = set()
        if steps != 0 or self.forced_finish != "off":  # else no model is ever asked
            reached |= {StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
            reached |= {StopReason.TERMINATED} if self.on_stream is not None else set()
        if steps != 0:
            reached.add(StopReason.FINISHED)
        if steps and self.on_step is not None:
            reached |= {StopReason.TERMINATED, StopReason.PARSE_FAILED}
        if steps is None:
            return frozenset(reached | {StopReason.UNFINISHED, StopReason.PARSE_FAILED})
        if self.forced_finish != "off":
            reached |= {StopReason.FORCED, StopReason.PARSE_FAILED}
        if self.forced_finish in ("off", "tool_choice"):
            reached.add(StopReason.MAX_STEPS)
        if steps and (not self.retries_consume_steps or self.parse_retries < steps):
            reached.add(StopReason.PARSE_FAILED)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """`decide`: the system text. The tools are described in the request itself."""
        return merged({DECIDE: own_prompt(self.system_prompt or "", "reply")}, self.program or {})

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop on a query. Raises TypeError for arguments of other types, ValueError for a tool named `__finish__`."""
        output = JsonOutput.of(query.schema, query.problem, query.takes_null) if self.typed_output else JsonOutput.of(None)
        text = input_xml({"question": query.full_text})
        question = Message("user", text, images=query.images).as_dict() if query.images else entry("user", text)
        run = self.begin(output, tools, model, [question], observer)
        error: Exception | None = None
        try:
            ending = await self.drive(run)
        except ParseError as failure:
            ending, error = Ending(StopReason.PARSE_FAILED), failure
        except ContextOverflow as failure:
            ending, error = Ending(StopReason.CONTEXT_OVERFLOW), failure
        except ModelError as failure:
            ending, error = Ending(StopReason.PROVIDER_ERROR), failure
        except HookFailed as failure:
            ending, error = Ending(StopReason.TERMINATED), failure.error
        details: dict[str, Any] = {"history": run.history}
        if error is not None:
            logger.info("the run ends as %s: %s: %s", ending.stop, type(error).__name__, error_text(error))
            details |= {"error": f"{type(error).__name__}: {error_text(error)}", "exception": error}
        if ending.unfinished is not None:
            details["unfinished"] = ending.unfinished
        return Outcome(ending.value, ending.stop, run.counter, None, details, gave_up=ending.stop is StopReason.MAX_STEPS)

    def begin(self, output: Output, tools: Toolbox, model: Model, history: History, observer: Observer = SILENT) -> Run:
        """Return a run that is about to start; `history` follows the system message. Raises ValueError for a reserved tool name."""
        refuse_reserved(tools)
        predictor = Predictor(DECIDE, self.predictors[DECIDE])
        text = predictor.shown.text
        system = [entry("system", text)] if text or self.system_prompt is not None else []
        run = Run(
            output,
            CurrentTools(self.configured_tools(tools, at_once=self.parallel_tools)),
            model,
            [*system, *history],
            predictor,
            observer,
        )
        run.model_given, run.temperature, run.max_tokens = model, self.temperature, self.max_tokens
        run.has_hooks = self.on_step is not None or self.on_stream is not None
        return run

    async def drive(self, run: Run) -> Ending:
        """Run the loop itself. Raises ParseError, ModelError and HookFailed."""
        limit = 1 if self.max_steps is None else self.max_steps
        retries_are_steps = self.retries_consume_steps and not self._is_single_turn
        is_retry = False
        while run.counter < limit or (is_retry and not retries_are_steps):
            reply = await self._ask(run, native_codec(run.output, Role.DECIDE))
            if retries_are_steps or not is_retry:
                run.counter += 1

            calls = read_calls(reply)
            run.say(reply)
            if not calls:
                run.tell(REMINDER)
                self._count_failure(run, "the reply called no tool")
                is_retry = True
                continue

            stated = stated_answer(run.output, calls)
            if self._ends_run(run, calls, stated):
                return Ending(StopReason.FINISHED, stated.value)
            ending = await self._take_step(run, reply, calls, stated)
            if ending is not None:
                return ending
            is_retry = bool(stated.problem)
        return await self._force(run)

    @property
    def _is_single_turn(self) -> bool:
        return self.max_steps is None

    def _ends_run(self, run: Run, calls: Sequence[ReadCall], stated: StatedAnswer) -> bool:
        """Return whether a step's `__finish__` wins: it is valid, and no call beside it has to run first (row B3-5).

        A call that a person has to know of always has to, also in a single turn, which then ends without an answer.
        """
        if stated.call is None or stated.problem:
            return False
        others = [call.call.name for call in calls if call is not stated.call]
        if others and self.finish_with_tools != "stop" and not self._is_single_turn:
            return False
        if needs_approval(run.observer, others):
            return False
        if others:
            run.observer.note("not_run", tools=others, reason=f"{FINISH} wins")
        return True

    # --- one step ---

    async def _take_step(self, run: Run, reply: Reply, calls: Sequence[ReadCall], stated: StatedAnswer) -> Ending | None:
        """Run the calls, show the hook the step, and put the results into the history. Return None if the run goes on."""
        results = await self._results(run, calls, stated)
        run.last = Unfinished(tuple(call.call for call in calls), tuple(results))
        finished = None if self._is_single_turn or self.on_step is None else await self._on_step(run, reply, calls, results)
        run.answer_calls(results)
        if finished is not None:
            return finished
        if stated.problem:
            self._count_failure(run, stated.problem)
        elif self._is_single_turn:
            return Ending(StopReason.UNFINISHED, unfinished=run.last)
        elif any(result.was_executed for result in results):
            run.failures = 0
        return None

    async def _ask(self, run: Run, codec: Codec, tool_choice: str | None = None) -> Reply:
        messages = run.messages()
        first = 1 if messages and messages[0].role == "system" else 0
        request = run.predictor.request(
            (*messages[:first], *run.predictor.shown.turns),
            messages[first:],
            codec,
            tools=run.tools.specs_with(spec_of(run.output)),
            tool_choice=tool_choice,
            sampling=Sampling(run.temperature, run.max_tokens),
            scope=run.scope,
        )
        if self.on_stream is None:
            return await run.model.complete(request)
        return await streamed(run.model.stream(request), run.output, self.on_stream)

    async def _results(self, run: Run, calls: Sequence[ReadCall], stated: StatedAnswer) -> list[ToolResult]:
        """Return the results of a step's calls in call order; beside an invalid `__finish__` no call runs (row B3-22)."""
        if stated.problem:
            return _refused(calls, stated, NOT_RUN)
        results = await self._execute(run, [call for call in calls if call is not stated.call])
        if stated.call is not None:
            results.insert(calls.index(stated.call), _result(stated.call, NOT_ACCEPTED, "NotRun"))
        return results

    async def _execute(self, run: Run, calls: Sequence[ReadCall]) -> list[ToolResult]:
        """Run the calls that can be read. Return all results in call order."""
        readable = [call.call for call in calls if not call.problem]
        in_call_order = await run.tools.call_all(readable, parallel=self.parallel_tools, max_in_flight=max(len(calls), 1))
        observations = iter(in_call_order)
        results = []
        for call in calls:
            if call.problem:
                results.append(_result(call, f"Tool error: {call.problem}", "InvalidArguments"))
            else:
                results.append(self._tool_result(run, call, next(observations)))
        return results

    def _tool_result(self, run: Run, call: ReadCall, seen: Observation) -> ToolResult:
        if seen.ok:
            return ToolResult(call.call.name, seen.value, call.call.call_id, None, seen)
        text = f"{seen.error_type}: {seen.data}"
        if seen.error_type == "UnknownTool":
            available = f". Available tools: {', '.join((*run.tools.names, FINISH))}" if self.list_tools_in_error else ""
            text = f"Tool '{call.call.name}' not found{available}"
        elif seen.error_type == "InvalidArguments":
            text = seen.data
        return ToolResult(call.call.name, f"Tool error: {text}", call.call.call_id, seen.error_type, seen)

    async def _on_step(self, run: Run, reply: Reply, calls: Sequence[ReadCall], results: list[ToolResult]) -> Ending | None:
        """Show the hook the step, and take over what it changed. Raises HookFailed."""
        assert self.on_step is not None
        step = Step(
            run.counter, run.model_given, run.temperature, run.max_tokens, reply, [call.call for call in calls], results, run
        )
        result_texts = [(result, render_value(result.output)) for result in results]
        returned = await call_hook(self.on_step, step)
        if returned is not None and returned is not step:
            raise HookFailed(TypeError(f"on_step must return the step or None, not {type(returned).__name__}"))
        if not all(isinstance(result, ToolResult) for result in step.tool_results):
            raise HookFailed(TypeError("step.tool_results must hold results; change their output"))
        for result, text in result_texts:
            result.is_edited = render_value(result.output) != text
        results[:] = step.tool_results
        if step.finished:
            return Ending(StopReason.FINISHED, step.answer)
        if step.model is not run.model_given:
            try:
                run.model = self.resolver(step.model)
            except Exception as error:  # a name that the hook made up
                raise HookFailed(error) from error
            run.model_given = step.model
        run.temperature, run.max_tokens = step.temperature, step.max_tokens
        return None

    def _count_failure(self, run: Run, problem: str, where: str = "") -> None:
        """Raises ParseError when the retries are used up."""
        run.failures += 1
        run.observer.note("invalid_finish", problem=problem, failures=run.failures)
        if run.failures > self.parse_retries:
            raise ParseError(f"no valid {where}{FINISH} in {run.failures} {'reply' if run.failures == 1 else 'replies'}: {problem}")

    # --- at the limit ---

    async def _force(self, run: Run) -> Ending:
        """Ask for a forced `__finish__`, then for XML, whichever is switched on. Raises ParseError."""
        run.failures = 0
        ending = None
        if self.forced_finish in ("both", "tool_choice") and run.model.capabilities.tool_choice:
            ending = await self._force_call(run)
        if ending is None and self.forced_finish in ("both", "xml"):
            ending = await self._force_xml(run)
        return ending or Ending(StopReason.MAX_STEPS, MAX_STEPS_TEXT, run.last)

    async def _force_call(self, run: Run) -> Ending | None:
        """Return None if the provider refuses, or if its reply lacks `__finish__`; nothing of such a reply is kept."""
        while True:
            try:
                reply = await self._ask(run, native_codec(run.output, Role.ANSWER), FINISH)
            except ProviderError as error:
                if error.kind not in REFUSALS:
                    raise
                run.observer.note("not_forced", reason=str(error))
                return None
            calls = read_calls(reply)
            stated = stated_answer(run.output, calls)
            if stated.call is None:
                run.observer.note("not_forced", reason=f"the reply did not call {FINISH}")
                return None
            if others := [call.call.name for call in calls if needs_approval(run.observer, [call.call.name])]:
                run.observer.note("not_forced", reason=f"the reply called {', '.join(others)} beside {FINISH}")
                return None
            run.say(reply)
            if not stated.problem:
                return Ending(StopReason.FORCED, stated.value)
            run.answer_calls(_refused(calls, stated, NOT_RUN_FORCED))
            self._count_failure(run, stated.problem, "forced ")

    async def _force_xml(self, run: Run) -> Ending:
        run.tell(instruction(run.output.parameters))
        while True:
            reply = await self._ask(run, XmlCodec(run.output))
            calls = read_calls(reply)
            stated = stated_answer(run.output, calls)
            if stated.call is None:
                stated = stated_in_xml(run.output, reply.text)
            run.say(reply)
            if not stated.problem:
                return Ending(StopReason.FORCED, stated.value)
            run.answer_calls(_refused(calls, stated, NOT_RUN_FORCED))
            if stated.call is None:
                run.tell(f"Error: {stated.problem}. Respond with your answer in the XML structure.")
            self._count_failure(run, stated.problem, "forced ")


def _refused(calls: Sequence[ReadCall], stated: StatedAnswer, others: str) -> list[ToolResult]:
    """Return results that say what is wrong with the stated answer; `others` says why the other calls did not run."""
    return [_result(call, f"Tool error: {stated.problem}" if call is stated.call else others, "NotRun") for call in calls]


def _result(call: ReadCall, text: str, error: str) -> ToolResult:
    return ToolResult(call.call.name, text, call.call.call_id, error)
