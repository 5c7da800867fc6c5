"""An ablation on the terminal: a matrix of settings, effects, and which setting to use; on demand tables and a chart of effects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from whichloop.experiments.ablate.ablation import AblationResult
from whichloop.experiments.ablate.recommendation import recommendation, said_of
from whichloop.experiments.ablate.tables import ablation_notes, ablation_tables, effect_lines, is_shown
from whichloop.experiments.compare.verdict.answer import answer
from whichloop.experiments.compare.verdict.matrix import AnswerRow
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import value_text
from whichloop.protocol.values import counted
from whichloop.text.output import terminal_safe

from .columns import folded, print_lines, side_by_side, widest_fitting
from .console import WIDE, out, wrapped
from .render import print_note
from .render_answer import LEGEND, sentence_lines, warning_lines
from .render_matrix import FORMS, RowNames, matrix_cells
from .tables import print_table

PLOT = 56
"""Width of the chart's axis in columns, if the terminal is wide enough."""
NARROWEST = 24
MAX_SETTINGS = 8
"""Settings of a matrix, beside the one to use and the loop's own; -v has all."""
STYLES = {"better": "green", "worse": "red"}


def ablation(result: AblationResult, *, verbose: bool) -> None:
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
