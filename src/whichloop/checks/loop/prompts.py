"""The law on prompts: an optimizer's changes reach the requests of their predictor, and the recorded calls are accurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

from pydantic_core import to_jsonable_python

from whichloop.protocol import (
    Demo,
    Loop,
    Model,
    Optimizable,
    Program,
    Prompt,
    Prompted,
    Reply,
    Request,
    WireError,
    WrappedModel,
    program_digest,
)
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.receipts import strip_receipts

from .contract import limited
from .law import Broken, NotApplicable, require
from .scene import TASKS, Scene, error_summary, first_difference, play, request_json, request_text, scripted

DEMOS = 2
"""Number of demonstrations that a predictor gets."""
REFUSAL = "it must raise a ValueError that names it"


async def prompts(loop: Loop) -> None:
    """A predictor's instructions and demonstrations reach its requests and no others; its calls are readable as demonstrations.

    An optimizer changes and copies only these: a change that never reaches the model, or an inaccurate call, misleads it. A name
    that no predictor has is refused.
    """
    if not isinstance(loop, Optimizable):
        raise NotApplicable("it has no predictors and with_predictors, so there is nothing to optimize")
    program = loop.predictors
    _check_fields_differ(program)
    scenes = [await scripted(task) for task in TASKS]
    recorded = [await _recorded_calls(loop, scene) for scene in scenes]
    _check_calls([call for calls in recorded for call in calls], program)
    await _check_same_requests(loop, scenes, recorded, program)
    await _check_instructions(loop, scenes, program)
    is_same = program_digest(loop.predictors) == program_digest(program)
    require(is_same, "with_predictors changed the loop itself; it must return another")
    for name in program:
        await _check_demos(loop, scenes, recorded, name, program[name])
    _check_refusal(loop, program)


# --- recorded calls ---


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    """A request and its fields as a demonstration."""

    request: Request
    inputs: Mapping[str, Any]
    """The inputs at the time of the request."""
    outputs: Mapping[str, Any] | None
    """The outputs; None if the reply is unreadable."""

    @property
    def predictor(self) -> str:
        """The predictor of the request; empty if there is none."""
        return "" if self.request.prompted is None else self.request.prompted.predictor


class _RecordingModel(StreamsWhole, WrappedModel):
    """A model that records each call after its reply."""

    def __init__(self, model: Model, calls: list[_RecordedCall]) -> None:
        super().__init__(model)
        self.calls = calls

    async def complete(self, request: Request) -> Reply:
        inputs = {} if request.prompted is None else _inputs(request.prompted)
        reply = await self.model.complete(request)
        self.calls.append(_RecordedCall(request, inputs, _outputs(request.prompted, reply)))
        return reply


def _inputs(prompted: Prompted) -> dict[str, Any]:
    values: dict[str, Any] = to_jsonable_python(dict(prompted.inputs()))
    return values


def _outputs(prompted: Prompted | None, reply: Reply) -> dict[str, Any] | None:
    if prompted is None:
        return None
    try:
        values: dict[str, Any] = to_jsonable_python(dict(prompted.outputs(reply)))
    except WireError:
        return None
    return values


async def _recorded_calls(loop: Loop, scene: Scene) -> list[_RecordedCall]:
    """Return the calls of a run. Raises Broken if it returns no Outcome."""
    calls: list[_RecordedCall] = []
    finished = await play(limited(loop), replace(scene, model=lambda tunnel: _RecordingModel(scene.model(tunnel), calls)))
    assert finished.outcome  # raises Broken if there is none
    return calls


def _requests_json(calls: Sequence[_RecordedCall]) -> list[dict[str, Any]]:
    return [request_json(call.request) for call in calls]


# --- signatures, inputs and outputs ---


def _check_fields_differ(program: Program) -> None:
    """Check that no two predictors have equal fields, because optimizers would confuse their calls."""
    require(bool(program), "predictors is empty; a loop without any prompt to change has no such attribute")
    for first, second in combinations(program, 2):
        is_same = _fields(program[first]) == _fields(program[second])
        require(not is_same, f"predictors {first!r} and {second!r} have the same fields; optimizers tell predictors apart by them")


def _fields(prompt: Prompt) -> tuple[list[str], list[str]]:
    return list(prompt.inputs), list(prompt.outputs)


def _check_calls(calls: Sequence[_RecordedCall], program: Program) -> None:
    prompted = [call for call in calls if call.request.prompted is not None]
    require(bool(prompted), "no request names its predictor; Request.prompted gives an optimizer the predictor and its inputs")
    for call in prompted:
        name = call.predictor
        require(name in program, f"a request is predictor {name!r}'s, which is none of {', '.join(program)}")
        _check_names(f"the inputs of a call of {name!r}", call.inputs, program[name].inputs)
        if call.outputs is not None:
            _check_names(f"the outputs of a call of {name!r}", call.outputs, program[name].outputs)
        later = call.request.prompted is not None and _inputs(call.request.prompted) != call.inputs
        require(not later, f"the inputs of a call of {name!r} change during the run; they must not contain later values")


def _check_names(label: str, values: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    missing = [name for name in expected if name not in values]
    require(not missing, f"{label} lack {', '.join(missing)}; a demonstration has all fields of its predictor")


# --- instructions ---


async def _check_same_requests(
    loop: Loop, scenes: Sequence[Scene], recorded: Sequence[Sequence[_RecordedCall]], program: Program
) -> None:
    same = _with(loop, program)
    for scene, calls in zip(scenes, recorded, strict=True):
        first, second = _requests_json(calls), _requests_json(await _recorded_calls(same, scene))
        change = "" if first == second else first_difference(first, second)
        require(not change, f"with_predictors(predictors): {change}; with its own prompts a loop must make the same requests")


async def _check_instructions(loop: Loop, scenes: Sequence[Scene], program: Program) -> None:
    marks = {name: f"This stands in the instructions of {place}-{name}." for place, name in enumerate(program)}
    changed = _with(
        loop, {name: replace(program[name], instructions=f"{program[name].instructions}\n{marks[name]}") for name in program}
    )
    for call in [call for scene in scenes for call in await _recorded_calls(changed, scene)]:
        text = request_text(call.request)
        for name, mark in marks.items():
            if name == call.predictor:
                require(mark in text, f"a request of {name!r} does not show its changed instructions; every one of them must")
            else:
                owner = f"predictor {call.predictor!r}" if call.predictor else "no predictor"
                require(mark not in text, f"a request of {owner} shows the instructions of {name!r}; only {name!r}'s may")


# --- names ---


def _check_refusal(loop: Loop, program: Program) -> None:
    """Check that a predictor that the loop does not have is refused: a misspelt name would change nothing, unnoticed."""
    name, prompt = next(iter(program.items()))
    misspelt = f"misspelt_{name}"
    try:
        _with(loop, {misspelt: prompt})
    except Broken:
        raise
    except Exception as error:  # whatever the design under check raises
        is_clear = isinstance(error, ValueError) and misspelt in str(error)
        require(is_clear, f"with_predictors of {misspelt!r} raised {error_summary(error)}; {REFUSAL}")
        return
    raise Broken(f"with_predictors accepts {misspelt!r}, which is none of {', '.join(program)}; {REFUSAL}")


# --- demonstrations ---


async def _check_demos(
    loop: Loop, scenes: Sequence[Scene], recorded: Sequence[Sequence[_RecordedCall]], name: str, prompt: Prompt
) -> None:
    calls = [call for original in recorded for call in original if call.predictor == name and call.outputs is not None]
    demos = tuple(map(_demo, calls[:DEMOS]))
    if not demos:
        return
    taught = _with(loop, {name: replace(prompt, demos=(*prompt.demos, *demos))})
    for scene, original in zip(scenes, recorded, strict=True):
        with_demos = await _recorded_calls(taught, scene)
        for call, other in zip(original, with_demos, strict=False):
            if call.predictor == name:
                announced = other.request.examples - call.request.examples
                require(
                    announced > 0,
                    f"{len(demos)} demonstrations more for {name!r}, and Request.examples says {announced} messages more; "
                    "it says how many messages after the first system message are demonstrations",
                )
        first, second = ([request_json(_without_examples(call.request)) for call in calls] for calls in (original, with_demos))
        change = "" if first == second else first_difference(first, second)
        problem = f"{len(demos)} demonstrations more for {name!r}: beside those that Request.examples announces, {change}"
        require(not change, f"{problem}; nothing else may change")


def _demo(call: _RecordedCall) -> Demo:
    """Return a call as a demonstration without the receipts of its run."""
    return {name: _without_receipts(value) for name, value in {**call.inputs, **(call.outputs or {})}.items()}


def _without_receipts(value: Any) -> Any:
    if isinstance(value, str):
        return strip_receipts(value)
    if isinstance(value, Mapping):
        return {key: _without_receipts(item) for key, item in value.items()}
    return [_without_receipts(item) for item in value] if isinstance(value, list) else value


def _without_examples(request: Request) -> Request:
    start = next((place + 1 for place, message in enumerate(request.messages) if message.role == "system"), 0)
    return replace(request, messages=request.messages[:start] + request.messages[start + request.examples :])


def _with(loop: Loop, program: Program) -> Loop:
    """Return the loop with other prompts. Raises Broken if the result is not such a loop."""
    result: object = cast(Any, loop).with_predictors(program)
    if not isinstance(result, Loop) or type(result) is not type(loop):
        raise Broken(f"with_predictors gave a {type(result).__name__}; it must give a {type(loop).__name__}")
    return result
