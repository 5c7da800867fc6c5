"""Small comparisons, run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched


def ran(runs: Path, *, is_compared: bool = True, **settings: Any) -> Results:
    """A run of its own, without MLflow, that came to its end."""
    made = prepare(CompareConfig(**({"runs": runs, "mlflow": False} | settings)), is_compared=is_compared)
    assert run(made, Unwatched()) == ""
    return results(made.folder, paired=is_compared)


class Told(Unwatched):
    """Progress that remembers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.notes: list[str] = []

    def finished(self, record: Record) -> None:
        self.records.append(record)

    def noted(self, text: str) -> None:
        self.notes.append(text)
