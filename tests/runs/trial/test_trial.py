"""One trial: whatever a loop, a model, a tool or a suite does ends in one record, sorted by its cause."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.loops.bare import Bare
from whichloop.loops.bare_codecs import CODEC
from whichloop.metrics.record import Record, records_digest
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Budget, Meter
from whichloop.protocol import Message, Outcome, Query, Reply, Request, Role, StopReason, ToolCall, Usage
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.runs.trial.trial import NotRun

ANSWER = '{"final_answer": "42"}'
FINISHED = Outcome("42", StopReason.FINISHED, 0)


def asked(text: str = "?") -> Request:
    return Request((Message("user", text),), role=Role.DECIDE, codec=CODEC)


def test_a_right_answer_and_a_limit_that_is_reached_are_scored_and_the_trace_shows_what_happened(one_trial, tiny):
    done = one_trial(Bare(), tiny(), meter=Meter(Budget(calls=2)))
    record, events = done.record, json.loads(done.trace)["events"]
    assert (record.status, record.stop, record.accuracy, record.answer) == ("scored", "finished", 1.0, "42")
    assert (record.steps, record.lm_calls, record.tool_calls, record.reason) == (2, 2, 1, "")
    assert [event["event"] for event in events] == ["ask", "tool", "ask"]
    assert events[0]["move"]["calls"] == [{"name": "double", "arguments": {"n": 21}}]
    assert re.match(r"\[r:[0-9a-f.]+\] 42 \[", events[1]["data"])
    assert events[2]["move"]["value"] == 42
    limited = one_trial(Bare(max_steps=1), tiny()).record
    assert (limited.status, limited.stop, limited.accuracy) == ("scored", "max_steps", 0.0)


class Unkind(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Other(BaseException):
    """Neither an Exception nor one that Python knows."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\nb"), "ValueError: a\nb"),
        (SystemExit(3), "SystemExit: 3"),
        (Unkind(), "Unkind: (no message"),
        (ValueError("x" * 10**6), "characters in all"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("when", ["in the middle", "before it is awaited"])
def test_a_crash_is_scored_0_and_says_what_it_was(one_trial, tiny, written, error, said, when):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        if when == "in the middle":
            await model.complete(asked())
        raise error

    def at_once(*arguments: Any) -> Outcome:
        raise error

    record = one_trial(written(at_once if when == "before it is awaited" else run), tiny()).record
    assert (record.status, record.stop, record.accuracy) == ("scored", "crashed", 0.0)
    assert said in record.reason
    assert len(record.reason) < 2_500
    assert record.errors["crash"] == 1


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "gave a NoneType, not an Outcome"),
        ("42", "gave a str"),
        (Outcome("42", "finished", 1), "stop is 'finished', not a StopReason"),  # type: ignore[arg-type]
        (Outcome("42", StopReason.TIMEOUT, 1), "'timeout', which only the harness sets"),
    ],
)
def test_what_is_no_outcome_is_a_crash(one_trial, tiny, written, left, said):
    async def run(*arguments: Any) -> Any:
        return left

    for loop in (written(run), written(lambda *arguments: left)):  # the second one's run is no coroutine
        record = one_trial(loop, tiny()).record
        assert (record.status, record.stop, record.accuracy) == ("scored", "crashed", 0.0)
    assert said in one_trial(written(run), tiny()).record.reason


class Thing:
    def __repr__(self) -> str:
        return "<Thing object at 0x7f0011223344>"


class Treacherous(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise ValueError("not mine")


LOOPED: list[Any] = [1]
LOOPED.append(LOOPED)
WEIRD = st.sampled_from(
    [
        float("nan"), float("inf"), -0.0, 10**400, "\ud800", "\x00\x1b[31m", "", None, b"42", object(), Thing(), {1, 2}, LOOPED,
        {1: 2, "1": 3}, {(1, 2): 3}, {"x": float("nan")}, Treacherous(a=1), range(3), ValueError("x"), 42, 42.0, True, ("42",),
    ]
)  # fmt: skip
VALUE = st.recursive(
    WEIRD | st.text(st.characters()) | st.floats() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUE, VALUE, VALUE, VALUE)
@example([], [], Treacherous(a=1), {})
def test_whatever_a_loop_leaves_or_does_ends_in_one_record(one_trial, tiny, written, answer, confidence, details, argument):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        observer.note("seen", event="mine", value=argument)
        await tools.call(ToolCall("double", {"n": argument, "more": [argument]}))
        named: Any = {argument if isinstance(argument, str | int) else "k": argument}
        await tools.call(ToolCall("double", named))
        return Outcome(answer, StopReason.FINISHED, 1, confidence, details)

    suite = tiny(scorer="exact")
    first, second = (one_trial(written(run), suite).record for _ in range(2))
    assert (first.status, first.stop) == ("scored", "finished"), first.reason
    assert records_digest([first]) == records_digest([second])
    assert records_digest([Record.from_json(json.loads(json.dumps(first.to_json())))]) == records_digest([first])


@pytest.mark.parametrize(
    ("scorer", "answer"), [("exact", ["42"] * 300_000), ("numeric", "1 " * 1_000_000)], ids=["list", "numbers"]
)
def test_an_answer_without_end_is_cut_and_scored(one_trial, tiny, written, scorer, answer):
    async def run(*arguments: Any) -> Outcome:
        return Outcome(answer, StopReason.FINISHED, 1)

    record = one_trial(written(run), tiny(scorer=scorer, expected="42")).record
    assert (record.status, record.accuracy) == ("scored", 0.0)
    assert len(record.answer) < 101_000


@pytest.mark.parametrize("name", ["bare", "finish(forced_finish=off)", "phased"])
def test_words_of_a_design_that_gives_up_are_never_right(one_trial, tiny, tmp_path, name):
    """`numeric` takes the last number: "3 consecutive errors detected" would count the three chairs of the question."""
    file = tmp_path / "tools-down.toml"
    file.write_text('name = "tools-down"\n[rates]\n"tool.raises" = 1.0\n[clears]\nnever = 1.0\n')
    loop = make_loop(parse_spec(name), 5)
    said = one_trial(loop, tiny(), profile=str(file)).record.answer
    numbers = re.findall(r"\d+", str(said))
    for expected in {int(number) for number in numbers} | {3, 5, 6}:
        suite = tiny(expected=expected, plan=replace(tiny().tasks[0].plan, answer=expected))
        record = one_trial(loop, suite, profile=str(file)).record
        assert (record.status, record.accuracy) == ("scored", 0.0), record


@pytest.mark.parametrize("swallows", [False, True])
def test_a_trials_own_budget_is_a_limit_of_the_loop(one_trial, tiny, written, swallows):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        for _ in range(5):
            try:
                await model.complete(asked())
            except Exception:
                if not swallows:
                    raise
        return FINISHED

    record = one_trial(written(run), tiny(), trial_budget=Budget(calls=2)).record
    assert (record.status, record.stop, record.accuracy, record.lm_calls) == ("scored", "budget", 0.0, 2)
    assert record.reason == "budget of 2 model calls used up"


@pytest.mark.parametrize("swallows", [False, True])
def test_the_runs_budget_leaves_a_trial_for_a_resume(one_trial, tiny, written, swallows, impatient):
    async def run(query: Query, tools: Any, model: Any, observer: Any) -> Outcome:
        while True:
            try:
                await model.complete(asked())
            except Exception:
                if not swallows:
                    raise

    with pytest.raises(NotRun, match="budget of 2 model calls used up"):
        one_trial(written(run), tiny(), meter=Meter(Budget(calls=2)), timeout_s=0.2)


def test_a_loop_cannot_change_what_its_trial_counts(one_trial, tiny, written):
    async def cheats(query: Any, tools: Any, model: Any, observer: Any) -> Any:
        outcome = replace(await Bare().run(query, tools, model, observer), steps=99)
        observer.usage, observer.calls, observer.errors = None, {}, {}
        for name in ("steps", "tool_calls", "repeated_calls"):
            setattr(observer, name, 0)
        return outcome

    honest, cheating = one_trial(Bare(), tiny()).record, one_trial(written(cheats), tiny()).record
    for name in ("steps", "calls", "tool_calls", "input_tokens", "output_tokens", "errors"):
        assert getattr(cheating, name) == getattr(honest, name)
    assert honest.tokens > 0


@pytest.mark.parametrize(
    ("usage", "field"),
    [
        (Usage(float("nan"), 1), "input_tokens"),  # type: ignore[arg-type]
        (Usage(1, -5), "output_tokens"),
        (Usage(1, 1, cost_usd=float("inf")), "cost_usd"),
    ],
)
def test_a_number_that_no_record_can_hold_makes_one_trial_errored_and_names_the_field(one_trial, tiny, usage, field):
    done = one_trial(Bare(), tiny(), models={"fake": FakeModel(Reply(ANSWER, usage=usage))})
    assert (done.record.status, done.trace) == ("errored", b"")
    assert done.record.reason.startswith(f"record: {field}: ")
