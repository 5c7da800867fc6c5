"""Several runs side by side, such as one per suite: (suite, profile) × loops, adjusted over all pairs of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.metrics.pairs import Pair, PairTest, judged, paired_test
from whichloop.metrics.record_table import where
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, PRIMARY, TaskValues, task_values
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import difference_text, interval, p_value, short_name, verdict
from whichloop.text.table import Table, markdown_page

from .measured_forms import applies
from .results import Results
from .tables import OTHERS, TEMPLATES_NOTE
from .verdict_old.matrix import COMPARED, NOT_APPLICABLE, SIGNS, Place, places


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a loop in one column."""

    accuracy: Interval
    place: Place | None
    """highest: has the highest mean; not told apart: from one of those, beyond chance; lower: worse. None
    if unknown: in an invalid run, or for a loop that is not compared with any other."""


@dataclass(frozen=True, slots=True)
class Column:
    """One suite under one profile, in one run."""

    run: str
    suite: str
    profile: str
    invalid: bool
    places: Mapping[str, Standing]
    """Loop → standing, without loops that have no scored trial."""
    pairs: tuple[Pair, ...]
    """The pairs on accuracy, adjusted over all pairs of all runs."""
    limits: str
    """The run's own limits to each trial, in words; empty where it set none."""


@dataclass(frozen=True, slots=True)
class SeveralRuns:
    """Several runs and their joint results."""

    runs: tuple[Results, ...]
    columns: tuple[Column, ...]
    alpha: float
    margin: float

    @property
    def loops(self) -> tuple[str, ...]:
        """All loops, in the order of their first appearance."""
        return tuple(dict.fromkeys(short_name(arm.info) for run in self.runs for arm in run.comparison.arms))

    @property
    def invalid(self) -> bool:
        """Whether any run is invalid, so that its verdicts do not hold."""
        return any(run.comparison.invalid for run in self.runs)

    def title_of(self, column: Column) -> str:
        """Return `suite, profile`, with the run's limits to a trial, the run if several have the same, and a mark if invalid."""
        same = Counter((other.suite, other.profile) for other in self.columns)[column.suite, column.profile]
        run, state = f" ({column.run})" if same > 1 else "", ", invalid" if column.invalid else ""
        limits = f", {column.limits}" if column.limits else ""
        return f"{column.suite}, {column.profile}{limits}{run}{state}"

    def to_json(self) -> dict[str, Any]:
        """Return the object that `report RUN RUN … --json` prints."""
        return {
            "alpha": self.alpha,
            "margin": self.margin,
            "invalid": self.invalid,
            "pairs": [
                {"run": column.run, "suite": column.suite, "profile": column.profile} | pair.to_json()
                for column in self.columns
                for pair in column.pairs
            ],
            "runs": [run.to_json() for run in self.runs],
        }


def collect(runs: Sequence[Results]) -> SeveralRuns:
    """Combine runs. Raises RunError if their levels or margins differ, or a run is a duplicate."""
    names = [run.folder.resolve() for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"{next(name for name in names if names.count(name) > 1)}: is a duplicate")
    settings = {(run.level, run.comparison.margin) for run in runs}
    if len(settings) != 1:
        levels = "; ".join(f"{run_name(run.folder)}: {run.level:g}, {run.comparison.margin:g}" for run in runs)
        raise RunError(f"runs of different levels or margins cannot be read together: {levels}")
    ((alpha, margin),) = settings
    tests = [(key, test) for place, run in enumerate(runs) for key, test in _tests(place, run, margin)]
    pairs = judged(PRIMARY, [((a, b), test) for (_, a, b), test in tests], alpha)
    by_run: dict[int, list[Pair]] = {}
    for ((place, _, _), _), pair in zip(tests, pairs, strict=True):
        by_run.setdefault(place, []).append(pair)
    columns = tuple(column for place, run in enumerate(runs) for column in _columns(run, by_run.get(place, [])))
    return SeveralRuns(tuple(runs), columns, alpha, margin)


def _tests(place: int, run: Results, margin: float) -> Iterator[tuple[tuple[int, str, str], PairTest]]:
    """Yield a test for each pair that the run compares."""
    values = {arm.info.arm: _values(run, arm.info.arm) for arm in run.comparison.arms}
    for pair in run.comparison.pairs:
        if pair.metric == PRIMARY:
            test = paired_test(PRIMARY, values[pair.a], values[pair.b], margin)
            if test is not None:
                yield (place, pair.a, pair.b), test


def _values(run: Results, arm: str) -> TaskValues:
    return task_values(where(run.records, lambda record: record.arm == arm), METRICS[PRIMARY])


def _columns(run: Results, pairs: Sequence[Pair]) -> Iterator[Column]:
    groups: dict[tuple[str, str], dict[str, tuple[str, Interval]]] = {}
    strangers = {arm.info.arm for arm in run.comparison.arms if not applies(arm.info)}
    for arm in run.comparison.arms:
        members = groups.setdefault((arm.info.suite, arm.info.profile), {})
        if arm.summary.accuracy is not None:
            members[arm.info.arm] = (short_name(arm.info), arm.summary.accuracy)
    for (suite, profile), members in groups.items():
        column_pairs = tuple(pair for pair in pairs if pair.a in members and pair.b in members)
        judged_by = () if run.comparison.invalid else column_pairs
        other_form = {arm: NOT_APPLICABLE for arm in members if arm in strangers}
        place = places({arm: accuracy for arm, (_, accuracy) in members.items() if arm not in other_form}, judged_by) | other_form
        standings = {name: Standing(accuracy, place.get(arm)) for arm, (name, accuracy) in members.items()}
        yield Column(
            run_name(run.folder), suite, profile, run.comparison.invalid, standings, column_pairs, run.comparison.limits.words
        )


# --- as tables ---


def several_runs_tables(result: SeveralRuns) -> tuple[Table, ...]:
    """Return the matrix and all pairs."""
    columns = [result.title_of(column) for column in result.columns]
    cells = [[standing_text(column.places.get(loop)) for loop in result.loops] for column in result.columns]
    rows = tuple((title, *row) for title, row in zip(columns, cells, strict=True))
    matrix = Table("Accuracy; * the highest, = not told apart from it", ("compared", *result.loops), rows)
    has_templates = _has_templates(result)
    pairs = tuple(
        (title, *_pair(pair, column.profile, has_templates))
        for title, column in zip(columns, result.columns, strict=True)
        for pair in column.pairs
    )
    heads = (
        "compared",
        "a",
        "b",
        "difference",
        *([OTHERS] if has_templates else []),
        "tasks",
        "p",
        "p (adj., all runs)",
        "verdict",
    )
    return tuple(table for table in (matrix, Table("Accuracy, a minus b", heads, pairs)) if table.rows)


def _has_templates(result: SeveralRuns) -> bool:
    """Whether any pair has an interval with templates as units."""
    return any(pair.over_templates is not None for column in result.columns for pair in column.pairs)


def _pair(pair: Pair, profile: str, over: bool) -> tuple[str, ...]:
    """Return a pair's cells; `over`: with the interval that has templates as units."""
    names = (name.removesuffix(f"/{profile}") for name in (pair.a, pair.b))
    intervals = (difference_text(pair.difference, 3), *([interval(pair.over_templates, 3)] if over else []))
    tested = (str(pair.difference.n), p_value(pair.p), p_value(pair.p_holm))
    return *names, *intervals, *tested, verdict(pair)


def standing_text(place: Standing | None) -> str:
    """Return `0.908 [0.843, 0.948] *`."""
    if place is None or place.place == NOT_APPLICABLE:
        return interval(None, 3) if place is None else NOT_APPLICABLE
    return f"{interval(place.accuracy, 3)}{SIGNS[place.place]}"


def verdicts(result: SeveralRuns) -> list[str]:
    """Return a line per loop: the numbers of columns in which it is the highest, not told apart from it, or lower."""
    standings = [(loop, [column.places[loop].place for column in result.columns if loop in column.places]) for loop in result.loops]
    by_loop = [(loop, [place for place in places if place in COMPARED]) for loop, places in standings]
    ordered = sorted(by_loop, key=lambda item: (-sum(place != "lower" for place in item[1]), -item[1].count("highest")))
    return [
        f"{loop}: the highest in {places.count('highest')} of {len(places)}, not told apart from it in "
        f"{places.count('not told apart')}, lower in {places.count('lower')}"
        for loop, places in ordered
        if places
    ]


def several_runs_notes(result: SeveralRuns) -> list[str]:
    """Return the caveats, warnings first, and how to read the numbers."""
    return [*caveats(result), *readings(result)]


def caveats(result: SeveralRuns) -> list[str]:
    """Return the runs' warnings, and which runs are invalid or incomplete."""
    lines = [f"Warning: {run_name(run.folder)}: {warning}" for run in result.runs for warning in run.comparison.warnings]
    lines += [f"{run_name(run.folder)} is invalid: none of its verdicts holds." for run in result.runs if run.comparison.invalid]
    return lines + [f"{run_name(run.folder)} is incomplete." for run in result.runs if not run.is_complete]


def readings(result: SeveralRuns) -> list[str]:
    """Return what p and brackets say."""
    pairs = sum(len(column.pairs) for column in result.columns)
    line = (
        f"p is a paired sign-flip test on task means, adjusted over all {pairs} pairs of all {len(result.runs)} runs; "
        f"brackets of an arm are {100 * (1 - result.alpha):.4g} % intervals, those of a difference at the level that this leaves "
        f"it; equivalent means within {result.margin:g}."
    )
    return [line, *([TEMPLATES_NOTE] if _has_templates(result) else [])]


def to_markdown(result: SeveralRuns) -> str:
    """Return tables and notes as Markdown for a pull request."""
    title = f"{counted(len(result.runs), 'run')}, {counted(len(result.loops), 'loop')}"
    return markdown_page(title, several_runs_tables(result), (*verdicts(result), *several_runs_notes(result)))
