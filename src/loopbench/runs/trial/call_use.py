"""Counting what a trial does with the calls of its model: see `loopbench.metrics.calls` for what the counts mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from loopbench.models.faults import IMPLICIT
from loopbench.models.metering import MeteredExchange
from loopbench.models.pairing import paired_results
from loopbench.models.receipts import call_digest
from loopbench.protocol import Act, Message, Move, Recovery, Role, ToolCall


class CallUse:
    """How often the calls of a trial's model were lost, done twice, or given another call's result."""

    def __init__(self) -> None:
        self.asked = 0
        self.lost = 0
        self.doubled = 0
        self.planned: Mapping[str, str] = {}
        """CALL digest → planned call, with a scripted model."""
        self._waiting: dict[str, list[str]] = {}
        """Scope → CALL digests of calls that its last reply asked for, and that have not run yet."""
        self._again: set[str] = set()
        """Of all that is waiting, the calls whose results the asking prompts did not show any more."""
        self._retries: Counter[str] = Counter()
        """Scope → runs that the model has asked for by way of recovery, of whatever call."""
        self._gave: set[str] = set()
        self._paired: dict[tuple[str, str], bool] = {}
        """Id and receipt → whether the result was that of a call with the id."""

    def count(self, exchange: MeteredExchange, move: Move | None, calls: Sequence[ToolCall]) -> None:
        """Count a reply. `calls`: those of its move that can run."""
        request = exchange.request
        self._end_waiting(request.scope)
        self._pair(request.messages)
        if isinstance(move, Recovery):
            self._retries[request.scope] += move.strategy in ("retry", "alternative_tool")
        if not isinstance(move, Act):
            return
        digests = [call_digest(call.name, call.arguments) for call in calls]
        self._again.update(digest for digest in digests if digest in self._gave and self._is_missing(digest, exchange))
        self._waiting[request.scope] = digests

    def _is_missing(self, digest: str, exchange: MeteredExchange) -> bool:
        """Whether a prompt that should show the result of a call does not."""
        planned = self.planned.get(digest)
        return planned is not None and exchange.request.role is Role.DECIDE and planned not in exchange.shown_calls

    def _end_waiting(self, scope: str) -> None:
        """Count as lost what has not run until the model is asked again. A request without a scope runs beside no other."""
        for name in [scope] if scope else list(self._waiting):
            calls = self._waiting.pop(name, [])
            self.lost += len(calls)
            self.asked += len(calls)
            self._again.difference_update(calls)

    def ran(self, digest: str, gave: bool, fault: str | None) -> None:
        """Count a run of a call. `gave`: it gave a result.

        What a loop runs again by itself after it had given its result is double whatever comes of it: whether a second booking is
        taken or refused is the tool's doing.
        """
        is_result = gave and fault not in IMPLICIT  # what nobody takes for the result may be asked for again
        scope = next((scope for scope, waiting in self._waiting.items() if digest in waiting), None)
        if scope is not None:
            self._waiting[scope].remove(digest)
            self.asked += 1
            is_double = is_result and digest in self._again
            self._again.discard(digest)
        else:
            retry = next((scope for scope, retries in self._retries.items() if retries), None)
            if retry is not None:
                self._retries[retry] -= 1
            is_double = retry is None and digest in self._gave
        self.doubled += is_double
        if is_result:
            self._gave.add(digest)

    def _pair(self, messages: Sequence[Message]) -> None:
        for one in paired_results(messages) if self.planned else ():
            self._paired.setdefault((messages[one.place].call_id, one.receipt), one.is_right)

    def fields(self, unshown: int, early: int, overlapped: int) -> dict[str, int]:
        """Return the counts by name, without those of which nothing came up.

        `unshown`: results that the first prompt which needed them did not show. `early`, `overlapped`: see `CallsAtOnce`.
        """
        counted = {
            "asked": self.asked,
            "lost": min(self.lost + unshown, self.asked),
            "doubled": self.doubled,
            "paired": len(self._paired),
            "mispaired": sum(not is_right for is_right in self._paired.values()),
            "early": early,
            "overlapped": overlapped,
        }
        return {name: number for name, number in counted.items() if number}
