"""An ablation on the terminal: conclusions, tables, and a chart of the effects' intervals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from loopbench.experiments.ablate.ablation import AblationResult
from loopbench.experiments.ablate.tables import conclusions, is_shown, notes, tables
from loopbench.metrics.factors.factorial import Effect
from loopbench.metrics.summary import PRIMARY
from loopbench.text.plain_text import plain

from .console import out
from .render import print_note
from .tables import print_table

PLOT = 56
"""Width of the chart's axis in columns, if the terminal is wide enough."""
NARROWEST = 24
STYLES = {"better": "green", "worse": "red"}


def ablation(made: AblationResult, *, verbose: bool) -> None:
    """Print a chart of the effects and what each factor does in one line; if `verbose`, tables and notes before that."""
    console = out()
    if verbose:
        for table in tables(made):
            print_table(table, console)
        for note in notes(made):
            print_note(note, console, soft_wrap=True)
    console.print(Text(plain(made.results.title), style="bold"), soft_wrap=True)
    shown = [effect for effect in made.effects.effects if effect.metric == PRIMARY]
    if shown:
        for plotted in interval_plot(shown, console.width):
            console.print(plotted, no_wrap=True, overflow="ellipsis")
    if not verbose:
        for note in notes(made):
            if note.startswith("Warning"):
                print_note(note, console)
    for line in conclusions(made):
        console.print(Text(plain(line), style="bold"))


def interval_plot(effects: Sequence[Effect], width: int) -> list[Text]:
    """Return a line per effect with its interval over a common axis; `width`: columns of the terminal."""
    several = len({effect.profile for effect in effects}) > 1
    labels = [plain(f"{effect.term}{f', {effect.profile}' if several else ''}") for effect in effects]
    beside = max(map(len, labels)) + 2
    stacked = width - beside < NARROWEST
    columns = max(min(PLOT, width - (0 if stacked else beside)), NARROWEST)
    low = min(0.0, *(effect.difference.low for effect in effects))
    high = max(0.0, *(effect.difference.high for effect in effects))
    axis = _Axis(low, high, columns)
    indent = "" if stacked else " " * beside
    lines = [Text(f"{indent}{axis.title()}", style="dim")]
    for effect, label in zip(effects, labels, strict=True):
        bar = Text(axis.bar(effect), style=STYLES.get(effect.verdict.word, ""))
        lines += [Text(label), bar] if stacked else [Text.assemble(label.ljust(beside), bar)]
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
        left, right, middle = f"{self.low:+.2f}", f"{self.high:+.2f}", self.at(0.0)
        line = list(left.ljust(self.columns - len(right)) + right)
        if len(left) < middle < self.columns - len(right) - 1:
            line[middle] = "0"
        return "".join(line)

    def bar(self, effect: Effect) -> str:
        found = effect.difference
        line = [" "] * self.columns
        line[self.at(0.0)] = "│"
        start, end = self.at(found.low), self.at(found.high)
        line[start : end + 1] = "─" * (end + 1 - start)
        line[start], line[end] = "├", "┤"
        line[self.at(found.value)] = "●" if is_shown(effect) else "○"
        return "".join(line).rstrip()
