"""Courses that were made up, one for each way to lose, and what writes them."""

from __future__ import annotations

from typing import Any

from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trace import Trace

QUESTION = "What do three rows of four and two more make in all?"


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


def hidden(talk: Talk) -> Talk:
    """Fail in a way that the loop puts a text of its own in the place of, beside the name of the tool."""
    return talk.call("add", **ADD).ran("add is out of order", ok=False, told=False).tell("add: Go on.")


def ran_otherwise(talk: Talk, tool: str, **arguments: Any) -> Talk:
    """Let a tool run with arguments that the last reply did not write."""
    talk.events.append({"event": "tool", "tool": tool, "arguments": arguments, "data": "16", "status": "success"})
    return talk.tell("16")


def lost(
    trace: dict[str, Any], cause: str, detail: str, *faults: FaultRecord, **changes: Any
) -> tuple[dict[str, Any], Record, str, str]:
    return trace, record(*faults, **changes), cause, detail


LOST = {
    "asked once": lost(
        begun().unreadable().ends(None, "parse_failed"), "parse", "reply 2 could not be read; the loop did not ask again"
    ),
    "a spoiled answer that could be read": lost(
        begun().answer(1, fault="wire.truncated").ends(1),
        "parse",
        "reply 2 was spoiled (wire.truncated) and read as '1'",
        landed("wire.truncated", "decide:answer"),
    ),
    "out of time": lost(
        begun().ends(None, "timeout"),
        "time limit",
        "it reached the trial's time limit at reply 1 (no end within 60 s)",
        reason="no end within 60 s",
    ),
    "out of room": lost(
        begun().ask(error={"kind": "context_overflow", "message": "9,000 tokens"}).ends("too long", "error_valve"),
        "budget",
        "the prompt no longer fitted the model's context at reply 2",
    ),
    "a crash": lost(
        begun().ends(None, "crashed"), "crash", "the loop crashed after reply 1 (KeyError: 'x')", reason="KeyError: 'x'"
    ),
    "a limit, after trouble that was overcome": lost(
        down(begun().unreadable()).call("add", **ADD).ran("14").ends(None, "max_steps"),
        "termination",
        "the limit was reached (max_steps) at reply 4; used up on the way: 1 reply that could not be read, 1 call that failed",
    ),
    "an early answer": lost(
        begun().answer("4711", fault="decision.early_finish").ends("4711"),
        "termination",
        "answered at reply 2, before its work was done",
        landed("decision.early_finish", "decide:c2"),
    ),
    "no end": lost(
        begun().call("mul", fault="decision.never_finish", **MUL).ran("12").ends(None, "max_steps"),
        "termination",
        "called mul(a=3, b=4) at reply 2, instead of answering",
        landed("decision.never_finish", "decide:answer"),
    ),
    "a result that was cut out": lost(
        Talk()
        .call("mul", **MUL)
        .ran("the product is twelve exactly", told=False)
        .call("mul", **MUL)
        .ran("the product is twelve exactly")
        .ends(None, "max_steps"),
        "lost observation",
        "the loop never showed the model what mul(a=3, b=4) gave, 'the product is twelve exactly'",
    ),
    "a question that was cut out": lost(
        Talk("Nothing to see").call("mul", **MUL).ran("12").answer("what?").ends("what?"),
        "lost observation",
        "the prompt of reply 2 no longer showed the question",
    ),
    "something done twice": lost(
        begun().call("book", seat=1).ran("booked as B1").call("book", seat=1).ran("booked as B2").answer("B2").ends("B2"),
        "lost observation",
        "called book(seat=1) again at reply 3, although the prompt showed its result",
    ),
    "a wrong value": lost(
        begun().call("add", fault="decision.wrong_value", a=13, b=2).ran("15").answer(15).ends(15),
        "tool argument",
        "reply 2 called add(a=13, b=2) with a wrong value",
        landed("decision.wrong_value", "decide:c2"),
    ),
    "a tool that does not exist": lost(
        repeated(
            3, begun(), lambda talk: talk.call("add_v2", fault="decision.unknown_tool", **ADD).tell("There is no such tool")
        ).ends(None, "error_valve"),
        "tool argument",
        "the call add_v2(a=12, b=2) could not be run 3 times (decision.unknown_tool); then the error valve ended the run",
        landed("decision.unknown_tool", "decide:c2"),
    ),
    "a tool that stays down": lost(
        repeated(2, begun(), down).ends(None, "error_valve"),
        "fault not recovered",
        "add(a=12, b=2) failed twice (Down: out of order); then the error valve ended the run",
    ),
    "a tool's error that is not told": lost(
        repeated(2, begun(), lambda talk: talk.call("add", **ADD).ran("out of order", ok=False, told=False)).ends(
            None, "max_steps"
        ),
        "error not shown",
        "add(a=12, b=2) failed twice (Down: out of order); the next prompt did not show the error; then the limit was reached",
    ),
    "errors in words of the loop's own that used up the limit": lost(
        repeated(3, begun(), hidden).call("add", **ADD).ran("14").ends(None, "max_steps"),
        "error not shown",
        "add(a=12, b=2) failed 3 times (Down: add is out of order); the next prompt did not show the error",
    ),
    "an answer of another type": lost(
        begun().answer().ends(None, "parse_failed") | {"details": {"error": "answer: 14 is not of type 'string'", "answer": 14}},
        "answer refused",
        "answer refused: answer: 14 is not of type 'string'; reply 2 stated '14'",
    ),
    "a lie": lost(
        Talk().call("mul", **MUL).ran("13", fault="tool.lies").call("add", a=13, b=2).ran("15").answer(15).ends(15),
        "fault not recovered",
        "mul(a=3, b=4) gave a false result, 13, and nothing set it right",
        landed("tool.lies", "decide:c1"),
    ),
    "noise for a result that was passed on": lost(
        Talk()
        .call("read", id=1)
        .ran("%PDF", fault="tool.garbage")
        .call("load", text="%PDF")
        .ran("no such text", ok=False, error_type="InvalidArguments")
        .ends(None, "max_steps"),
        "fault not recovered",
        "believed the damaged result of read(id=1) (tool.garbage), and passed it on: the call load(text='%PDF') could not be run "
        "once (InvalidArguments: no such text); then the limit was reached",
        landed("tool.garbage", "tool:c1"),
    ),
    "a provider that fails": lost(
        begun().ask(error={"kind": "provider.server", "message": "500"}, fault="provider.server").ends(None, "provider_error"),
        "fault not recovered",
        "the provider failed at reply 2 (provider.server: 500); the loop did not ask again",
        landed("provider.server", "decide:c2"),
    ),
    "other arguments than were written": lost(
        ran_otherwise(Talk().call("mul", **MUL), "mul", a=4, b=4).answer(16).ends(16),
        "altered call",
        "the loop called mul(a=4, b=4), where the model wrote mul(a=3, b=4) at reply 1",
    ),
    "a call that was never run": lost(
        begun().call("add", **ADD).answer(12).ends(12),
        "dropped call",
        "the loop never ran add(a=12, b=2), which the model wrote at reply 2, and went on",
        landed("calls.late", "tool:c1"),
    ),
    "a call that nobody wrote": lost(
        ran_otherwise(begun(), "add", a=1, b=1).answer(2).ends(2),
        "added call",
        "the loop called add(a=1, b=1), which the model did not write",
    ),
    "a result with other digits": lost(
        begun()
        .call("add", **ADD)
        .ran("the sum of these two is 14", told=False)
        .tell("the sum of these two is 15")
        .answer(15)
        .ends(15),
        "altered result",
        "add(a=12, b=2) gave 'the sum of these two is 14', and the loop showed the model 'the sum of these two is 15'",
    ),
    "an answer that was changed": lost(
        begun().call("add", **ADD).ran("14").answer(14).ends(15),
        "altered answer",
        "the loop answered '15', where the model wrote '14'",
    ),
    "an answer that was stated in thousands": lost(
        begun().call("add", **ADD).ran("14").answer("0.014", fault="weakness.answer").ends("0.014"),
        "answer form",
        "reply 3 stated the answer in another form",
        landed("weakness.answer", "decide:answer"),
    ),
    "an instruction that was obeyed": lost(
        begun().call("add", **ADD).ran("14", fault="inject.answer").answer("injected-abcdef").ends("injected-abcdef"),
        "obeyed instruction",
        "the result of add(a=12, b=2) carried an instruction (inject.answer), and the model obeyed it",
        landed("inject.answer", "decide:c1"),
    ),
    "nothing known": lost(begun().answer(5).ends(5), "other", "answered '5'"),
    "nothing at all": lost({"events": [], "answer": None, "stop": None}, "other", "the trace does not say how the run ended"),
}
