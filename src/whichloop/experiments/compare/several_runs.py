"""Several runs side by side, such as one for each suite: one verdict over all their columns, adjusted over all their pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from whichloop.metrics.caveats import warning_lines
from whichloop.metrics.pairs import Pair, PairTest, paired_test, pairs_of_family
from whichloop.metrics.record import records_by_arm
from whichloop.metrics.summary import METRICS, PRIMARY, task_values
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import RunError
from whichloop.text.doc import Doc, Table, lines_of

from .caveats import caveats
from .doc import LEGEND, READING, accuracy_cell, basis, decision_lines
from .results import Results
from .tables import pairs_table
from .verdict import Column, Verdict, columns_of, verdict_of


@dataclass(frozen=True)  # no slots: the verdict is computed once
class SeveralRuns:
    """Several runs and their joint results."""

    runs: tuple[Results, ...]
    columns: tuple[Column, ...]
    """A suite under a profile each, its pairs adjusted over those of all runs."""
    alpha: float
    margin: float

    @cached_property
    def verdict(self) -> Verdict:
        return verdict_of(self.columns, self.alpha, self.margin)

    @property
    def invalid(self) -> bool:
        """Whether any run is invalid, so that its verdicts do not hold."""
        return any(run.comparison.invalid for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `report RUN RUN … --json` prints."""
        return {
            "alpha": self.alpha,
            "margin": self.margin,
            "invalid": self.invalid,
            "answer": self.verdict.to_json(),
            "pairs": [{"column": column.name} | pair.to_json() for column in self.columns for pair in column.pairs],
            "runs": [run.to_json() for run in self.runs],
        }


def collect(runs: Sequence[Results]) -> SeveralRuns:
    """Combine runs. Raises RunError if their levels or margins differ, or a run is a duplicate."""
    names = [run.folder.resolve() for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"{next(name for name in names if names.count(name) > 1)}: is a duplicate")
    settings = {(run.comparison.alpha, run.comparison.margin) for run in runs}
    if len(settings) != 1:
        levels = "; ".join(f"{run_name(run.folder)}: {run.comparison.alpha:g}, {run.comparison.margin:g}" for run in runs)
        raise RunError(f"runs of different levels or margins cannot be read together: {levels}")
    ((alpha, margin),) = settings
    tests = [(place, names, test) for place, run in enumerate(runs) for names, test in _tests(run, margin)]
    pairs: dict[int, list[Pair]] = {}
    decided = pairs_of_family(PRIMARY, [(names, test) for _, names, test in tests], alpha)
    for (place, _, _), pair in zip(tests, decided, strict=True):
        pairs.setdefault(place, []).append(pair)
    found = [
        (run, column, pairs.get(place, []))
        for place, run in enumerate(runs)
        for column in columns_of(run.comparison, f"{run.manifest.suite.name}, ")
    ]
    often = Counter(column.name for _, column, _ in found)
    columns = []
    for run, column, own in found:
        compared = {frozenset((pair.a, pair.b)) for pair in column.pairs}
        joint = tuple(pair for pair in own if {pair.a, pair.b} in compared)
        name = f"{column.name} ({run_name(run.folder)})" if often[column.name] > 1 else column.name
        columns.append(replace(column, name=name, pairs=joint))
    return SeveralRuns(tuple(runs), tuple(columns), alpha, margin)


def _tests(run: Results, margin: float) -> Iterator[tuple[tuple[str, str], PairTest]]:
    """Yield a test for each pair that the run compares."""
    values = {name: task_values(own, METRICS[PRIMARY]) for name, own in records_by_arm(run.records, run.comparison.infos).items()}
    for pair in run.comparison.pairs_on(PRIMARY):
        test = paired_test(PRIMARY, values[pair.a], values[pair.b], margin)
        if test is not None:
            yield (pair.a, pair.b), test


def several_doc(several: SeveralRuns) -> Doc:
    """Return what several runs say: a row for each column, the verdict over all, and all pairs."""
    found, runs = several.verdict, several.runs
    rows = tuple((name, *(accuracy_cell(row, name) for row in found.rows)) for name in found.columns)
    pairs = [pairs_table(f"Accuracy, a minus b: {column.name}", column.pairs) for column in several.columns]
    answer = lines_of(
        *decision_lines(found),
        ("Invalid", [run_name(run.folder) for run in runs if run.comparison.invalid]),
        ("Incomplete", [run_name(run.folder) for run in runs if not run.is_complete]),
        ("Basis", list(dict.fromkeys(map(basis, runs)))),
        ("Warning", [f"{run_name(run.folder)}: {text}" for run in runs for text in warning_lines(caveats(run.comparison))]),
    )
    title = f"{counted(len(runs), 'run')}, {counted(len(found.rows), 'loop')} · {LEGEND}"
    matrix = Table("", ("compared", *(row.loop for row in found.rows)), rows)
    return Doc(title, (matrix, answer, *pairs, READING), several.to_json())
