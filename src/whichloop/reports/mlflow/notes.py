"""What MLflow shows of a comparison beside its numbers: the verdict as a note, the report and its charts as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import OTHERS
from whichloop.experiments.run_doc import run_doc
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.sums import ranked
from whichloop.protocol.values import counted
from whichloop.reports.html import charts
from whichloop.reports.html.failures import steps_chart
from whichloop.reports.html.svg import standalone
from whichloop.text.doc import markdown_item, to_markdown
from whichloop.text.numbers import counts, interval, relation

from .store import MAX_TAG, clean

REPORT = "report.html"
ROOM = 300
"""Characters kept for what follows the document."""


def note(run: Results) -> str:
    """Return what the run says in Markdown as long as MLflow takes; details that have no room are left to the page."""
    doc = run_doc(run)
    answer = [block for block in doc.blocks if not block.detail]
    found = replace(doc, blocks=tuple(answer))
    for block in (block for block in doc.blocks if block.detail):
        longer = replace(found, blocks=(*found.blocks, block))
        if len(to_markdown(longer)) > MAX_TAG - ROOM:
            break
        found = longer
    state = f"{len(run.records):,} of {counted(run.scheduled, 'trial')}. The whole page is among the artifacts: `{REPORT}`."
    return clean(f"{to_markdown(found)}\n{state}", MAX_TAG)


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
    return clean("\n".join(f"- {markdown_item(line)}" for line in sentences), MAX_TAG)


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
