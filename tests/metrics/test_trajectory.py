"""The course of a trial, the calls that were run as the model wrote them, and what its prompts show, whatever the wire format."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import Trace
from whichloop.metrics.trajectory import trajectory
from whichloop.metrics.trajectory.trajectory import TracedStep, first_difference, new_words, runs_not_as_written, shows, unmatched


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


@pytest.mark.parametrize(
    ("prompt", "text", "seen"),
    [
        (["The result is 12 apples."], "12 apples", True),
        (['{"data": "say \\"hi\\" now"}'], 'say "hi" now', True),
        (["abc"], "12", False),
        (["a b c d e f g h i and so on"], "a b c d e f g h i j", True),
        (["[r:0123ab.4567] 12 [0123ab.4567:r]"], "12 [r:0123ab.4567]", True),
        (["[r:0123ab.9999] 12 [0123ab.9999:r]"], "[r:0123ab.4567] 12 [0123ab.4567:r]", False),
        ([], "12", False),
    ],
)
def test_a_prompt_shows_a_text_however_it_is_quoted(prompt, text, seen):
    assert shows(prompt, text) is seen


def test_a_receipt_whose_values_a_model_could_not_read_shows_nothing():
    text = "[r:0123ab.4567] 12 [0123ab.4567:r]"
    assert shows([text], text, ("89cdef.4567",))
    assert not shows([text], text, ("0123ab.4567",))
    assert not shows(["[r:0123ab.4567] [0123ab.4567:r]"], text, ("0123ab.4567",))


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_text_that_stands_in_a_prompt_is_shown(before, text, after):
    assert shows([before + text.strip() + after], text)


MESSAGES = st.lists(st.sampled_from(["try one", "try two", "one", "read it again", "it is no JSON", ""]), max_size=5)


@given(MESSAGES, MESSAGES, MESSAGES, st.sampled_from(["", "one", "try again"]))
def test_messages_that_both_prompts_begin_with_say_nothing_more(shared, before, now, own):
    new = _words_of([*shared, *now]) - _words_of([*shared, *before]) - _words_of([own])
    assert new_words([*shared, *before], [*shared, *now], own) == new


def _words_of(messages):
    return Counter(word for message in messages for word in re.findall(r"[^\W\d_]+", message.lower()))


NUMBERS = st.integers(0, 3)
TURNS = st.lists(st.lists(NUMBERS, unique=True, min_size=1, max_size=3), max_size=4)
"""Replies, each as the arguments of its calls."""


def wrote(*numbers: int) -> dict[str, Any]:
    return ask(*(("f", {"n": number}) for number in numbers))


def was_run(number: int, status: str = "success") -> dict[str, Any]:
    return ran("f", {"n": number}, "5", status)


def otherwise(*events: dict[str, Any]) -> set[int]:
    return set(runs_not_as_written(Trace.from_json({"events": list(events)}).events))


@given(TURNS, st.data())
def test_no_run_of_a_loop_that_makes_the_calls_as_they_were_written_is_told(turns, data):
    """In whatever order it makes those of a reply, and be a call that failed made again."""
    events = []
    for numbers in turns:
        events.append(wrote(*numbers))
        for number in data.draw(st.permutations(numbers)):
            failures = data.draw(st.integers(0, 2))
            events += [*([was_run(number, "error")] * failures), was_run(number)]
    assert otherwise(*events) == set()


@given(TURNS, st.data())
def test_each_run_is_told_whose_arguments_are_others_than_those_of_all_calls(turns, data):
    events, told = [], set()
    for numbers in turns:
        events.append(wrote(*numbers))
        for number in numbers:
            is_altered = data.draw(st.booleans())
            if is_altered:
                told.add(len(events))
            events.append(was_run(number + 10 if is_altered else number))
    assert otherwise(*events) == told


@given(NUMBERS)
def test_a_run_is_told_whose_call_the_model_wrote_for_another_one(number):
    assert otherwise(wrote(number), was_run(number), wrote(number + 1), was_run(number)) == {3}
    assert otherwise(wrote(number), was_run(number), was_run(number)) == {2}


@given(st.lists(NUMBERS, max_size=3))
def test_nothing_is_told_where_the_trace_does_not_say_what_the_model_wrote(numbers):
    assert otherwise(*map(was_run, numbers)) == set()
    assert otherwise(ask(move={}), *map(was_run, numbers)) == set()


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_what_a_loop_reads_out_of_a_reply_that_could_not_be_read_is_told(numbers):
    assert otherwise(unreadable(), *map(was_run, numbers)) == set(range(1, len(numbers) + 1))
