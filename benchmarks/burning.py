"""A loop that keeps its processor busy: `bare`, with hashing before each model call."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from whichloop.loops import Bare
from whichloop.protocol import SILENT, Model, Observer, Outcome, Query, Reply, Request, StopReason, Toolbox, WrappedModel

BLOCK = bytes(2**20)


def burn(megabytes: int) -> str:
    """Hash so many: 32 take some 20 ms."""
    made = hashlib.sha256()
    for _ in range(megabytes):
        made.update(BLOCK)
    return made.hexdigest()


class _Burning(WrappedModel):
    def __init__(self, model: Model, megabytes: int) -> None:
        super().__init__(model)
        self.megabytes = megabytes

    async def complete(self, request: Request) -> Reply:
        burn(self.megabytes)
        return await self.model.complete(request)


@dataclass(frozen=True, slots=True)
class Burning:
    """As `bare`, but slow."""

    megabytes: int = 32
    """Hashed at each step."""
    bare: Bare = field(default=Bare(), metadata={"option": False})

    @property
    def name(self) -> str:
        return "burning"

    @property
    def stops(self) -> frozenset[StopReason]:
        return self.bare.stops

    def with_step_limit(self, tool_steps: int) -> Burning:
        return replace(self, bare=self.bare.with_step_limit(tool_steps))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.bare.run(query, tools, _Burning(model, self.megabytes), observer)
