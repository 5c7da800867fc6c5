"""What ends a run from outside of its design: an observer or the store of a checkpoint that raises, a call that waits for a person.

A design may take whatever is raised at a call for an error of the tool, and go on: its model would then ask for the same payment
again. So a failure is raised as a `StopRun`, which the built-in designs let pass. It is also remembered: a design that catches even
that gets it again from each further request and call, and the run ends with it whatever the design returns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TypeVar

from whichloop.protocol import StopRun

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
        """Return what a run raises that stops so that it can be taken up: `stop`, or RunFailed if something has failed before."""
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
            if self._error is not None:
                raise self._error from None
            if self._stop is not None:
                raise self._stop from None
            raise
        ends = self._stop if self._error is None else self._error
        if ends is not None:
            raise ends

    @contextlib.contextmanager
    def resuming(self) -> Iterator[None]:
        """Do as `leaving` does, and forget the stop then: whoever catches it may take the run up at once."""
        try:
            with self.leaving():
                yield
        finally:
            self._stop = None
