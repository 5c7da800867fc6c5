"""Feedback: sentences in a fixed order from a record and its trace, whatever they hold; programs to read, and how two differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.datasets.task import Task
from whichloop.experiments.optimize.feedback import MAX_CHARS, MAX_SENTENCE_CHARS, MAX_SENTENCES, feedback
from whichloop.experiments.optimize.program_text import program_diff, program_lines
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace, TraceError
from whichloop.protocol import Plan, PlannedCall, Program, Prompt, Query, Ref

SOLVED = "The score was 1 of 1."
Event = dict[str, Any]
RATE = PlannedCall("c1", "rate", {"currency": "SEK"}, "Find the rate.")
PAY = PlannedCall("c2", "pay", {"amount": Ref("c1", ("value",)), "to": "Ann"}, "Pay it.")
TASK = Task("t1", Query("Pay Ann."), 42, "numeric", Plan((RATE, PAY), Ref("c2")))

RATED, PAID = (
    ("rate", {"currency": "SEK"}, '[r:0a1b2c.3d4e] {"value": 7} [0a1b2c.3d4e:r]'),
    ("pay", {"amount": 7, "to": "Ann"}, "42"),
)


def record(accuracy: float = 0.0, **changes: Any) -> Record:
    values = {"status": "scored", "stop": "finished", "answer": "41", "scores": {"accuracy": accuracy}}
    return Record("a", "s", "d", "t1", 0, 0, **{**values, **changes})


def tool(name: str, arguments: Any, data: str, status: str = "success", **more: Any) -> Event:
    return {"event": "tool", "tool": name, "arguments": arguments, "status": status, "data": data, **more}


def read(trace: Any) -> Trace | None:
    """Read a trace as JSON; None for what is not one."""
    try:
        return Trace.from_json(trace)
    except TraceError:
        return None


WRONG = record()
NEVER_PAID = 'The plan\'s call pay({{"amount": {}, "to": "Ann"}}) was never made.'


def lines(*events: Event, task: Task = TASK, record: Record = WRONG, **trace: Any) -> list[str]:
    return feedback(record, read({"events": list(events), **trace}), task).splitlines()


ANSWER = 'The answer was "41", expected 42.'
WRONG_PAY = tool("pay", {"amount": 8, "to": "Ann"}, "41")
AMOUNT = "Argument amount of pay was 8; the plan has 7."
DISTURBED = tool("rate", {"currency": "SEK"}, '{"value": 99}', fault="garbage")

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["rate", "pay", "[r:0a1b2c.3d4e]", "[0a1b2c.3d4e:r]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("value"), inner, max_size=3),
    max_leaves=6,
)

EVENT = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"event": st.sampled_from(["tool", "ask", "note"])},
        optional={
            "tool": st.sampled_from(["rate", "pay"]) | JSON,
            "arguments": st.dictionaries(st.sampled_from(["currency", "amount", "to"]), JSON) | JSON,
            "status": st.sampled_from(["success", "error"]) | JSON,
            "data": st.just('{"value": 7}') | JSON,
            "wire_error": JSON,
            "fault": JSON,
        },
    ),
)

TRACE = st.fixed_dictionaries({}, optional={"events": st.lists(EVENT, max_size=6) | JSON, "end_state": JSON})


@given(
    trace=st.none() | TRACE,
    answer=JSON,
    expected=JSON,
    accuracy=st.sampled_from([0.0, 0.5, 1.0]),
    stop=st.none() | st.sampled_from(["finished", "max_steps"]),
    end_state=JSON,
    is_planned=st.booleans(),
)
@example(
    trace={"events": [{"event": "tool", "tool": "a\nb", "arguments": {"c\nd": "\u2028"}, "status": 0, "data": "\x85"}]},
    answer="x\u2028y",
    expected=float("nan"),
    accuracy=0.0,
    stop="finished",
    end_state=None,
    is_planned=True,
)
def test_any_trace_gives_bounded_sentences_without_receipts(
    trace: Any, answer: Any, expected: Any, accuracy: float, stop: str | None, end_state: Any, is_planned: bool
) -> None:
    task = replace(TASK, expected=expected, end_state=end_state, plan=TASK.plan if is_planned else None)
    told = record(accuracy, answer=answer, stop=stop, scores={"accuracy": accuracy, "state": accuracy})
    text = feedback(told, read(trace), task)
    assert text == feedback(told, read(trace), task)
    found = text.splitlines()
    assert 1 <= len(found) <= MAX_SENTENCES + 1
    assert len({*found}) == len(found)
    assert all(line.endswith((".", "…", ".)")) for line in found)
    assert all(len(line) <= MAX_SENTENCE_CHARS + 1 for line in found)
    assert "0a1b2c.3d4e" not in text
    assert (SOLVED in found) <= (found == [SOLVED] and accuracy == 1)


TEXTS = st.lists(st.sampled_from(["", "a", "b", "+a", "-b", "@@", "\r", "\u2028x"]), max_size=6).map("\n".join)

DEMONSTRATIONS = st.lists(
    st.dictionaries(st.sampled_from(["query", "answer", "conversation"]), st.sampled_from(["1", 2, None, "a\nb"])), max_size=4
)

PROGRAM = st.dictionaries(
    st.sampled_from(["react", "extract"]),
    st.builds(lambda text, demos: Prompt(text, {}, {}, tuple(demos)), TEXTS, DEMONSTRATIONS),
    min_size=1,
)


@given(PROGRAM, PROGRAM)
def test_a_diff_accounts_for_every_line_and_is_empty_between_equal_programs(a: Program, b: Program) -> None:
    assert program_diff(a, a, ("a", "a")) == ()
    old, new = [*program_lines(a)], [*program_lines(b)]
    kinds = [line[:1] for line in program_diff(a, b, ("a", "b"))[2:]]
    assert kinds.count("+") - kinds.count("-") == len(new) - len(old)
    assert bool(kinds) == (old != new)


UNPAID = NEVER_PAID.format('"<an earlier result>"')
UNREAD = {"event": "ask", "role": "decide", "messages": [], "reply": "?", "wire_error": "No JSON\n at all."}
HELD: list[tuple[list[Event], list[str]]] = [
    ([], ['The plan\'s call rate({"currency": "SEK"}) was never made.', UNPAID]),
    ([tool(*RATED), WRONG_PAY], [AMOUNT]),  # results in the trace stand for references
    ([tool(*RATED)], [NEVER_PAID.format(7)]),
    (  # what follows from a wrong call is not blamed
        [tool("rate", {"currency": "EUR"}, '{"value": 8}'), WRONG_PAY],
        ['Argument currency of rate was "EUR"; the plan has "SEK".'],
    ),
    ([DISTURBED, tool(*PAID)], []),  # a disturbed result is no truth
    ([DISTURBED, tool(*RATED), WRONG_PAY], [AMOUNT]),  # a call that got through in the end counts
    ([tool("rate", {"currency": "SEK"}, "no", "error"), tool(*RATED), WRONG_PAY], [AMOUNT, "Tool rate failed: no."]),
    (
        [
            UNREAD,
            tool("rate", {"currency": "sek"}, "unknown currency", "error", error_type="KeyError"),
            tool("rate", {"currency": "EUR"}, "11"),
        ],
        [
            *('Argument currency of rate was "sek"; the plan has "SEK".', UNPAID, "Tool rate failed: unknown currency."),
            "The reply could not be read: No JSON at all.",
        ],
    ),
]


@pytest.mark.parametrize(("events", "said"), HELD)
def test_calls_are_held_against_the_plan(events: list[Event], said: list[str]) -> None:
    assert lines(*events) == [ANSWER, *said]


def test_another_way_through_the_plan_is_as_good_and_a_failure_that_it_expects_is_none() -> None:
    second = PlannedCall("c2", "rate", {"currency": "NOK"}, "Find the other rate.")
    task = replace(TASK, plan=Plan((RATE, second), 42))
    assert lines(tool(*RATED), tool(*RATED), task=task)[1:] == ['The plan\'s call rate({"currency": "NOK"}) was never made.']
    other = PlannedCall("c1", "look_up", {"what": "SEK"}, "Look it up.")
    task = replace(TASK, plan=Plan((replace(RATE, alternatives=(other,)), PAY), Ref("c2")))
    assert lines(tool("look_up", {"what": "SEK"}, '{"value": 7}'), tool(*PAID), task=task)[1:] == []
    failed = tool("rate", {"currency": "SEK"}, "closed", "error")
    assert lines(failed, task=replace(TASK, plan=Plan((replace(RATE, fails=True),), 42)), record=record(1.0)) == [SOLVED]
    assert lines(failed, record=record(1.0)) == ["Tool rate failed: closed."]
    assert lines(tool("rate", {"currency": "EUR"}, "11"), record=record(1.0)) == [SOLVED]  # another way to a right answer


OUTCOMES: list[tuple[Record, Any, str]] = [
    (record(1.0), 42, SOLVED),
    (record(), 42, ANSWER),
    (record(stop="max_steps", answer="Maximum steps reached"), 42, "No answer: max_steps."),
    (
        record(answer='{"sum": 8, "note": "x", "n": 1}'),
        {"sum": 7, "n": 1},
        'The answer was {"sum": 8, "note": "x"}, expected {"sum": 7}.',
    ),
    (record(answer={"paid": 1}), {"paid": True}, 'The answer was {"paid": 1}, expected {"paid": true}.'),  # the scorer does
    (
        record(status="errored", reason="key sk-abcdefghijklmnop1234 refused."),
        42,
        "The trial could not be scored: key [redacted] refused.",
    ),
    (record(scores={"accuracy": 0.5, "answer": 1.0, "state": 0.5}), 42, "The score was 0.5 of 1."),
]


def test_outcomes_without_a_trace_and_end_states_by_what_differs() -> None:
    for told, expected, said in OUTCOMES:
        assert feedback(told, None, replace(TASK, expected=expected)) == said
    task = replace(TASK, end_state={"paid": ["Ann"], "open": 0})
    state = {"expected": task.end_state, "found": {"paid": [], "open": 0, "late": 1}}
    told = record(scores={"accuracy": 0.0, "answer": 1.0, "state": 0.0})
    assert lines(tool(*RATED), tool(*PAID), task=task, record=told, end_state=state) == [
        'The end state was {"paid": [], "late": 1}, expected {"paid": ["Ann"]}.'
    ]


def test_what_is_long_much_or_nested_deep_is_cut_after_secrets_are_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "open-sesame-99")
    long = "x" * (MAX_CHARS - 12) + " open-sesame-99 " + "y" * 50
    (sentence,) = lines(record=record(answer=long), task=replace(TASK, plan=None))
    assert "sesame" not in sentence
    assert sentence.endswith("…, expected 42.")
    many = lines(*(tool("rate", {}, f"error {number}", "error") for number in range(40)), task=replace(TASK, plan=None))
    assert (len(many), many[-1]) == (MAX_SENTENCES + 1, f"({41 - MAX_SENTENCES} more.)")
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert lines(tool("rate", {"currency": deep}, "1"), record=record(answer=deep))[0].endswith("expected 42.")
