"""Loops with one planted defect each, to see whether `whichloop report --why` names it.

`--loop 'benchmarks.loop_mutants:Mutant(loop=bare, defect=SwappedValues)'` runs one.

A defect stands between a loop and its model and tools, where a mistake of the loop's own would: what it changes, neither the model
nor a tool knows of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from benchmarks.loop_defects import DEFECTS, Crashed, Defect, GaveUp, MutantState
from whichloop.models.faults import SURE, answer_options, first_expressible
from whichloop.protocol import (
    SILENT,
    Answer,
    Chunk,
    Codec,
    Model,
    Move,
    Observation,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    WireError,
    WrappedLoop,
    WrappedModel,
)
from whichloop.protocol.tools import ToolboxAround


class MutantToolbox(ToolboxAround):
    """Tools through which a defect is planted."""

    def __init__(self, tools: Toolbox, defect: Defect, state: MutantState) -> None:
        super().__init__(tools)
        self._defect, self._state = defect, state

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        state = self._state
        made = self._defect.call(call, state)
        state.calls.append(call)
        if made is None:
            return Observation(call.name, "success", "done", None, "done", call.call_id)
        another = self._defect.made_before(call, state)
        if another is not None:
            await self.within.call(another, validate=validate)
        seen = await self.within.call(made, validate=validate)
        shown: Observation = self._defect.result(seen, state)
        state.results.append(seen)
        return shown


class MutantModel(WrappedModel):
    """A model through which a defect is planted."""

    def __init__(self, model: Model, defect: Defect, state: MutantState) -> None:
        super().__init__(model)
        self._defect, self._state = defect, state

    async def complete(self, request: Request) -> Reply:
        reply = await self.model.complete(self._defect.request(request, self._state))
        self._state.replies += 1
        if request.codec is None:
            return reply
        try:
            move = request.codec.parse(reply)
        except WireError:
            return reply
        read = self._defect.move(move, self._state)
        said = None if read is move else _said(read, request.codec)
        return reply if said is None else replace(said, usage=reply.usage)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def _said(move: Move, codec: Codec) -> Reply | None:
    """Return a move as a codec says it; None if it says no such move, so that the defect is not planted into this reply.

    An answer is said in one of the ways that formats differ in, but not as prose.
    """
    answers = answer_options(move.thought, move.value, SURE) if isinstance(move, Answer) else ()
    found, said = first_expressible(codec, (move, *(form for form in answers if isinstance(form, Answer))))
    return None if found is None else said


@dataclass(frozen=True, slots=True)
class Mutant(WrappedLoop):
    """A loop with a planted defect. Raises ValueError for an unknown one."""

    defect: str = "SwappedValues"
    """The name of the defect."""

    def __post_init__(self) -> None:
        if self.defect not in DEFECTS:
            raise ValueError(f"defect must be one of {', '.join(DEFECTS)}, not {self.defect!r}")

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        defect, state = DEFECTS[self.defect], MutantState(tools)
        try:
            outcome = await self.loop.run(query, MutantToolbox(tools, defect, state), MutantModel(model, defect, state), observer)
        except Crashed as error:
            raise LookupError("list index out of range") from error
        except GaveUp:
            return Outcome(None, StopReason.MAX_STEPS, len(state.calls), gave_up=True)
        return defect.outcome(outcome, state) if outcome.stop == StopReason.FINISHED else outcome


LOOP = Mutant
