"""The law on prompts: what an optimizer changes is what a predictor is asked with, and what it is shown of a call is that call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

from pydantic_core import to_jsonable_python

from loopbench.models.receipts import strip_receipts
from loopbench.protocol import (
    Chunk,
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

from .contract import limited
from .law import Broken, NotApplicable, require
from .scene import TASKS, Scene, difference, play, scripted, shown_request, text_of

DEMOS = 2
"""Demonstrations that a predictor is given."""


async def prompts(loop: Loop) -> None:
    """A predictor's instructions and demonstrations reach its requests and no others; its calls read as demonstrations.

    An optimizer changes and copies these alone: what never reaches the model, or tells of another moment, misleads it.
    """
    if not isinstance(loop, Optimizable):
        raise NotApplicable("it has no predictors and with_predictors, so there is nothing to optimize")
    own = loop.predictors
    _check_apart(own)
    scenes = [await scripted(task) for task in TASKS]
    before = [await _heard(loop, scene) for scene in scenes]
    _check_calls([call for heard in before for call in heard], own)
    await _check_same(loop, scenes, before, own)
    await _check_instructions(loop, scenes, own)
    require(program_digest(loop.predictors) == program_digest(own), "with_predictors changed the loop itself; it must give another")
    for name in own:
        await _check_demos(loop, scenes, before, name, own[name])


# --- what is heard ---


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, and how it reads as a demonstration."""

    request: Request
    inputs: Mapping[str, Any]
    """As they were when it was asked."""
    outputs: Mapping[str, Any] | None
    """None: not readable."""

    @property
    def predictor(self) -> str:
        """Empty for a request that is no predictor's."""
        return "" if self.request.prompted is None else self.request.prompted.predictor


class _Hearing(WrappedModel):
    """A model that notes down each call once it is answered."""

    def __init__(self, model: Model, heard: list[_Call]) -> None:
        super().__init__(model)
        self.heard = heard

    async def complete(self, request: Request) -> Reply:
        inputs = {} if request.prompted is None else _inputs(request.prompted)
        reply = await self.model.complete(request)
        self.heard.append(_Call(request, inputs, _outputs(request.prompted, reply)))
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def _inputs(prompted: Prompted) -> dict[str, Any]:
    made: dict[str, Any] = to_jsonable_python(dict(prompted.inputs()))
    return made


def _outputs(prompted: Prompted | None, reply: Reply) -> dict[str, Any] | None:
    if prompted is None:
        return None
    try:
        made: dict[str, Any] = to_jsonable_python(dict(prompted.outputs(reply)))
    except WireError:
        return None
    return made


async def _heard(loop: Loop, scene: Scene) -> list[_Call]:
    """The calls of a run. Raises Broken where it gives no Outcome."""
    heard: list[_Call] = []
    played = await play(limited(loop), replace(scene, model=lambda tunnel: _Hearing(scene.model(tunnel), heard)))
    assert played.outcome  # Broken, where there is none
    return heard


def _shown(calls: Sequence[_Call]) -> list[dict[str, Any]]:
    return [shown_request(call.request) for call in calls]


# --- signatures, inputs and outputs ---


def _check_apart(own: Program) -> None:
    """Optimizers tell predictors apart by their fields: of equal ones, one is shown the calls of the other."""
    require(bool(own), "predictors is empty; a loop without any prompt to change has no such attribute")
    for one, other in combinations(own, 2):
        alike = _fields(own[one]) == _fields(own[other])
        require(not alike, f"predictors {one!r} and {other!r} have the same fields; optimizers tell predictors apart by them")


def _fields(prompt: Prompt) -> tuple[list[str], list[str]]:
    return list(prompt.inputs), list(prompt.outputs)


def _check_calls(calls: Sequence[_Call], own: Program) -> None:
    asked = [call for call in calls if call.request.prompted is not None]
    require(bool(asked), "no request says whose it is; Request.prompted tells an optimizer which predictor was asked, and what")
    for call in asked:
        name = call.predictor
        require(name in own, f"a request is predictor {name!r}'s, which is none of {', '.join(own)}")
        _check_names(f"the inputs of a call of {name!r}", call.inputs, own[name].inputs)
        if call.outputs is not None:
            _check_names(f"the outputs of a call of {name!r}", call.outputs, own[name].outputs)
        later = call.request.prompted is not None and _inputs(call.request.prompted) != call.inputs
        require(not later, f"the inputs of a call of {name!r} are others once the run is over; they hold nothing that came later")


def _check_names(what: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    lacking = [name for name in wanted if name not in given]
    require(not lacking, f"{what} lack {', '.join(lacking)}; a demonstration has all fields of its predictor")


# --- instructions ---


async def _check_same(loop: Loop, scenes: Sequence[Scene], before: Sequence[Sequence[_Call]], own: Program) -> None:
    same = _with(loop, own)
    for scene, calls in zip(scenes, before, strict=True):
        first, again = _shown(calls), _shown(await _heard(same, scene))
        parted = "" if first == again else difference(first, again)
        require(not parted, f"with_predictors(predictors): {parted}; with its own prompts a loop asks what it asked before")


async def _check_instructions(loop: Loop, scenes: Sequence[Scene], own: Program) -> None:
    marks = {name: f"This stands in the instructions of {place}-{name}." for place, name in enumerate(own)}
    changed = _with(loop, {name: replace(own[name], instructions=f"{own[name].instructions}\n{marks[name]}") for name in own})
    for call in [call for scene in scenes for call in await _heard(changed, scene)]:
        text = text_of(call.request)
        for name, mark in marks.items():
            if name == call.predictor:
                require(mark in text, f"a request of {name!r} does not show its changed instructions; every one of them must")
            else:
                whose = f"predictor {call.predictor!r}" if call.predictor else "no predictor"
                require(mark not in text, f"a request of {whose} shows the instructions of {name!r}; only {name!r}'s may")


# --- demonstrations ---


async def _check_demos(loop: Loop, scenes: Sequence[Scene], before: Sequence[Sequence[_Call]], name: str, own: Prompt) -> None:
    calls = [call for heard in before for call in heard if call.predictor == name and call.outputs is not None]
    demos = tuple(map(_demo, calls[:DEMOS]))
    if not demos:
        return
    taught = _with(loop, {name: replace(own, demos=(*own.demos, *demos))})
    for scene, heard in zip(scenes, before, strict=True):
        again = await _heard(taught, scene)
        for call, other in zip(heard, again, strict=False):
            if call.predictor == name:
                announced = other.request.examples - call.request.examples
                require(
                    announced > 0,
                    f"{len(demos)} demonstrations more for {name!r}, and Request.examples says {announced} messages more; "
                    "it says how many messages after the first system message are demonstrations",
                )
        first, second = ([shown_request(_without_examples(call.request)) for call in calls] for calls in (heard, again))
        parted = "" if first == second else difference(first, second)
        told = f"{len(demos)} demonstrations more for {name!r}: beside those that Request.examples announces, {parted}"
        require(not parted, f"{told}; all else stays as it was")


def _demo(call: _Call) -> Demo:
    """Without receipts, which are of its own run."""
    return {name: _plain(value) for name, value in {**call.inputs, **(call.outputs or {})}.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return strip_receipts(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _without_examples(request: Request) -> Request:
    start = next((place + 1 for place, message in enumerate(request.messages) if message.role == "system"), 0)
    return replace(request, messages=request.messages[:start] + request.messages[start + request.examples :])


def _with(loop: Loop, program: Program) -> Loop:
    """The loop with other prompts. Raises Broken where it gives something else."""
    made: object = cast(Any, loop).with_predictors(program)
    if not isinstance(made, Loop) or type(made) is not type(loop):
        raise Broken(f"with_predictors gave a {type(made).__name__}; it must give a {type(loop).__name__}")
    return made
