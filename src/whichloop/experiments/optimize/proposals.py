"""The optimizer's own requests: counted and limited apart from the rollouts, and made only once."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock

from whichloop.models.metering import Meter
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import BudgetExceeded, Model, ProviderError, Reply, Request, WrappedModel
from whichloop.protocol.digest import digest
from whichloop.protocol.model import StreamsWhole
from whichloop.protocol.redact import redact
from whichloop.protocol.tokens import estimate_input, estimate_usage
from whichloop.protocol.values import error_text
from whichloop.runs.store.files import RunError

from .candidates import SearchCost, adapter
from .compiling import BudgetSpent
from .manifest import JsonLinesLog, read_log
from .rollouts import Background, RunStopped

_REQUEST_ERRORS = frozenset({"bad_request", "refused"})
"""The provider errors that would recur in a resumed run, so the optimizer has to handle them."""


class Proposals(StreamsWhole, WrappedModel):
    """A model that answers from the log, and otherwise from the wrapped model; the n-th repetition of a request gets the n-th
    reply."""

    def __init__(
        self,
        model: Model,
        meter: Meter,
        background: Background,
        log: Path,
        report: Callable[[SearchCost], None],
        pricing: Callable[[Request, Reply], Reply] | None = None,
    ) -> None:
        """Read the log; `report` gets the cost so far after each reply, and `pricing` gives a reply its cost, a logged one too.

        Raises RunError for an unreadable log.
        """
        super().__init__(model)
        self.meter, self.background, self.report, self._pricing = meter, background, report, pricing
        self.spent = SearchCost()
        self._lock = Lock()
        self._logged: dict[str, deque[Reply]] = defaultdict(deque)
        for number, line in enumerate(read_log(log), 1):
            try:
                self._logged[line["request"]].append(adapter(Reply).validate_python(line["reply"]))
            except (KeyError, TypeError, ValueError) as error:
                raise RunError(f"{log}:{number}: not a proposal: {type(error).__name__}: {error}") from None
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    async def complete(self, request: Request) -> Reply:
        """Return the reply; any number of threads may call, each on its own event loop.

        Raises BudgetSpent beyond the budget, RunStopped if the disk is full or the provider fails, else the model's exceptions.
        """
        name = digest(request.as_dict())
        reply = self._next_logged(name, request) or await self._requested(name, request)
        with self._lock:
            reply = reply if self._pricing is None else self._pricing(request, reply)
            assert reply.usage is not None
            self.meter.add(reply.usage)
            self.spent += SearchCost(0, 1, reply.usage.total_tokens, reply.usage.cost_usd)
            self.report(self.spent)
        return reply

    def _next_logged(self, name: str, request: Request) -> Reply | None:
        """Return the next logged reply to a request; None if absent. Raises BudgetSpent."""
        with self._lock:
            try:
                self.meter.admit()
            except BudgetExceeded as error:
                raise BudgetSpent(f"the optimizer's own requests: {error}") from None
            if not self._logged[name]:
                return None
            if isinstance(self.model, ScriptedProposer):  # its draws depend on the number of requests
                self.model.skip(request)
            return self._logged[name].popleft()

    async def _requested(self, name: str, request: Request) -> Reply:
        """Request a reply now, on the event loop that the model's connections belong to."""
        try:
            reply = await asyncio.wrap_future(self.background.submit(self.model.complete(request)))
        except ProviderError as error:
            if error.kind in _REQUEST_ERRORS:
                raise
            raise RunStopped(f"the model that proposes failed ({error.kind}): {error_text(error)}") from None
        reply = replace(reply, text=redact(reply.text), usage=reply.usage or estimate_usage(estimate_input(request), reply))
        try:
            self._log.append({"request": name, "reply": adapter(Reply).dump_python(reply, mode="json")})
        except RunError as error:  # a full disk is not a failure of the optimizer
            raise RunStopped(str(error)) from None
        return reply
