"""Several runs side by side, such as one per suite: (suite, profile) × loops, all pairs of all runs adjusted for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loopbench.metrics.comparison import Pair, PairTest, judged, paired_test
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import METRICS, PRIMARY, TaskValues, task_values
from loopbench.runs.folders import run_name
from loopbench.runs.store.files import RunError
from loopbench.text.numbers import interval, p_value, short_name, verdict
from loopbench.text.table import Table, markdown_page

from .results import Results

Place = Literal["highest", "not told apart", "lower"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a loop fared in one column."""

    accuracy: Interval
    place: Place | None
    """highest: of the highest mean; not told apart: from (one of) those, beyond chance; lower: worse. None
    where nothing can be said: in an invalid run, or of a loop that no other is compared with."""


@dataclass(frozen=True, slots=True)
class Column:
    """One suite under one profile, in one run."""

    run: str
    suite: str
    profile: str
    invalid: bool
    places: Mapping[str, Standing]
    """Loop → how it fared; without those of which no trial was scored."""
    pairs: tuple[Pair, ...]
    """On accuracy, adjusted over all pairs of all runs (Holm)."""


@dataclass(frozen=True, slots=True)
class SeveralRuns:
    """Several runs, and what they say together."""

    runs: tuple[Results, ...]
    columns: tuple[Column, ...]
    alpha: float
    margin: float

    @property
    def loops(self) -> tuple[str, ...]:
        """All of them, in the order in which they first appear."""
        return tuple(dict.fromkeys(short_name(arm.info) for run in self.runs for arm in run.comparison.arms))

    @property
    def invalid(self) -> bool:
        """No verdict of one of the runs holds."""
        return any(run.comparison.invalid for run in self.runs)

    def title_of(self, column: Column) -> str:
        """`suite, profile`; with the run where several have the same, and that it is invalid."""
        same = Counter((other.suite, other.profile) for other in self.columns)[column.suite, column.profile]
        run, state = f" ({column.run})" if same > 1 else "", ", invalid" if column.invalid else ""
        return f"{column.suite}, {column.profile}{run}{state}"

    def to_json(self) -> dict[str, Any]:
        """The object of `report RUN RUN … --json`."""
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
    """Set runs side by side. Raises RunError if their levels or margins differ, or a run is a duplicate."""
    names = [run.folder.resolve() for run in runs]
    if len(set(names)) < len(names):
        raise RunError(f"{next(name for name in names if names.count(name) > 1)}: is a duplicate")
    settings = {(run.level, run.comparison.margin) for run in runs}
    if len(settings) != 1:
        said = "; ".join(f"{run_name(run.folder)}: {run.level:g}, {run.comparison.margin:g}" for run in runs)
        raise RunError(f"runs of different levels or margins cannot be read together: {said}")
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
    return task_values([record for record in run.records if record.arm == arm], METRICS[PRIMARY])


def _columns(run: Results, pairs: Sequence[Pair]) -> Iterator[Column]:
    groups: dict[tuple[str, str], dict[str, tuple[str, Interval]]] = {}
    for arm in run.comparison.arms:
        members = groups.setdefault((arm.info.suite, arm.info.profile), {})
        if arm.summary.accuracy is not None:
            members[arm.info.arm] = (short_name(arm.info), arm.summary.accuracy)
    for (suite, profile), members in groups.items():
        own = tuple(pair for pair in pairs if pair.a in members and pair.b in members)
        judged_by = () if run.comparison.invalid else own
        places = {name: Standing(found, _place(arm, members, judged_by)) for arm, (name, found) in members.items()}
        yield Column(run_name(run.folder), suite, profile, run.comparison.invalid, places, own)


def _place(arm: str, members: Mapping[str, tuple[str, Interval]], pairs: Sequence[Pair]) -> Place | None:
    paired = {name for pair in pairs for name in (pair.a, pair.b)}
    if arm not in paired:
        return None
    means = {name: round(members[name][1].value, 9) for name in paired}  # sums of equal scores differ with their order
    highest = {name for name, mean in means.items() if mean == max(means.values())}
    if arm in highest:
        return "highest"
    apart = {frozenset((pair.a, pair.b)) for pair in pairs if pair.verdict.word in ("better", "worse")}
    return "lower" if any(frozenset((arm, best)) in apart for best in highest) else "not told apart"


# --- as tables ---


def tables(found: SeveralRuns) -> tuple[Table, ...]:
    """The matrix, and all pairs."""
    columns = [found.title_of(column) for column in found.columns]
    cells = [[cell_text(column.places.get(loop)) for loop in found.loops] for column in found.columns]
    rows = tuple((title, *row) for title, row in zip(columns, cells, strict=True))
    matrix = Table("Accuracy; * the highest, = not told apart from it", ("compared", *found.loops), rows)
    listed = tuple(
        (title, *_pair(pair, column.profile)) for title, column in zip(columns, found.columns, strict=True) for pair in column.pairs
    )
    heads = ("compared", "a", "b", "difference", "tasks", "p", "p (Holm, all runs)", "verdict")
    return tuple(table for table in (matrix, Table("Accuracy, a minus b", heads, listed)) if table.rows)


def _pair(pair: Pair, profile: str) -> tuple[str, ...]:
    names = (name.removesuffix(f"/{profile}") for name in (pair.a, pair.b))
    tested = (str(pair.difference.n), p_value(pair.p), p_value(pair.p_holm))
    return *names, interval(pair.difference, 3), *tested, verdict(pair)


_SIGNS: Mapping[Place, str] = {"highest": " *", "not told apart": " =", "lower": ""}


def cell_text(place: Standing | None) -> str:
    """`0.908 [0.843, 0.948] *`"""
    return (
        interval(None, 3) if place is None else f"{interval(place.accuracy, 3)}{'' if place.place is None else _SIGNS[place.place]}"
    )


def verdicts(found: SeveralRuns) -> list[str]:
    """A line per loop: of the columns that tell it from others, in how many it is the highest, or not told apart from it."""
    standings = [(loop, [column.places[loop].place for column in found.columns if loop in column.places]) for loop in found.loops]
    counted = [(loop, [place for place in places if place is not None]) for loop, places in standings]
    ordered = sorted(counted, key=lambda item: (-sum(place != "lower" for place in item[1]), -item[1].count("highest")))
    return [
        f"{loop}: the highest in {places.count('highest')} of {len(places)}, not told apart from it in "
        f"{places.count('not told apart')}, lower in {places.count('lower')}"
        for loop, places in ordered
        if places
    ]


def notes(found: SeveralRuns) -> list[str]:
    """Return what to keep in mind: warnings first."""
    said = [f"Warning: {run_name(run.folder)}: {warning}" for run in found.runs for warning in run.comparison.warnings]
    said += [f"{run_name(run.folder)} is invalid: no verdict of it holds." for run in found.runs if run.comparison.invalid]
    said += [f"{run_name(run.folder)} is incomplete." for run in found.runs if not run.is_complete]
    pairs = sum(len(column.pairs) for column in found.columns)
    said.append(
        f"p is a paired sign-flip test on task means, adjusted over all {pairs} pairs of all {len(found.runs)} runs (Holm); "
        f"brackets of an arm are {100 * (1 - found.alpha):.4g} % intervals, those of a difference at the level that this leaves "
        f"it; equivalent means within {found.margin:g}."
    )
    return said


def to_markdown(found: SeveralRuns) -> str:
    """Tables and notes for a pull request."""
    title = f"{len(found.runs)} runs, {len(found.loops)} loops"
    return markdown_page(title, tables(found), (*verdicts(found), *notes(found)))
