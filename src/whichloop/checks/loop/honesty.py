"""The laws on what a design may know: what the model knows, from what its prompts show it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Loop, Model, Reply, Request, WrappedModel, render_value
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.receipts import Sighting, bare, sightings

from .contract import asked_again, is_right, limited
from .law import require
from .random_moves import ANSWER_TEXT, done, say
from .scene import CHAIN, NO_CALL, ONE_CALL, SCHEMA, TASKS, Scene, not_looked_at, play, request_text, scripted

SHORT_TASKS = (ONE_CALL, CHAIN, SCHEMA)
"""Tasks with at most three results, none of which has to make room for others."""


async def results(loop: Loop) -> None:
    """Where a request shows the receipt of a result, it shows the result, and none is missing that the model needs.

    A receipt tells the scripted model which call a text came from. A real model sees none, so a design that shows receipts by
    themselves shows nothing. What a prompt shows no longer, the model asks for again; a design may leave out older results, but not
    of `SHORT_TASKS`.
    """
    runs = []
    for task in TASKS:
        runs.append(finished := await play(limited(loop), await scripted(task)))
        for number, request in enumerate(finished.log.requests, 1):
            alone = [call for call, seen in sightings(request_text(request)).items() if any(map(_is_alone, seen))]
            where = f"task {task.id!r}: request {number} shows {len(alone)} receipts without what the tool gave"
            require(not alone, f"{where}; a receipt goes where its result goes")
        lack = asked_again(finished) if task in SHORT_TASKS else ""
        require(not lack, f"task {task.id!r}: {lack}; a request of so short a task shows each result that is still needed")
    if not any(run.log.given for run in runs):
        raise not_looked_at("no tool gave a result", runs)


def _is_alone(seen: Sighting) -> bool:
    """Return whether nothing stands between a receipt's marks, or beside the only one but marks of others."""
    return not bare(seen.text).strip(".,;:|-*[]()")


async def own_words(loop: Loop) -> None:
    """The answer is what the model says, also where that is wrong.

    A design that knows the answer without the model, from the task's plan in the memory of the process say, is right in any air.
    """
    for task in (NO_CALL, ONE_CALL, CHAIN):
        scene = await scripted(task)
        finished = await play(limited(loop), replace(scene, model=partial(_mistaken, scene)))
        where = f"task {task.id!r}: the model would have said {ANSWER_TEXT!r}"
        require(bool(finished.log.requests), f"{where}, and was not asked; {finished.problem or 'a run asks the model'}")
        answer = render_value(finished.outcome.answer)[:100]
        right = is_right(finished.outcome.answer, task.expected)
        require(not right, f"{where}, and the answer is {answer!r}, which is right; it comes from the model")


def _mistaken(scene: Scene, tunnel: Tunnel) -> Model:
    return _MistakenModel(scene.model(tunnel))


class _MistakenModel(StreamsWhole, WrappedModel):
    """A model that says something else than the one within, which knows the plan."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        return say(request.codec, done(request, self.asked))
