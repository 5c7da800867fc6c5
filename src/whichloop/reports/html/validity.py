"""The page of a validation, and its figure in the report of its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from whichloop.experiments.validate.outcome import LoopValidity, Validity, read_summary
from whichloop.runs.folders import run_name
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import interval

from .document import Banner, Block, Figure, Grid, PageSection, Paragraph
from .svg import Axis, ChartRow, Group, Mark, interval_rows

TITLE = "How well the tunnel predicts"
_HOW = (
    "A fault profile was fitted to the traces of half of the tasks, the same loops ran under it on the other half, and what they "
    "did was written down, with a digest, before the validation read the run's own results on those tasks."
)


def validity_section(folder: Path) -> PageSection | None:
    """Return what the last validation of a run found; None if there was none."""
    try:
        summary = read_summary(folder)
    except RunError as error:
        text = str(error).replace(str(folder), run_name(folder))  # the page does not depend on where the run is
        return PageSection("validity", TITLE, (Banner("The validation of this run cannot be read", (text,)),))
    if summary is None:
        return None
    return PageSection("validity", TITLE, (Paragraph(summary.verdict, "strong"), Figure(figure(summary.loops), _HOW)))


def validity_blocks(validity: Validity) -> Iterator[Block]:
    yield Paragraph(validity.verdict, "strong")
    yield Figure(figure(validity.loops), _HOW)
    if validity.tau is not None:
        yield Paragraph(f"Kendall's tau-b of the loops' accuracies: {interval(validity.tau, 2)} (bootstrap over tasks).")
    columns = ("loop", "measure", "run", "tunnel", "run − tunnel", "")
    rows = tuple(
        (gap.loop, gap.measure, f"{gap.run:.2f}", f"{gap.again:.2f}", gap.between, "OFF" if gap.is_off else "")
        for gap in validity.gaps
    )
    yield Grid("Each loop, per trial", columns, rows)
    if validity.pairs:
        heads = ("better in the run", "than", "by", "in the tunnel by", "")
        pairs = tuple(
            (pair.better, pair.worse, interval(pair.real, 2), f"{pair.predicted:+z.2f}", "MISPLACED" if pair.is_misplaced else "")
            for pair in validity.pairs
        )
        yield Grid("Pairs that the run tells apart", heads, pairs)
    if validity.unknown_errors:
        unknown = tuple((kind, str(count)) for kind, count in validity.unknown_errors.items())
        yield Grid("Errors that the tunnel never made", ("kind", "in the held-out trials"), unknown)
    yield Paragraph(f"Prediction: {validity.digest}", "quiet")


_MARKS: Mapping[str, Mark] = {"run": "dot", "tunnel": "undecided"}


def figure(loops: Sequence[LoopValidity]) -> Markup:
    """Return each loop's accuracy in the run and in the tunnel, with intervals."""
    groups = []
    for loop in loops:
        sides = {"run": loop.real, "tunnel": loop.predicted}
        rows = tuple(ChartRow(name, value, interval(value, 3), _MARKS[name]) for name, value in sides.items())
        groups.append(Group(loop.arm, rows))
    loops_in_words = "; ".join(f"{loop.arm}: run {interval(loop.real, 3)}, tunnel {interval(loop.predicted, 3)}" for loop in loops)
    return interval_rows(
        "Accuracy in the run and in the tunnel", f"On the held-out tasks: {loops_in_words}.", groups, Axis("accuracy")
    )
