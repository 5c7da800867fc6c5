"""The loop of design 3: its configuration, `run`, and the core that both faces share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.call_ids import needs_approval
from whichloop.loops.shared.option_checks import ToolSettings, at_least, checked_options, no_option
from whichloop.protocol.chat import Message, Reply
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.loop import CallsIn, RunsSync
from whichloop.protocol.model import ContextOverflow, Model, ModelError, ProviderError, Sampling
from whichloop.protocol.moves import Codec, Role
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.program import Program, TakesProgram, merged, repr_with_program
from whichloop.protocol.tool_calls import Observation, ToolSpec
from whichloop.protocol.tools import Toolbox
from whichloop.protocol.values import error_text, render_value
from whichloop.protocol.wire import Predictor, own_prompt

from .answer import DESCRIPTION, FINISH, FinishCodec, Output, ReadCall, StatedAnswer, XmlCodec, read_calls
from .hooks import ParseError, Step, call_hook, resolve_model, streamed
from .state import CurrentTools, History, HookFailed, Run, ToolResult, Unfinished
from .xml_output import input_xml, instruction

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


Ending = tuple[StopReason, Any]  # with the answer


@checked_options
@dataclass(frozen=True, slots=True)
class Finish(ToolSettings, TakesProgram, RunsSync):
    """Call tools until `__finish__` is called with a valid answer. Raises ValueError for a negative limit."""

    max_steps: int | None = at_least(0, None)
    """Most steps before the answer is forced, including the step that finishes; 0 forces it at once, None is a single turn."""
    parse_retries: int = at_least(0, 2)
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
    max_tokens: int | None = at_least(1, None)
    """Most tokens of a reply; None leaves it to the model."""
    on_step: Callable[[Step], Any] | None = no_option(None)
    """Called after a step's tools and before the next request. A def gets a thread of its own, an async def none."""
    on_stream: Callable[[Any], Any] | None = no_option(None)
    """Called with every StreamChunk, on threads as `on_step` is; if given, replies are streamed."""
    program: Program | None = no_option(None)
    """Instructions and demonstrations in the place of the design's own."""

    name: ClassVar[str] = "finish"
    calls_in: ClassVar[CallsIn] = "native"
    takes_images: ClassVar[bool] = True
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        steps, forces, retries = self.max_steps, self.forced_finish != "off", self.parse_retries
        steps_fail = bool(steps) and (self.on_step is not None or not self.retries_consume_steps or retries < (steps or 0))
        asks = steps != 0 or forces
        reached = {
            StopReason.FINISHED: steps != 0,
            StopReason.UNFINISHED: steps is None,
            StopReason.FORCED: steps is not None and forces,
            StopReason.MAX_STEPS: steps is not None and self.forced_finish in ("off", "tool_choice"),
            StopReason.PARSE_FAILED: steps is None or forces or steps_fail,
            StopReason.TERMINATED: (asks and self.on_stream is not None) or (bool(steps) and self.on_step is not None),
            StopReason.PROVIDER_ERROR: asks,
            StopReason.CONTEXT_OVERFLOW: asks,
        }
        return frozenset(stop for stop, is_reached in reached.items() if is_reached)

    @property
    def predictors(self) -> Program:
        """`decide`: the system text. The tools are described in the request itself."""
        return merged({DECIDE: own_prompt(self.system_prompt or "", "reply")}, self.program)

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop on a query. Raises TypeError for arguments of other types, ValueError for a tool named `__finish__`."""
        output = Output.of(query.schema, query.problem, query.takes_null) if self.typed_output else Output.of(None)
        question = Message("user", input_xml({"question": query.full_text}), images=query.images).as_dict()
        run = self.begin(output, tools, model, [question], observer)
        answer: Any = None
        error: BaseException | None = None
        try:
            stop, answer = await self.drive(run)
        except ParseError as failure:
            stop, error = StopReason.PARSE_FAILED, failure
        except ContextOverflow as failure:
            stop, error = StopReason.CONTEXT_OVERFLOW, failure
        except ModelError as failure:
            stop, error = StopReason.PROVIDER_ERROR, failure
        except HookFailed as failure:
            stop, error = StopReason.TERMINATED, failure.__cause__
        details: dict[str, Any] = {"history": run.history}
        if error is not None:
            details |= {"error": f"{type(error).__name__}: {error_text(error)}", "exception": error}
        if stop in (StopReason.UNFINISHED, StopReason.MAX_STEPS):
            details["unfinished"] = run.last
        return Outcome(answer, stop, run.counter, None, details, gave_up=stop is StopReason.MAX_STEPS)

    def begin(self, output: Output, tools: Toolbox, model: Model, history: History, observer: Observer) -> Run:
        """Return a run that is about to start; `history` follows the system message. Raises ValueError for a reserved tool name."""
        predictor = Predictor(DECIDE, self.predictors[DECIDE])
        if (text := predictor.shown.text) or self.system_prompt is not None:
            history = [{"role": "system", "content": text}, *history]
        current = CurrentTools(self.configured_tools(tools, at_once=self.parallel_tools))
        return Run(output, current, model, model, history, predictor, observer, self.temperature, self.max_tokens)

    async def drive(self, run: Run) -> Ending:
        """Run the loop itself. Raises ParseError, ModelError and HookFailed."""
        limit = 1 if self.max_steps is None else self.max_steps
        retries_are_steps = self.retries_consume_steps and self.max_steps is not None
        is_retry = False
        while run.counter < limit or (is_retry and not retries_are_steps):
            reply = await self._ask(run, FinishCodec(run.output))
            if retries_are_steps or not is_retry:
                run.counter += 1
            run.say(reply)

            calls = read_calls(reply)
            stated = run.output.stated(calls)
            if self._ends_run(run, calls, stated):
                return StopReason.FINISHED, stated.value
            if calls:
                ending = await self._take_step(run, reply, calls, stated)
                if ending is not None:
                    return ending
            else:
                run.tell(REMINDER)
            problem = stated.problem if calls else "the reply called no tool"
            if problem:
                self._count_failure(run, problem)
            is_retry = bool(problem)
        return await self._force(run)

    def _ends_run(self, run: Run, calls: Sequence[ReadCall], stated: StatedAnswer) -> bool:
        """Return whether a step's `__finish__` wins: it is valid, and no call beside it has to run first (row B3-5).

        A call that a person has to know of always has to, also in a single turn, which then ends without an answer.
        """
        if stated.call is None or stated.problem:
            return False
        others = [call.call.name for call in calls if call is not stated.call]
        asks_again = self.finish_with_tools == "ask_again" and self.max_steps is not None
        if others and (asks_again or needs_approval(run.observer, others)):
            return False
        if others:
            run.observer.note("not_run", tools=others, reason=f"{FINISH} wins")
        return True

    # --- one step ---

    async def _take_step(self, run: Run, reply: Reply, calls: Sequence[ReadCall], stated: StatedAnswer) -> Ending | None:
        """Run the calls, show the hook the step, and put the results into the history. Return None if the run goes on."""
        results = await self._results(run, calls, stated)
        run.last = Unfinished(tuple(call.call for call in calls), tuple(results))
        step = Step(run.counter, run.model_given, run.temperature, run.max_tokens, reply, [c.call for c in calls], results, run)
        if self.on_step is not None and self.max_steps is not None:
            await self._show(run, step)
        run.answer_calls(step.tool_results)
        if step.finished:
            return StopReason.FINISHED, step.answer
        if stated.problem:
            return None
        if self.max_steps is None:
            return StopReason.UNFINISHED, None
        if any(result.was_executed for result in step.tool_results):
            run.failures = 0
        return None

    async def _ask(self, run: Run, codec: Codec, tool_choice: str | None = None) -> Reply:
        messages = run.messages()
        first = 1 if messages and messages[0].role == "system" else 0
        request = run.predictor.request(
            (*messages[:first], *run.predictor.shown.turns),
            messages[first:],
            codec,
            tools=(*run.tools.specs, ToolSpec(FINISH, DESCRIPTION, run.output.parameters)),
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
        readable = [call.call for call in calls if not call.problem and call is not stated.call]
        seen = iter(await run.tools.call_all(readable, parallel=self.parallel_tools, max_in_flight=len(calls)))
        results = []
        for call in calls:
            if call is stated.call:
                results.append(_result(call, NOT_ACCEPTED, "NotRun"))
            elif call.problem:
                results.append(_result(call, f"Tool error: {call.problem}", "InvalidArguments"))
            else:
                results.append(self._tool_result(run, call, next(seen)))
        return results

    def _tool_result(self, run: Run, call: ReadCall, seen: Observation) -> ToolResult:
        if seen.ok:
            shown = None if seen.value is None else seen.data
            return ToolResult(call.call.name, seen.value, call.call.call_id, None, shown, was_executed=True)
        text = seen.data if seen.error_type == "InvalidArguments" else f"{seen.error_type}: {seen.data}"
        if seen.error_type == "UnknownTool":
            available = f". Available tools: {', '.join((*run.tools.names, FINISH))}" if self.list_tools_in_error else ""
            text = f"Tool '{call.call.name}' not found{available}"
        return _result(call, f"Tool error: {text}", seen.error_type, was_executed=seen.ran)

    async def _show(self, run: Run, step: Step) -> None:
        """Show the hook the step, and take over what it changed. Raises HookFailed."""
        assert self.on_step is not None
        given = [(result, render_value(result.output)) for result in step.tool_results]
        returned = await call_hook(self.on_step, step)
        if returned is not None and returned is not step:
            raise HookFailed from TypeError(f"on_step must return the step or None, not {type(returned).__name__}")
        if not all(isinstance(result, ToolResult) for result in step.tool_results):
            raise HookFailed from TypeError("step.tool_results must hold results; change their output")
        for result, text in given:
            if render_value(result.output) != text:
                result.shown = None
        if step.model is not run.model_given and not step.finished:
            try:
                run.model = resolve_model(step.model)
            except Exception as error:  # a name that the hook made up
                raise HookFailed from error
            run.model_given = step.model
        run.temperature, run.max_tokens = step.temperature, step.max_tokens

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
            ending = await self._forced(run, FinishCodec(run.output, "finish.forced", Role.ANSWER, 0), FINISH)
        if ending is None and self.forced_finish in ("both", "xml"):
            run.tell(instruction(run.output.parameters))
            ending = await self._forced(run, XmlCodec(run.output))
        return ending or (StopReason.MAX_STEPS, MAX_STEPS_TEXT)

    async def _forced(self, run: Run, codec: Codec, tool_choice: str | None = None) -> Ending | None:
        """Ask until the answer is valid. Return None if a forced call is not to be had: nothing of such a reply is kept."""
        while True:
            try:
                reply = await self._ask(run, codec, tool_choice)
            except ProviderError as error:
                if tool_choice is None or error.kind not in REFUSALS:
                    raise
                run.observer.note("not_forced", reason=str(error))
                return None
            calls = read_calls(reply)
            stated = run.output.stated(calls)
            others = [call.call.name for call in calls if needs_approval(run.observer, [call.call.name])]
            if tool_choice is not None and (stated.call is None or others):
                reason = (
                    f"the reply called {', '.join(others)} beside {FINISH}" if stated.call else f"the reply did not call {FINISH}"
                )
                run.observer.note("not_forced", reason=reason)
                return None
            if stated.call is None:
                stated = run.output.stated_in_xml(reply.text)
            if others and not stated.problem:  # the answer speaks as if the call had been made
                stated = replace(stated, problem=f"{', '.join(others)} was not called: only an answer can be given now")
            run.say(reply)
            if not stated.problem:
                return StopReason.FORCED, stated.value
            run.answer_calls(_refused(calls, stated, NOT_RUN_FORCED))
            if stated.call is None:
                run.tell(f"Error: {stated.problem}. Respond with your answer in the XML structure.")
            self._count_failure(run, stated.problem, "forced ")


def _refused(calls: Sequence[ReadCall], stated: StatedAnswer, others: str) -> list[ToolResult]:
    """Return results that say what is wrong with the stated answer; `others` says why the other calls did not run."""
    return [_result(call, f"Tool error: {stated.problem}" if call is stated.call else others, "NotRun") for call in calls]


def _result(call: ReadCall, text: str, error: str | None, *, was_executed: bool = False) -> ToolResult:
    return ToolResult(call.call.name, text, call.call.call_id, error, None, was_executed)
