"""The optimizer's own requests: counted apart from the rollouts, bounded apart, and asked once."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopbench.experiments.journal import RunError
from loopbench.models.metering import Meter
from loopbench.models.proposer import ScriptedProposer
from loopbench.models.tokens import estimate_input, estimate_usage
from loopbench.protocol import BudgetExceeded, Chunk, Model, NativeCall, Reply, Request, Usage, WrappedModel
from loopbench.protocol.digest import digest
from loopbench.protocol.redact import redact

from .background import Background
from .candidates import Spent
from .log import Log, read_log
from .rollouts import BudgetSpent, RunStopped


class Proposals(WrappedModel):
    """A model that answers as the log says, and asks the model behind it for the rest; the n-th asking of a request has the n-th
    reply."""

    def __init__(self, model: Model, meter: Meter, background: Background, log: Path, told: Callable[[Spent], None]) -> None:
        """`told`: what is spent so far, after each reply. Raises RunError for a log that cannot be read."""
        super().__init__(model)
        self.meter = meter
        self.background = background
        self.told = told
        self.spent = Spent()
        self.asked = Counter[str]()
        """Request's digest → how often."""
        self._logged = _logged(log)
        self._log = Log(log)

    def close(self) -> None:
        self._log.close()

    async def complete(self, request: Request) -> Reply:
        """Raises BudgetSpent beyond the budget, RunStopped where the disk is full, and what the model raises."""
        try:
            self.meter.admit()
        except BudgetExceeded as error:
            raise BudgetSpent(f"the optimizer's own requests: {error}") from None
        name = digest(request.as_dict())
        self.asked[name] += 1
        if self._logged[name]:
            reply = self._logged[name].popleft()
            if isinstance(self.model, ScriptedProposer):  # it draws by how often it was asked
                self.model.skip(request)
        else:
            # on the loop that the model's connections belong to: each of an optimizer's calls comes on one of its own
            reply = await asyncio.wrap_future(self.background.submit(self.model.complete(request)))
            usage = reply.usage or estimate_usage(estimate_input(request), reply)
            reply = replace(reply, text=redact(reply.text), usage=usage)
            try:
                self._log.append({"request": name, **_as_line(reply)})
            except RunError as error:  # a full disk is no failure of the optimizer's
                raise RunStopped(str(error)) from None
        assert reply.usage is not None
        self.meter.add(reply.usage)
        self.spent += Spent(0, 1, reply.usage.total_tokens, reply.usage.cost_usd)
        self.told(self.spent)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def _as_line(reply: Reply) -> dict[str, Any]:
    usage = reply.usage or Usage()
    return {
        "text": reply.text,
        "calls": [[call.id, call.name, call.arguments] for call in reply.calls],
        "finish_reason": reply.finish_reason,
        "usage": [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.estimated, usage.cost_usd, usage.nominal_usd],
    }


def _logged(path: Path) -> dict[str, deque[Reply]]:
    made: dict[str, deque[Reply]] = defaultdict(deque)
    for number, line in enumerate(read_log(path), 1):
        try:
            calls = tuple(NativeCall(*map(str, call)) for call in line["calls"])
            made[line["request"]].append(Reply(str(line["text"]), calls, Usage(*line["usage"]), line["finish_reason"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path}:{number}: no proposal: {type(error).__name__}: {error}") from None
    return made
