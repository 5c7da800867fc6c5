"""When a scorer or a metric that gives no score ends a search.

One that raises ends it once it has raised three times, and more often than it gave a score; a metric that only returns None fails
it at its end. DSPy has no rule for None: it takes it for no success where it looks for demonstrations, and cannot add it up
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import Any

from whichloop.protocol.values import counted

from .compiling import Uncaught
from .quiet_dspy import Warn, with_place


class BudgetSpent(BaseException):
    """The design's budget is used up. No Exception: optimizers swallow those, and would go on."""


LEAST_ERRORS = 3
"""Errors from which on a scorer or metric that raises more often than not ends a search."""


@dataclass(slots=True)
class Raising:
    """How often a scorer or a metric was called, and how often it raised."""

    called: int = 0
    raised: int = 0
    returned_none: int = 0
    """Calls that returned None in the place of a score."""
    first: str = ""
    """The first error in one line; empty if there was none."""
    is_broken: bool = False
    """Whether it has raised so often that the search ends; calls under way then change nothing."""

    def returned(self, score: object = 0.0) -> None:
        """Count a call that did not raise; a score of None is none."""
        self.called += 1
        self.returned_none += score is None

    def failed(self, error: str) -> None:
        """Count a call that raised."""
        self.called += 1
        self.raised += 1
        self.first = self.first or error
        self.is_broken = self.is_broken or (self.raised >= LEAST_ERRORS and 2 * self.raised > self.called)

    @property
    def is_hopeless(self) -> bool:
        """Whether it is broken, or has raised each of the few times that it was called."""
        return self.is_broken or 0 < self.called == self.raised

    @property
    def is_silent(self) -> bool:
        """Whether no call gave a score, and some returned None."""
        return 0 < self.returned_none == self.called - self.raised

    @property
    def without_score(self) -> str:
        """Return in how many calls it gave no score, and what to return there."""
        none = f"gave no score in {self.returned_none} of {counted(self.called, 'call')}"
        return f"{none}: it has to return a number or a bool, not None; return False or 0.0 where an answer is wrong"

    def __str__(self) -> str:
        """Return `raised in 3 of 50 calls`."""
        return f"raised in {self.raised} of {counted(self.called, 'call')}"


# --- the metric that an optimizer brings ---

METRICS = ("metric", "metric_fn")
"""The attributes in which DSPy's optimizers keep their metric."""


@contextmanager
def watched_metric(teleprompter: object, warn: Warn) -> Iterator[None]:
    """Note, within the block, what the metric raises that a user's optimizer brings.

    DSPy logs such an error and scores 0. Raises Uncaught once it is broken, or at the end, also where the budget ends the search,
    if it is hopeless or has never given a score; `warn` gets a line where it raised now and then.
    """
    attributes = getattr(teleprompter, "__dict__", {})
    own_methods = {name: attributes[name] for name in METRICS if callable(attributes.get(name))}
    raising = Raising()
    attributes.update({name: _Watched(metric, raising).asked() for name, metric in own_methods.items()})
    try:
        yield
    except BudgetSpent:
        _check_scores(raising)
        raise
    except TypeError as error:
        if raising.returned_none:  # DSPy adds scores up
            raise Uncaught(f"in the metric, which {raising.without_score}") from error
        raise
    finally:
        attributes.update(own_methods)
    _check_scores(raising)
    if raising.raised:
        warn(f"its metric {raising}, which count 0, first with {raising.first}")
    if raising.returned_none:
        warn(f"its metric {raising.without_score}")


def _check_scores(raising: Raising) -> None:
    """Raise Uncaught for a metric that was called and gave no score."""
    if raising.is_hopeless:
        raise Uncaught(f"in the metric, which {raising}: {raising.first}")
    if raising.is_silent:
        raise Uncaught(f"in the metric, which {raising.without_score}")


@dataclass(frozen=True, slots=True)
class _Watched:
    metric: Callable[..., Any]
    raising: Raising
    lock: Lock = field(default_factory=Lock)

    def asked(self) -> Callable[..., Any]:
        """Return a function that calls the metric and counts its errors; GEPA looks at its signature."""

        @wraps(self.metric)
        def measured(*args: Any, **kwargs: Any) -> Any:
            try:
                value = self.metric(*args, **kwargs)
            except Exception as error:
                with self.lock:
                    self.raising.failed(with_place(error))
                    if not self.raising.is_broken:
                        raise
                    raise Uncaught(f"in the metric, which {self.raising}") from error
            with self.lock:
                self.raising.returned(value)
            return value

        return measured
