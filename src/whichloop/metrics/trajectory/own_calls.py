"""What a loop asks for by itself: a request that it sends to its model once more, and a tool's call that it makes once more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from whichloop.protocol import Role

from ..trace import ModelExchange, ToolRun, Trace, TracedCall
from .failures import TracedTrial


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run of a call that the model wrote less often than the loop ran it."""

    call: TracedCall
    event: int
    """Its event in the trace."""
    after_failure: bool
    """Whether the run of the call before it gave no result, so that this one is a retry."""


def own_runs(trial: TracedTrial) -> Iterator[OwnRun]:
    """Yield the runs of a call beyond those that the reply asked for which made it.

    A design may ask its model what to do about a failed call: what it runs then is left out.
    """
    ran: Counter[tuple[int, str]] = Counter()
    last: dict[str, ToolRun] = {}
    is_recovering = False
    for place, event in enumerate(trial.events):
        if isinstance(event, ModelExchange):
            is_recovering = event.role == Role.RECOVER.value
        elif isinstance(event, ToolRun):
            key, decider = event.call.key, trial.decider(place)
            if decider is not None:
                ran[decider.number, key] += 1
                written = sum(call.key == key for call in decider.calls)
                if ran[decider.number, key] > max(1, written) and not is_recovering:
                    yield OwnRun(event.call, place, after_failure=not last[key].gave_result)
            last[key] = event


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The requests of a trial in numbers."""

    requests: int
    again: int
    """Requests that show what the one before them of the same role and scope showed, and nothing else."""
    again_after_error: int
    """Those of them that follow an error, or a reply that could not be read."""
    most_messages: int
    """Messages of the request that shows most."""

    @classmethod
    def of(cls, trace: Trace) -> RequestCounts:
        """Count the requests of a trace."""
        exchanges = [event for event in trace.events if isinstance(event, ModelExchange)]
        before: dict[tuple[str, str], ModelExchange] = {}
        again: list[ModelExchange] = []
        for ask in exchanges:
            earlier = before.get((ask.role, ask.scope))
            if earlier is not None and not ask.messages and ask.same == _messages(earlier):
                again.append(earlier)
            before[ask.role, ask.scope] = ask
        failed = sum(earlier.error is not None or earlier.wire_error is not None for earlier in again)
        return cls(len(exchanges), len(again), failed, max(map(_messages, exchanges), default=0))


def _messages(ask: ModelExchange) -> int:
    return ask.same + len(ask.messages)
