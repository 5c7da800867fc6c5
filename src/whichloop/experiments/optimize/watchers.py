"""Several watchers combined into one, and a silent one."""

from __future__ import annotations

from whichloop.metrics.record import Record
from whichloop.runs.engine.runner import Unwatched

from .candidates import Candidate, SearchCost, SearchEnd, Watcher


class Watchers(Unwatched):
    """A watcher that notifies several others in turn."""

    def __init__(self, *watchers: Watcher) -> None:
        self.watchers = watchers

    def began(self, design: str, initial: Candidate) -> None:
        for watcher in self.watchers:
            watcher.began(design, initial)

    def tried(self, design: str, candidate: Candidate) -> None:
        for watcher in self.watchers:
            watcher.tried(design, candidate)

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        for watcher in self.watchers:
            watcher.rolled_out(design, candidate, record, search)

    def proposed(self, design: str, proposals: SearchCost) -> None:
        for watcher in self.watchers:
            watcher.proposed(design, proposals)

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        for watcher in self.watchers:
            watcher.ended(design, end, final)


SILENT = Watchers()
"""The watcher that does nothing."""
