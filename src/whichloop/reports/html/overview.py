"""Sections on several runs at once: where each loop is the highest, and all pairs."""

from __future__ import annotations

from whichloop.experiments.compare.several_runs import SeveralRuns, Standing, caveats, readings, several_runs_tables, verdicts
from whichloop.experiments.compare.verdict_old.matrix import NOT_APPLICABLE
from whichloop.text.numbers import interval

from .document import UNKNOWN, Amount, Banner, Block, Cell, Grid, Items, PageSection, section_or_none
from .verdict import PLACES, WARNING


def overview_section(runs: SeveralRuns) -> PageSection:
    """Return the section that says where each loop is the highest, with the matrix of (suite, profile) × loops."""
    blocks: list[Block] = []
    warnings = caveats(runs)
    if warnings:
        title = "A run is invalid: its verdicts do not hold" if runs.invalid else "Keep in mind"
        blocks.append(
            Banner(title, tuple(note.removeprefix(WARNING) for note in warnings), "invalid" if runs.invalid else "warning")
        )
    blocks += [
        Items(tuple(f"{line}." for line in verdicts(runs)), "verdicts"),
        _matrix(runs),
        Items(tuple(readings(runs)), "quiet"),
    ]
    return PageSection("overview", "Overview", tuple(blocks))


def _matrix(runs: SeveralRuns) -> Grid:
    """Return a table with a row per suite and profile and a column per loop; bars begin at 0."""
    loops = sorted(runs.loops, key=lambda loop: -_mean(runs, loop))
    rows = tuple((runs.title_of(column), *(_cell(column.places.get(loop)) for loop in loops)) for column in runs.columns)
    caption = "Accuracy of each loop with its interval in brackets, the most accurate loop on average first"
    return Grid(caption, ("suite and profile", *loops), rows)


def _mean(runs: SeveralRuns, loop: str) -> float:
    """Return the mean accuracy of a loop over all columns in which it was scored."""
    cells = [column.places[loop] for column in runs.columns if loop in column.places]
    accuracies = [each.accuracy.value for each in cells if each.place != NOT_APPLICABLE]
    return sum(accuracies) / len(accuracies) if accuracies else -1.0


def _cell(standing: Standing | None) -> Cell:
    if standing is None:
        return UNKNOWN
    if standing.place == NOT_APPLICABLE:
        return NOT_APPLICABLE
    value = standing.accuracy
    note = "" if standing.place is None else PLACES[standing.place]
    return Amount(interval(value, 3), value.value, note, is_best=standing.place == "highest")


def pairs_section(runs: SeveralRuns) -> PageSection | None:
    """Return the section on all pairs of all runs, or None if nothing is compared."""
    grids = [Grid(f"{table.title}; p adjusted over all runs", table.columns, table.rows) for table in several_runs_tables(runs)[1:]]
    return section_or_none("all-pairs", "All pairs", grids)
