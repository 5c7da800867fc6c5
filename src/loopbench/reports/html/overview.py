"""Sections on several runs at once: which loop is the highest where, and all pairs."""

from __future__ import annotations

from loopbench.experiments.compare.several_runs import SeveralRuns, Standing, notes, tables, verdicts

from .document import UNKNOWN, Amount, Banner, Block, Cell, Grid, Items, PageSection
from .verdict import WARNING

_NOTES = {"highest": "highest", "not told apart": "not told apart", "lower": "", None: ""}


def overview_section(found: SeveralRuns) -> PageSection:
    """In how many columns each loop is the highest, and the matrix of (suite, profile) × loops."""
    blocks: list[Block] = []
    said = notes(found)
    troubles = tuple(note.removeprefix(WARNING) for note in said[:-1])
    if troubles:
        title = "A run is invalid: its verdicts do not hold" if found.invalid else "Keep in mind"
        blocks.append(Banner(title, troubles, "invalid" if found.invalid else "warning"))
    blocks += [Items(tuple(f"{line}." for line in verdicts(found)), "verdicts"), _matrix(found), Items((said[-1],), "quiet")]
    return PageSection("overview", "Overview", tuple(blocks))


def _matrix(found: SeveralRuns) -> Grid:
    """A row per suite and profile, a column per loop; bars begin at 0."""
    rows = tuple((found.title_of(column), *(_cell(column.places.get(loop)) for loop in found.loops)) for column in found.columns)
    return Grid(
        "Accuracy of each loop; the highest of a row, and those that are not told apart from it", ("compared", *found.loops), rows
    )


def _cell(standing: Standing | None) -> Cell:
    if standing is None:
        return UNKNOWN
    value = standing.accuracy
    return Amount(f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]", value.value, _NOTES[standing.place])


def pairs_section(found: SeveralRuns) -> PageSection | None:
    """All pairs of all runs. None where nothing is compared."""
    listed = tables(found)[1:]
    blocks = tuple(Grid(f"{table.title}; p adjusted over all runs", table.columns, table.rows) for table in listed)
    return PageSection("all-pairs", "All pairs", blocks) if blocks else None
