"""The boundary of a run, around every built-in loop: arguments are checked, events are told, earlier turns of a conversation are
shown to the model, and a typed answer is made.

Where the query has neither type nor history and the observer takes no events, a run goes straight to the design, so that a
comparison pays for none of this. Where loops stand in each other, the outermost does it all: it is the closest to the model and to
the tools.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from loopbench.protocol import SILENT, AnswerT, Loop, Model, Observer, Outcome, Query, RunEvent, StopReason, Toolbox
from loopbench.protocol.events import RunEnded

from .conversation import ConversationModel, RecordedToolbox, messages_after
from .run_arguments import check_run, problem_of_model
from .watching import WatchedModel, WatchedToolbox, Watching

RunT = TypeVar("RunT", bound=Callable[..., Awaitable[Any]])
Run = Callable[[Query[Any], Toolbox, Model, Observer], Awaitable[Outcome[Any]]]


def has_boundary(run: RunT) -> RunT:
    """Mark a `run` that checks its arguments, tells events and knows a query's type and history by itself."""
    cast(Any, run).has_boundary = True
    return run


def bounded(run: RunT) -> RunT:
    """Decorate the `run` of a loop. Raises TypeError for arguments of other types, and for a model that is none."""

    @has_boundary
    @functools.wraps(run)
    async def entered(self: Any, query: Any, tools: Any, model: Any, observer: Observer = SILENT) -> Any:
        check_run(query, tools, model, observer)
        try:
            if query.answer_type is None and query.history is None and not takes_events(observer):
                return await run(self, query, tools, model, observer)
            return await watched(functools.partial(conversed, functools.partial(run, self)), query, tools, model, observer)
        except (TypeError, AttributeError) as error:
            if problem := problem_of_model(model, error):
                raise TypeError(problem) from error
            raise

    return cast(RunT, entered)


def takes_events(observer: Observer) -> bool:
    """Whether an observer is to be told of events; one that is told already by a loop around this one is not.

    Raises TypeError for one whose `on_event` is a coroutine function: nobody would await it.
    """
    if isinstance(observer, Watching) or type(observer).on_event is Observer.on_event:
        return False
    if inspect.iscoroutinefunction(observer.on_event):
        name = type(observer).__name__
        raise TypeError(f"observer: {name}.on_event is async, and its events would be lost; write def, and put them on a queue")
    return True


async def watched(run: Run, query: Query[Any], tools: Toolbox, model: Model, observer: Observer) -> Outcome[Any]:
    """Carry out a run, and tell the observer its events if it takes any."""
    if not takes_events(observer):
        return await run(query, tools, model, observer)
    watching = Watching(observer)
    outcome: Outcome[Any] | None = None
    error: BaseException | None = None
    started = time.perf_counter()
    try:
        outcome = await run(query, WatchedToolbox(tools, watching), WatchedModel(model, tools, watching), watching)
        return outcome
    except BaseException as raised:  # a budget, a cancellation, a bug: told, and raised again
        error = raised
        raise
    finally:
        observer.on_event(RunEnded(outcome, error, time.perf_counter() - started))


async def conversed(run: Run, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer) -> Outcome[AnswerT]:
    """Carry out a run on a query that may have a type and earlier turns: the design gets neither, see `Query.for_design`."""
    if query.history is None:
        return answered(query, await run(query.for_design, tools, model, observer))
    recorded, told = RecordedToolbox(tools), ConversationModel(model, query.history)
    given = await run(query.for_design, recorded, told, observer)
    outcome = answered(query, given)
    return replace(outcome, messages=messages_after(query, recorded.made, outcome, given.answer, told.own))


async def run_events(
    loop: Loop, query: Query[Any], tools: Toolbox, model: Model, *, streams: bool = False
) -> AsyncGenerator[RunEvent, None]:
    """Run any loop, and yield what happens in it, with RunEnded as the last event.

    `streams`: pieces of replies, too. Raises what leaves the run, such as BudgetExceeded, after the last event, and TypeError for
    arguments of other types. The run is cancelled where the iteration is given up: close it with `contextlib.aclosing`.
    """
    check_run(query, tools, model, SILENT)
    queue = _Queue(streams)
    run = loop.run if hasattr(loop.run, "has_boundary") else functools.partial(watched, functools.partial(conversed, loop.run))
    running = asyncio.create_task(run(query, tools, model, queue))
    running.add_done_callback(queue.end)
    try:
        while (event := await queue.events.get()) is not None:
            yield event
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)  # what the run raised was raised above


class _Queue(Observer):
    """Puts events where an iteration takes them from."""

    def __init__(self, streams: bool) -> None:
        self.streams = streams
        self.events: asyncio.Queue[RunEvent | None] = asyncio.Queue()

    def on_event(self, event: RunEvent) -> None:
        self.events.put_nowait(event)

    def end(self, _: object) -> None:
        self.events.put_nowait(None)


# --- typed answers ---


def answered(query: Query[AnswerT], outcome: Outcome[Any]) -> Outcome[AnswerT]:
    """Return the outcome with an instance of the query's type for its answer.

    What the type refuses is no answer: the run then ends as `parse_failed`, and `details["answer"]` keeps what was answered. There,
    too, stand a design's own words for having no answer; its stop stays.
    """
    if query.answer_type is None:
        return outcome
    if outcome.answer is None:
        answered_null = outcome.stop in (StopReason.FINISHED, StopReason.FORCED) and query.answer_type.takes_null
        return replace(outcome, is_null=True) if answered_null else outcome
    if not outcome.gave_up:
        try:
            answer = query.answer_type.read(outcome.answer)
            return replace(outcome, answer=answer, is_null=answer is None)
        except ValueError as error:
            outcome = replace(outcome, stop=StopReason.PARSE_FAILED, details={**outcome.details, "error": str(error)})
    return replace(outcome, answer=cast(AnswerT, None), details={**outcome.details, "answer": outcome.answer})
