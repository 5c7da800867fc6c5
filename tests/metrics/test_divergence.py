"""Why a trial was lost: a table of courses that were made up, one for each way to lose, and laws that hold for all of them."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.metrics.record import FaultRecord, Record
from loopbench.metrics.trace import Trace
from loopbench.metrics.trajectory.divergence import cause_of, divergence, explain, read_trial
from loopbench.metrics.trajectory.trajectory import course
from loopbench.models.profiles import FAULT_KINDS, WEAKNESS_KINDS
from loopbench.protocol import StopReason

QUESTION = "What do three rows of four and two more make in all?"
CAUSES = {"parse", "termination", "lost observation", "budget", "tool argument", "fault not recovered", "other"}


def record(*faults: FaultRecord, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": "a",
        "suite": "s",
        "suite_digest": "d",
        "task": "t1",
        "repeat": 0,
        "seed": 0,
        "status": "scored",
        "scores": {"accuracy": 0.0},
        "faults": faults,
    }
    return Record(**(values | changes))


def landed(kind: str, point: str, *, recovered: bool = False) -> FaultRecord:
    return FaultRecord(kind, point, landed=True, recovered=recovered)


read = Trace.from_json


class Talk:
    """Writes a trace as a recorder does: what was said before is only counted."""

    def __init__(self, question: str = QUESTION) -> None:
        self.events: list[dict[str, Any]] = []
        self.shown = [question]
        self.known: dict[str, list[str]] = {}
        self.said = ""

    def ask(self, role: str = "decide", fault: str = "", **came: Any) -> Talk:
        before = self.known.get(role, [])
        same = next((n for n, pair in enumerate(zip(before, self.shown, strict=False)) if pair[0] != pair[1]), None)
        same = min(len(before), len(self.shown)) if same is None else same
        messages = [{"role": "user", "content": text} for text in self.shown[same:]]
        self.known[role] = list(self.shown)
        self.said = came.get("reply", "")
        self.events.append({"event": "ask", "role": role, "same": same, "messages": messages, "reply": self.said} | came)
        if fault:
            self.events[-1]["fault"] = fault
        return self

    def call(self, tool: str, fault: str = "", **arguments: Any) -> Talk:
        calls = [{"name": tool, "arguments": arguments}]
        return self.ask(reply=f"calling {tool}", fault=fault, move={"move": "act", "thought": "", "calls": calls})

    def ran(self, data: str, *, ok: bool = True, told: bool = True, fault: str = "", error_type: str = "Down") -> Talk:
        """The last call's result; `told`: the next prompt shows it."""
        (call,) = next(event["move"]["calls"] for event in reversed(self.events) if event.get("move", {}).get("calls"))
        event = {"event": "tool", "tool": call["name"], "arguments": call["arguments"], "data": data}
        event |= {"status": "success"} if ok else {"status": "error", "error_type": error_type}
        self.events.append(event | ({"fault": fault} if fault else {}))
        return self.tell(data) if told else self

    def unreadable(self, *, told: bool = True, fault: str = "", role: str = "decide") -> Talk:
        self.ask(role, fault, reply="{{{", wire_error="The reply is no valid JSON")
        self.shown.append("{{{")
        return self.tell("Your reply is no valid JSON, please try again") if told else self

    def tell(self, text: str) -> Talk:
        self.shown.append(text)
        return self

    def answer(self, value: Any = 14, fault: str = "") -> Talk:
        return self.ask(reply=str(value), fault=fault, move={"move": "answer", "value": value})

    def ends(self, answer: Any = 14, stop: str = "finished") -> dict[str, Any]:
        return {"query": QUESTION, "events": self.events, "answer": answer, "stop": stop}


MUL: dict[str, Any] = {"a": 3, "b": 4}
ADD: dict[str, Any] = {"a": 12, "b": 2}


def solved() -> dict[str, Any]:
    return Talk().call("mul", **MUL).ran("12").call("add", **ADD).ran("14").answer().ends()


def begun() -> Talk:
    return Talk().call("mul", **MUL).ran("12")


def repeated(times: int, talk: Talk, step: Any) -> Talk:
    for _ in range(times):
        step(talk)
    return talk


def down(talk: Talk) -> Talk:
    return talk.call("add", **ADD).ran("out of order", ok=False)


LOST: dict[str, tuple[dict[str, Any], Record, str, str]] = {
    # name: trace, record, cause, detail
    "asked once": (
        begun().unreadable().ends(None, "parse_failed"),
        record(),
        "parse",
        "reply 2 could not be read; the loop did not ask again",
    ),
    "asked three times": (
        repeated(3, begun(), Talk.unreadable).ends("gave up", "error_valve"),
        record(),
        "parse",
        "replies 2, 3 and 4 could not be read; then the error valve ended the run",
    ),
    "never told what was wrong": (
        repeated(3, begun(), lambda talk: talk.unreadable(told=False)).ends("gave up", "error_valve"),
        record(),
        "parse",
        "replies 2, 3 and 4 could not be read; the next prompt did not show the error; then the error valve ended the run",
    ),
    "many unreadable replies": (
        repeated(6, begun(), Talk.unreadable).ends(None, "max_steps"),
        record(),
        "parse",
        "6 replies, from 2 to 7, could not be read; then the limit was reached",
    ),
    "a spoiled answer that could be read": (
        begun().answer(1, fault="wire.truncated").ends(1),
        record(landed("wire.truncated", "decide:answer")),
        "parse",
        "reply 2 was spoiled (wire.truncated) and read as '1'",
    ),
    "a spoiled choice that could be read": (
        begun().ask(fault="wire.empty", move={"move": "act", "calls": []}).ends(None, "max_steps"),
        record(landed("wire.empty", "decide:c2")),
        "parse",
        "reply 2 was spoiled (wire.empty) and read as something else",
    ),
    "out of time": (
        begun().ends(None, "timeout"),
        record(reason="no end within 60 s"),
        "budget",
        "its time was up at reply 1 (no end within 60 s)",
    ),
    "out of money": (begun().ends(None, "budget"), record(), "budget", "its budget was used up at reply 1"),
    "out of room": (
        begun().ask(error={"kind": "context_overflow", "message": "9,000 tokens"}).ends("too long", "error_valve"),
        record(),
        "budget",
        "the prompt no longer fitted the model's context at reply 2",
    ),
    "a crash": (
        begun().ends(None, "crashed"),
        record(reason="KeyError: 'x'"),
        "termination",
        "the loop crashed after reply 1 (KeyError: 'x')",
    ),
    "a limit": (begun().ends(None, "max_steps"), record(), "termination", "the limit was reached (max_steps) at reply 1"),
    "a limit, after trouble that was overcome": (
        down(begun().unreadable()).call("add", **ADD).ran("14").ends(None, "max_steps"),
        record(),
        "termination",
        "the limit was reached (max_steps) at reply 4; used up on the way: 1 reply that could not be read, 1 call that failed",
    ),
    "an early answer": (
        begun().answer("4711", fault="decision.early_finish").ends("4711"),
        record(landed("decision.early_finish", "decide:c2")),
        "termination",
        "answered at reply 2, before its work was done",
    ),
    "no end": (
        begun().call("mul", fault="decision.never_finish", **MUL).ran("12").ends(None, "max_steps"),
        record(landed("decision.never_finish", "decide:answer")),
        "termination",
        "called mul(a=3, b=4) at reply 2, instead of answering",
    ),
    "prose": (
        begun().ask(reply="Well …", move={"move": "text", "text": "Well …"}).ends(None, "error_valve"),
        record(),
        "termination",
        "reply 2 made no call and gave no answer",
    ),
    "a call made again": (
        begun().call("mul", **MUL).ran("12").call("mul", **MUL).ran("12").ends(None, "max_steps"),
        record(),
        "lost observation",
        "called mul(a=3, b=4) again twice, first at reply 2, although the prompt showed its result",
    ),
    "a result that was cut out": (
        Talk()
        .call("mul", **MUL)
        .ran("the product is twelve exactly", told=False)
        .call("mul", **MUL)
        .ran("the product is twelve exactly")
        .ends(None, "max_steps"),
        record(),
        "lost observation",
        "called mul(a=3, b=4) again at reply 2, whose result had been cut out of the prompt",
    ),
    "a question that was cut out": (
        Talk("Nothing to see").call("mul", **MUL).ran("12").answer("what?").ends("what?"),
        record(),
        "lost observation",
        "the prompt of reply 2 no longer showed the question",
    ),
    "something done twice": (
        begun().call("book", seat=1).ran("booked as B1").call("book", seat=1).ran("booked as B2").answer("B2").ends("B2"),
        record(),
        "lost observation",
        "called book(seat=1) again at reply 3, although the prompt showed its result",
    ),
    "a wrong value": (
        begun().call("add", fault="decision.wrong_value", a=13, b=2).ran("15").answer(15).ends(15),
        record(landed("decision.wrong_value", "decide:c2")),
        "tool argument",
        "reply 2 called add(a=13, b=2) with a wrong value",
    ),
    "a tool that does not exist": (
        repeated(
            3, begun(), lambda talk: talk.call("add_v2", fault="decision.unknown_tool", **ADD).tell("There is no such tool")
        ).ends(None, "error_valve"),
        record(landed("decision.unknown_tool", "decide:c2")),
        "tool argument",
        "the call add_v2(a=12, b=2) could not be run 3 times; then the error valve ended the run",
    ),
    "arguments that do not fit": (
        begun().call("add", a=12).ran("missing argument 'b'", ok=False, error_type="InvalidArguments").ends(None, "max_steps"),
        record(),
        "tool argument",
        "the call add(a=12) could not be run once (InvalidArguments: missing argument 'b'); then the limit was reached",
    ),
    "a tool that stays down": (
        repeated(2, begun(), down).ends(None, "error_valve"),
        record(),
        "fault not recovered",
        "add(a=12, b=2) failed twice (Down: out of order); then the error valve ended the run",
    ),
    "a tool's error that is not told": (
        repeated(2, begun(), lambda talk: talk.call("add", **ADD).ran("out of order", ok=False, told=False)).ends(
            None, "max_steps"
        ),
        record(),
        "fault not recovered",
        "add(a=12, b=2) failed twice (Down: out of order); the next prompt did not show the error; then the limit was reached",
    ),
    "a lie": (
        Talk().call("mul", **MUL).ran("13", fault="tool.lies").call("add", a=13, b=2).ran("15").answer(15).ends(15),
        record(landed("tool.lies", "decide:c1")),
        "fault not recovered",
        "mul(a=3, b=4) gave a false result, 13, and nothing set it right",
    ),
    "noise for a result": (
        begun().call("add", **ADD).ran("%PDF", fault="tool.garbage").ends(None, "forced"),
        record(landed("tool.garbage", "decide:c2")),
        "fault not recovered",
        "add(a=12, b=2) failed once (%PDF); then the limit was reached",
    ),
    "a provider that fails": (
        begun().ask(error={"kind": "provider.server", "message": "500"}, fault="provider.server").ends(None, "provider_error"),
        record(landed("provider.server", "decide:c2")),
        "fault not recovered",
        "the provider failed at reply 2 (provider.server: 500); the loop did not ask again",
    ),
    "nothing known": (begun().answer(5).ends(5), record(), "other", "answered '5'"),
    "nothing at all": (
        {"events": [], "answer": None, "stop": None},
        record(),
        "termination",
        "the run has no end",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_each_way_to_lose_is_named(name):
    trace, of, cause, detail = LOST[name]
    loss = cause_of(read(trace), of)
    assert (loss.cause, loss.detail) == (cause, detail)
    assert 1 <= loss.step <= len(course(read(trace)))


def test_every_cause_has_its_examples():
    assert {cause for _, _, cause, _ in LOST.values()} == CAUSES


@pytest.mark.parametrize("stop", [*StopReason])
def test_every_stop_has_a_cause(stop):
    assert cause_of(read(begun().ends(None, stop.value)), record()).cause in CAUSES


@pytest.mark.parametrize("name", LOST)
def test_a_trace_does_not_diverge_from_itself(name):
    trial = read_trial(read(LOST[name][0]), LOST[name][1])
    assert divergence("b", trial.course, trial) is None


@pytest.mark.parametrize("name", LOST)
def test_it_parts_where_the_other_course_has_something_else(name):
    trial, winner = read_trial(read(LOST[name][0]), LOST[name][1]), course(read(solved()))
    found = divergence("b", winner, trial)
    assert found is not None
    assert (found.winner, found.loser, found.task, found.repeat, found.stop) == ("b", "a", "t1", 0, trial.head.stop)
    assert found.step - 1 in trial.against(winner).unmatched


# --- what the other course tells ---


def against(lost: dict[str, Any], of: Record | None = None, other: dict[str, Any] | None = None) -> tuple[str, str, int]:
    found = divergence("b", course(read(other or solved())), read_trial(read(lost), of or record()))
    assert found is not None
    return found.cause, found.detail, found.step


def test_other_arguments():
    lost = begun().call("add", a=21, b=2).ran("23").answer(23).ends(23)
    said = "called add(a=21, b=2), where the other course called add(a=12, b=2)"
    assert against(lost) == ("tool argument", said, 2)


def test_an_answer_with_work_left():
    assert against(begun().answer(12).ends(12)) == ("termination", "answered at reply 2 and never called add(a=12, b=2)", 2)


def test_a_result_that_the_answer_no_longer_saw():
    talk = begun().call("add", **ADD).ran("the sum is fourteen in all", told=False)
    lost = talk.answer(5).ends(5)
    other = begun().call("add", **ADD).ran("the sum is fourteen in all").answer().ends()
    said = "answered at reply 3, when the prompt no longer showed the result of add(a=12, b=2)"
    assert against(lost, other=other) == ("lost observation", said, 3)


def test_the_same_course_with_another_answer():
    lost = begun().call("add", **ADD).ran("14").answer("fifteen").ends("fifteen")
    assert against(lost) == ("other", "answered 'fifteen'", 3)


def test_how_often_the_other_tried():
    other = repeated(2, begun(), Talk.unreadable).call("add", **ADD).ran("14").answer().ends()
    lost = begun().unreadable().ends(None, "parse_failed")
    said = "reply 2 could not be read; the loop did not ask again; the other course tried once more"
    assert against(lost, other=other)[:2] == ("parse", said)
    signatures = [step.signature for step in course(read(other))]
    assert cause_of(read(lost), record(), signatures).detail == said  # a baseline has no more than signatures


def test_with_signatures_only_an_early_answer_is_told_by_its_length():
    loss = cause_of(read(begun().answer(12).ends(12)), record(), [step.signature for step in course(read(solved()))])
    assert (loss.cause, loss.detail, loss.step) == ("termination", "answered at reply 2, 1 step before the other course", 2)


def test_an_error_that_belongs_to_the_task_is_no_obstacle():
    """Both search in vain; only one books the wrong seat."""
    searched = begun().call("find", text="x").ran("nothing found", ok=False)
    won = copy.deepcopy(searched).call("book", seat=1).ran("ok").answer("ok").ends("ok")
    lost = searched.call("book", seat=2).ran("ok").answer("ok").ends("ok")
    assert against(lost, other=won)[:2] == ("tool argument", "called book(seat=2), where the other course called book(seat=1)")


def test_a_repeat_that_the_other_needed_too_is_no_obstacle():
    """Asking until it is ready."""
    polled = begun().call("status").ran("wait").call("status").ran("wait")
    won = copy.deepcopy(polled).call("status").ran("ready").answer("ready").ends("ready")
    assert against(polled.ends(None, "max_steps"), other=won)[0] == "termination"


def test_a_fault_that_was_put_right_is_no_cause():
    talk = begun().unreadable(fault="wire.empty").call("add", **ADD).ran("14")
    loss = cause_of(read(talk.ends(None, "max_steps")), record(landed("wire.empty", "decide:c2", recovered=True)))
    assert loss.cause == "termination"


def test_what_was_stuck_last_counts_not_what_was_overcome():
    talk = repeated(3, begun(), Talk.unreadable)
    lost = repeated(2, talk.call("sub", a=1, b=1).ran("0"), down).ends(None, "max_steps")
    assert cause_of(read(lost), record()).cause == "fault not recovered"


def test_a_scripted_model_without_an_answer_is_no_parse_failure():
    """It forgot, reached the limit, and had nothing that fits the form it was asked for at the end."""
    talk = begun().call("mul", fault="decision.forget", **MUL).ran("[r:0123ab.4567] 12 [0123ab.4567:r]").unreadable(role="answer")
    loss = cause_of(read(talk.ends(None, "parse_failed")), record(landed("decision.forget", "decide:c1", recovered=True)))
    assert loss.cause == "lost observation"


def test_branches_that_failed_once_are_blamed_though_others_went_on():
    """As a design does that works task by task: c1 is never read, c2 is."""
    act = {"move": "act", "calls": [{"name": "add", "arguments": ADD}]}
    events: list[dict[str, Any]] = [
        {
            "event": "ask",
            "role": "select",
            "scope": "c1",
            "same": 0,
            "messages": [],
            "reply": "{",
            "wire_error": "no JSON",
            "fault": "wire.malformed",
        },
        {"event": "ask", "role": "select", "scope": "c2", "same": 0, "messages": [], "reply": "", "move": act},
        {"event": "tool", "tool": "add", "arguments": ADD, "status": "success", "data": "[r:0123ab.4567] 14 [0123ab.4567:r]"},
    ]
    lost = {"query": "", "events": events, "answer": None, "stop": "forced"}
    loss = cause_of(read(lost), record(landed("wire.malformed", "select:c1")))
    assert (loss.cause, loss.detail) == ("parse", "reply 1 could not be read")


# --- hostile traces ---


@given(st.sampled_from(sorted(LOST)), st.randoms(), st.sampled_from([None, 3, "x", [], {}, [{}], float("nan"), True]))
def test_a_damaged_trace_has_a_cause_or_is_refused_in_one_line(name, random_: random.Random, value):
    trace = copy.deepcopy(LOST[name][0])
    places = [(event, key) for event in trace["events"] for key in event] + [(trace, key) for key in trace]
    item, key = random_.choice(places)
    item[key] = value
    try:
        said = cause_of(read(trace), LOST[name][1]).detail
    except ValueError as refused:
        said = str(refused)
    assert said
    assert "\n" not in said


KINDS = [*FAULT_KINDS, *WEAKNESS_KINDS, "of a later version"]
FAULT = st.builds(
    FaultRecord, st.sampled_from(KINDS), st.text(max_size=8) | st.just("decide:c1"), st.booleans(), st.booleans(), st.booleans()
)


@given(st.sampled_from(sorted(LOST)), st.sampled_from(sorted(LOST)), st.lists(FAULT, max_size=3).map(tuple), st.randoms())
def test_marks_and_faults_of_any_kind_do_no_harm(name, other, faults, random_: random.Random):
    trace = copy.deepcopy(LOST[name][0])
    for event in trace["events"]:
        if random_.random() < 0.7:
            event["fault"] = random_.choice(KINDS)
    trial = read_trial(read(trace), record(*faults, reason="two\nlines"))
    for held in (trial, trial.against(course(read(LOST[other][0]))), trial.against(course(read(solved())))):
        loss = explain(held)
        assert loss.cause in CAUSES
        assert 1 <= loss.step <= len(trial.course)
        assert not re.search(r"[\n\r]", loss.detail)
