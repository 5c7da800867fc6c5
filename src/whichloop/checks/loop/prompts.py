"""The law on prompts: an optimizer's changes reach the requests of their predictor, and the recorded calls are accurate."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

from pydantic_core import to_jsonable_python

from whichloop.protocol import Loop, Model, Optimizable, Program, Prompted, Reply, Request, WireError, program_digest
from whichloop.protocol.model import StreamsWhole, WrappedModel
from whichloop.protocol.receipts import strip_receipts

from ..shared.law import Broken, NotApplicable, error_summary, law, require
from .scene import TASKS, Scene, difference, limited, play, request_json, request_text, scripted


@law("prompts", "changed instructions and demonstrations reach the requests of their own predictor, and change nothing else")
async def prompts(loop: Loop) -> None:
    """An optimizer changes and copies only these: a change that never reaches the model, or an inaccurate call, misleads it."""
    if not isinstance(loop, Optimizable):
        raise NotApplicable("it has no predictors and with_predictors, so there is nothing to optimize")
    program = loop.predictors
    require(bool(program), "predictors is empty; a loop without any prompt to change has no such attribute")
    for first, second in combinations(program, 2):
        one, other = ((list(program[name].inputs), list(program[name].outputs)) for name in (first, second))
        require(one != other, f"predictors {first!r} and {second!r} have the same fields; optimizers tell predictors apart by them")
    scenes = [await scripted(task) for task in TASKS]
    recorded = [await _recorded_calls(loop, scene) for scene in scenes]
    _check_calls([call for calls in recorded for call in calls], program)
    same = _with(loop, program)
    for scene, calls in zip(scenes, recorded, strict=True):
        change = _change(calls, await _recorded_calls(same, scene))
        require(not change, f"with_predictors(predictors): {change}; with its own prompts a loop must make the same requests")
    await _check_instructions(loop, scenes, program)
    is_same = program_digest(loop.predictors) == program_digest(program)
    require(is_same, "with_predictors changed the loop itself; it must return another")
    for name in program:
        await _check_demos(loop, scenes, recorded, name, program)
    _check_refusal(loop, program)


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    """A request and its fields as a demonstration."""

    request: Request
    inputs: dict[str, Any]
    """As they were at the time of the request."""
    outputs: dict[str, Any] | None
    """None if the reply is unreadable."""

    @property
    def predictor(self) -> str:
        """The predictor of the request; empty if there is none."""
        return "" if self.request.prompted is None else self.request.prompted.predictor


class _RecordingModel(StreamsWhole, WrappedModel):
    def __init__(self, model: Model, calls: list[_RecordedCall]) -> None:
        super().__init__(model)
        self.calls = calls

    async def complete(self, request: Request) -> Reply:
        prompted, outputs = request.prompted, None
        inputs = _inputs(prompted)
        reply = await self.model.complete(request)
        with contextlib.suppress(WireError):
            outputs = None if prompted is None else to_jsonable_python(dict(prompted.outputs(reply)))
        self.calls.append(_RecordedCall(request, inputs, outputs))
        return reply


def _inputs(prompted: Prompted | None) -> dict[str, Any]:
    values: dict[str, Any] = {} if prompted is None else to_jsonable_python(dict(prompted.inputs()))
    return values


async def _recorded_calls(loop: Loop, scene: Scene) -> list[_RecordedCall]:
    """Return the calls of a run. Raises Broken if it returns no Outcome."""
    calls: list[_RecordedCall] = []
    finished = await play(limited(loop), replace(scene, model=lambda tunnel: _RecordingModel(scene.model(tunnel), calls)))
    assert finished.outcome  # raises Broken if there is none
    return calls


def _change(first: Sequence[_RecordedCall], second: Sequence[_RecordedCall]) -> str:
    one, other = ([request_json(call.request) for call in calls] for calls in (first, second))
    return difference(one, other)


def _without_examples(call: _RecordedCall) -> _RecordedCall:
    messages, examples = call.request.messages, call.request.examples
    start = next((place + 1 for place, message in enumerate(messages) if message.role == "system"), 0)
    return replace(call, request=replace(call.request, messages=messages[:start] + messages[start + examples :]))


def _check_calls(calls: Sequence[_RecordedCall], program: Program) -> None:
    prompted = [call for call in calls if call.request.prompted is not None]
    require(bool(prompted), "no request names its predictor; Request.prompted gives an optimizer the predictor and its inputs")
    for call in prompted:
        name = call.predictor
        require(name in program, f"a request is predictor {name!r}'s, which is none of {', '.join(program)}")
        fields = [("inputs", call.inputs, program[name].inputs), ("outputs", call.outputs, program[name].outputs)]
        for what, values, expected in fields:
            missing = ", ".join(field for field in expected if values is not None and field not in values)
            problem = f"the {what} of a call of {name!r} lack {missing}; a demonstration has all fields of its predictor"
            require(not missing, problem)
        is_same = _inputs(call.request.prompted) == call.inputs
        require(is_same, f"the inputs of a call of {name!r} change during the run; they must not contain later values")


async def _check_instructions(loop: Loop, scenes: Sequence[Scene], program: Program) -> None:
    marks = {name: f"This stands in the instructions of {place}-{name}." for place, name in enumerate(program)}
    marked = {name: replace(program[name], instructions=f"{program[name].instructions}\n{marks[name]}") for name in program}
    changed = _with(loop, marked)
    for call in [call for scene in scenes for call in await _recorded_calls(changed, scene)]:
        shown = [name for name, mark in marks.items() if mark in request_text(call.request)]
        name, owner = call.predictor, f"predictor {call.predictor!r}" if call.predictor else "no predictor"
        require(name in shown or not name, f"a request of {name!r} does not show its changed instructions; every one of them must")
        others = ", ".join(repr(other) for other in shown if other != name)
        require(not others, f"a request of {owner} shows the instructions of {others}; only a predictor's own may")


def _check_refusal(loop: Loop, program: Program) -> None:
    """Check that a predictor that the loop does not have is refused: a misspelt name would change nothing, unnoticed."""
    name, prompt = next(iter(program.items()))
    misspelt, wanted = f"misspelt_{name}", "it must raise a ValueError that names it"
    try:
        _with(loop, {misspelt: prompt})
    except Broken:
        raise
    except Exception as error:  # whatever the design under check raises
        is_clear = isinstance(error, ValueError) and misspelt in str(error)
        require(is_clear, f"with_predictors of {misspelt!r} raised {error_summary(error)}; {wanted}")
        return
    raise Broken(f"with_predictors accepts {misspelt!r}, which is none of {', '.join(program)}; {wanted}")


async def _check_demos(
    loop: Loop, scenes: Sequence[Scene], recorded: Sequence[Sequence[_RecordedCall]], name: str, program: Program
) -> None:
    calls = [call for original in recorded for call in original if call.predictor == name and call.outputs is not None]
    # A demonstration has no receipts of the run that it is from.
    demos = tuple(_without_receipts(call.inputs | (call.outputs or {})) for call in calls[:2])
    if not demos:
        return
    taught = _with(loop, {name: replace(program[name], demos=(*program[name].demos, *demos))})
    more = f"{len(demos)} demonstrations more for {name!r}"
    for scene, original in zip(scenes, recorded, strict=True):
        with_demos = await _recorded_calls(taught, scene)
        for call, other in zip(original, with_demos, strict=False):
            announced = other.request.examples - call.request.examples
            says = f"Request.examples says {announced} messages more; it counts those behind the first system message"
            require(call.predictor != name or announced > 0, f"{more}, and {says}")
        change = _change(*(list(map(_without_examples, calls)) for calls in (original, with_demos)))
        require(not change, f"{more}: beside those that Request.examples announces, {change}; nothing else may change")


def _without_receipts(value: Any) -> Any:
    if isinstance(value, str):
        return strip_receipts(value)
    if isinstance(value, dict):
        return {key: _without_receipts(item) for key, item in value.items()}
    return [_without_receipts(item) for item in value] if isinstance(value, list) else value


def _with(loop: Loop, program: Program) -> Loop:
    """Return the loop with other prompts. Raises Broken if the result is not such a loop."""
    result: object = cast(Any, loop).with_predictors(program)
    if not isinstance(result, Loop) or type(result) is not type(loop):
        raise Broken(f"with_predictors gave a {type(result).__name__}; it must give a {type(loop).__name__}")
    return result
