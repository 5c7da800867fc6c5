"""What the tests of predictors share: specs, drawn replies, and scripted runs whose requests are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from tests.loops.helpers import Script, add
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.dspy_seam.program import PredictorCall, ReportingModel
from whichloop.metrics.record import Record
from whichloop.models.profiles import Clears, Profile
from whichloop.protocol import SILENT, Loop, Observer, Outcome, Program, Query, Reply, Tool, Toolbox, WrappedLoop, run_sync
from whichloop.protocol.chat import Message
from whichloop.protocol.model import Model, ProviderError, Request, WrappedModel
from whichloop.protocol.moves import Inexpressible
from whichloop.protocol.names import Spec, parse_spec
from whichloop.protocol.plan import Plan, PlannedCall, Ref
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial

LIMIT = 4
PHASES = ("understand", "plan", "select", "reason", "reflect", "contexts", "answer")
STATELESS = ("reasoner", "history_summarizer", "entry_summarizer", "recovery", "formatter")

PREDICTORS: Mapping[str, tuple[str, ...]] = {
    "bare": ("decide",),
    "finish": ("decide",),
    "phased": PHASES,
    "react_extract": ("react", "extract"),
    "stateless": STATELESS,
    "bare(decision_format=fields)": ("decide",),
    "bare(decision_format=native, instructions=none)": ("decide",),
    "finish(system_prompt=none)": ("decide",),
    "phased(tool_layout=agent)": (*PHASES, "summarize"),
    "phased(plan=false)": tuple(name for name in PHASES if name not in ("plan", "reason")),
    "react_extract(extract=false, on_parse_error=observe)": ("react",),
    "stateless(response_style=detailed, validate_output=true)": (*STATELESS[:3], "validator", *STATELESS[3:]),
    "stateless(max_history_length=1, constrain_names=true)": STATELESS,
    "stateless(history_as=messages)": tuple(name for name in STATELESS if name != "history_summarizer"),
    "microcompact(loop=finish, keep=1)": ("decide",),
}
"""Spec → the predictors that its configuration has, in order: the designs, and ablations that ask otherwise."""
SPECS = list(PREDICTORS)
each_spec = pytest.mark.parametrize("spec", SPECS)


def loop_of(spec: str) -> Any:
    return make_loop(parse_spec(spec), LIMIT)


class Told(Script):
    """Gives the drawn replies, a move in the request's own codec where that can say it; ids of calls are never used twice."""

    async def complete(self, request: Request) -> Reply:
        if not self.answers:
            raise ProviderError("down")
        try:
            reply = await super().complete(request)
        except Inexpressible as error:
            reply = Reply(str(error))
        named = tuple(replace(call, id=f"id{len(self.requests)}_{place}") for place, call in enumerate(reply.calls))
        return replace(reply, calls=named)


class Kept(WrappedModel):
    """Keeps each request, with what its predictor's inputs say before the reply."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.asked: list[tuple[Request, Any]] = []

    @property
    def requests(self) -> list[Request]:
        return [request for request, _ in self.asked]

    async def complete(self, request: Request) -> Reply:
        said = None if request.prompted is None else json.dumps(to_jsonable_python(dict(request.prompted.inputs())))
        self.asked.append((request, said))
        return await self.model.complete(request)


def fail(a: int, b: int) -> int:
    """Fail."""
    raise ValueError("no")


def ran(loop: Loop, replies: list[Any]) -> tuple[Kept, list[PredictorCall], Outcome]:
    calls: list[PredictorCall] = []
    model = Kept(ReportingModel(Told(*replies), calls))
    tools = Toolbox([Tool.from_function(function, blocking=False) for function in (add, fail)])
    return model, calls, run_sync(loop.run(Query("What is 2 + 3?"), tools, model))


def seen(request: Request) -> dict[str, Any]:
    """All of a request that a model or the harness can see."""
    assert request.codec is not None
    predictor = None if request.prompted is None else request.prompted.predictor
    told = {"role": request.role, "scope": request.scope, "codec": request.codec.name, "predictor": predictor}
    return request.as_dict() | told | {"examples": request.examples}


def split(request: Request) -> tuple[list[Message], list[Message]]:
    """Demonstrations, and the messages without them."""
    messages = list(request.messages)
    first = 1 if messages[0].role == "system" else 0
    last = first + request.examples
    return messages[first:last], messages[:first] + messages[last:]


def program_from(loop: Any, calls: list[PredictorCall], most: int = 2) -> Program:
    """The loop's own program with recorded calls as demonstrations."""
    return {
        name: replace(prompt, demos=tuple({**call.inputs, **call.outputs} for call in calls if call.predictor == name)[:most])
        for name, prompt in loop.predictors.items()
    }


FIRST = PlannedCall("sum", "add", {"a": 2, "b": 3}, "Add 2 and 3.")
PLAN = Plan((FIRST, PlannedCall("more", "add", {"a": Ref("sum"), "b": 4}, "Add 4 to the sum.")), Ref("more"))
TASK = Task("sums", Query("What is 2 + 3 + 4?"), 9, "numeric", PLAN)
SUITE = Suite("sums", "1", (TASK,), lambda _: StatelessEnvironment((Tool.from_function(add, blocking=False),)))


@dataclass(frozen=True)
class Recorded(WrappedLoop):
    """A loop whose requests and calls are kept."""

    kept: list[Kept] = field(default_factory=list)
    calls: list[PredictorCall] = field(default_factory=list)

    def with_step_limit(self, tool_steps: int) -> Recorded:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        self.kept.append(Kept(ReportingModel(model, self.calls)))
        return await self.loop.run(query, tools, self.kept[-1], observer)


def scripted(loop: Any, fault: str = "") -> tuple[list[Request], list[PredictorCall], Record]:
    profile = Profile(name="one", rates={fault: 0.5} if fault else {}, clears=Clears(never=0, attempts=1))
    recorded = Recorded(loop)
    arm = Arm("arm", Spec("recorded", {}), recorded, "scripted", profile)
    record = run_sync(run_trial(Trial(arm, TASK, 0, 0), TrialContext(SUITE))).record
    return recorded.kept[0].requests, recorded.calls, record


@cache
def scripted_as_it_is(spec: str, fault: str = "") -> tuple[list[Request], list[PredictorCall], Record]:
    """The run of a design with its own program, at which several tests look."""
    return scripted(loop_of(spec), fault)


@cache
def examples_of(spec: str) -> tuple[Any, Program]:
    """A loop, and its program with demonstrations from a run in clean air."""
    loop = loop_of(spec)
    _, calls, record = scripted_as_it_is(spec)
    assert record.stop is not None
    return loop, program_from(loop, calls)


def _name(request: Request) -> str:
    assert request.prompted is not None
    return request.prompted.predictor
