"""The limits of one trial: what it spends is counted as its record counts it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from whichloop.metrics.trial_limits import exceeds
from whichloop.models.cassette import RecordedModel
from whichloop.models.metering import Budget, Meter
from whichloop.models.tunnel import Tunnel
from whichloop.models.waits import Waits

from .recorder import Recorder


class TrialClock:
    """The time of one trial."""

    def __init__(self, tunnel: Tunnel | None) -> None:
        """`tunnel`: of a trial with a scripted model; None for a real one."""
        self.started = time.perf_counter()
        self.waits = Waits()
        self.recorded: RecordedModel | None = None
        """The recording that replies come from, if there is one."""
        self._tunnel = tunnel
        self._stopped: float | None = None

    def stop(self) -> None:
        """Count no further time."""
        self._stopped = time.perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds since the trial began, on the wall."""
        return (time.perf_counter() if self._stopped is None else self._stopped) - self.started

    def seconds(self, wall_s: float) -> float:
        """Return simulated time in the tunnel, else wall time without what a provider's failures and our limits cost, and with the
        recorded time of replayed replies."""
        if self._tunnel is None or self._tunnel.real_time:
            replayed_s = 0.0 if self.recorded is None else self.recorded.replayed_s
            return max(0.0, wall_s - self.waits.seconds) + replayed_s  # the two are read off different clocks
        return self._tunnel.simulated_s


class TrialMeter(Meter):
    """The meter of a trial: it refuses a call beyond a limit of the trial, and says whether the last one went beyond.

    A limit in dollars counts as every comparison of costs does: as if nothing had come from a cache or a recording.
    """

    def __init__(self, budget: Budget, run: Meter, recorder: Recorder, clock: TrialClock) -> None:
        """`run`: the meter of the whole run, which counts what is billed."""
        super().__init__(budget, run)
        self._recorder = recorder
        self._clock = clock

    @property
    def exhausted(self) -> str:
        """Why no further call is made, in words; empty while one is.

        A trial that has spent a limit to the last token may go on: its next call decides.
        """
        calls = self.budget.calls
        return f"budget of {calls:,} model calls used up" if calls is not None and self.calls >= calls else self.exceeded

    @property
    def exceeded(self) -> str:
        """The limit beyond which the trial went, in words; empty if it kept to all of them."""
        return next(self._beyond(), "")

    def _beyond(self) -> Iterator[str]:
        budget, usage = self.budget, self._recorder.usage
        if budget.tokens is not None and exceeds(usage.total_tokens, budget.tokens):
            yield f"budget of {budget.tokens:,} tokens exceeded: {usage.total_tokens:,}"
        spent = (usage.cost_usd if usage.nominal_usd is None else usage.nominal_usd) or 0.0
        if budget.dollars is not None and exceeds(spent, budget.dollars):
            yield f"budget of {budget.dollars:.12g} dollars exceeded: {spent:.6g}"
        if budget.seconds is not None and exceeds(seconds := self._clock.seconds(self._clock.wall_s), budget.seconds):
            yield f"budget of {budget.seconds:.12g} seconds exceeded: {seconds:.6g}"
