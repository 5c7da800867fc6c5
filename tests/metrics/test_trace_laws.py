"""A trace: any one is read back byte for byte, and what is none is refused; what its parts say follows from their fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.task import Suite
from whichloop.metrics.record import MAX_COUNT
from whichloop.metrics.trace import (
    GARBAGE,
    UNTOLD,
    ModelExchange,
    Note,
    RequestError,
    ToolRun,
    Trace,
    TracedCall,
    TraceError,
    TraceEvent,
    TraceHead,
)
from whichloop.models.profiles import built_in_profiles
from whichloop.models.receipts import Ledger, call_digest
from whichloop.protocol import Message
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.names import Spec
from whichloop.protocol.tool_calls import NEVER_RAN
from whichloop.protocol.values import canonical
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.trial.trial import FinishedTrial


@pytest.fixture(scope="module")
def suites() -> list[Suite]:
    return [make_suite(Spec(name, {})) for name in ("arithmetic", "ecommerce")]


LOOPS = ("bare", "finish", "react_extract", "stateless")
WRITERS = [*zip(built_in_profiles(), cycle(LOOPS)), ("flaky-format", "phased"), ("bad-network", "phased")]


@pytest.mark.parametrize(("profile", "loop"), WRITERS)
def test_what_a_trial_wrote_is_written_again_byte_for_byte(
    one_trial: Callable[..., FinishedTrial], suites: list[Suite], loop: str, profile: str
) -> None:
    line = one_trial(make_loop(Spec(loop, {})), suites[len(profile) % 2], profile=profile).trace
    assert line is not None
    trace = Trace.from_json(json.loads(line))
    assert f"{json.dumps(trace.to_json(), separators=(',', ':'))}\n".encode("ascii") == line
    numbers = [event.number for event in trace.events if isinstance(event, ModelExchange)]
    assert numbers == list(range(1, len(numbers) + 1))


TEXT = st.text(max_size=4)
COUNT = st.sampled_from([0, 1, 7, MAX_COUNT])
SECONDS = st.sampled_from([0.0, 0.25, float(MAX_COUNT)])
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=2)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
NATIVE = st.lists(st.builds(NativeCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)
MESSAGE = st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXT, NATIVE) | st.builds(
    lambda text, call: Message("tool", text, (), call), TEXT, st.text(min_size=1, max_size=4)
)
CALLS = st.lists(st.fixed_dictionaries({"name": TEXT, "arguments": VALUE}), max_size=2)
MOVE = st.fixed_dictionaries({"move": st.just("act"), "calls": CALLS}) | st.fixed_dictionaries(
    {"move": st.sampled_from(["answer", "text"]), "value": VALUE}
)
EXCHANGE = st.builds(
    ModelExchange,
    TEXT,
    TEXT,
    COUNT,
    st.lists(MESSAGE, max_size=2).map(tuple),
    st.none() | TEXT,
    TEXTS,
    TEXT,
    SECONDS,
    TEXTS,
    st.none() | TEXT,
    NATIVE,
    st.none() | st.tuples(COUNT, COUNT),
    st.none() | TEXT,
    st.none() | MOVE,
    st.none() | st.builds(RequestError, TEXT, TEXT),
)
STATUS = st.sampled_from(["success", "error", UNTOLD, ""])
RUN = st.builds(
    ToolRun,
    st.builds(TracedCall, TEXT, VALUE),
    STATUS,
    TEXT,
    st.none() | st.sampled_from([*sorted(NEVER_RAN), "KeyError"]),
    st.sampled_from(["", GARBAGE, "tool.raises"]),
)
NOTE = st.builds(Note, TEXT, st.dictionaries(TEXT.filter(lambda name: name not in ("event", "kind")), VALUE, max_size=2))
HEAD = st.builds(
    TraceHead,
    TEXT,
    TEXT,
    COUNT,
    TEXT,
    VALUE,
    st.none() | OBJECT,
    VALUE,
    st.none() | TEXT,
    TEXT,
    TEXT,
    st.dictionaries(TEXT, st.floats(0, 1), max_size=2),
    VALUE,
    TEXTS,
)


def numbered(events: list[TraceEvent]) -> tuple[TraceEvent, ...]:
    """The events with their requests counted, as they are read."""
    made: list[TraceEvent] = []
    requests = 0
    for event in events:
        requests += isinstance(event, ModelExchange)
        made.append(replace(event, number=requests) if isinstance(event, ModelExchange) else event)
    return tuple(made)


TRACE = st.builds(Trace, HEAD, st.lists(EXCHANGE | RUN | NOTE, max_size=4).map(numbered))


def read(data: Any) -> Trace:
    return Trace.from_json(json.loads(json.dumps(data)))


@settings(max_examples=cases(60))
@given(trace=TRACE)
def test_any_trace_is_read_back_and_what_is_not_known_is_left_out(trace: Trace) -> None:
    written = trace.to_json()
    again = read(written)
    assert again == trace
    assert [getattr(event, "number", 0) for event in again.events] == [getattr(event, "number", 0) for event in trace.events]
    assert again.to_json() == written
    assert ("untold" in written, "end_state" in written) == (trace.head.untold != (), trace.head.end_state is not None)
    assert list(written)[:2] == ["arm", "task"]


@given(kind=TEXT, data=OBJECT, says=TEXT)
def test_a_note_that_calls_itself_something_else_stays_the_note_that_it_is(kind: str, data: dict[str, Any], says: str) -> None:
    made = Note(kind, {**data, "event": says, "kind": says}).to_json()
    assert (made["event"], made["kind"]) == ("note", kind)


def test_an_event_of_another_version_is_a_note_of_its_name() -> None:
    assert read({"events": [{"event": "pause", "kind": "x", "seconds": 3}]}).events == (Note("pause", {"seconds": 3}),)


@example(ToolRun(TracedCall("f", {}), UNTOLD, "4"))
@given(run=RUN)
def test_what_a_tools_run_says_follows_from_its_fields(run: ToolRun) -> None:
    assert run.ok == (run.status in ("success", "untold"))
    assert run.never_ran == (run.error_type in ("UnknownTool", "InvalidArguments"))
    assert run.gave_result == (run.ok and run.fault != "tool.garbage")
    assert replace(run, data="4").result == "4"


def test_a_result_has_no_receipt() -> None:
    entry = Ledger().sign(call_digest("f", {}), "4", 4, True)
    assert ToolRun(TracedCall("f", {}), "success", entry.around("4")).result == "4" != entry.around("4")


@given(one=st.tuples(TEXT, OBJECT), other=st.tuples(TEXT, OBJECT))
def test_calls_have_one_key_if_they_are_equal(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    same = canonical(one[1]) == canonical(other[1])
    assert (TracedCall(*one).key == TracedCall(*other).key) == (one[0] == other[0] and same)
    assert TracedCall(one[0], dict(reversed(one[1].items()))).key == TracedCall(*one).key
    assert TracedCall(one[0], one[1]).key != TracedCall(f"{one[0]}x", one[1]).key


def test_what_json_cannot_say_has_a_key_too() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for strange in (float("nan"), {1, 2}, circle):
        assert TracedCall("f", strange).key == TracedCall("f", strange).key


SILENT = Trace(TraceHead(), (ModelExchange("decide", messages=(Message("user", ""),), reply=""),))


@pytest.mark.parametrize(
    "told",
    [
        replace(SILENT, head=TraceHead(query="What?")),
        replace(SILENT, head=TraceHead(answer=0)),
        *(
            replace(SILENT, events=(*SILENT.events, event))
            for event in (
                ModelExchange("decide", reply="4"),
                ModelExchange("decide", messages=(Message("user", "What?"),)),
                ModelExchange("decide", wire_error="no JSON"),
                ModelExchange("decide", error=RequestError("server", "")),
                ModelExchange("decide", native_calls=(NativeCall("1", "f", "{}"),)),
                ToolRun(TracedCall("f", {}), "success", ""),
                Note("phase"),
            )
        ),
    ],
)
def test_any_single_thing_that_is_told_is_content(told: Trace) -> None:
    assert SILENT.lacks_content
    assert not told.lacks_content
    assert not replace(told, events=()).lacks_content


COUNTS = [
    ("same", "event", lambda count: count),
    ("seconds", "event", lambda count: count),
    ("tokens", "event", lambda count: [count, 0]),
    ("tokens", "event", lambda count: [0, count]),
    ("repeat", "head", lambda count: count),
]


@pytest.mark.parametrize(("name", "where", "put"), COUNTS)
@pytest.mark.parametrize(("count", "fits"), [(-1, False), (0, True), (MAX_COUNT, True), (MAX_COUNT + 1, False), (True, False)])
def test_a_count_is_from_0_to_its_bound_and_both_are_counts(name: str, where: str, put: Any, count: Any, fits: bool) -> None:
    event = ModelExchange("decide").to_json()
    data = {"events": [event]} | ({name: put(count)} if where == "head" else {})
    event |= {name: put(count)} if where == "event" else {}
    if fits:
        trace = read(data)
        found = getattr(trace.head if where == "head" else trace.events[0], name)
        assert (list(found) if name == "tokens" else found) == put(count)
    else:
        with pytest.raises(TraceError, match=name):
            read(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("role", None), ("messages", [{"content": ""}]), ("messages", [{"role": "user", "tool_calls": [{"id": "1"}]}])],
        *[("messages", [{"role": "boss"}]), ("messages", [{"role": "user"}, 3]), ("calls", [{"name": "f"}]), ("calls", [3])],
        *[("tokens", wrong) for wrong in ([1], [1, -1], [0.5, 1])],
        *[("seconds", wrong) for wrong in ("1", True, -1, float("nan"), 10**400)],
        *[("failed_attempts", [1]), ("illegible", ["a.b", 3]), ("wire_error", 1), ("error", {"message": ""})],
        *[("move", {"thought": ""}), ("move", {"move": "act"}), ("move", {"move": "act", "calls": [3]})],
        ("move", {"move": "act", "calls": [{"arguments": {}}]}),
    ],
)
def test_a_wrong_field_is_refused_in_one_line(field: str, value: Any) -> None:
    event = ModelExchange("decide", reply="{", tokens=(1, 1)).to_json() | {field: value}
    where = "name of a call|Input should" if field == "move" else field
    with pytest.raises(TraceError, match=f"^event 0 of the trace: ({where}).*$"):
        Trace.from_json({"events": [event]})


@pytest.mark.parametrize("found", [None, [], "trace", {"events": None}])
def test_what_is_not_an_object_with_events_is_refused(found: Any) -> None:
    with pytest.raises(TraceError, match="the trace has no list of events"):
        Trace.from_json(found)


@pytest.mark.parametrize(("name", "value"), [("arm", []), ("repeat", -1), ("scores", []), ("untold", "wire"), ("end_state", 3)])
def test_a_wrong_head_is_named(name: str, value: Any) -> None:
    with pytest.raises(TraceError, match=f"^the trace's {name}: .*$"):
        Trace.from_json({"events": [], name: value})


@pytest.mark.parametrize("name", ["role", "tool", "status"])
def test_an_event_that_lacks_a_field_is_refused_with_its_name(name: str) -> None:
    event = (ModelExchange("decide") if name == "role" else ToolRun(TracedCall("f", {}), "success", "4")).to_json()
    del event[name]
    with pytest.raises(TraceError, match=f"^event 0 of the trace: {name}"):
        read({"events": [event]})


def test_a_move_without_fields_is_none_and_one_of_an_act_is_read_with_its_event() -> None:
    (event,) = read({"events": [ModelExchange("decide").to_json() | {"move": {}}]}).events
    assert isinstance(event, ModelExchange)
    assert (event.move_kind, event.calls, event.value) == ("", (), None)
    answer = ModelExchange("decide", move={"move": "answer", "value": 4})
    assert (answer.value, answer.calls, answer.move_kind) == (4, (), "answer")


@given(event=EXCHANGE)
def test_the_text_of_a_reply_is_its_own_and_its_calls_a_line_each(event: ModelExchange) -> None:
    calls = "\n".join(f"{call.name} {call.arguments}" for call in event.native_calls)
    own = event.reply or ""
    assert event.reply_text == (f"{own}\n{calls}" if calls else own).strip("\n")
    assert replace(event, reply="").reply_text == calls.strip("\n")
    assert event.texts == tuple(
        "\n".join([message.content, *(f"{call.name} {call.arguments}" for call in message.calls)]) for message in event.messages
    )
