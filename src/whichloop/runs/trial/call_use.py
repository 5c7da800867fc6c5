"""Counting what a trial does with the calls of its model: see `whichloop.metrics.measures` for what the counts mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from whichloop.models.faults import IMPLICIT
from whichloop.models.metering import MeteredExchange
from whichloop.models.receipts import call_digest, paired_results
from whichloop.protocol import Act, Message, Move, Recovery, ToolCall


class CallUse:
    """How often the calls of a trial's model were lost, done twice, or given another call's result."""

    def __init__(self) -> None:
        self.asked = 0
        self.lost = 0
        self._doubled = 0
        """Runs that were made more often than the model asked for, as far as replies are over whose calls nobody waits for."""
        self.planned: Mapping[str, str] = {}
        """CALL digest → planned call, with a scripted model."""
        self._waiting: dict[str, list[str]] = {}
        """Scope → CALL digests of calls that its last reply asked for, and that have not run yet."""
        self._unrun = 0
        """Calls that the loop went on without, though another one may have run in the place of each."""
        self._unasked_new = 0
        """Runs that no reply asked for, of calls that had never run: each stands for one that did not run, if there is one."""
        self._unasked_again = 0
        """Runs that no reply asked for, of calls that had given a result: each stands for one that did not run, or is double."""
        self._retries: Counter[str] = Counter()
        """Scope → runs that the model has asked for by way of recovery, of whatever call."""
        self._tried: set[str] = set()
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
        self._waiting[request.scope] = [call_digest(call.name, call.arguments) for call in calls]

    def _end_waiting(self, scope: str) -> None:
        """Count as lost what has not run until the model is asked again. A request without a scope runs beside no other."""
        for name in [scope] if scope else list(self._waiting):
            calls = self._waiting.pop(name, [])
            self.lost += len(calls)
            self.asked += len(calls)
            self._unrun += len(calls)
        if not any(self._waiting.values()):
            self._doubled += self._double_runs(self._unrun)
            self._unrun = self._unasked_new = self._unasked_again = 0

    def _double_runs(self, unrun: int) -> int:
        """Return how many runs that no reply asked for are more than the calls, so many, that did not run themselves.

        A loop that alters a call makes one for the one that it altered, and none too many, even if it made the same one before.
        """
        return max(0, self._unasked_again - max(0, unrun - self._unasked_new))

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
        elif (retry := next((scope for scope, retries in self._retries.items() if retries), None)) is not None:
            self._retries[retry] -= 1
        else:
            self._unasked_new += digest not in self._tried
            self._unasked_again += digest in self._gave
        self._tried.add(digest)
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
            "doubled": self._doubled + self._double_runs(self._unrun + sum(map(len, self._waiting.values()))),
            "paired": len(self._paired),
            "mispaired": sum(not is_right for is_right in self._paired.values()),
            "early": early,
            "overlapped": overlapped,
        }
        return {name: number for name, number in counted.items() if number}
