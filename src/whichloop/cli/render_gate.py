"""The gate's result on the terminal: what decides on one screen, or all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from whichloop.experiments.gate import GateResult
from whichloop.experiments.gate.data.names import literal
from whichloop.experiments.gate.data.outcome import PASSES
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.sentences import MAX_NAMED, further_lines, headline
from whichloop.experiments.gate.output.stop_words import shown_stops
from whichloop.experiments.gate.output.text import other_stops, paragraphs, table, task_lines
from whichloop.text.output import plain_line, wrapped_words

from .columns import folded, print_lines
from .console import WIDE, out
from .tables import print_table

STYLES: Mapping[str, str] = {**dict.fromkeys((*PASSES, "within here"), "bold green"), "undecided": "bold yellow"}
"""Of an outcome; of the others, `WORST`."""
WORST = "bold red"
NAMED_IN_SHORT = 1
"""Arms and metrics that the first lines of the short form name: the rows below them have the others."""
MAX_EXAMPLE = 4
"""Lines of a trial that was lost, which a sentence fits into; what a model or a tool wrote may be longer, and the command below it
shows it whole."""


def print_gate(judged: GateResult, *, verbose: bool) -> None:
    """Print the outcome: a row per arm and an example of each cause, or, if `verbose`, every metric and the first 20 tasks."""
    console = out()
    if verbose:
        print_lines(_first_lines(judged, console.width, MAX_NAMED), console)
        if judged.lines:
            print_table(table(judged), console)
        for line in (*paragraphs(judged), *other_stops(shown_stops(judged)), *task_lines(judged)):
            print_lines(_line(line, console.width), console)
        return
    print_lines(_brief(judged, console.width), console)


def _brief(judged: GateResult, width: int) -> Iterator[Text]:
    yield from _first_lines(judged, width, NAMED_IN_SHORT)
    if judged.lines:
        yield from folded(([_cells(row) for row in brief.rows(judged, short=short)] for short in (False, True)), width)
    for line in brief.changed(judged):
        yield from _line(line, width)
    for line in brief.examples(judged):
        yield from _line(line, width, MAX_EXAMPLE if line.startswith("- ") else None)
    if judged.lines:
        yield from _wrapped(brief.margins(judged), width, "dim")
    for line in brief.brief_sentences(judged):
        yield from _line(line, width)


def _first_lines(judged: GateResult, width: int, named: int) -> Iterator[Text]:
    yield from _wrapped(headline(judged, named), width, STYLES.get(judged.word, WORST))
    for line in further_lines(judged, named):
        yield from _line(line, width)


def _line(line: str, width: int, most: int | None = None) -> Iterator[Text]:
    """Yield a sentence in lines, at most so many, or a command, which is copied whole, in one."""
    if line.startswith(brief.COMMANDS):
        yield Text(f"    {line}")
    else:
        yield from [Text(line)] if line.startswith(" ") else _wrapped(line, width, most=most)


def _cells(row: tuple[str, ...]) -> list[Text]:
    if row == brief.HEADING:
        return [Text(cell, style="dim") for cell in row]
    *cells, outcome = map(plain_line, row)
    return [*map(Text, cells), Text(outcome, style=STYLES.get(outcome.partition(",")[0], WORST))]


def _wrapped(line: str, width: int, style: str = "", most: int | None = None) -> Iterator[Text]:
    if width >= WIDE:
        yield Text(line, style=style)
        return
    indent = "  " if line.startswith("- ") else ""
    first, *others = wrapped_words(line, width - len(indent), max_lines=most, placeholder=" …") or [line]
    yield Text(first, style=style)
    # A wrapped part that begins with `::` would be a command to a CI server.
    yield from (Text(f"{indent}{literal(part)}", style=style) for part in others)
