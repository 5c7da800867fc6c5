"""Events: what an observer is told of a run is what the trace of a trial has, for every design and whatever strikes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.loops.helpers import Heard
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops import Bare, BudgetExceeded, Finish, ProviderRetry
from whichloop.loops.shared import boundary
from whichloop.loops.shared.boundary import run_events, takes_events
from whichloop.metrics.record import records_digest
from whichloop.metrics.trace import ModelExchange, Note, ToolRun
from whichloop.models.fake import FakeModel
from whichloop.protocol import SILENT, Loop, Observer, Outcome, Query, Reply, RunEvent, StopReason, Toolbox, ToolCall, run_sync
from whichloop.protocol.events import (
    CallInvalid,
    LoopNote,
    ReplyChunk,
    ReplyReceived,
    ReplyUnreadable,
    RequestFailed,
    RequestStarted,
    RunEnded,
    ToolFinished,
    ToolStarted,
)
from whichloop.protocol.model import Model, ProviderError
from whichloop.protocol.moves import Act, Answer
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import find
from whichloop.runs.store.trials import read_records
from whichloop.runs.trial import trial
from whichloop.runs.trial.recorder import NoteTaker, Recorder

LOOPS = [
    *("bare", "finish(parallel_tools=true)", "phased", "react_extract", "stateless(execution_mode=parallel)"),
    *("provider_retry(loop=finish)", "guarded(loop=bare, tools=needed, writes=confirmed)", "repeat_guard(loop=phased, stop_at=3)"),
    "microcompact(loop=finish)",
]
PROFILES = ("flaky-format", "flaky-tools", "bad-network")
TASKS = 1


class Told(NoteTaker):
    """A trial's observer that takes events, too, every second one in pieces; all that were made."""

    made: ClassVar[list[Told]] = []

    def __init__(self, take: Any) -> None:
        super().__init__(take)
        self.recorder: Recorder = take.__self__
        self.told: list[RunEvent] = []
        if len(Told.made) % 2:
            self.streams = True
        Told.made.append(self)

    def on_event(self, event: RunEvent) -> None:
        self.told.append(event)


def compared(folder: Path) -> str:
    config = CompareConfig(loops=tuple(LOOPS), profiles=PROFILES, tasks=TASKS, mlflow=False, runs=folder)
    experiment = prepare(config)
    run(experiment, Unwatched())
    return records_digest(read_records(experiment.folder))


def traced(recorder: Recorder) -> list[tuple[Any, ...]]:
    """What a trace tells, in its order."""
    lines: list[tuple[Any, ...]] = []
    for event in recorder.events:
        if isinstance(event, ModelExchange):
            lines.append(("request", event.role, event.reply, None if event.error is None else event.error.message))
            lines += [("unreadable", event.wire_error)] if event.wire_error else []
        elif isinstance(event, ToolRun):
            lines.append(("tool", event.call.tool, event.call.arguments, event.status, event.data, event.error_type))
        elif isinstance(event, Note):
            lines.append(("note", event.kind))
    return lines


def told(events: list[RunEvent]) -> list[tuple[Any, ...]]:
    """The same, as events tell it."""
    lines: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case ReplyReceived(request=request, reply=reply):
                lines.append(("request", request.role.value, reply.text, None))
            case RequestFailed(request=request, error=error):
                lines.append(("request", request.role.value, None, str(error)))
            case ReplyUnreadable(error=problem):
                lines.append(("unreadable", problem))
            case ToolFinished(call=call, observation=seen):
                lines.append(("tool", call.name, call.arguments, seen.status, seen.data, seen.error_type))
            case LoopNote(kind=kind):
                lines.append(("note", kind))
    return lines


def test_events_are_those_of_the_trace_and_change_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = compared(tmp_path / "plain")  # of trials that take no events
    monkeypatch.setattr(trial, "NoteTaker", Told)
    monkeypatch.setattr(Told, "made", [])
    assert compared(tmp_path) == digest
    assert len(Told.made) == len(LOOPS) * len(PROFILES) * TASKS
    kinds: set[str] = set()
    for place, observer in enumerate(Told.made):
        events, recorder = observer.told, observer.recorder
        assert told(events) == traced(recorder)
        refused = [event.error_type for event in events if isinstance(event, CallInvalid)]
        assert refused.count("UnknownTool") == recorder.errors["call.unknown_tool"]
        assert refused.count("InvalidArguments") == recorder.errors["call.invalid_arguments"]
        assert [isinstance(event, RunEnded) for event in events] == [False] * (len(events) - 1) + [True]
        in_order(events, RequestStarted, (ReplyReceived, RequestFailed))
        in_order(events, ToolStarted, (ToolFinished,))
        assert pieces_make_the_replies(events) == bool(place % 2)
        for event in events:
            assert json.loads(json.dumps(event.as_dict()))["event"] == event.name
            kinds.add(event.name)
    assert kinds >= {"reply_unreadable", "request_failed", "call_invalid", "tool_finished", "loop_note"}


def in_order(events: list[RunEvent], start: type[Any], ends: tuple[type[Any], ...]) -> None:
    """Starts are numbered from 0, and no end comes without its start, or twice."""
    open_numbers: set[int] = set()
    starts = 0
    for event in events:
        if isinstance(event, start):
            assert event.number == starts
            open_numbers.add(event.number)
            starts += 1
        elif isinstance(event, ends):
            open_numbers.remove(event.number)


def pieces_make_the_replies(events: list[RunEvent]) -> bool:
    """Whether there are pieces; those of a request are its reply."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ReplyChunk):
            texts[event.number] = texts.get(event.number, "") + event.chunk.text
        elif isinstance(event, ReplyReceived) and texts:
            assert texts[event.number] == event.reply.text
    return bool(texts)


def price(item: str) -> float:
    """What an item costs."""
    return {"tea": 1.5}[item]


TOOLS = Toolbox([price])


def test_a_run_without_an_observer_of_events_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "WatchedModel", None)
    monkeypatch.setattr(boundary, "WatchedToolbox", None)

    class Noting(Observer):
        def note(self, kind: str, **data: Any) -> None: ...

    for observer in (SILENT, Noting()):
        assert not takes_events(observer)
        ended = Bare().run_sync(Query("How much?"), TOOLS, FakeModel(then=ProviderError("down", "auth")), observer)
        assert ended.stop is StopReason.PROVIDER_ERROR


def collected(loop: Loop, model: Model, tools: Toolbox = TOOLS, **how: Any) -> tuple[list[RunEvent], BaseException | None]:
    """The events of a run, and what it raised."""
    events: list[RunEvent] = []

    async def listen() -> BaseException | None:
        try:
            async for event in run_events(loop, Query("How much?"), tools, model, **how):
                events.append(event)
        except Exception as error:
            return error
        return None

    return events, run_sync(listen())


class Mine:
    """A loop of a user's own, which knows of no events."""

    name = "mine"
    stops = frozenset({StopReason.FINISHED})

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        observer.note("began", of=query.text)
        seen = await tools.call(ToolCall("price", {"item": "tea"}))
        return Outcome(seen.data, StopReason.FINISHED, 1)

    def with_step_limit(self, tool_steps: int) -> Mine:
        return self


def test_every_built_in_loop_is_bounded() -> None:
    for name in builtin_names("loop"):
        assert hasattr(vars(find("loop", name))["run"], "__wrapped__"), name


def test_a_loop_of_ones_own_is_watched_too_also_within_a_wrapper() -> None:
    names = ["loop_note", "tool_started", "tool_finished", "run_ended"]
    assert [event.name for event in collected(Mine(), FakeModel())[0]] == names
    listening = Heard()
    assert ProviderRetry(Mine()).run_sync(Query("How much?"), TOOLS, FakeModel(), listening).answer == "1.5"
    assert [event.name for event in listening.events] == names


@pytest.mark.parametrize("raised", [BudgetExceeded("used up"), ZeroDivisionError("a bug")])
def test_what_leaves_the_run_is_told_and_raised(raised: Exception) -> None:
    class Raising(FakeModel):
        async def complete(self, request: Any) -> Reply:
            raise raised

    events, error = collected(Bare(), Raising())
    assert error is raised
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].outcome, events[-1].error) == (None, raised)
    assert events[-1].as_dict()["error"] == f"{type(raised).__name__}: {raised}"


def test_a_reader_that_goes_away_ends_the_run() -> None:
    ended = []

    async def wait(item: str) -> float:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)
        return 1.0

    async def leave() -> None:
        model = FakeModel(Act("Look.", (ToolCall("wait", {"item": "tea"}),)))
        async with contextlib.aclosing(run_events(Bare(), Query("How much?"), Toolbox([wait]), model)) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    await asyncio.sleep(0)
                    break

    run_sync(leave())
    assert ended == ["tea"]


@pytest.mark.parametrize(("loop", "refused"), [(Bare(), False), (Bare(check_types=True), True), (Finish(max_steps=3), True)])
def test_a_call_that_does_not_fit_says_whether_it_ran(loop: Loop, refused: bool) -> None:
    ran: list[Any] = []

    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    observer = Heard()
    model = FakeModel(Act("Pay.", (ToolCall("pay", {"amount": "all of it"}),)), *[Answer("", "done")] * 2)
    run_sync(loop.run(Query("Pay."), Toolbox([pay]), model, observer))
    (invalid,) = [event for event in observer.events if isinstance(event, CallInvalid)]
    (finished,) = [event for event in observer.events if isinstance(event, ToolFinished)]
    assert invalid.error_type == "InvalidArguments"
    assert (finished.observation.ran, finished.as_dict()["ran"], ran) == (
        not refused,
        not refused,
        [] if refused else ["all of it"],
    )


def test_a_run_that_failed_always_says_why() -> None:
    def broken(item: str) -> float:
        raise RuntimeError("no database")

    model = FakeModel(*[Act("Look.", (ToolCall("broken", {"item": "tea"}),))] * 3)
    outcome = run_sync(Bare().run(Query("How much?"), Toolbox([broken]), model))
    assert (outcome.stop, outcome.error) == (StopReason.ERROR_VALVE, "too many errors in a row")
    assert "error='too many errors in a row'" in repr(outcome)
