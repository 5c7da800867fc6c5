"""The optimizer's own requests: counted apart from the rollouts, bounded apart, and asked once."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from loopbench.models.metering import Meter
from loopbench.models.proposer import ScriptedProposer
from loopbench.models.tokens import estimate_input, estimate_usage
from loopbench.protocol import BudgetExceeded, Chunk, Model, NativeCall, ProviderError, Reply, Request, Usage, WrappedModel
from loopbench.protocol.digest import digest
from loopbench.protocol.redact import redact
from loopbench.protocol.values import error_text
from loopbench.runs.store.files import RunError

from .candidates import SearchCost
from .event_loop_thread import Background
from .log import JsonLinesLog, read_log
from .rollouts import BudgetSpent, RunStopped


class Proposals(WrappedModel):
    """A model that answers as the log says, and asks the model behind it for the rest; the n-th asking of a request has the n-th
    reply."""

    def __init__(self, model: Model, meter: Meter, background: Background, log: Path, told: Callable[[SearchCost], None]) -> None:
        """`told`: what is spent so far, after each reply. Raises RunError for a log that cannot be read."""
        super().__init__(model)
        self.meter = meter
        self.background = background
        self.told = told
        self.spent = SearchCost()
        self._lock = Lock()
        self._logged = _logged(log)
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    async def complete(self, request: Request) -> Reply:
        """Any number of threads may ask, each on an event loop of its own.

        Raises BudgetSpent beyond the budget, RunStopped where the disk is full or the provider fails, else what the model raises.
        """
        name = digest(request.as_dict())
        reply = self._known(name, request) or await self._asked(name, request)
        assert reply.usage is not None
        with self._lock:
            self.meter.add(reply.usage)
            self.spent += SearchCost(0, 1, reply.usage.total_tokens, reply.usage.cost_usd)
            self.told(self.spent)
        return reply

    def _known(self, name: str, request: Request) -> Reply | None:
        """The reply to the next asking of a request, where the log has it. Raises BudgetSpent."""
        with self._lock:
            try:
                self.meter.admit()
            except BudgetExceeded as error:
                raise BudgetSpent(f"the optimizer's own requests: {error}") from None
            if not self._logged[name]:
                return None
            if isinstance(self.model, ScriptedProposer):  # it draws by how often it was asked
                self.model.skip(request)
            return self._logged[name].popleft()

    async def _asked(self, name: str, request: Request) -> Reply:
        """Asked now, on the loop that the model's connections belong to."""
        try:
            reply = await asyncio.wrap_future(self.background.submit(self.model.complete(request)))
        except ProviderError as error:
            if error.kind in _OF_THE_REQUEST:
                raise
            raise RunStopped(f"the model that proposes failed ({error.kind}): {error_text(error)}") from None
        reply = replace(reply, text=redact(reply.text), usage=reply.usage or estimate_usage(estimate_input(request), reply))
        try:
            self._log.append({"request": name, **_as_line(reply)})
        except RunError as error:  # a full disk is no failure of the optimizer's
            raise RunStopped(str(error)) from None
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


_OF_THE_REQUEST = frozenset({"bad_request", "refused"})
"""A provider's failures that a resumed run would meet again: the optimizer's to deal with."""


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
