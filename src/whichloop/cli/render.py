"""Results on the terminal: a run's, or those of several runs side by side; and the page that is written of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from whichloop.experiments.ablate.ablation import AblationResult, ablation_result
from whichloop.experiments.ablate.recommendation import ablation_answer_json, recommendation, said_of
from whichloop.experiments.ablate.tables import ablation_notes, ablation_tables, effect_lines, is_shown
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.several_runs import SeveralRuns, several_runs_notes, several_runs_tables, verdicts
from whichloop.experiments.compare.tables import comparison_notes, comparison_tables
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.experiments.compare.verdict_old.matrix import AnswerRow, cost_text, counted_in, unit_of_cost
from whichloop.experiments.compare.view_tables import harness_sentences, harness_tables
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import Unit
from whichloop.protocol.names import value_text
from whichloop.protocol.values import counted
from whichloop.reports import html as pages
from whichloop.reports.html.files import PAGE, write_page
from whichloop.text.numbers import interval_of
from whichloop.text.output import plain_line, terminal_safe

from .console import WIDE, make_room, out, print_line, print_prose, say, with_whole_intervals, wrapped
from .options import Depth
from .process import DONE, INVALID
from .render_answer import LEGEND, answer_lines, sentence_lines, warning_lines
from .render_matrix import FORMS, RowNames, matrix_cells, share_form
from .tables import folded, print_lines, print_table, side_by_side, widest_fitting

Cell = Callable[[ArmResult], str]


def arm_lines(run: Results, width: int) -> Iterator[Text]:
    """Yield a heading and a line per arm, with as many columns as the terminal has room for.

    Accuracy stands in the answer, and the number of trials in its title: it is told here where not all of them were scored.
    """
    arms = run.comparison.arms
    unit = unit_of_cost(arms)
    left_out = any(arm.summary.scored < arm.summary.trials for arm in arms)
    columns = _columns(unit, share_form(run.answer, width))
    columns = [_SCORED, *columns] if left_out else columns
    cells = [column for column in columns if any(column[1](arm) != "–" for arm in arms)]
    yield from folded((_rows(arms, cells[: len(cells) - dropped]) for dropped in range(max(1, len(cells) - 1))), width)


_SCORED: tuple[str, Cell] = ("scored", lambda arm: f"{arm.summary.scored} of {arm.summary.trials}")


def _columns(unit: Unit, share: Callable[[Interval], str]) -> list[tuple[str, Cell]]:
    """Return headings and cells, the first to be left out on a narrow terminal the last. `share`: how a share is written."""
    return [
        ("LM calls", lambda arm: _mean(arm.summary.means["lm_calls"], lambda value: f"{value:.1f}")),
        (f"{counted_in(unit)} a trial", lambda arm: _mean(arm.summary.means[unit], lambda value: cost_text(value, unit))),
        ("recovery rate", lambda arm: "–" if arm.summary.recovery is None else share(arm.summary.recovery)),
        ("steps", lambda arm: _mean(arm.summary.means["steps"], lambda value: f"{value:.1f}")),
    ]


def _rows(arms: Sequence[ArmResult], cells: Sequence[tuple[str, Cell]]) -> list[list[Text]]:
    heading = [Text(head, style="dim") for head in ("arm", *(head for head, _ in cells))]
    return [heading, *([Text(plain_line(arm.info.arm)), *(Text(cell(arm)) for _, cell in cells)] for arm in arms)]


def _mean(value: Interval | None, written: Callable[[float], str]) -> str:
    return "–" if value is None else interval_of(value, written)


def print_answer(run: Results, *, is_whole: bool) -> None:
    """Print a run's answer. `is_whole`: with all of its words and tables, however many lines that takes."""
    console = out()
    for sentence in _of_models(run):
        print_line(sentence)
    print_lines(answer_lines(run, console.width, is_whole=is_whole), console)


def _of_models(run: Results) -> list[str]:
    """Return whether the loop or the model moves accuracy more, of a run that has several models."""
    if len({arm.info.profile for arm in run.comparison.arms}) > 1:
        return []  # profiles stand in for models in the other tables only
    return harness_sentences(run.harness)


def arms(run: Results) -> None:
    """Print what each arm took, and where more of it is."""
    console = out()
    folder = shlex.quote(str(run.folder))
    print_lines(arm_lines(run, console.width), console)
    print_line(f"All tables: whichloop report {folder} -v", "dim")
    print_line(f"Causes of losses: whichloop why {folder}", "dim")
    console.print()


def details(run: Results, *, all_metrics: bool) -> None:
    """Print the tables of a run, and what to keep in mind."""
    console = out()
    for table in comparison_tables(run.comparison, run.views, secondary=all_metrics):
        print_table(table, console)
    if all_metrics:
        for table in harness_tables(run.harness):
            print_table(table, console)
        for sentence in harness_sentences(run.harness):
            print_line(sentence)
    else:
        more = f"whichloop report {shlex.quote(str(run.folder))} --all-metrics"
        console.print(
            Text(terminal_safe(f"Other metrics, equal budgets, repeats, confidence: {more}"), style="dim"), soft_wrap=True
        )
    for note in comparison_notes(run.comparison):
        print_note(note)
    console.print()


def print_note(note: str, *, soft_wrap: bool = False) -> None:
    """Print what to keep in mind; warnings stand out."""
    style = "yellow" if note.startswith("Warning") else "dim"
    if soft_wrap:
        print_line(note, style)
    else:
        print_prose(note, style)


def aside(line: str) -> None:
    """Print what is good to know beside the results."""
    print_line(line, "dim")


def collection(several: SeveralRuns) -> None:
    """Print several runs: the matrix of (suite, profile) × loops, all pairs, and how often each loop is the highest."""
    console = out()
    for table in several_runs_tables(several):
        print_table(table, console)
    for verdict in verdicts(several):
        print_prose(with_whole_intervals(verdict), "bold")
    for note in several_runs_notes(several):
        print_note(note)


def code_of_run(run: Results) -> int:
    """Return INVALID if no verdict of a run holds, or an arm of it is to be mended first."""
    return INVALID if run.comparison.invalid or run.arms_to_mend else DONE


def print_results(run: Results, *, as_json: bool, depth: Depth = "answer") -> None:
    """Print a run's results to stdout: its answer, or for an ablation its effects, after as much as `depth` says."""
    ablation = ablation_result(run)
    if as_json:
        print(json.dumps(run.to_json() | (_ablation_json(ablation) if ablation else {}), ensure_ascii=True, allow_nan=False))
        return
    with_tables = depth in ("tables", "all metrics")
    if with_tables and run.traces.kept:
        aside(str(run.traces))
    if ablation is None or depth == "all metrics":
        if with_tables:
            details(run, all_metrics=depth == "all metrics")
        elif depth == "arms":
            arms(run)
        print_answer(run, is_whole=with_tables)
    if ablation is not None:
        print_ablation(ablation, verbose=with_tables)


def _ablation_json(result: AblationResult) -> dict[str, Any]:
    """Return an ablation's results with which setting to use, which stands in the place of a comparison's answer."""
    return result.to_json() | {"answer": ablation_answer_json(result)}


def write_report(run: Results, html: Path | None = None, *, announce: bool = True) -> str:
    """Write a run's page, into its directory unless another file was typed, and return its text. `announce`: say where it is."""
    page = pages.report_html(run)
    write(page, html, run.folder / PAGE, announce=announce)
    return page


def write_optimization(result: OptimizationResult, html: Path | None = None, page: str = "") -> None:
    """Write an optimization's page, into its directory unless another file was typed. `page`: its text, if it was made before."""
    write(page or pages.optimization_html(result), html, result.folder / PAGE)


def write(text: str, typed: Path | None, usual: Path, *, announce: bool = True) -> None:
    """Write a page. Failure is a warning for the usual file; for a file that was typed it raises OSError."""
    if typed is not None:
        make_room(typed)
    try:
        path = write_page(text, typed or usual)
        if announce:
            say(f"page: {path}")
    except OSError as error:
        if typed is not None:
            raise
        where = error.filename or usual
        say(f"warning: the page was not written: {where}: {error.strerror}; --html FILE writes it elsewhere")


PLOT = 56
"""Width of the chart's axis in columns, if the terminal is wide enough."""
NARROWEST = 24
MAX_SETTINGS = 8
"""Settings of a matrix, beside the one to use and the loop's own; -v has all."""
STYLES = {"better": "green", "worse": "red"}


def print_ablation(result: AblationResult, *, verbose: bool) -> None:
    """Print the accuracy of each setting, what each factor does in one line, and which setting to use.

    If `verbose`, tables, notes and a chart of the effects come before that.
    """
    console = out()
    if verbose:
        for table in ablation_tables(result):
            print_table(table, console)
        for note in ablation_notes(result):
            print_note(note, soft_wrap=True)
        effects = [effect for effect in result.effects.effects if effect.metric == PRIMARY]
        for plotted in interval_plot(effects, console.width) if effects else ():
            console.print(plotted, no_wrap=True, overflow="ellipsis")
        console.print()
    print_lines(answer_of_ablation(result, console.width), console)


def answer_of_ablation(result: AblationResult, width: int) -> Iterator[Text]:
    """Yield the lines of the answer: title, matrix of settings, warnings, effects, and which setting to use."""
    run, best = result.results, recommendation(result)
    legend = LEGEND if run.comparison.pairs else "accuracy"  # too many settings are not compared in pairs
    yield from wrapped(f"{run.title} · {legend}", "bold", width)
    yield from _settings(result, () if best is None else best.arms, width)
    yield from warning_lines(run, width)
    for line in effect_lines(result):
        yield from wrapped(line, "", width)
    yield from sentence_lines(run, said_of(result, best), width)


def _settings(result: AblationResult, used: Collection[str], width: int) -> Iterator[Text]:
    """Yield the matrix of settings × profiles: the most accurate ones, the one to use, and the loop's own; `used`: arms to use."""
    comparison_answer, names = answer(result.results.comparison), [factor.name for factor in result.layout.factors]

    def marks(row: AnswerRow) -> str:
        arms = _arms_of(row)
        is_own = any(result.ablation.cells[arm] == result.ablation.default for arm in arms)
        return ", ".join([*(["use"] if arms & {*used} else []), *(["as it is"] if is_own else [])])

    def values(row: AnswerRow) -> tuple[str, ...]:
        cell = result.ablation.cells[min(_arms_of(row))]
        return tuple(value_text(cell[name]) for name in names)

    def shown(most: int) -> list[AnswerRow]:
        return [row for number, row in enumerate(comparison_answer.rows) if number < most or marks(row) or width >= WIDE]

    apart = RowNames((*names, ""), lambda row: (*values(row), marks(row)))
    shown_settings = shown(MAX_SETTINGS)
    rows, fits = widest_fitting([matrix_cells(comparison_answer, shown_settings, form, apart) for form in FORMS[:-1]], width)
    if fits:
        yield from side_by_side(rows, width)
    else:  # values stand above their intervals
        shown_settings = shown(MAX_SETTINGS // 2)
        joined = RowNames(("setting", ""), lambda row: (", ".join(map("=".join, zip(names, values(row), strict=True))), marks(row)))
        yield from folded([matrix_cells(comparison_answer, shown_settings, form, joined) for form in FORMS[:-1]], width)
    if hidden := len(comparison_answer.rows) - len(shown_settings):
        yield Text(f"and {counted(hidden, 'more setting')} (-v)", style="dim")


def _arms_of(row: AnswerRow) -> set[str]:
    return {cell.arm.info.arm for cell in row.cells if cell is not None}


def interval_plot(effects: Sequence[Effect], width: int) -> list[Text]:
    """Return a line per effect with its interval over a common axis; `width`: columns of the terminal."""
    several = len({effect.profile for effect in effects}) > 1
    labels = [terminal_safe(f"{effect.term}{f', {effect.profile}' if several else ''}") for effect in effects]
    beside = max(map(cell_len, labels)) + 2
    stacked = width - beside < NARROWEST
    columns = max(min(PLOT, width - (0 if stacked else beside)), NARROWEST)
    low = min(0.0, *(effect.difference.low for effect in effects))
    high = max(0.0, *(effect.difference.high for effect in effects))
    axis = _Axis(low, high, columns)
    indent = "" if stacked else " " * beside
    lines = [Text(f"{indent}{axis.title()}", style="dim")]
    for effect, label in zip(effects, labels, strict=True):
        bar = Text(axis.bar(effect), style=STYLES.get(effect.verdict.word, ""))
        lines += [Text(label), bar] if stacked else [Text.assemble(set_cell_size(label, beside), bar)]
    legend = "accuracy; ● shown, ○ not shown, │ no difference"
    beside_chart = indent if len(indent) + len(legend) <= width else ""
    return [*lines, Text(f"{beside_chart}{legend}", style="dim")]


class _Axis:
    """Maps values to columns."""

    def __init__(self, low: float, high: float, columns: int) -> None:
        self.low, self.high, self.columns = low, high, columns

    def at(self, value: float) -> int:
        span = self.high - self.low
        return round((value - self.low) / span * (self.columns - 1)) if span else 0

    def title(self) -> str:
        """Return a line with the ends of the axis, and 0 if it has room."""
        left, right, middle = f"{self.low:+z.2f}", f"{self.high:+z.2f}", self.at(0.0)
        line = list(left.ljust(self.columns - len(right)) + right)
        if len(left) < middle < self.columns - len(right) - 1:
            line[middle] = "0"
        return "".join(line)

    def bar(self, effect: Effect) -> str:
        difference = effect.difference
        line = [" "] * self.columns
        line[self.at(0.0)] = "│"
        start, end = self.at(difference.low), self.at(difference.high)
        line[start : end + 1] = "─" * (end + 1 - start)
        line[start], line[end] = "├", "┤"
        line[self.at(difference.value)] = "●" if is_shown(effect) else "○"
        return "".join(line).rstrip()
