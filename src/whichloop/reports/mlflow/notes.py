"""What MLflow shows of a comparison beside its numbers: the verdict as a note, the report and its charts as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.ablate.tables import conclusions
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import INVALID_RUN, OTHERS, outlook_in_words
from whichloop.experiments.compare.verdict_old.answer import ComparisonAnswer
from whichloop.experiments.compare.verdict_old.matrix import NOT_APPLICABLE, AnswerCell
from whichloop.experiments.compare.verdict_old.warned import warned
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.sums import ranked
from whichloop.protocol.values import counted
from whichloop.reports.html import charts
from whichloop.reports.html.failures import steps_chart
from whichloop.reports.html.svg import standalone
from whichloop.text.numbers import counts, interval, p_value, relation, verdict
from whichloop.text.table import markdown_cell, markdown_item

from .store import MAX_TAG, clean

REPORT = "report.html"
MAX_LOOPS = 12
"""Loops that a note shows."""
MAX_WARNINGS = 5
"""Maximum number of warnings in a note; the report has all."""
_GAP = "&emsp;"
"""Follows a cell's text: MLflow's tables have no space between columns."""


def note(run: Results) -> str:
    """Return the verdict, what would decide open pairs, and the pairs, in Markdown of at most the length that MLflow takes.

    Where the pairs are too many, those that come last are left to the report.
    """
    primary = ranked(run.comparison).pairs_on(PRIMARY)
    over = any(pair.over_templates is not None for pair in primary)
    head, rows = _head(run), [_row(pair, over) for pair in primary]
    columns = ("a", "b", "a minus b", *([f"{OTHERS} (templates)"] if over else []), "p (adj.)", "verdict", "to decide")
    lines = [f"{_cells(*columns)}\n|{':---|' * len(columns)}"]
    room = MAX_TAG - len(head) - len(lines[0]) - 40
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        lines.append(row)
    hidden = len(rows) - len(lines) + 1
    table = "\n".join(lines) if len(lines) > 1 else ""
    return clean("\n\n".join(filter(None, [head, table, f"{counted(hidden, 'more pair')}: {REPORT}" if hidden else ""])), MAX_TAG)


def _head(run: Results) -> str:
    comparison, effects = run.comparison, ablation_result(run)
    every = warned(comparison)
    warnings = every[:MAX_WARNINGS]
    if hidden := len(every) - len(warnings):
        warnings.append(f"{counted(hidden, 'more warning')}: {REPORT}")
    found_answer = run.answer
    sentences = [*(conclusions(effects) if effects is not None else ()), *found_answer.sentences, *warnings]
    state = f"{len(run.records):,} of {counted(run.scheduled, 'trial')}. The whole report is among the artifacts: `{REPORT}`."
    invalid = f"**{INVALID_RUN}**" if comparison.invalid else ""
    matrix = "" if effects is not None else _matrix(found_answer)
    return "\n\n".join(filter(None, [invalid, _items(sentences), matrix, f"{markdown_cell(run.title)}; {state}"]))


def _matrix(answer: ComparisonAnswer) -> str:
    """Return the accuracy of each loop under each profile, the best in bold; of many loops the first."""
    heads = ("loop", *(markdown_cell(answer.heading(column)) for column in answer.columns))
    rows = [_cells(*heads), f"|{':---|' * len(heads)}"]
    for row in answer.rows[:MAX_LOOPS]:
        rows.append(_cells(markdown_cell(row.loop), *map(_accuracy, row.cells)))
    hidden = len(answer.rows) - MAX_LOOPS
    more = f"\n\n{counted(hidden, 'more loop')}: {REPORT}" if hidden > 0 else ""
    return "\n".join(rows) + more


def _accuracy(cell: AnswerCell | None) -> str:
    if cell is not None and cell.place == NOT_APPLICABLE:
        return NOT_APPLICABLE
    text = markdown_cell(interval(None if cell is None else cell.accuracy, 3))
    return f"**{text}**" if cell is not None and cell.place == "highest" else text


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {markdown_item(line)}" for line in lines)


def _cells(*texts: str) -> str:
    return f"| {f'{_GAP} | '.join(texts)} |"


def _row(pair: Pair, over: bool) -> str:
    """Return a pair's cells; `over`: with the interval that has templates as units."""
    outlook = "" if pair.outlook is None else outlook_in_words(pair.outlook)
    intervals = (interval(pair.difference, 3), *([interval(pair.over_templates, 3)] if over else []))
    return _cells(*map(markdown_cell, (pair.a, pair.b, *intervals, p_value(pair.p_holm), verdict(pair), outlook)))


def arm_note(arm: ArmResult, pairs: Sequence[Pair]) -> str:
    """Return how an arm did and how it compares to the others, in Markdown."""
    summary, name = arm.summary, arm.info.arm
    own = [pair for pair in pairs if pair.metric == PRIMARY and name in (pair.a, pair.b)]
    against: dict[str, list[str]] = {}
    for pair in own:
        against.setdefault(relation(pair, name), []).append(pair.b if name == pair.a else pair.a)
    sentences = [
        f"Accuracy {interval(summary.accuracy, 3)} over {counted(summary.tasks, 'task')}, {counted(summary.scored, 'trial')}",
        *(
            [f"Over {counted(summary.over_templates.n, 'template')}, and {OTHERS}: {interval(summary.over_templates, 3)}"]
            if summary.over_templates is not None
            else ()
        ),
        *(f"{words.capitalize()} {', '.join(others)}" for words, others in against.items()),
        f"Stops: {counts(summary.stops)}",
        *([f"Errors: {counts(summary.errors)}"] if summary.errors else ()),
    ]
    return clean(_items(sentences), MAX_TAG)


def files(run: Results, report: Callable[[Results], str]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file: the comparison as JSON, the charts, and at last the report, for which it may wait."""
    yield "comparison.json", json.dumps(run.to_json(), indent=2) + "\n"
    comparison, effects = ranked(run.comparison), ablation_result(run)
    drawn = {"accuracy": charts.accuracy(comparison.arms)}
    if comparison.pairs:
        drawn["pairs"] = charts.forest(comparison)
    if effects is not None and (main := [effect for effect in effects.effects.effects if effect.metric == PRIMARY]):
        drawn["effects"] = charts.effects(main)
    fronts = run.views.fronts
    drawn |= {f"cost{number if len(fronts) > 1 else ''}": charts.pareto(front) for number, front in enumerate(fronts, 1)}
    drawn["steps"] = steps_chart(run.records, [arm.info for arm in comparison.arms])
    for name, chart in drawn.items():
        yield f"charts/{name}.svg", standalone(chart)
    yield REPORT, report(run)
