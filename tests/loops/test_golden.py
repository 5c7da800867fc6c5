"""Golden traces: what each design asks, in which words, and what comes of it, on the same five scripted scenarios.

A trace that changed on purpose is renewed by deleting its file and running this test once; read the difference before you keep it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.loops.helpers import add
from tests.rows import row
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.models.profiles import Clears, Profile
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool, run_sync
from whichloop.protocol.names import Spec
from whichloop.protocol.receipts import strip_receipts
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial

GOLDEN = Path(__file__).parent / "golden"
DESIGNS = ("bare", "finish", "phased", "react_extract", "stateless")


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


TOOLS = tuple(Tool.from_function(function, blocking=False) for function in (add, multiply))
FIRST = PlannedCall("sum", "add", {"a": 2, "b": 3}, "Add 2 and 3.")
CHAIN = Plan((FIRST, PlannedCall("product", "multiply", {"a": Ref("sum"), "b": 4}, "Multiply the sum by 4.")), Ref("product"))
SPREAD = Plan(
    (
        FIRST,
        PlannedCall("other", "add", {"a": 10, "b": 20}, "Add 10 and 20."),
        PlannedCall("product", "multiply", {"a": Ref("sum"), "b": Ref("other")}, "Multiply the two sums."),
    ),
    Ref("product"),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task, the wind that blows over it, and how much room there is."""

    question: str
    plan: Plan
    answer: int
    fault: str = ""
    tool_steps: int = 6

    @property
    def profile(self) -> Profile:
        """The fault meets every point once, and goes away when the model is shown what came of it."""
        clears = Clears(never=0, attempts=1, nothing=0, failed=0, words=1)
        return Profile(name="one", rates={self.fault: 1.0} if self.fault else {}, clears=clears)


SUM_TIMES_FOUR = "What is (2 + 3) * 4?"
SCENARIOS = {
    "straight": Scenario(SUM_TIMES_FOUR, CHAIN, 20),
    "error_then_recovery": Scenario(SUM_TIMES_FOUR, CHAIN, 20, "tool.raises"),
    "malformed_output": Scenario(SUM_TIMES_FOUR, CHAIN, 20, "wire.malformed"),
    "limit_reached": Scenario(SUM_TIMES_FOUR, CHAIN, 20, tool_steps=1),
    "parallel_calls": Scenario("What is (2 + 3) * (10 + 20)?", SPREAD, 150),
}


def traced(design: str, scenario: Scenario, *, real_time: bool = False) -> dict[str, Any]:
    task = Task("golden", Query(scenario.question), scenario.answer, "numeric", scenario.plan)
    suite = Suite("golden", "1", (task,), lambda _: StatelessEnvironment(TOOLS))
    spec = Spec(design, {})
    arm = Arm(design, spec, make_loop(spec, scenario.tool_steps), "scripted", scenario.profile)
    trace: dict[str, Any] = json.loads(run_sync(run_trial(Trial(arm, task, 0, 0), TrialContext(suite, real_time=real_time))).trace)
    return trace


def readable(trace: dict[str, Any]) -> str:
    """A trace as text, without the receipts around every result."""
    lines = [line for event in trace["events"] for line in _event(event)]
    end = [f"=== {trace['stop']}: {trace['answer']}", *(f"  {key}: {value}" for key, value in sorted(trace["details"].items()))]
    return strip_receipts("\n".join([*lines, *end])) + "\n"


def _event(event: dict[str, Any]) -> Iterator[str]:
    if event["event"] == "note":
        told = {key: value for key, value in event.items() if key not in ("event", "kind")}
        yield f"--- note: {event['kind']} {json.dumps(told, ensure_ascii=False, default=str)}"
    elif event["event"] == "tool":
        yield f"--- tool {event['tool']} {json.dumps(event['arguments'])}: {event['status']}{_fault(event)}"
        yield from _indented(event["data"])
    else:
        scope = f" ({event['scope']})" if "scope" in event else ""
        yield f"=== ask to {event['role']}{scope}" + (f", after {event['same']} messages as before" if event["same"] else "")
        if "tool_choice" in event:
            yield f"tool_choice: {event['tool_choice']}"
        for message in event["messages"]:
            yield f"{message['role']}:"
            yield from _indented(message["content"])
            yield from (
                f"  call {call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())
            )
        yield f"--- reply{_fault(event)}"
        yield from _indented(event.get("reply", event.get("error", {}).get("message", "")))
        yield from (f"  call {call['name']} {call['arguments']}" for call in event.get("calls", ()))
        if "wire_error" in event:
            yield f"--- unreadable: {event['wire_error']}"


def _fault(event: dict[str, Any]) -> str:
    return f", struck by {event['fault']}" if "fault" in event else ""


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in text.splitlines())


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("design", DESIGNS)
@row("X-22")
def test_golden_trace(design: str, scenario: str) -> None:
    file = GOLDEN / f"{design}.{scenario}.txt"
    trace = readable(traced(design, SCENARIOS[scenario]))
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(trace, encoding="utf-8")
        pytest.fail(f"{file.name} was missing and has been written: read it, keep it, run again")
    assert trace == file.read_text("utf-8"), f"changed on purpose? Delete {file.name} and run this test again"


@row("X-22")
def test_calls_that_need_not_wait_are_made_at_once_where_the_design_can() -> None:
    together = {}
    for design in DESIGNS:
        # In virtual time a trial's concurrent requests are answered one after the other.
        events = traced(design, SCENARIOS["parallel_calls"], real_time=True)["events"]
        made = [event["tool"] for event in events if event["event"] == "tool"]
        assert sorted(made) == ["add", "add", "multiply"]
        kinds = [event["event"] for event in events if event["event"] != "note"]
        together[design] = any(kinds[place : place + 2] == ["tool", "tool"] for place in range(len(kinds)))
    assert together == {"bare": False, "finish": True, "phased": True, "react_extract": False, "stateless": True}
