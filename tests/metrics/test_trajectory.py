"""The course of a trial: what was decided and what came of it, whatever the wire format, the bookkeeping, the order of arrival."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory import trajectory
from whichloop.metrics.trajectory.trajectory import TracedStep, first_difference, shortened, unmatched


def ask(*calls: tuple[str, dict[str, Any]], role: str = "decide", scope: str = "", **more: Any) -> dict[str, Any]:
    move = {"move": "act", "thought": "", "calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    scoped = {"scope": scope} if scope else {}
    return {"event": "ask", "role": role, "same": 0, "messages": [], "reply": "", "move": move} | scoped | more


def unreadable(role: str = "decide", why: str = "no JSON", **more: Any) -> dict[str, Any]:
    event = ask(role=role, reply="{", wire_error=why, **more)
    del event["move"]
    return event


def ran(tool: str, arguments: Any, data: str = "4", status: str = "success", **more: Any) -> dict[str, Any]:
    return {"event": "tool", "tool": tool, "arguments": arguments, "status": status, "data": data} | more


def trace(*happened: dict[str, Any], answer: Any = 4, stop: str = "finished") -> dict[str, Any]:
    return {"events": list(happened), "answer": answer, "stop": stop}


def course(found: dict[str, Any]) -> tuple[TracedStep, ...]:
    return trajectory.course(Trace.from_json(found))


def marks(found: dict[str, Any]) -> list[str]:
    return [step.signature for step in course(found)]


ADD = ("add", {"a": 1, "b": 2})
SOLVED = trace(ask(ADD), ran(*ADD, "3"), ask(("double", {"n": 3})), ran("double", {"n": 3}, "6"), answer=6)


# --- laws ---

VALUE = st.integers(0, 3)
STEP = st.one_of(
    st.builds(lambda n: [ask(("f", {"n": n})), ran("f", {"n": n}, str(n))], VALUE),
    st.builds(lambda n: [ask(("g", {"n": n})), ran("g", {"n": n}, "no", "error", error_type="KeyError")], VALUE),
    st.builds(lambda n: [ask(("missing", {"n": n}))], VALUE),
    st.builds(lambda role: [unreadable(role)], st.sampled_from(["decide", "plan"])),
    st.builds(lambda kind: [ask(error={"kind": kind, "message": "m"})], st.sampled_from(["provider.server", "context_overflow"])),
)
TRACE = st.builds(
    lambda parts, answer, stop: trace(*(event for part in parts for event in part), answer=answer, stop=stop),
    st.lists(STEP, max_size=6),
    VALUE,
    st.sampled_from(["finished", "max_steps"]),
)


@given(TRACE, TRACE)
def test_courses_are_equal_where_all_that_counts_is(one, other):
    def content(found: dict[str, Any]) -> list[Any]:
        """What the steps are made of, told in another way than by the code under test."""
        kept: list[Any] = []
        for place, event in enumerate(found["events"]):
            if event["event"] == "tool":
                kept.append((event["tool"], event["arguments"], event["status"], event["data"]))
            elif "wire_error" in event:
                kept.append(("unreadable", event["role"]))
            elif "error" in event:
                kept.append(("failed", event["error"]["kind"]))
            elif event["move"]["calls"][0]["name"] == "missing":
                kept.append(("missing", found["events"][place]["move"]["calls"][0]["arguments"]))
        return [*kept, found["answer"], found["stop"]]

    assert (marks(one) == marks(other)) == (content(one) == content(other))
    assert re.fullmatch(r"[0-9a-f]{6}( [0-9a-f]{6})*", " ".join(marks(one)))


@given(st.lists(st.tuples(st.sampled_from("fgh"), VALUE), min_size=1, max_size=5), st.randoms())
def test_the_order_in_which_parallel_calls_end_changes_nothing(calls, random_):
    runs = [ran(name, {"n": n}, f"{name}{n}") for name, n in calls]
    shuffled = random_.sample(runs, len(runs))
    reply = ask(*((name, {"n": n}) for name, n in calls))
    assert course(trace(reply, *runs)) == course(trace(reply, *shuffled))


@given(st.integers(2, 4), st.randoms())
def test_scopes_may_interleave_as_they_like(branches, random_):
    """Each branch asks and runs in its own order; equal calls of two branches may give different results."""
    queues = [
        [
            ask(("f", {"n": k % 2}), role="select", scope=f"c{k}"),
            ran("f", {"n": k % 2}, f"r{k}"),
            unreadable("select", scope=f"c{k}"),
        ]
        for k in range(branches)
    ]

    def interleaved(source: random.Random) -> list[dict[str, Any]]:
        left, made = [list(queue) for queue in queues], []
        while any(left):
            made.append(source.choice([queue for queue in left if queue]).pop(0))
        return made

    plan = ask(role="plan")
    assert marks(trace(plan, *interleaved(random_), plan)) == marks(trace(plan, *interleaved(random.Random(0)), plan))


@given(TRACE, st.lists(st.sampled_from(["understand", "plan", "reflect", "summarize", "validate"]), max_size=4), st.randoms())
def test_bookkeeping_and_wording_are_no_part_of_it(found, roles, random_):
    other = copy.deepcopy(found)
    for role in roles:
        other["events"].insert(0, ask(role=role, move={"move": "verdict", "done": False}))
    for event in other["events"]:
        if event["event"] == "tool":
            event["data"] = f"[r:0123ab.4567] {event['data']} [0123ab.4567:r]"
        else:
            event["messages"] = [{"role": "user", "content": f"other words {random_.random()}"}]
            event["reply"] = "said in another format"
            if "wire_error" in event:
                event["wire_error"] = "another codec's words"
    other["events"].insert(0, {"event": "note", "kind": "phase", "round": 1})
    assert marks(other) == marks(found)


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_first_difference_is_none_only_for_equal_courses(a, b):
    step = first_difference(a, b)
    assert (step is None) == (a == b)
    if step is not None:
        assert 1 <= step <= len(b) + 1
        assert sorted(a) != sorted(b) or a[step - 1] != b[step - 1]
    assert len(unmatched(a, b)) == sum(max(0, b.count(one) - a.count(one)) for one in "abc")


@given(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), st.randoms())
def test_another_order_of_the_same_steps_parts_late_and_a_new_step_early(steps, random_):
    shuffled = random_.sample(steps, len(steps))
    place = random_.randrange(len(steps) + 1)
    assert first_difference(steps, [*shuffled[:place], "new", *shuffled[place:]]) == place + 1


def test_designs_that_ask_once_for_several_calls_have_the_same_steps():
    at_once = trace(ask(ADD, ("double", {"n": 3})), ran("double", {"n": 3}, "6"), ran(*ADD, "3"), answer=6)
    assert marks(at_once) == marks(SOLVED)


def test_calls_that_no_tool_ran_are_steps_whoever_noticed():
    in_the_loop = trace(ask(("nope", {})))
    in_the_toolbox = trace(ask(("nope", {})), ran("nope", {}, "no such tool", "error", error_type="UnknownTool"))
    assert course(in_the_loop)[0].observed == "not run"
    assert marks(in_the_loop) == marks(in_the_toolbox)


def test_a_call_that_waits_for_a_later_turn_is_run_there():
    """A design that recovers from one call's error before it runs the next."""
    found = trace(ask(ADD, ("double", {"n": 3})), ran(*ADD, "no", "error"), ask(role="recover"), ran("double", {"n": 3}, "6"))
    assert [step.text for step in course(found)] == ["add(a=1, b=2)", "double(n=3)", "4"]
    assert all(step.observed != "not run" for step in course(found))


def test_what_a_loop_runs_by_itself_stands_beside_the_call():
    found = trace(ask(ADD, ("double", {"n": 3})), ran(*ADD, "no", "error"), ran("double", {"n": 3}), ran(*ADD, "3"))
    assert [step.observed for step in course(found)] == ["error: no", "3", "4", "finished"]


def test_an_answer_after_which_the_run_goes_on_is_none_and_prose_in_place_of_a_call_is_a_step():
    stated = ask(move={"move": "answer", "value": 5})
    assert [step.text for step in course(trace(stated, answer=5))] == ["5"]
    assert [step.text for step in course(trace(stated, ask(ADD), ran(*ADD)))] == ["answer 5", "add(a=1, b=2)", "4"]
    assert [step.text for step in course(trace(ask(move={"move": "text", "text": "Well …"})))] == ["no call", "4"]


def test_tasks_are_in_the_order_of_their_numbers():
    found = trace(
        ask(role="plan"),
        *(ask(("f", {"n": n}), role="select", scope=f"c{n}") for n in (10, 9, 2)),
        *(ran("f", {"n": n}) for n in (2, 9, 10)),
    )
    assert [step.text for step in course(found)][:3] == ["f(n=2)", "f(n=9)", "f(n=10)"]


@given(st.text(max_size=400))
def test_shortened_is_one_line_that_fits(text):
    short = shortened(text)
    assert len(short) <= 122
    assert "\n" not in short


def test_events_of_another_kind_keep_their_places():
    assert course(trace({"event": "later version"}, ask(ADD), ran(*ADD)))[0].event == 2
