"""The ids of the calls of a run, the same in events, in an approval, in a checkpoint and in the messages of the outcome.

Many formats have no ids, and some models give the same one twice. So a run gives each call an id of its own, made of the call: it
is the same in every process that carries the run out again, whatever order calls at the same time begin in, and another one in
every turn of a conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from whichloop.protocol import Message, Observation, Observer, Query, StopRun, ToolCall
from whichloop.protocol.json_text import digest, sha256
from whichloop.protocol.tool_calls import CallId, id_name, new_run_id
from whichloop.protocol.values import canonical

Stop = TypeVar("Stop", bound=StopRun)


class RunFailed(StopRun):
    """Carries what an observer or a store has raised through the design to the boundary of the run, which raises that itself."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class RunFailure:
    """What ends one run, if anything has: the first thing that an observer or a store raised, else the last stop."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._stop: StopRun | None = None

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Remember what an observer or a store raises in the block, and raise RunFailed for it; a cancellation stays one."""
        try:
            yield
        except (RunFailed, asyncio.CancelledError):
            raise
        except BaseException as error:  # a SystemExit too: it must reach the boundary by the way that designs leave open
            if self._error is None:
                self._error = error
            raise RunFailed(self._error) from error

    def stopped_by(self, stop: Stop) -> Stop | RunFailed:
        """Return what a run raises that stops so that it can go on: `stop`, or RunFailed if something has failed before."""
        self._stop = stop
        return stop if self._error is None else RunFailed(self._error)

    def check_call(self) -> None:
        """Raise what has failed. A call beside one that waits still has a word to say: whether it waits, too."""
        if self._error is not None:
            raise RunFailed(self._error)

    def check_request(self) -> None:
        """Raise what has failed, and the stop of a run that a design carries on all the same."""
        self.check_call()
        if self._stop is not None:
            raise self._stop

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """Let what ends the run within the block leave it, whatever the design raises or returns; a cancellation stays one."""
        try:
            yield
        except Exception:
            if (ends := self._error or self._stop) is not None:
                raise ends from None
            raise
        if (ends := self._error or self._stop) is not None:
            raise ends


class CallIds:
    """Gives the calls of one run their ids, and holds what all that stands around its design has to know of it."""

    def __init__(self, run_id: str, history: Iterable[Message] = ()) -> None:
        """`run_id`: of the run, until its checkpoint says another. `history`: the turns before the run's."""
        self.run_id = run_id
        self.guarded: frozenset[str] = frozenset()
        """Names of the tools whose calls a person has to know of."""
        self.failure = RunFailure()
        """What an observer or a checkpoint of the run has raised."""
        self._history = tuple(history)
        self._turn: str | None = None
        self._calls_by_stem = Counter[str]()

    def named(self, call: ToolCall) -> ToolCall:
        """Return a call with the run's id for it: calls that are equal are told apart by their order."""
        if isinstance(call.call_id, CallId):
            return call
        (named,) = self.coming([call])
        self._calls_by_stem[self._stem(call)] += 1
        return named

    def coming(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls of a reply with the ids that they have if they are made."""
        counted = Counter(self._calls_by_stem)
        coming: list[ToolCall] = []
        for call in calls:
            stem = self._stem(call)
            counted[stem] += 1
            coming.append(ToolCall(call.name, call.arguments, CallId(f"{stem}-{counted[stem]}", self.run_id)))
        return coming

    def _stem(self, call: ToolCall) -> str:
        """Return what the ids of equal calls of the turn begin with."""
        arguments_digest = sha256(canonical(call.arguments))
        if self._turn is None:
            history = [replace(message, sent=None).as_dict() for message in self._history]
            self._turn = digest(history) if history else ""
        return f"{id_name(call.name)}-{sha256(f'{self._turn} {arguments_digest} {call.name}')[:12]}"


def ids_of(observer: Observer, query: Query) -> CallIds:
    """Return the ids of a run: those that a loop around this one gives, else new ones."""
    outer_ids = getattr(observer, "ids", None)
    return outer_ids if isinstance(outer_ids, CallIds) else CallIds(new_run_id(query.full_text), query.history or ())


def needs_approval(observer: Observer, names: Iterable[str]) -> bool:
    """Return whether a person has to know of calls of any of these tools: a design must not drop such a call beside an answer.

    The answer was written as if the call had been made, and says "refunded" where nothing was.
    """
    ids = getattr(observer, "ids", None)
    return isinstance(ids, CallIds) and not ids.guarded.isdisjoint(names)


def as_asked(seen: Observation, call: ToolCall) -> Observation:
    """Return a result with the id that the design gave the call; the run's, if it gave none."""
    return seen if not call.call_id or seen.call_id == call.call_id else replace(seen, call_id=call.call_id)
