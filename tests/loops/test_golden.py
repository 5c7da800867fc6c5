"""Golden traces: what each design asks, in which words, on the same five scripted scenarios; and the examples.

A trace that changed on purpose is renewed by deleting its file and running this test once; read the difference before you keep it.
"""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopbench.loops.bare import Bare
from loopbench.loops.react_extract import ReactExtract
from loopbench.protocol import Act, Answer, Loop, Observer, Query, Reply, Request, Tool, Toolbox, ToolCall, run_sync

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
LOOPS: dict[str, Loop] = {"bare": Bare(), "react_extract": ReactExtract()}
TOOL_STEPS = 3


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def divide(a: int, b: int) -> float:
    """Divide a by b."""
    if b == 0:
        raise ValueError("b must not be 0")
    return a / b


def act(thought: str, tool: str, a: int, b: int) -> Act:
    return Act(thought, (ToolCall(tool, {"a": a, "b": b}),))


SUM, PRODUCT, END = act("The sum first.", "add", 2, 3), act("Now times four.", "multiply", 5, 4), Answer("That is it.", "20")
SCENARIOS: dict[str, list[Any]] = {
    "clean": [SUM, PRODUCT, END],
    "unreadable_reply": [SUM, "I will now multiply 5 by 4.", PRODUCT, END],
    "unknown_tool": [act("A power.", "power", 2, 3), SUM, PRODUCT, END],
    "raising_tool": [act("Divide.", "divide", 1, 0), SUM, PRODUCT, END],
    "never_finishes": [SUM] * 9,
}


class Trace(Observer):
    """All that passes between a loop, its model and its tools, as plain JSON."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._shown: tuple[Any, ...] = ()

    def exchange(self, request: Request, reply: Reply) -> None:
        same = 0
        while same < min(len(self._shown), len(request.messages)) and self._shown[same] == request.messages[same]:
            same += 1
        self._shown = request.messages
        new = [message.as_dict() for message in request.messages[same:]]
        self.events.append({"ask": request.role.value, "same": same, "messages": new, "reply": reply.text})

    def note(self, kind: str, **data: Any) -> None:
        self.events.append({"note": kind, **data})


class TracedToolbox(Toolbox):
    trace: Trace

    async def call(self, call: ToolCall, *, validate: bool = True) -> Any:
        seen = await super().call(call, validate=validate)
        self.trace.events.append({"tool": call.name, "arguments": dict(call.arguments), **seen.as_dict()})
        return seen


def traced(loop: Loop, scenario: str, kit: Any) -> list[dict[str, Any]]:
    trace = Trace()

    class Traced(kit.Moves):  # type: ignore[misc]
        async def complete(self, request: Request) -> Reply:
            reply: Reply = await super().complete(request)
            trace.exchange(request, reply)
            return reply

    tools = TracedToolbox([Tool.from_function(function, blocking=False) for function in (add, multiply, divide)])
    tools.trace = trace
    limited = loop.with_step_limit(TOOL_STEPS)
    outcome = run_sync(limited.run(Query("What is (2 + 3) * 4?"), tools, Traced(*SCENARIOS[scenario]), trace))
    trace.events.append({"answer": outcome.answer, "stop": outcome.stop.value, "steps": outcome.steps})
    return trace.events


@pytest.mark.parametrize("name", LOOPS)
def test_X_22_golden_trace_on_five_scenarios(name: str, kit: Any) -> None:
    file = HERE / "golden" / f"{name}.json"
    traces = {scenario: traced(LOOPS[name], scenario, kit) for scenario in SCENARIOS}
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(traces, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        pytest.fail(f"{file.name} was missing and has been written: read it, keep it, run again")
    golden = json.loads(file.read_text("utf-8"))
    assert golden.keys() == traces.keys()
    for scenario, events in traces.items():
        assert events == golden[scenario], f"{name}, {scenario}: changed on purpose? Delete {file.name} and run this test again"


@pytest.mark.parametrize(("scenario", "stops"), [
    ("clean", {"bare": "finished", "react_extract": "finished"}),
    ("unreadable_reply", {"bare": "finished", "react_extract": "parse_failed"}),
    ("unknown_tool", {"bare": "finished", "react_extract": "finished"}),
    ("raising_tool", {"bare": "finished", "react_extract": "finished"}),
    ("never_finishes", {"bare": "max_steps", "react_extract": "forced"}),
])  # fmt: skip
def test_X_21_X_22_every_preset_ends_each_scenario_as_its_design_says(scenario: str, stops: dict[str, str], kit: Any) -> None:
    assert {name: traced(loop, scenario, kit)[-1]["stop"] for name, loop in LOOPS.items()} == stops


def test_X_22_the_scenarios_are_the_same_for_every_design(kit: Any) -> None:
    for scenario in ("clean", "raising_tool"):
        calls = [
            [(event["tool"], event["arguments"]) for event in traced(loop, scenario, kit) if "tool" in event]
            for loop in LOOPS.values()
        ]
        assert calls[0] == calls[1]


# --- the examples ---

OFFLINE = """\
import os, runpy, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bare_standalone", "Four teas cost 14.0 euro. (3 steps)"),
        ("react_extract_standalone", "as a program: jazz at the Pit Inn; fireworks on the Sumida (finished)"),
    ],
)
def test_examples_run_offline(name: str, said: str, kit: Any) -> None:
    done = kit.python(f"{OFFLINE}runpy.run_path({str(EXAMPLES / f'{name}.py')!r}, run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert said in done.stdout.splitlines()
    assert done.stderr == ""
