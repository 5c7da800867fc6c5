"""Plans learned from traces: laws over plans made up and traces made up, then each rule by example."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import inspect
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopbench.checks.suite import task_problems
from loopbench.datasets.task import StatelessEnvironment, Suite, Task
from loopbench.datasets.validity import planned_answer, replay
from loopbench.experiments.compare.prepare import Experiment, prepare
from loopbench.experiments.compare.reopen import reopen
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.experiments.learn_plans.learn import Learned, kind_of, learn_run, learn_suite, open_suite, write_suite
from loopbench.experiments.learn_plans.plan_from_trace import Kind, Made, Unlearnable, draft_of, leaves, made_calls, plan_of
from loopbench.metrics.record import Record
from loopbench.metrics.scorers import is_abstention
from loopbench.protocol import Plan, PlannedCall, Query, Ref, Tool, refs
from loopbench.protocol.digest import canonical_json, sha256
from loopbench.protocol.names import parse_spec
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.manifest import write_manifest
from loopbench.runs.new_manifest import manifest_of
from loopbench.runs.permissions import Permissions
from loopbench.runs.registry import make_suite
from loopbench.runs.schedule import make_arms
from loopbench.runs.store.files import RunError
from loopbench.runs.store.records import TRIALS
from loopbench.runs.store.traces import TRACES, TraceWriter, read_trace

DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")


class Silent(Unwatched):
    def finished(self, record: Record) -> None:
        return None


def ran(folder: Path, suite: Suite, loops: Sequence[str] = ("bare",), **config: Any) -> Path:
    """The folder of a run of loops on a suite that has no name on the command line."""
    values: dict[str, Any] = {"mlflow": False, "concurrency": 8} | config
    made = CompareConfig(loops=tuple(loops), **values)
    run_folder = folder / f"run-{len(list(folder.iterdir()))}"
    run_folder.mkdir()
    arms = make_arms(made, suite)
    manifest = manifest_of(made, suite, suite.tasks, arms)
    write_manifest(run_folder, manifest)
    experiment = Experiment(run_folder, made, suite, tuple(suite.tasks), arms, manifest)
    assert run(experiment, Silent()) == ""
    return run_folder


def learned(folder: Path, suite: Suite, **how: Any) -> Learned:
    return learn_suite(folder, CompareConfig(), suite, **how)


def replanned(suite: Suite, found: Learned) -> Suite:
    return Suite(suite.name, suite.version, found.tasks, suite.open)


# --- tools that give all kinds of things, each a function of its arguments ---


def _token(*parts: object) -> str:
    return f"id-{sha256(repr(parts))[:10]}"


def record(key: str) -> dict[str, Any]:
    """A record with what belongs to it."""
    return {"key": key, "owner": {"id": _token("owner", key)}, "parts": [_token("part", key, n) for n in range(3)], "open": True}


def count(key: str, other: str = "") -> int:
    """How many there are, a number of six digits or more."""
    return 100_000 + int(sha256(f"{key}/{other}")[:8], 16)


def label(key: str, number: float = 0) -> str:
    """A label."""
    return _token("label", key, float(number))


def sheet(key: str):
    """A sheet, as a text that is JSON and does not say so."""
    return json.dumps({"sheet": _token("sheet", key), "total": count(key, "sheet")})


@dataclass
class Card:
    """What a tool gives that is no JSON."""

    code: str
    number: int


def card(key: str) -> Card:
    """A card, an object."""
    return Card(_token("card", key), count(key, "card"))


HONEST = (record, count, label, card)
"""Tools whose return types say what they give."""
FUNCTIONS = {function.__name__: function for function in (*HONEST, sheet)}
TOOLS = tuple(Tool.from_function(function, blocking=False) for function in FUNCTIONS.values())
SHOWN: Mapping[str, Any] = {"sheet": json.loads, "card": dataclasses.asdict}


@st.composite
def plans(draw: st.DrawFn, names: Sequence[str]) -> tuple[Plan, Any]:
    """A plan whose arguments are values of earlier results, and its answer: what a model that reads them would do."""
    calls: list[PlannedCall] = []
    known: list[tuple[Any, Any]] = []
    made: set[str] = set()
    for number in range(draw(st.integers(1, 6))):
        tool = draw(st.sampled_from(names))
        given: dict[str, Any] = {}
        real: dict[str, Any] = {}
        wanted = {"record": (str,), "count": (str, str), "label": (str, float), "sheet": (str,), "card": (str,)}[tool]
        for name, kind in zip(("key", "number" if tool == "label" else "other"), wanted, strict=False):
            fitting = [item for item in known if isinstance(item[1], str if kind is str else int)]
            if fitting and draw(st.sampled_from((True, False))):
                given[name], real[name] = draw(st.sampled_from(fitting))
            else:
                literal = draw(st.sampled_from(["red", "green", "blue"])) if kind is str else draw(st.integers(0, 99))
                given[name] = real[name] = literal
        key = canonical_json([tool, real])
        if key in made:
            continue
        made.add(key)
        calls.append(PlannedCall(f"c{number}", tool, given, f"Goal {number} of this."))
        raw = FUNCTIONS[tool](**real)
        is_walked = isinstance(raw, dict | list)
        for path, leaf in leaves(SHOWN[tool](raw) if tool in SHOWN else raw):
            if not isinstance(leaf, bool):
                known.append((Ref(f"c{number}", path) if is_walked or not path else leaf, leaf))
    answer, expected = draw(st.sampled_from(known))
    return Plan(tuple(calls), answer), expected


def suite_of(planned: Sequence[tuple[Plan, Any]]) -> Suite:
    tasks = tuple(
        Task(f"t{number}", Query(f"Question {number}: which one of red, green and blue?"), expected, "exact", plan)
        for number, (plan, expected) in enumerate(planned)
    )
    return Suite("made up", "1", tasks, lambda _: StatelessEnvironment(TOOLS))


def without_plans(suite: Suite) -> Suite:
    return replace(suite, tasks=tuple(replace(task, plan=None, no_plan="nobody wrote one") for task in suite.tasks))


def calls_of(task: Task, suite: Suite) -> set[str]:
    return {canonical_json([call.tool, dict(call.arguments)]) for call in asyncio.run(replay(task, suite))}


slow = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HONEST_NAMES = [function.__name__ for function in HONEST]


@slow
@given(planned=st.lists(plans(HONEST_NAMES), min_size=1, max_size=3), loops=st.sampled_from([("bare",), ("finish", "phased")]))
def test_what_a_run_did_is_what_its_plans_do(tmp_path_factory, planned, loops):
    """The law: scripted run → traces → plans that replay, score 1.0 and make the same calls; the same again the second time."""
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    made = ran(folder, suite, loops)
    found = learned(made, without_plans(suite))
    assert not found.left
    again = replanned(suite, found)
    assert task_problems(again) == []
    for before, after in zip(suite.tasks, again.tasks, strict=True):
        assert calls_of(after, again) == calls_of(before, suite)
        assert planned_answer(after, asyncio.run(replay(after, again))) == after.expected
    assert replanned(suite, learned(made, suite)).digest == again.digest
    assert found.tasks == learned(made, suite, check=True).tasks


@slow
@given(planned=st.lists(plans([*FUNCTIONS]), min_size=1, max_size=3))
def test_a_check_proves_plans_even_where_tools_do_not_say_what_they_give(tmp_path_factory, planned):
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    found = learned(ran(folder, suite, ("finish",)), suite, check=True)
    assert not found.left
    again = replanned(suite, found)
    assert task_problems(again) == []
    assert [calls_of(task, again) for task in again.tasks] == [calls_of(task, suite) for task in suite.tasks]


@settings(slow, max_examples=3)
@given(planned=st.lists(plans(HONEST_NAMES), min_size=1, max_size=3), any_order=st.booleans())
def test_all_designs_solve_a_learned_suite_under_clean(tmp_path_factory, planned, any_order):
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    again = replanned(suite, learned(ran(folder, suite, ("react_extract",)), suite, any_order=any_order))
    found = learned(ran(folder, again, DESIGNS), again, any_order=any_order)
    assert {record.accuracy for record in read(folder / "run-1")} == {1.0}
    assert not found.left


def read(folder: Path) -> list[Record]:
    return [Record.from_json(json.loads(line)) for line in (folder / TRIALS).read_text().splitlines()]


# --- traces of any kind ---

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
half_events = st.dictionaries(
    st.sampled_from(["event", "status", "tool", "arguments", "data"]), json_values | st.sampled_from(["tool", "success"])
)
events = st.lists(tool_events | half_events | st.just({"event": "ask"}) | st.just(7), max_size=8)
questions = st.text(max_size=30) | st.just("Step 1: call search. Step 1 of plan 1. 7 and 12")


@settings(max_examples=150, deadline=None)
@given(events=events, question=questions, any_order=st.booleans(), kind=st.sampled_from(["json", "text", "other"]))
def test_any_trace_gives_a_plan_with_goals_that_tell_it_apart_or_a_reason_why_not(events, question, any_order, kind: Kind):
    query = Query(question, question)
    try:
        made = made_calls({"events": events})
    except Unlearnable:
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
        draft = draft.with_literals(call.id, "why not")
    assert draft.references == 0
    assert [dict(step.arguments) for step in draft.steps] == [dict(call.arguments) for call in made]


@settings(slow, max_examples=40)
@given(
    events=st.lists(tool_events | st.just({"event": "ask"}), max_size=5),
    answer=json_values,
    check=st.booleans(),
    torn=st.booleans(),
)
def test_no_trace_can_stop_a_suite_from_being_learned(tmp_path_factory, record, events, answer, check, torn):
    """Whatever stands in the files, each task gets a plan that a file can hold, or a reason."""
    folder = tmp_path_factory.mktemp("any")
    trace = json.dumps({"arm": "a", "task": "t0", "repeat": 0, "events": events})[: 20 if torn else None].encode()
    writer = TraceWriter(folder / TRACES, 0)
    (place,) = writer.append([trace])
    writer.close()
    line = record(task="t0", answer=answer, trace_at=place, tool_calls=1).to_json()
    (folder / TRIALS).write_text(f"{json.dumps(line)}\n")
    suite = suite_of([(Plan((), 1), answer), (Plan((), 1), 1)])
    found = learned(folder, suite, check=check)
    assert set(found.left) | {lesson.task for lesson in found.lessons} == {"t0", "t1"}
    assert found.left["t1"] == f"not run in {folder.name}; it keeps the plan that it had"
    json.dumps(found.as_dict(), allow_nan=False)
    if found.lessons:
        write_suite(found, folder / "suite.jsonl")
        assert [Task.from_dict(json.loads(line)) for line in (folder / "suite.jsonl").read_text().splitlines()] == list(found.tasks)


# --- each rule by example ---


def event(tool: str, data: Any, /, status: str = "success", **arguments: Any) -> dict[str, Any]:
    text = data if isinstance(data, str) else json.dumps(data)
    return {"event": "tool", "tool": tool, "arguments": arguments, "status": status, "data": text}


ASK = {"event": "ask", "role": "decide"}
FOUND = {"items": [{"id": "item-17", "price": 1250}, {"id": "item-99", "price": 80}], "total": 2}


def draft(*events: Mapping[str, Any], question: str = "What does it cost?", any_order: bool = False, **kinds: Kind):
    return draft_of(made_calls({"events": events}), Query(question), kinds, any_order=any_order)


def last(*events: Mapping[str, Any], **more: Any) -> Any:
    """Arguments of the last call, and why values of it were kept."""
    made = draft(*events, **more)
    return dict(made.steps[-1].arguments), [(kept.argument, kept.why) for kept in made.kept if kept.call == made.steps[-1].id]


def test_a_value_in_one_place_becomes_a_reference_at_any_depth():
    use = event("use", "ok", filter={"ids": ["item-17", "item-99"], "most": 1250.0}, note="mine")
    arguments, kept = last(ASK, event("find", FOUND, text="a"), ASK, use)
    expected = {"ids": [Ref("c1", ("items", 0, "id")), Ref("c1", ("items", 1, "id"))], "most": Ref("c1", ("items", 0, "price"))}
    assert arguments == {"filter": expected, "note": "mine"}
    assert kept == []


def test_a_scalar_result_is_referred_to_as_a_whole():
    assert last(ASK, event("a", "4711"), ASK, event("b", "ok", n=4711))[0] == {"n": Ref("c1")}
    assert last(ASK, event("a", "plain text"), ASK, event("b", "ok", n="plain text"))[0] == {"n": Ref("c1")}


@pytest.mark.parametrize(
    ("first", "value", "question", "why"),
    [
        ({"a": "item-17", "b": "item-17"}, "item-17", "Which?", "in 2 places"),
        ({"a": "item-17"}, "item-17", "What of Item-17?", "in the question too"),
        ({"a": 1250}, 1250, "Is it 1,250 in all?", "in the question too"),
        ({"a": 1250}, 1250, "Less than $1250.", "in the question too"),
        ({"a": 7}, 7, "Which?", "too common a value"),
        ({"a": 7.0}, 7, "Which?", "too common a value"),
        ({"a": "DE"}, "DE", "Which?", "too common a value"),
        ("The order 4711 is late.", 4711, "Which?", "inside of a text"),
        ("The order A-4711 is late.", "A-4711", "Which?", "inside of a text"),
        ({"A-4711": 1}, "A-4711", "Which?", "inside of a text"),
        ({"a": 4711}, "4711", "Which?", "inside of a text"),
    ],
)
def test_what_is_ambiguous_or_common_stays_literal_and_is_listed(first, value, question, why):
    arguments, kept = last(ASK, event("a", first), ASK, event("b", "ok", n=value), question=question)
    assert arguments == {"n": value}
    assert kept == [("n", why)]


@pytest.mark.parametrize("value", [True, None, "", "elsewhere", 8080])
def test_what_stands_in_no_result_or_says_nothing_is_not_listed(value):
    first = {"a": True, "b": None, "c": ""}
    assert last(ASK, event("a", first), ASK, event("b", "ok", n=value)) == ({"n": value}, [])


def test_a_value_that_a_result_only_repeats_from_its_arguments_came_from_where_it_stood_first():
    details = event("details", {"id": "item-17", "stock": 40}, id="item-17")
    arguments, _ = last(ASK, event("find", FOUND), ASK, details, ASK, event("book", "ok", id="item-17", count=40))
    assert arguments == {"id": Ref("c1", ("items", 0, "id")), "count": Ref("c2", ("stock",))}


def test_calls_of_one_reply_do_not_see_each_other_and_have_no_order():
    made = draft(ASK, event("a", {"x": "item-17"}), event("b", "ok", id="item-17"), ASK, event("c", "ok"), ASK, event("d", "ok"))
    assert [step.after for step in made.steps] == [(), (), ("c1", "c2"), ("c3",)]
    assert made.steps[1].arguments == {"id": "item-17"}


def test_a_call_comes_after_those_of_the_turn_before_unless_it_refers_to_them_or_any_order_will_do():
    events = ASK, event("a", {"x": "item-17"}), event("b", "ok"), ASK, event("c", "ok", id="item-17")
    made = draft(*events)
    assert plan_of(made.steps, 1, Query("?")).calls[-1].after == ("c2",)
    free = draft(*events, any_order=True)
    assert [call.after for call in plan_of(free.steps, 1, Query("?")).calls] == [(), (), ()]


def test_errors_and_repeats_are_left_out():
    made = made_calls({"events": [
        ASK, event("a", "no", "error", n=1), ASK, event("a", "one", n=1), ASK, event("a", "one", n=1.0), ASK, event("b", "two"),
    ]})  # fmt: skip
    assert [(call.tool, call.text) for call in made] == [("a", "one"), ("b", "two")]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([event("a", "one"), event("a", "two")], "called a twice alike and got different results"),
        ([{**event("a", "one"), "fault": "tool.lies"}], "the only result of a call of a was spoiled by a fault"),
        ([event("a", "one", key="[redacted]")], "a secret stands among the arguments"),
        ([event("a", "one", key="sk-proj-0123456789abcdef")], "a secret stands among the arguments"),
        ([7], "no event"),
        ([{**event("a", "one"), "arguments": "n=1"}], "cannot be read"),
    ],
)
def test_what_no_plan_can_say_is_a_reason(events, reason):
    with pytest.raises(Unlearnable, match=reason):
        made_calls({"events": events})


def test_a_fault_that_only_takes_time_spoils_nothing_and_a_spoiled_call_that_came_out_later_counts():
    late = [{**event("a", "one"), "fault": "tool.slow"}, {**event("b", "x"), "fault": "tool.garbage"}, event("b", "two")]
    assert [call.text for call in made_calls({"events": late})] == ["one", "two"]


@pytest.mark.parametrize("text", ['{"id": "item-17", "key": "[redacted]"}', "item-17... (truncated, 30000 characters in all)"])
def test_nothing_refers_to_a_result_that_was_cut_or_redacted(text):
    assert last(ASK, event("a", text), ASK, event("b", "ok", id="item-17")) == ({"id": "item-17"}, [])


def test_receipts_of_the_tunnel_are_no_part_of_a_result():
    assert last(ASK, event("a", '{"id": "item-17"} [r:12ab34.cd56]'), ASK, event("b", "ok", id="item-17"))[0] == {
        "id": Ref("c1", ("id",))
    }


@pytest.mark.parametrize(
    ("text", "kind", "value", "expected"),
    [
        ('{"id": "item-17"}', "text", "item-17", "item-17"),
        ('{"id": "item-17"}', "other", "item-17", "item-17"),
        ('{"id":"item-17"}', "json", "item-17", "item-17"),  # not as a value is written: it is a text
        ("4711", "text", "4711", Ref("c1")),
    ],
)
def test_references_only_walk_what_is_no_text(text, kind: Kind, value, expected):
    assert last(ASK, event("a", text), ASK, event("b", "ok", id=value), a=kind)[0] == {"id": expected}


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
        (dict, "json"), (dict[str, int], "json"), (list[str], "json"), (int, "json"), (dict | None, "json"), (Any, "json"),
        ("NowhereDefined", "json"), (str, "text"), (Card, "other"), (set[str], "other"), (float | int, "json"), (None, "json"),
        (tuple[str, ...], "json"), (Sequence[Mapping[str, Any]], "json"), (Line, "json"), (Pair, "json"), (object, "json"),
        (inspect.Signature.empty, "json"), (TypeVar("T"), "json"), (str | None, "json"), (Literal["a", "b"], "text"),
        (Literal["a", 1], "json"), (Annotated[str, "a name"], "text"), (Annotated[list[Card], "all"], "other"),
        (list[Card], "other"), (Card | None, "other"), (dict[str, list[Card]], "other"), (dict[int, str], "other"),
        (datetime.date, "other"), (Decimal, "other"), (bytes, "other"), (Path, "other"), (Colour, "other"), (Iterable, "other"),
    ],
)  # fmt: skip
def test_what_a_tool_gives_is_read_off_its_return_type(annotation, kind):
    assert kind_of(typed(annotation)) == kind


def test_goals_tell_of_tool_and_arguments_and_hold_nothing_that_a_format_escapes():
    made = draft(ASK, event("find", FOUND, text='"rød" <b>\n\\'), ASK, event("use", "ok", id="item-17", filter={"a": 1}, most=3))
    assert [call.goal for call in plan_of(made.steps, 1, Query("?")).calls] == [
        "Step 1: call find with text ' rød b '.",
        "Step 2: call use with id from step 1, filter as an object, most 3.",
    ]
    long = draft(ASK, event("find", FOUND, text="x" * 1000))
    assert len(plan_of(long.steps, 1, Query("?")).calls[0].goal) == 160


def test_a_goal_that_the_question_holds_is_said_in_other_words():
    made = draft(ASK, event("find", "ok"))
    plan = plan_of(made.steps, 1, Query("Step 1: call find.", "Step 1 of plan 1."))
    assert plan.calls[0].goal == "Step 1 of plan 2."


# --- from a run ---


def record_of(number: int) -> dict[str, Any]:
    """The record of a number."""
    return {"code": f"code-{number}", "number": number}


def price_of(code: str) -> float:
    """What it costs."""
    return 100.5 + int(code.removeprefix("code-"))


class Counter:
    """A world that counts what was bought, with an end state."""

    def __init__(self) -> None:
        self.bought: list[str] = []
        self.tools = tuple(
            Tool.from_function(function, blocking=False) for function in (record_of, price_of, self.buy, self.draw_id)
        )

    drawn = 0

    def draw_id(self) -> dict[str, str]:
        """A new id, never the same."""
        Counter.drawn += 1
        return {"id": f"drawn-{Counter.drawn}"}

    def buy(self, code: str) -> str:
        """Buy one."""
        self.bought.append(code if code.startswith("code") else "drawn")
        return f"bought {len(self.bought)}"

    def state(self) -> Any:
        return self.bought

    def close(self) -> None:
        return None


def shop(*plans: Plan, expected: Any = 112.5, **changes: Any) -> Suite:
    tasks = tuple(
        replace(Task(f"t{number}", Query(f"What of number {number}?"), expected, "numeric", plan), **changes)
        for number, plan in enumerate(plans)
    )
    return Suite("shop", "1", tasks, lambda _: Counter())


PRICE = Plan(
    (
        PlannedCall("a", "record_of", {"number": 12}, "Get the record."),
        PlannedCall("b", "price_of", {"code": Ref("a", ("code",))}, "Get its price."),
    ),
    Ref("b"),
)
BOUGHT = Plan((*PRICE.calls, PlannedCall("d", "buy", {"code": Ref("a", ("code",))}, "Buy it now.", after=("b",))), Ref("b"))


def test_a_plan_is_learned_with_references_for_calls_and_answer(tmp_path):
    suite = shop(PRICE)
    (task,) = learned(ran(tmp_path, suite), suite).tasks
    assert task.plan is not None
    assert [(call.tool, dict(call.arguments)) for call in task.plan.calls] == [
        ("record_of", {"number": 12}),
        ("price_of", {"code": Ref("c1", ("code",))}),
    ]
    assert task.plan.answer == Ref("c2")


def test_the_answer_that_the_scorer_takes_is_found_though_it_is_not_the_expected_one_to_the_digit(tmp_path):
    suite = shop(replace_answer(PRICE, 112.5), expected=112.504)
    task = replace(suite.tasks[0], scorer="numeric(tolerance=0.01)")
    suite = replace(suite, tasks=(task,))
    (made,) = learned(ran(tmp_path, suite), suite).tasks
    assert made.plan is not None
    assert made.plan.answer == Ref("c2")


def replace_answer(plan: Plan, answer: Any) -> Plan:
    return Plan(plan.calls, answer)


def test_answers_of_several_values_are_referred_to_leaf_by_leaf(tmp_path):
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string"}, "price": {"type": "number"}, "sold": {"type": "boolean"}},
    }
    expected = {"code": "code-12", "price": 112.5, "sold": False}
    suite = shop(replace_answer(PRICE, expected), expected=expected, scorer="schema", query=Query("What of it?", "", schema))
    (task,) = learned(ran(tmp_path, suite, ("finish",)), suite).tasks
    assert task.plan is not None
    assert task.plan.answer == {"code": Ref("c1", ("code",)), "price": Ref("c2"), "sold": False}


def test_an_answer_in_several_places_stays_literal_and_is_listed(tmp_path):
    plan = Plan((PlannedCall("a", "record_of", {"number": 12}, "First one."), PlannedCall("b", "buy", {"code": "any"}, "Buy.")), 1)
    suite = shop(replace_answer(plan, "code-12"), expected="code-12", scorer="exact", query=Query("Which?"))
    other = replace(suite, open=lambda _: StatelessEnvironment((*Counter().tools[:1], Tool.from_function(echo_code, name="buy"))))
    (lesson,) = learned(ran(tmp_path, other), other).lessons
    assert lesson.plan.answer == "code-12"
    assert [(kept.call, kept.why, kept.seen) for kept in lesson.kept] == [("answer", "in 2 places", ("c1 at code", "c2 at sold.0"))]


def echo_code(code: str) -> dict[str, Any]:
    """Sells one."""
    return {"sold": ["code-12"], "left": 40, "of": f"the {code}"}


def test_an_unanswerable_task_is_learned_without_any_call(tmp_path):
    suite = shop(Plan((), None), expected=None)
    (task,) = learned(ran(tmp_path, suite), suite, check=True).tasks
    assert task.plan == Plan((), None)


def test_a_task_that_was_answered_without_a_call_is_not_learned(tmp_path):
    suite = shop(Plan((), 112.5))
    found = learned(ran(tmp_path, suite), without_plans(suite))
    assert found.left == {"t0": "no calls: cannot be learned"}
    assert found.tasks[0].plan is None
    assert found.tasks[0].no_plan == "no calls: cannot be learned"


SHUT = Plan((PlannedCall("a", "price_of", {"code": "code-12"}, "Get its price.", fails=True),), "closed")


def closed(*plans: Plan) -> Suite:
    """A shop whose prices cannot be had, and which is right to say so."""
    tools = (Counter().tools[0], Tool.from_function(refuse, name="price_of"))
    return replace(shop(*plans, expected="closed", scorer="normalized"), open=lambda _: StatelessEnvironment(tools))


def test_a_refusal_is_learned_where_a_replay_proves_it(tmp_path):
    suite = closed(SHUT)
    folder = ran(tmp_path, suite)
    assert learned(folder, without_plans(suite)).left == {"t0": "none of its calls gave a result: cannot be learned"}
    (task,) = learned(folder, without_plans(suite), check=True).tasks
    assert task.plan is not None
    assert [(call.tool, call.arguments, call.fails) for call in task.plan.calls] == [("price_of", {"code": "code-12"}, True)]
    assert task.plan.answer == "closed"
    assert task_problems(replace(suite, tasks=(task,))) == []
    opened = replace(without_plans(suite), open=shop(PRICE).open)
    assert learned(folder, opened, check=True).left == {"t0": "none of its calls gave a result: cannot be learned"}


def test_a_refusal_is_not_learned_where_a_call_of_any_trial_gave_a_result(tmp_path):
    suite = closed(SHUT)
    looked = Plan((PlannedCall("a", "record_of", {"number": 12}, "Get the record."), replace(SHUT.calls[0], id="b")), "closed")
    both = joined(tmp_path / "both", ran(tmp_path, suite), ran(tmp_path, closed(looked)))
    (lesson,) = learned(both, suite, check=True).lessons
    assert [(call.tool, call.fails) for call in lesson.plan.calls] == [("record_of", False)]


def test_the_successful_trial_with_the_fewest_calls_is_taken_and_the_next_where_it_teaches_nothing(tmp_path):
    suite = shop(BOUGHT)
    folder = ran(tmp_path, suite, ("bare", "finish"))
    more = ran(tmp_path, shop(PRICE), ("bare",))
    none = ran(tmp_path, shop(Plan((), 112.5)), ("react_extract",))
    both = joined(tmp_path / "both", folder, more, none)
    (lesson,) = learned(both, suite).lessons
    assert [call.tool for call in lesson.plan.calls] == ["record_of", "price_of"]
    assert lesson.trial == "bare/again/t0/0"


def joined(folder: Path, *runs: Path) -> Path:
    """Trials of several runs in one, those of the later ones under arms of their own."""
    folder.mkdir()
    lines, writer = [], TraceWriter(folder / TRACES, 0)
    for number, other in enumerate(runs):
        for found in read(other):
            trace = read_trace(other, found)
            arm = found.arm if number == 0 else "bare/again" if number == 1 else "a/first"
            (place,) = writer.append([json.dumps(trace | {"arm": arm}).encode() + b"\n"])
            lines.append(json.dumps(replace(found, arm=arm, trace_at=place).to_json()))
    writer.close()
    (folder / TRIALS).write_text("\n".join(lines) + "\n")
    return folder


def test_tasks_that_were_not_solved_not_run_or_are_quarantined_say_so(tmp_path):
    good, wrong = shop(PRICE, replace_answer(PRICE, 1.0), PRICE, PRICE), "not solved in run-0"
    tasks = (*good.tasks[:3], replace(good.tasks[3], quarantined="ambiguous"))
    suite = replace(good, tasks=tasks)
    folder = ran(tmp_path, replace(good, tasks=(tasks[0], tasks[1], tasks[3])))
    found = learned(folder, without_plans(suite))
    assert found.left == {"t1": wrong, "t2": "not run in run-0", "t3": "quarantined: ambiguous"}
    assert [(task.plan, task.no_plan) for task in found.tasks[1:3]] == [(None, wrong), (None, "not run in run-0")]


def test_a_plan_that_was_there_stays_where_nothing_better_is_learned(tmp_path):
    suite = shop(PRICE, replace_answer(PRICE, 1.0))
    found = learned(ran(tmp_path, suite), suite)
    assert found.left == {"t1": "not solved in run-0; it keeps the plan that it had"}
    assert found.tasks[1] == suite.tasks[1]
    write_suite(found, tmp_path / "out.jsonl", only_learned=True)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_end_states_are_kept_and_a_check_holds_them_against_the_replay(tmp_path):
    suite = shop(BOUGHT, end_state=["code-12"])
    folder = ran(tmp_path, suite)
    (task,) = learned(folder, suite, check=True).tasks
    assert task.end_state == ["code-12"]
    assert task.plan is not None
    assert task.plan.calls[-1].after == ("c2",)
    moved = shop(BOUGHT, end_state=["code-13"])
    assert "or not the end state" in learned(folder, moved, check=True).left["t0"]


def test_ids_that_are_drawn_anew_replay_through_their_references(tmp_path):
    drawn = PlannedCall("e", "draw_id", {}, "Draw an id.")
    plan = Plan((drawn, PlannedCall("f", "buy", {"code": Ref("e", ("id",))}, "Buy that."), *PRICE.calls), Ref("b"))
    suite = shop(plan, end_state=["drawn"])
    (task,) = learned(ran(tmp_path, suite), suite, check=True).tasks
    assert task.plan is not None
    assert {"code": Ref("c1", ("id",))} in [call.arguments for call in task.plan.calls]


def test_a_plan_that_does_not_replay_is_dropped_with_the_reason(tmp_path):
    suite = shop(PRICE)
    folder = ran(tmp_path, suite)
    broken = replace(suite, open=lambda _: StatelessEnvironment(Counter().tools[:1]))
    assert "no tool 'price_of'" in learned(folder, broken, check=True).left["t0"]
    failing = replace(
        suite, open=lambda _: StatelessEnvironment((*Counter().tools[:1], Tool.from_function(refuse, name="price_of")))
    )
    assert "LookupError: closed today" in learned(folder, failing, check=True).left["t0"]


def refuse(code: str) -> float:
    """What it costs."""
    raise LookupError("closed today")


def test_a_reference_that_a_replay_refutes_becomes_a_literal_and_is_listed(tmp_path):
    def told(number: int):
        """A record, as text that is JSON and does not say so."""
        return json.dumps(record_of(number))

    tools = (Tool.from_function(told, name="record_of"), *Counter().tools[1:])
    plan = Plan((PRICE.calls[0], PlannedCall("b", "price_of", {"code": "code-12"}, "Get its price.", after=("a",))), Ref("b"))
    suite = replace(shop(plan), open=lambda _: StatelessEnvironment(tools))
    folder = ran(tmp_path, suite)
    (lesson,) = learned(folder, suite).lessons
    assert lesson.plan.calls[1].arguments == {"code": Ref("c1", ("code",))}  # trusted, and wrong
    (lesson,) = learned(folder, suite, check=True).lessons
    assert lesson.plan.calls[1].arguments == {"code": "code-12"}
    assert lesson.plan.calls[1].after == ("c1",)
    assert [(kept.call, kept.argument, kept.value) for kept in lesson.kept] == [("c2", "code", "code-12")]
    assert "on replay" in lesson.kept[0].why


def test_what_a_fault_spoiled_is_never_learned(tmp_path):
    """Runs under faults in tools teach the plans that clean ones do, of the tasks that they solve."""
    suite = make_suite(parse_spec("arithmetic(size=16)"))
    folder = ran(tmp_path, suite, DESIGNS, profiles=("flaky-tools",), repeats=2)
    found = learned(folder, suite, check=True)
    assert len(found.lessons) >= 13
    assert task_problems(replanned(suite, found)) == []
    assert all("spoiled" in why or "not solved" in why for why in found.left.values())


def test_every_built_in_suite_can_be_learned_from_its_own_run(tmp_path):
    suite = make_suite(parse_spec("arithmetic(size=36)"))
    found = learned(ran(tmp_path, suite), without_plans(suite), check=True)
    assert not found.left
    assert sum(lesson.references for lesson in found.lessons) >= 100
    assert {task.id: is_abstention("not determined") for task in found.tasks if task.expected is None}


def test_a_suite_is_written_whole_or_not_at_all(tmp_path):
    suite = shop(PRICE)
    found = learned(ran(tmp_path, suite), suite)
    unsayable = replace(found, tasks=(*found.tasks, replace(found.tasks[0], id="t1", labels={"weight": float("nan")})))
    (tmp_path / "suite.jsonl").write_text("mine")
    with pytest.raises(ValueError, match="JSON"):
        write_suite(unsayable, tmp_path / "suite.jsonl")
    assert (tmp_path / "suite.jsonl").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0", "suite.jsonl"]


# --- the suite of a run, opened again ---

OWN = """
from loopbench.datasets.task import Suite
from loopbench.datasets import arithmetic

def load(size: int = 3) -> Suite:
    suite = arithmetic.load(size=size)
    return Suite("mine", "1", suite.tasks, suite.open)
"""


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_learned.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    experiment = prepare(CompareConfig(loops=("bare",), suite="own_learned:load", runs=tmp_path / "runs", mlflow=False))
    run(experiment, Silent())
    return experiment.folder


def test_code_of_the_users_own_is_imported_only_if_its_name_is_typed_again(own_run):
    with pytest.raises(RunError, match="--allow own_learned:load"):
        learn_run(own_run)
    found = learn_run(own_run, ["own_learned:load"])
    assert len(found.lessons) == 3
    assert not found.checked  # its tools may act on the world
    assert learn_run(own_run, ["own_learned:load"], check=True).checked


def test_a_suite_that_has_changed_since_is_refused(own_run):
    manifest = own_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace(results(own_run).manifest.suite.digest, "0" * 64))
    with pytest.raises(RunError, match="has changed since this run"):
        learn_run(own_run, ["own_learned:load"])


def test_a_built_in_suite_is_opened_as_the_run_had_it_and_always_checked(tmp_path):
    experiment = prepare(
        CompareConfig(loops=("bare",), suite="arithmetic(size=4, seed=3)", tasks=2, runs=tmp_path / "runs", mlflow=False)
    )
    run(experiment, Silent())
    found = learn_run(experiment.folder)
    assert found.checked
    assert len(found.tasks) == 4
    assert [*found.left.values()] == [f"not run in {experiment.folder.name}; it keeps the plan that it had"] * 2
    _, suite, is_own = open_suite(experiment.folder)
    assert not is_own
    assert [task.id for task in suite.tasks] == [task.id for task in found.tasks]


def test_a_quarantine_of_the_run_holds_for_what_is_learned_from_it(tmp_path):
    listed = tmp_path / "bad.toml"
    listed.write_text('arithmetic-0002 = "ambiguous"\n')
    experiment = prepare(
        CompareConfig(loops=("bare",), suite="arithmetic(size=3)", quarantine=listed, runs=tmp_path / "runs", mlflow=False)
    )
    run(experiment, Silent())
    assert learn_run(experiment.folder).left == {"arithmetic-0002": "quarantined: ambiguous"}


# --- tasks without a plan ---


def unplanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, every: bool = False, quarantined: str = "") -> str:
    text = OWN.replace("suite.tasks, suite.open", "changed(suite.tasks), suite.open")
    which = "" if every else " if number else task"
    text += (
        "from dataclasses import replace\n\ndef changed(tasks):\n    return tuple("
        f"replace(task, plan=None, no_plan='not written', quarantined={quarantined!r}){which} "
        "for number, task in enumerate(tasks))\n"
    )
    name = f"own_unplanned_{sha256(text)[:8]}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{name}:load"


def test_a_scripted_run_of_tasks_without_a_plan_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch)
    config = CompareConfig(loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False)
    with pytest.raises(ValueError, match=re.escape("2 of 3 tasks have no plan")) as told:
        prepare(config)
    assert "not written" in str(told.value)
    assert "--skip-unplanned" in str(told.value)
    assert not (tmp_path / "runs").exists()
    assert prepare(config.model_copy(update={"tasks": 1})).trials == 1


def test_a_run_that_skips_them_shows_them_as_excluded_and_can_be_gone_on_with(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch)
    config = CompareConfig(
        loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False, skip_unplanned=True, budget={"calls": 1}
    )
    experiment = prepare(config)
    assert run(experiment, Silent()) != ""
    again = reopen(experiment.folder, Permissions(code=[name]))
    run(replace(again, config=again.config.model_copy(update={"budget": type(config.budget)()})), Silent())
    found = results(experiment.folder)
    assert [record.status for record in sorted(found.records, key=lambda one: one.task)] == ["scored", "excluded", "excluded"]


def test_where_no_task_has_a_plan_the_way_to_plans_is_named(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch, every=True)
    with pytest.raises(ValueError, match=r"3 of 3 tasks have no plan.*loopbench suite learn"):
        prepare(CompareConfig(loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False))


def test_quarantined_tasks_need_no_plan_and_real_models_none_at_all(tmp_path, monkeypatch):
    base: dict[str, Any] = {"loops": ("bare",), "runs": tmp_path / "runs", "mlflow": False}
    assert prepare(CompareConfig(suite=unplanned(tmp_path, monkeypatch, quarantined="bad"), **base)).trials == 3
    real = CompareConfig(suite=unplanned(tmp_path, monkeypatch), models=("openai/x",), base_url="http://127.0.0.1:9/v1", **base)
    assert prepare(real).trials == 3


def test_made_calls_are_what_a_plan_is_drafted_of():
    """The two halves by hand: calls in, plan out."""
    calls = (Made("a", {}, '{"id": "item-17"}', 1), Made("b", {"id": "item-17"}, "ok", 2))
    plan = plan_of(draft_of(calls, Query("?"), {}).steps, Ref("c2"), Query("?"))
    assert [*refs(plan.calls[1].arguments)] == [Ref("c1", ("id",))]
