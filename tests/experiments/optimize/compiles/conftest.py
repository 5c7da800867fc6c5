"""What tests of compiles share: a loop of two predictors whose rollouts are a rule, and a model that proposes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import dspy
import pytest

from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram, PredictorCall, ProgramResult, SampledPrediction, loop_with
from whichloop.experiments.optimize.compiling import Workshop
from whichloop.experiments.optimize.optimizer import optimizer_named
from whichloop.protocol import (
    SILENT,
    Capabilities,
    Chunk,
    Loop,
    Model,
    Observer,
    Outcome,
    Program,
    Prompt,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    own_prompt,
)
from whichloop.protocol.names import parse_spec
from whichloop.protocol.program import merged

HINT = "Mind the units."


@dataclass(frozen=True)
class Tiny:
    """A design with a predictor of its own wire format and one of DSPy's."""

    given: Mapping[str, Prompt] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "tiny"

    @property
    def stops(self) -> frozenset[StopReason]:
        return frozenset({StopReason.FINISHED})

    @property
    def predictors(self) -> Program:
        return merged({"decide": own_prompt("Decide.", "reply"), "say": _SAY}, self.given)

    def with_predictors(self, program: Program) -> Tiny:
        return Tiny(program)

    def with_step_limit(self, tool_steps: int) -> Tiny:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        raise NotImplementedError("its rollouts are a rule")


_SAY = Prompt("Say it.", {"query": str, "seen": list}, {"answer": str})


def taught(program: Program, task: int, draw: int) -> float:
    """Every third task goes well by itself, each in another draw; all do with a hint, or with two demonstrations."""
    decide = program["decide"]
    whole = sum(decide.is_whole(demo) for demo in decide.demos)
    return float(HINT in decide.instructions or whole >= 2 or (task + draw) % 3 == 0)


class Proposer:
    """Answers each of an optimizer's requests in the format that it asks for, with a hint and a number that tells it apart."""

    name = "own/proposer"
    capabilities = Capabilities()

    def __init__(self, hint: str = HINT, readable: bool = True) -> None:
        self.hint = hint
        self.readable = readable
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        if not self.readable:
            return Reply("```\nWhat do you mean?\n```")
        system = request.messages[0].content
        listed = system.split("Your output fields are:")[1].split("\nAll interactions")[0]
        text = f"{self.hint} {len(self.requests)}"
        fields: dict[str, Any] = dict.fromkeys(re.findall(r"^\d+\. `(\w+)`", listed, re.MULTILINE), text)
        if "module_advice" in fields:
            fields["module_advice"] = {"decide": text}
        if "JSON object" in system:
            return Reply(json.dumps(fields))
        shown = [f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items()]
        return Reply("\n\n".join([*shown, "[[ ## completed ## ]]"]))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


@dataclass
class Bench:
    """Runs rollouts of the tiny design by a rule, keeps them, and compiles its program."""

    rule: Callable[[Program, int, int], Any] = taught
    """Program, task's number, draw → score."""
    proposer: Proposer = field(default_factory=Proposer)
    steps: int = 3
    """Requests of the predictor `decide` in a rollout."""
    loop: Loop = field(default_factory=Tiny)
    rollouts: list[tuple[str, SampledPrediction]] = field(default_factory=list)
    """Task and draw, in order."""
    programs: list[Program] = field(default_factory=list)
    """Of each rollout."""
    calls: list[PredictorCall] = field(default_factory=list)
    """Of each rollout, as they were handed on."""

    def __call__(self, loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        self.rollouts.append((inputs["task"], sampled))
        self.programs.append(program)
        score = self.rule(program, int(inputs["task"][1:]), sampled.rollout)
        told = {"feedback": "The answer was 1, expected 2.", "stop": "finished", "status": "scored"}
        fields = {"answer": "a", "score": score} | told
        calls = self.calls_of(inputs)
        self.calls.extend(calls)
        return ProgramResult(fields, tuple(calls))

    def calls_of(self, inputs: Mapping[str, Any]) -> list[PredictorCall]:
        seen: list[str] = []
        made = []
        for step in range(self.steps):
            talk = {"conversation": f"{inputs['query']} {seen}"}
            made.append(PredictorCall("decide", talk, {"reply": f"step {step} of {inputs['task']}"}))
            seen.append(f"result {step}")
        return [*made, PredictorCall("say", {"query": inputs["query"], "seen": seen}, {"answer": "a"})]

    @property
    def student(self) -> LoopProgram:
        return LoopProgram(self.loop, runner=self)

    def workshop(self, **changes: Any) -> Workshop:
        train, dev = [example(number) for number in range(6)], [example(number) for number in range(6, 11)]
        values: dict[str, Any] = {"student": self.student, "train": train, "dev": dev, "lm": lm_of(self.proposer)}
        return Workshop(**(values | changes))

    def compile(self, spec: str, **changes: Any) -> LoopProgram:
        return LoopProgram(loop_with(self.loop, optimizer_named(parse_spec(spec)).compile(self.workshop(**changes))), runner=self)


@dataclass(frozen=True)
class Compiled:
    """What came of a compile of the tiny design with seed 0 and one thread."""

    program: Program
    rollouts: tuple[tuple[str, SampledPrediction], ...]
    programs: tuple[Program, ...]


@cache
def compiled_once(spec: str) -> Compiled:
    """Compile by an optimizer, once for all tests that only read what came of it."""
    bench = Bench()
    made = bench.compile(spec)
    return Compiled(made.program, tuple(bench.rollouts), tuple(bench.programs))


def example(number: int) -> Any:
    return dspy.Example(query=f"Question {number}?", task=f"t{number}", answer=str(number)).with_inputs("query", "task")


@pytest.fixture
def bench() -> Bench:
    return Bench()


SPECS = (
    "LabeledFewShot(k=3)",
    "BootstrapFewShot(max_labeled_demos=4)",
    "BootstrapFewShotWithRandomSearch(num_candidate_programs=2)",
    "MIPROv2(num_candidates=3, num_trials=4)",
    "COPRO(breadth=2, depth=2)",
    "SIMBA(bsize=4, num_candidates=3, max_steps=2)",
    "GEPA(max_metric_calls=40)",
)


@pytest.fixture(params=SPECS, ids=lambda spec: spec.partition("(")[0])
def spec(request: pytest.FixtureRequest) -> str:
    """Each of DSPy's optimizers, small."""
    made: str = request.param
    return made
