"""The boundary of a run, around every built-in loop: arguments are checked, events are told, earlier turns of a conversation are
shown to the model, a typed answer is made, and the outcome has its usage and messages.

A comparison's trial, whose observer says so, wants none of this, so that its run goes straight to the design and pays for none of
it. Where loops stand in each other, the outermost does it all: it is the closest to the model and to the tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar, cast

from whichloop.protocol import events
from whichloop.protocol.cancellation import failure_of_model, stop_tasks
from whichloop.protocol.chat import CallDelta, Chunk, Reply, reply_of_pieces
from whichloop.protocol.events import SILENT, EventOf, Observer, RunEvent
from whichloop.protocol.loop import Loop
from whichloop.protocol.model import Asks, Model, ModelAround, ModelError, Request, whole_reply
from whichloop.protocol.moves import WireError
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import Observation, ToolCall
from whichloop.protocol.tools import Toolbox, ToolboxAround
from whichloop.protocol.values import ToolArgumentError, own_copy
from whichloop.protocol.wire import calls_in

from .call_ids import CallIds, RunFailed, as_asked, ids_of
from .conversation import ConversationModel, RecordedToolbox, messages_after, usage_of

logger = logger_of(__name__)


class RelayingObserver(Observer):
    """Passes events and notes on to a product's observer; a loop that gets it does not tell the same again."""

    def __init__(self, observer: Observer, ids: CallIds, *, only_answers: bool = False) -> None:
        """`only_answers`: for a loop within another, the outermost of which does all that is done once for a run."""
        self.observer = observer
        self.ids = ids
        self.streams = observer.streams
        self.only_answers = only_answers

    def on_event(self, event: EventOf[Any]) -> None:
        """Raises RunFailed for what the observer raises."""
        with self.ids.failure.noticed():
            self.observer.on_event(event)

    def note(self, kind: str, **data: Any) -> None:
        """Raises as `on_event` does."""
        with self.ids.failure.noticed():
            self.observer.note(kind, **data)
            if not self.only_answers:
                self.observer.on_event(events.LoopNote(kind, data))


class WatchedModel(ModelAround):
    """A model whose requests and replies are told; it streams every reply where the observer wants that and the model can."""

    def __init__(self, model: Model, tools: Toolbox, watching: RelayingObserver) -> None:
        """Make a model that tells what it is asked and replies. `tools`: those that calls are checked against."""
        super().__init__(model)
        self._tools = tools
        self._watching = watching
        self._numbers = count()

    async def complete(self, request: Request) -> Reply:
        streams = self._watching.streams and self.capabilities.streaming
        return await whole_reply(self.stream(request)) if streams else await super().complete(request)

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        number, tell = next(self._numbers), self._watching.on_event
        tell(events.RequestStarted(number, request))
        started = time.perf_counter()
        is_told = self._watching.streams and ask != self.ask_whole
        answer = _AnswerSoFar(request)
        try:
            async with contextlib.aclosing(ask(request)) as chunks:
                async for chunk in chunks:
                    if is_told and (chunk.text or chunk.call is not None):
                        tell(events.ReplyChunk(number, request, chunk))
                    if is_told and (added := answer.add(chunk)):
                        tell(events.AnswerChunk(number, added))
                    if chunk.reply is not None:
                        self._received(number, request, chunk.reply, started)
                    yield chunk
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            tell(events.RequestFailed(number, request, failure, time.perf_counter() - started))
            raise failure from failure.__cause__

    def _received(self, number: int, request: Request, reply: Reply, started: float) -> None:
        """Tell of a reply, and of what is wrong with it wherever its design notices that."""
        tell = self._watching.on_event
        tell(events.ReplyReceived(number, request, reply, time.perf_counter() - started))
        if request.codec is None:
            return
        try:
            move = request.codec.parse(reply)
        except WireError as error:
            tell(events.ReplyUnreadable(number, request, str(error)))
            return
        for call in self._watching.ids.coming(calls_in(move)):
            if problem := problem_of(call, self._tools):
                tell(events.CallInvalid(number, call, *problem))


class _AnswerSoFar:
    """The text of an answer in a reply that comes in pieces; empty where the codec does not say where it stands."""

    def __init__(self, request: Request) -> None:
        self._read: Callable[[str, dict[str, str]], str] | None = getattr(request.codec, "answer_so_far", None)
        self._text = self._answer = ""
        self._pieces: list[CallDelta] = []
        self._size = self._read_from = 0

    def add(self, chunk: Chunk) -> str:
        """Return what a piece of the reply adds to the answer."""
        if self._read is None:
            return ""
        self._text += chunk.text
        self._pieces += [] if chunk.call is None else [chunk.call]
        self._size += len(chunk.text) + (0 if chunk.call is None else len(chunk.call.arguments))
        if chunk.reply is None and self._size < self._read_from:
            return ""
        self._read_from = self._size + self._size // 64  # at each piece it would take time with the square of the length
        reply = chunk.reply or reply_of_pieces(self._text, self._pieces)
        answer, told = self._read(reply.text, {call.name: call.arguments for call in reply.calls}), self._answer
        if len(answer) <= len(told) or not answer.startswith(told):
            return ""
        self._answer = answer
        return answer[len(told) :]


class WatchedToolbox(ToolboxAround):
    """A toolbox whose calls and results are told."""

    def __init__(self, within: Toolbox, watching: RelayingObserver) -> None:
        super().__init__(within)
        self._watching = watching
        self._numbers = count()

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        named, number = self._watching.ids.named(call), next(self._numbers)
        self._watching.on_event(events.ToolStarted(number, named))
        seen = await self.within.call(named, validate=validate)
        with contextlib.suppress(RunFailed):  # raised again once the result is recorded: the tool has acted
            self._watching.on_event(events.ToolFinished(number, named, seen))
        return as_asked(seen, call)


def check_run(query: Any, tools: Any, model: Any, observer: Any) -> None:
    """Raise TypeError for what is no query, toolbox, model or observer.

    A model is told by its `complete` alone: the whole protocol takes longer to check, and each trial of a comparison comes here.
    """
    for name, given, kind in (("query", query, Query), ("tools", tools, Toolbox), ("observer", observer, Observer)):
        if not isinstance(given, kind):
            raise TypeError(f"{name}: {kind.__name__} is needed, not {named(given)}")
    if not hasattr(model, "complete") or isinstance(model, type):
        raise TypeError(f"model: Model is needed, not {named(model)}")


def named(value: Any) -> str:
    """Return what was given as an error line names it: a class by its name, anything else by that of its class."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


RunT = TypeVar("RunT", bound=Callable[..., Coroutine[Any, Any, Any]])
Run = Callable[[Query[Any], Toolbox, Model, Observer], Coroutine[Any, Any, Outcome[Any]]]


def has_boundary(run: RunT) -> RunT:
    """Mark a `run` that checks its arguments, tells events and knows a query's type and history by itself."""
    cast(Any, run).has_boundary = True
    return run


def refuse_approval(owner: type) -> None:
    """Raise TypeError for a class that asks for a person's approval by an attribute, which its runs would not wait for."""
    for name in ("needs_approval", "checkpoint"):
        if name in vars(owner) and not inspect.isroutine(vars(owner)[name]):
            raise TypeError(f"{owner.__name__}.{name} has no effect here: use Resumable(loop, Checkpoint(needs_approval=[…]))")


def bounded(run: RunT) -> RunT:
    """Decorate the `run` of a loop. Raises TypeError for arguments of other types."""

    @has_boundary
    @functools.wraps(run)
    async def entered(self: Any, query: Any, tools: Any, model: Any, observer: Observer = SILENT) -> Any:
        check_run(query, tools, model, observer)
        if observer.only_answers and query.answer_type is None and query.history is None and not takes_events(observer):
            return await run(self, query, tools, model, observer)
        if query.shows_images and not getattr(self, "takes_images", False):
            raise ValueError(f"query: {self.name} writes its prompts as text and shows no images; bare and finish do")
        return await watched(functools.partial(conversed, functools.partial(run, self)), query, tools, model, observer)

    return cast(RunT, entered)


def takes_events(observer: Observer) -> bool:
    """Return whether an observer is to be told of events; one that is told already by a loop around this one is not.

    Raises TypeError for one whose `on_event` is a coroutine function or a generator function: nobody would run it.
    """
    told = observer.on_event
    if inspect.iscoroutinefunction(told) or inspect.isasyncgenfunction(told) or inspect.isgeneratorfunction(told):
        raise TypeError(f"observer: {type(observer).__name__}.on_event must be a plain function; put events on a queue")
    return not isinstance(observer, RelayingObserver) and type(observer).on_event is not Observer.on_event


async def watched(run: Run, query: Query[Any], tools: Toolbox, model: Model, observer: Observer) -> Outcome[Any]:
    """Carry out a run, and tell the observer its events if it takes any."""
    if not takes_events(observer):
        return await run(query, tools, model, observer)
    ids = ids_of(observer, query)
    watching = RelayingObserver(observer, ids)
    watched_model = WatchedModel(model, tools, watching)
    outcome: Outcome[Any] | None = None
    error: BaseException | None = None
    started = time.perf_counter()
    try:
        with ids.failure.leaving():
            finished = await run(query, WatchedToolbox(tools, watching), watched_model, watching)
        outcome = finished
        return finished
    except BaseException as raised:  # a budget, a cancellation, a bug: told, and raised again
        error = raised
        raise
    finally:
        observer.on_event(events.RunEnded(outcome, error, time.perf_counter() - started))


async def conversed(run: Run, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer) -> Outcome[AnswerT]:
    """Carry out a run on a query that may have a type and earlier turns: the design gets neither, see `Query.for_design`."""
    ids = ids_of(observer, query)
    recorded, conversation = RecordedToolbox(tools, ids), ConversationModel(model, query.history or (), ids.failure)
    with ids.failure.leaving():
        inner_outcome = await run(query.for_design, recorded, conversation, RelayingObserver(observer, ids, only_answers=True))
    if inner_outcome.stop in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW) and conversation.failure is not None:
        inner_outcome = replace(inner_outcome, details={"exception": conversation.failure, **inner_outcome.details})
    outcome = answered(query, inner_outcome)
    if "error" in outcome.details:
        logger.info("the run ends as %s: %s", outcome.stop, outcome.details["error"])
    messages = messages_after(query, recorded.calls.values(), outcome, inner_outcome.answer, conversation.last_sent)
    return replace(outcome, messages=messages, usage=usage_of(conversation, recorded))


def run_of(loop: Loop) -> Run:
    """Return the run of any loop with a boundary around it, also that of a loop which has none of its own."""
    return loop.run if hasattr(loop.run, "has_boundary") else functools.partial(watched, functools.partial(conversed, loop.run))


async def run_events(
    loop: Loop, query: Query[AnswerT], tools: Toolbox, model: Model, *, streams: bool = False
) -> AsyncGenerator[EventOf[AnswerT], None]:
    """Run any loop, and yield what happens in it, with RunEnded as the last event.

    `streams`: pieces of replies, too. Raises what leaves the run, such as BudgetExceeded, after the last event, and TypeError for
    arguments of other types. The run is cancelled where the iteration is given up: close it with `contextlib.aclosing`.
    """
    check_run(query, tools, model, SILENT)
    queue = _EventQueue(streams)
    running = asyncio.create_task(run_of(loop)(query, tools, model, queue))
    running.add_done_callback(lambda _: queue.events.put_nowait(None))
    try:
        while (event := await queue.events.get()) is not None:
            yield cast("EventOf[AnswerT]", event)
        await running
    finally:
        await stop_tasks((running,))  # what the run raised was raised above


class _EventQueue(Observer):
    """Puts events where an iteration takes them from."""

    def __init__(self, streams: bool) -> None:
        self.streams = streams
        self.events: asyncio.Queue[RunEvent | None] = asyncio.Queue()

    def on_event(self, event: RunEvent) -> None:
        self.events.put_nowait(event)


# --- typed answers ---


def answered(query: Query[AnswerT], outcome: Outcome[Any]) -> Outcome[AnswerT]:
    """Return the outcome with an instance of the query's type for its answer.

    What the type refuses is no answer: the run then ends as `parse_failed`, and `details["answer"]` keeps what was answered. There,
    too, stand a design's own words for having no answer; its stop stays.
    """
    if query.answer_type is None:
        return outcome
    if outcome.answer is None:
        answered_null = outcome.stop in (StopReason.FINISHED, StopReason.FORCED) and query.takes_null
        return replace(outcome, is_null=True) if answered_null else outcome
    if not outcome.gave_up:
        try:
            answer = query.answer_type.read(outcome.answer)
            return replace(outcome, answer=answer, is_null=answer is None)
        except ValueError as error:
            outcome = replace(outcome, stop=StopReason.PARSE_FAILED, details={**outcome.details, "error": str(error)})
    return replace(outcome, answer=cast(AnswerT, None), details={**outcome.details, "answer": outcome.answer})


# --- the arguments of a call as its tool gets them ---


def problem_of(call: ToolCall, tools: Toolbox) -> tuple[str, str] | None:
    """Return why a call cannot be made, the error's type and its text; None if it can."""
    tool = tools.get(call.name)
    if tool is None:
        return "UnknownTool", f"there is no tool {call.name!r}"
    try:
        if tool.arguments is not None:
            tool.arguments.check(call.arguments)
    except ToolArgumentError as error:
        return "InvalidArguments", str(error)
    return None


def received_values(call: ToolCall, tools: Toolbox) -> dict[str, Any]:
    """Return a copy of the arguments as the tool's function gets them: converted to its types, with its defaults.

    Raises what a value of the model's or a user's type raises that cannot be read.
    """
    tool = tools.get(call.name)
    copies = {name: own_copy(value) for name, value in dict(call.arguments).items()}
    if tool is None or tool.arguments is None:
        return copies
    try:
        args, kwargs = tool.arguments.bind(copies)
    except ToolArgumentError:
        args, kwargs = tool.arguments.bind_unchecked(copies)
    signature = inspect.signature(tool.function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    received: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        received.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return received
