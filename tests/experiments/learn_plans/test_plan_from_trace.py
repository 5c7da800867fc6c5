"""A plan out of a trace: laws over traces made up, then each rule by example."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.learn_plans.helpers import Card, learned, slow, suite_of
from tests.kept import put
from whichloop.datasets.task import Task
from whichloop.experiments.learn_plans.learn import result_kind, write_suite
from whichloop.experiments.learn_plans.plan_from_trace import Kind, Unlearnable, draft_of, plan_of, successful_calls
from whichloop.metrics.trace import Trace, TraceError, TraceEvent
from whichloop.protocol import Plan, Query, Ref, Tool
from whichloop.protocol.json_text import canonical_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("$ref"), inner, max_size=3),
    max_leaves=8,
)

results_ = (
    st.text(max_size=20)
    | json_values.map(lambda value: json.dumps(value, ensure_ascii=False))
    | st.just("x... (truncated, 99 characters in all)")
)

tool_events = st.fixed_dictionaries(
    {
        "event": st.just("tool"),
        "tool": st.sampled_from(["search", "Step 1: call search.", '"', ""]),
        "arguments": st.dictionaries(st.text(max_size=5), json_values, max_size=3),
        "status": st.sampled_from(["success", "success", "error"]),
        "data": results_,
    },
    optional={"fault": st.sampled_from(["tool.slow", "tool.lies", "tool.huge"])},
)

ASK = {"event": "ask", "role": "decide", "messages": []}

half_events = st.dictionaries(
    st.sampled_from(["event", "status", "tool", "arguments", "data"]), json_values | st.sampled_from(["tool", "success"])
)

events = st.lists(tool_events | half_events | st.just(ASK) | st.just(7), max_size=8)
questions = st.text(max_size=30) | st.just("Step 1: call search. Step 1 of plan 1. 7 and 12")


@settings(max_examples=cases(40), deadline=None)
@given(events=events, question=questions, any_order=st.booleans(), kind=st.sampled_from(["json", "text", "other"]))
def test_any_trace_gives_a_plan_with_goals_that_tell_it_apart_or_a_reason_why_not(events, question, any_order, kind: Kind):
    query = Query(question, question)
    try:
        made = successful_calls(read_events(*events))
    except (TraceError, Unlearnable):
        return
    draft = draft_of(made, query, {"search": kind}, any_order=any_order)
    plan = plan_of(draft.steps, 1, query)
    assert len({canonical_json([call.tool, call.arguments]) for call in made}) == len(made) == len(plan.calls)
    goals = [call.goal for call in plan.calls]
    for one, other in itertools.permutations(goals, 2):
        assert one not in other
    assert not any(goal in question for goal in goals)
    for call, was in zip(plan.calls, made, strict=True):
        assert call.tool == was.tool
        assert not (any_order and call.after)
        draft = draft.with_literals(call.id)
    assert [dict(step.arguments) for step in draft.steps] == [dict(call.arguments) for call in made]


@settings(slow, max_examples=cases(20))
@given(events=st.lists(tool_events | st.just(ASK), max_size=5), answer=json_values, check=st.booleans(), torn=st.booleans())
def test_no_trace_can_stop_a_suite_from_being_learned(tmp_path_factory, record, events, answer, check, torn):
    folder = tmp_path_factory.mktemp("any")
    trace = json.dumps({"arm": "a", "task": "t0", "repeat": 0, "events": events})[: 20 if torn else None].encode()
    put(folder, [record(task="t0", answer=answer, tool_calls=1)], [trace])
    suite = suite_of([(Plan((), 1), answer), (Plan((), 1), 1)])
    found = learned(folder, suite, check=check)
    assert set(found.not_learned) | {lesson.task for lesson in found.lessons} == {"t0", "t1"}
    assert found.not_learned["t1"] == f"not run in {folder.name}; it keeps the plan that it had"
    json.dumps(found.as_dict(), allow_nan=False)
    if found.lessons:
        write_suite(found, folder / "suite.jsonl")
        assert [Task.from_dict(json.loads(line)) for line in (folder / "suite.jsonl").read_text().splitlines()] == list(found.tasks)


def read_events(*events: Any) -> tuple[TraceEvent, ...]:
    return Trace.from_json({"events": list(events)}).events


def event(tool: str, data: Any, /, status: str = "success", **arguments: Any) -> dict[str, Any]:
    text = data if isinstance(data, str) else json.dumps(data)
    return {"event": "tool", "tool": tool, "arguments": arguments, "status": status, "data": text}


FOUND = {"items": [{"id": "item-17", "price": 1250}, {"id": "item-99", "price": 80}], "total": 2}


def draft(*events: Mapping[str, Any], question: str = "What does it cost?", any_order: bool = False, **kinds: Kind):
    return draft_of(successful_calls(read_events(*events)), Query(question), kinds, any_order=any_order)


def last(*events: Mapping[str, Any], **more: Any) -> Any:
    """Arguments of the last call, and which values of it were kept, though results have them."""
    made = draft(*events, **more)
    return dict(made.steps[-1].arguments), [kept.argument for kept in made.fixed_values if kept.call == made.steps[-1].id]


def test_a_value_that_a_result_only_repeats_from_its_arguments_came_from_where_it_stood_first():
    details = event("details", {"id": "item-17", "stock": 40}, id="item-17")
    arguments, _ = last(ASK, event("find", FOUND), ASK, details, ASK, event("book", "ok", id="item-17", count=40))
    assert arguments == {"id": Ref("c1", ("items", 0, "id")), "count": Ref("c2", ("stock",))}


def typed(annotation: Any) -> Tool:
    def tool():
        """A tool."""

    tool.__annotations__["return"] = annotation
    return Tool.from_function(tool)


class Line(TypedDict):
    text: str


class Pair(NamedTuple):
    first: str
    second: int


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (dict[str, int], "json"), (int, "json"), (dict | None, "json"), ("NowhereDefined", "json"), (str, "text"), (Card, "other"),
        (set[str], "other"), (tuple[str, ...], "json"), (Line, "json"), (Pair, "json"), (str | None, "json"),
        (Literal["a", "b"], "text"), (Annotated[list[Card], "all"], "other"), (dict[int, str], "other"), (Colour, "other"),
    ],
)  # fmt: skip
def test_what_a_tool_gives_is_read_off_its_return_type(annotation, kind):
    assert result_kind(typed(annotation)) == kind


def test_a_value_in_one_place_becomes_a_reference_at_any_depth_and_a_scalar_is_referred_to_as_a_whole():
    use = event("use", "ok", filter={"ids": ["item-17", "item-99"], "most": 1250.0}, note="mine")
    arguments, kept = last(ASK, event("find", FOUND, text="a"), ASK, use)
    expected = {"ids": [Ref("c1", ("items", 0, "id")), Ref("c1", ("items", 1, "id"))], "most": Ref("c1", ("items", 0, "price"))}
    assert (arguments, kept) == ({"filter": expected, "note": "mine"}, [])
    assert last(ASK, event("a", "4711"), ASK, event("b", "ok", n=4711))[0] == {"n": Ref("c1")}
    assert last(ASK, event("a", "plain text"), ASK, event("b", "ok", n="plain text"))[0] == {"n": Ref("c1")}


LITERAL: list[tuple[Any, Any, str]] = [
    ({"a": "item-17", "b": "item-17"}, "item-17", "Which?"),
    ({"a": "item-17"}, "item-17", "What of Item-17?"),
    ({"a": 1250}, 1250, "Is it 1,250 in all?"),
    ({"a": 1250}, 1250, "Less than $1250."),
    *(({"a": value}, plain, "Which?") for value, plain in ((7, 7), (7.0, 7), ("DE", "DE"))),
]
INSIDE: list[tuple[Any, Any]] = [
    ("The order 4711 is late.", 4711), ("The order A-4711 is late.", "A-4711"), ({"A-4711": 1}, "A-4711"), ({"a": 4711}, "4711"),
]  # fmt: skip


def test_what_is_ambiguous_or_common_stays_literal_and_is_listed_and_what_says_nothing_is_not():
    for first, value, question in LITERAL:
        found = last(ASK, event("a", first), ASK, event("b", "ok", n=value), question=question)
        assert found == ({"n": value}, ["n"]), (first, value)
    for first, value in INSIDE:
        assert last(ASK, event("a", first), ASK, event("b", "ok", n=value)) == ({"n": value}, []), (first, value)
    for said in (True, None, "", "elsewhere", 8080):
        silent = event("a", {"a": True, "b": None, "c": ""})
        assert last(ASK, silent, ASK, event("b", "ok", n=said)) == ({"n": said}, [])
    for cut in ('{"id": "item-17", "key": "[redacted]"}', "item-17... (truncated, 30000 characters in all)"):
        assert last(ASK, event("a", cut), ASK, event("b", "ok", id="item-17")) == ({"id": "item-17"}, [])


WALKED: list[tuple[str, Kind, str, Any]] = [
    ('{"id": "item-17"}', "json", "item-17", Ref("c1", ("id",))),
    ('{"id": "item-17"}', "text", "item-17", "item-17"),
    ('{"id": "item-17"}', "other", "item-17", "item-17"),
    ('{"id":"item-17"}', "json", "item-17", "item-17"),  # not as a value is written: it is a text
    ("4711", "text", "4711", Ref("c1")),
    ('[r:12ab34.cd56] {"id": "item-17"} [12ab34.cd56:r]', "json", "item-17", Ref("c1", ("id",))),  # receipts are no part of it
]


@pytest.mark.parametrize(("text", "kind", "value", "expected"), WALKED)
def test_references_only_walk_what_is_no_text(text, kind, value, expected):
    assert last(ASK, event("a", text), ASK, event("b", "ok", id=value), a=kind)[0] == {"id": expected}


def test_calls_of_one_reply_have_no_order_and_come_after_those_of_the_turn_before_unless_they_refer_to_them_or_any_order_will_do():
    made = draft(ASK, event("a", {"x": "item-17"}), event("b", "ok", id="item-17"), ASK, event("c", "ok"), ASK, event("d", "ok"))
    assert [step.after for step in made.steps] == [(), (), ("c1", "c2"), ("c3",)]
    assert made.steps[1].arguments == {"id": "item-17"}
    events = ASK, event("a", {"x": "item-17"}), event("b", "ok"), ASK, event("c", "ok", id="item-17")
    assert plan_of(draft(*events).steps, 1, Query("?")).calls[-1].after == ("c2",)
    free = draft(*events, any_order=True)
    assert [call.after for call in plan_of(free.steps, 1, Query("?")).calls] == [(), (), ()]


def test_errors_and_repeats_are_left_out_and_a_spoiled_call_counts_where_it_came_out_later():
    again = (event("a", "no", "error", n=1), event("a", "one", n=1), event("a", "one", n=1.0), event("b", "two"))
    made = successful_calls(read_events(*(each for one in again for each in (ASK, one))))
    assert [(call.tool, call.text) for call in made] == [("a", "one"), ("b", "two")]
    late = [{**event("a", "one"), "fault": "tool.slow"}, {**event("b", "x"), "fault": "tool.garbage"}, event("b", "two")]
    assert [call.text for call in successful_calls(read_events(*late))] == ["one", "two"]


UNSAYABLE: dict[str, list[Any]] = {
    "called a twice alike and got different results": [event("a", "one"), event("a", "two")],
    "the only result of a call of a was spoiled by a fault": [{**event("a", "one"), "fault": "tool.lies"}],
    "there is a secret among the arguments": [event("a", "one", key="[redacted]")],
    "there is a secret among the argument": [event("a", "one", key="sk-proj-0123456789abcdef")],
    "event 0 of the trace is not an object": [7],
    "cannot be read": [{**event("a", "one"), "arguments": "n=1"}],
}


@pytest.mark.parametrize("reason", UNSAYABLE)
def test_what_no_plan_can_say_is_a_reason(reason):
    with pytest.raises((TraceError, Unlearnable), match=reason):
        successful_calls(read_events(*UNSAYABLE[reason]))
