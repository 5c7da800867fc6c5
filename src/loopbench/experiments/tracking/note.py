"""What MLflow shows of a comparison beside its numbers: the verdict as a note, the report and its charts as files."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loopbench.experiments.compare import Results
from loopbench.experiments.html import charts
from loopbench.experiments.html.page import report_html
from loopbench.experiments.html.svg import standalone
from loopbench.experiments.html.verdict import needed_in_words
from loopbench.experiments.report import interval, markdown_cell, p_value, verdict, verdicts
from loopbench.metrics.comparison import Pair
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.views import views

from .store import MOST_TAG, clean

REPORT = "report.html"
MOST_WARNINGS = 5
"""In the note; the report has all."""


def note(found: Results) -> str:
    """The verdict, what would decide what is open, and the pairs, in Markdown; no longer than MLflow takes.

    Where the pairs are too many, those that come last are left to the report.
    """
    head, rows = _head(found), [_row(pair) for pair in found.comparison.pairs if pair.metric == PRIMARY]
    if not rows:
        return clean(head, MOST_TAG)
    left = MOST_TAG - len(head) - len(_COLUMNS) - len(_REST) - 20
    shown = []
    for row in rows:
        left -= len(row) + 1
        if left < 0:
            break
        shown.append(row)
    rest = f"\n\n{_REST.format(len(rows) - len(shown))}" if len(shown) < len(rows) else ""
    return clean("\n".join([head, "", _COLUMNS, *shown]) + rest, MOST_TAG)


_COLUMNS = "| a | b | accuracy, a minus b | p (Holm) | verdict | to decide |\n|---|---|---|---|---|---|"
_REST = "{} more pairs: " + REPORT


def _head(found: Results) -> str:
    comparison = found.comparison
    invalid = ["**This run is invalid: no verdict of it holds.**"] if comparison.invalid else []
    said = [f"**{markdown_cell(said)}**" for said in verdicts(comparison)]
    warnings = [f"- Warning: {markdown_cell(warning)}" for warning in comparison.warnings[:MOST_WARNINGS]]
    if hidden := len(comparison.warnings) - len(warnings):
        warnings.append(f"- {hidden} more warnings: {REPORT}")
    state = (
        f"{len(found.records):,} of {found.scheduled:,} trials. Charts and the whole report are among the artifacts: `{REPORT}`."
    )
    return "\n\n".join([*invalid, *said, "\n".join(warnings), f"{markdown_cell(found.title)}; {state}"])


def _row(pair: Pair) -> str:
    needed = "" if pair.needed is None else needed_in_words(pair.needed)
    cells = (pair.a, pair.b, interval(pair.difference, 3), p_value(pair.p_holm), verdict(pair), needed)
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def files(found: Results) -> Iterator[tuple[str, str]]:
    """Path and text: the comparison as JSON, the charts as pictures, the report as a page."""
    yield "comparison.json", json.dumps(found.to_json(), indent=2) + "\n"
    comparison, infos = found.comparison, [arm.info for arm in found.comparison.arms]
    yield "charts/accuracy.svg", standalone(charts.accuracy(comparison.arms))
    if comparison.pairs:
        yield "charts/pairs.svg", standalone(charts.forest(comparison))
    seen = views(found.records, infos, alpha=comparison.alpha, margin=comparison.margin)
    for number, front in enumerate(seen.fronts, 1):
        yield f"charts/cost{number if len(seen.fronts) > 1 else ''}.svg", standalone(charts.pareto(front))
    yield "charts/steps.svg", standalone(charts.steps(found.records, infos))
    yield REPORT, report_html(found)
