"""Any loop as a dspy.Module: its predictors by name, for teleprompters.

A teleprompter changes the predictors' instructions and demonstrations and calls the module. Each call runs the loop with that state
and reports every request as DSPy's own trace does: (predictor, inputs, outputs), each a separate value, in plain JSON, so that a
demonstration never shows what came later, and can be pickled and saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

import dspy
from pydantic_core import to_jsonable_python

from whichloop.protocol.chat import Chunk, Reply
from whichloop.protocol.loop import Loop
from whichloop.protocol.model import Asks, Model, ModelAround, Request
from whichloop.protocol.moves import WireError
from whichloop.protocol.outcome import Query
from whichloop.protocol.program import Optimizable, Program, Prompt
from whichloop.protocol.threads import run_here
from whichloop.protocol.tools import Tool, Toolbox

from .asking import model_of


@dataclass(frozen=True, slots=True)
class PredictorCall:
    """One request of a predictor, as a demonstration would show it."""

    predictor: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SampledPrediction:
    """How a teleprompter wants a call drawn; DSPy says it through the LM that it sets."""

    rollout: int = 0
    """0 for the first draw of a call, then the number of the draw."""
    temperature: float | None = None
    """None leaves it to the model."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of one call of a program."""

    fields: Mapping[str, Any]
    """The fields of the dspy.Prediction."""
    calls: tuple[PredictorCall, ...]


Runner = Callable[[Loop, Program, Mapping[str, object], SampledPrediction], ProgramResult]
"""Runs a loop for a program, on the inputs of one call."""


class LoopProgram(dspy.Module):
    """A loop's predictors as a dspy.Module: call it, save it, hand it to a teleprompter.

    Each predictor is an attribute with its name. `LoopProgram(Finish(max_steps=8), [search])(query="…").answer` asks the LM that
    `set_lm` has set, or else the one that DSPy is configured with. What it saves and loads are the prompts, without the settings.
    Raises ValueError for a loop whose prompts cannot be changed.
    """

    def __init__(
        self, loop: Loop, tools: Iterable[Tool | Callable[..., Any]] = (), schema: Any = None, runner: Runner | None = None
    ) -> None:
        """`schema`: JSON schema of the answer. `runner`: what runs the loop; None runs it over `tools`, with DSPy's LM."""
        super().__init__()
        if not isinstance(loop, Optimizable):
            raise ValueError(f"loop {loop.name}: its prompts cannot be changed: it has no predictors and with_predictors")
        own: Optimizable = loop
        run = runner or over_tools(Toolbox(tools), schema)
        self._own: Callable[[], Program] = lambda: own.predictors
        # Functions, so that all copies of a program share loop and runner.
        self._run: Callable[..., ProgramResult] = lambda *asked: run(loop, *asked)
        for name, prompt in loop.predictors.items():
            predictor = dspy.Predict(_signature(name, prompt))
            predictor.demos = [dspy.Example(dict(demo)) for demo in prompt.demos]
            setattr(self, name, predictor)

    @property
    def program(self) -> Program:
        """The predictors' state as it is now."""
        changed = {}
        for name, prompt in self._own().items():
            predictor = getattr(self, name)
            demos = tuple(to_jsonable_python(dict(demo.items())) for demo in predictor.demos)
            changed[name] = replace(prompt, instructions=predictor.signature.instructions, demos=demos)
        return changed

    def forward(self, **inputs: object) -> object:
        """Return a dspy.Prediction: without a `runner` `answer`, `stop`, `steps`, `confidence` and the outcome's details."""
        lm = next((predictor.lm for predictor in self.predictors() if predictor.lm is not None), dspy.settings.lm)
        with dspy.context(lm=lm):
            ran = self._run(self.program, inputs, _sampled(lm))
        trace = dspy.settings.trace
        if trace is not None:
            for call in ran.calls:
                # Copies: some teleprompters change the entries of a trace in place.
                inputs, outputs = to_jsonable_python(dict(call.inputs)), to_jsonable_python(dict(call.outputs))
                trace.append((getattr(self, call.predictor), inputs, dspy.Prediction(**outputs)))
        return dspy.Prediction(**ran.fields)

    async def aforward(self, **inputs: object) -> object:
        """Do the same on a thread: `await program.acall(query="…")`."""
        return await asyncio.to_thread(self.forward, **inputs)


def over_tools(tools: Toolbox, schema: Any) -> Runner:
    """Return what runs a loop over these tools, asking the LM that DSPy is configured with."""

    def run(loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        if "query" not in inputs:
            raise ValueError(f"the field 'query' is missing: program(query=...); given: {', '.join(inputs) or 'nothing'}")
        calls: list[PredictorCall] = []
        model = ReportingModel(model_of(dspy.settings.lm), calls, sampled.temperature)
        query = Query(inputs["query"], inputs.get("context", ""), schema)
        outcome = run_here(loop_with(loop, program).run(query, tools, model))
        fields = {"answer": outcome.answer, "stop": outcome.stop.value, "steps": outcome.steps, "confidence": outcome.confidence}
        return ProgramResult({**outcome.details, **fields}, tuple(calls))

    return run


def loop_with(loop: Loop, program: Program) -> Loop:
    """Return the loop with this program's prompts."""
    changed: Loop = cast(Any, loop).with_predictors(program)
    return changed


class ReportingModel(ModelAround):
    """A model that records every readable reply to a predictor's request."""

    def __init__(self, model: Model, calls: list[PredictorCall], temperature: float | None = None) -> None:
        """`temperature`: for requests that leave it open."""
        super().__init__(model)
        self.calls = calls
        self.temperature = temperature

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        # Copied before the reply, so that nothing later gets in.
        inputs: dict[str, Any] = {} if request.prompted is None else to_jsonable_python(dict(request.prompted.inputs()))
        if self.temperature is not None and request.sampling.temperature is None:
            request = replace(request, sampling=replace(request.sampling, temperature=self.temperature))
        async with aclosing(ask(request)) as chunks:
            async for chunk in chunks:
                if chunk.reply is not None:
                    self._record(request, inputs, chunk.reply)
                yield chunk

    def _record(self, request: Request, inputs: Mapping[str, object], reply: Reply) -> None:
        if request.prompted is None:
            return
        try:
            if request.codec is not None:
                request.codec.parse(reply)
            outputs = to_jsonable_python(dict(request.prompted.outputs(reply)))
        except WireError:  # not a demonstration of anything
            return
        self.calls.append(PredictorCall(request.prompted.predictor, inputs, outputs))


def _signature(name: str, prompt: Prompt) -> object:
    """Make a new signature for every predictor: in places DSPy distinguishes predictors by their signatures."""
    inputs = {field: (kind, dspy.InputField()) for field, kind in prompt.inputs.items()}
    outputs = {field: (kind, dspy.OutputField()) for field, kind in prompt.outputs.items()}
    signature = dspy.Signature({**inputs, **outputs}, prompt.instructions, f"{name.title().replace('_', '')}Signature")
    signature.instructions = prompt.instructions  # DSPy would make some up for empty ones
    return signature


def _sampled(lm: Any) -> SampledPrediction:
    if lm is None:
        return SampledPrediction()
    rollout, temperature = lm.kwargs.get("rollout_id"), lm.kwargs.get("temperature")
    return SampledPrediction(rollout if isinstance(rollout, int) else 0, temperature)
