"""A trace: what a recorder wrote is read, and written again byte for byte; what is not a trace is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from whichloop.datasets.task import Suite
from whichloop.metrics.trace import ModelExchange, Note, RequestError, ToolRun, Trace, TracedCall, TraceError
from whichloop.models.profiles import built_in_profiles
from whichloop.protocol import Message
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.names import Spec
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.trial.trial import FinishedTrial

RunTrial = Callable[..., FinishedTrial]


@pytest.fixture(scope="module")
def suites() -> list[Suite]:
    return [make_suite(Spec(name, {})) for name in ("arithmetic", "ecommerce")]


def written(trace: Trace) -> bytes:
    return f"{json.dumps(trace.to_json(), separators=(',', ':'))}\n".encode("ascii")


WRITERS = [
    (profile, loop)
    for profile in built_in_profiles()
    for loop in ("bare", "finish", "phased", "react_extract", "stateless")
    if loop != "phased" or not profile.startswith("measured-")  # which need to know in which form a loop has its calls written
]


@pytest.mark.parametrize(
    ("profile", "loop", "place"),
    [pytest.param(*writer, place, marks=pytest.mark.slow if place % 3 else ()) for place, writer in enumerate(WRITERS)],
)
def test_what_a_trial_wrote_is_written_again_byte_for_byte(
    one_trial: RunTrial, suites: list[Suite], loop: str, profile: str, place: int
) -> None:
    """Each loop under each profile, on the suites in turn; without the slow tests, a third of them, in which each has its part."""
    line = one_trial(make_loop(Spec(loop, {})), suites[place % len(suites)], profile=profile).trace
    assert line is not None
    trace = Trace.from_json(json.loads(line))
    assert written(trace) == line
    numbers = [event.number for event in trace.events if isinstance(event, ModelExchange)]
    assert numbers == list(range(1, len(numbers) + 1))


EVENTS = (
    ModelExchange(
        "select",
        same=1,
        messages=(Message("user", "q"), Message("assistant", "", (NativeCall("1", "f", "{"),)), Message("tool", "4", (), "1")),
        scope="c1",
        tool_choice="required",
        illegible=("0123ab.4567",),
        fault="wire.truncated",
        seconds=0.25,
        failed_attempts=("server", "timeout"),
        reply="",
        native_calls=(NativeCall("2", "f", '{"x": 1}'),),
        tokens=(10, 2),
        move={"move": "act", "thought": "", "calls": [{"name": "f", "arguments": {"x": 1}}]},
        number=1,
    ),
    ToolRun(TracedCall("f", {"x": 1}), "error", "no", error_type="KeyError", fault="tool.raises"),
    ModelExchange("decide", reply="{", tokens=(1, 1), wire_error="", number=2),
    ModelExchange("decide", error=RequestError("provider.server", "500"), number=3),
    Note("phase", {"round": 1}),
)


def test_every_field_is_kept() -> None:
    head = replace(Trace.from_json({"events": []}).head, arm="a", task="t", answer=[1], stop="finished", end_state={"found": {}})
    trace = Trace(head, EVENTS)
    assert Trace.from_json(json.loads(written(trace))) == trace
    assert list(trace.events[0].to_json()) == [
        *("event", "role", "scope", "same", "messages", "tool_choice", "illegible", "fault", "seconds"),
        *("failed_attempts", "reply", "calls", "tokens", "move"),
    ]


def test_what_an_exchange_says() -> None:
    act, unreadable, failed = (event for event in EVENTS if isinstance(event, ModelExchange))
    assert (act.move_kind, act.calls, act.value) == ("act", (TracedCall("f", {"x": 1}),), None)
    assert act.texts == ("q", "\nf {", "4")
    assert act.reply_text == 'f {"x": 1}'
    assert (unreadable.move_kind, unreadable.calls, unreadable.reply_text) == ("", (), "{")
    assert (failed.reply, failed.reply_text) == (None, "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("role", None), ("messages", [{"content": ""}]), ("messages", [{"role": "user", "tool_calls": [{"id": "1"}]}])],
        *[("messages", [{"role": "boss"}]), ("messages", [{"role": "user"}, 3]), ("messages", [3, {"role": "user"}])],
        *[("calls", [{"name": "f"}]), ("calls", [3]), ("tokens", [1]), ("tokens", [1, -1]), ("tokens", [0.5, 1])],
        *[("seconds", wrong) for wrong in ("1", True, -1, float("nan"), 10**400)],
        *[("failed_attempts", [1]), ("illegible", ["a.b", 3]), ("wire_error", 1), ("error", {"message": ""})],
        *[("move", {"thought": ""}), ("move", {"move": "act"}), ("move", {"move": "act", "calls": [3]})],
        ("move", {"move": "act", "calls": [{"arguments": {}}]}),
    ],
)
def test_a_wrong_field_is_refused_in_one_line(field: str, value: Any) -> None:
    event = copy.deepcopy(EVENTS[0].to_json())
    event[field] = value
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
