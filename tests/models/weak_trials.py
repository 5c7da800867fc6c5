"""Tools and profiles for trials in which a weakness shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings

from tests.cases import cases
from whichloop.models.profiles import Profile, Weakness
from whichloop.models.weaknesses import CURES, Slip, slips_of
from whichloop.protocol import Message, Plan, PlannedCall, Ref, Reply, Request, Tool, WrappedModel

from . import bench

LAW = settings(max_examples=cases(20), deadline=None)
KINDS = tuple(CURES)


def times(a: float, b: float) -> float:
    """The product."""
    return round(a * b, 9)


def seats(count: int) -> int:
    """How many seats are left."""
    return 1000 - count


def weekday(date: str) -> str:
    """The day of the week."""
    if date.count("-") != 2:
        raise ValueError(f"{date!r} is no date")
    return f"day {date[-2:]}"


TOOLS = tuple(Tool.from_function(function, blocking=False) for function in (times, seats, weekday))
SPECS = {tool.name: tool.spec for tool in TOOLS}


def weak(*kinds: str, rate: float = 1.0, **more: Any) -> Profile:
    return Profile(name="weak", weaknesses=tuple(Weakness(kind=kind, rate=rate) for kind in kinds), bluff=0.0, **more)


class Told(WrappedModel):
    """A model whose every request begins with a system text."""

    def __init__(self, model: Any, text: str) -> None:
        super().__init__(model)
        self.before = Message("system", text)

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(replace(request, messages=(self.before, *request.messages)))


def told(trial: bench.Bench, text: str) -> Any:
    trial.model = Told(trial.model, text)
    return trial


def noted(trial: bench.Bench) -> list[tuple[str, str]]:
    """(kind, point) of each fault."""
    return [(fault.kind, str(fault.point)) for fault in trial.tunnel.faults]


def said(trial: bench.Bench) -> list[Any]:
    return [None if reply is None else (reply.text, reply.calls) for reply in trial.ear.replies]


def product(*, answer: Any = None) -> Plan:
    """200 * 3, and half of that."""
    first = bench.planned("c1", "times", a=200, b=3)
    second = bench.planned("c2", "times", a=Ref("c1"), b=0.5)
    return Plan((first, second), Ref("c2") if answer is None else answer)


def slip(kind: str) -> Slip:
    plan = Plan(
        (
            PlannedCall("c1", "times", {"a": 7, "b": 9}, "Multiply."),
            PlannedCall("c2", "weekday", {"date": "2020-01-02"}, "Find the day."),
        ),
        Ref("c1"),
    )
    tool = "weekday" if kind == "date" else "times"
    (found,) = slips_of(plan, (Weakness(kind=kind, rate=1, tool=tool),), (0,), SPECS)
    return found
