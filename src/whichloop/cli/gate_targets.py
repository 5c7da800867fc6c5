"""Where `whichloop gate` writes its outcome, and how an outcome that is open counts there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rich.text import Text

from whichloop.experiments.gate import GateResult, github_annotations, to_junit
from whichloop.experiments.gate.commands import Counting
from whichloop.experiments.gate.data.outcome import PASSES
from whichloop.experiments.gate.data.troubles import literal
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.github import append_error, append_summary, unjudged_annotation
from whichloop.experiments.gate.output.junit import error_junit
from whichloop.experiments.gate.output.line_words import shown_stops
from whichloop.experiments.gate.output.next_steps import let_through
from whichloop.experiments.gate.output.sentences import MAX_NAMED, further_lines, headline
from whichloop.experiments.gate.output.text import other_stops, paragraphs, table, task_lines
from whichloop.protocol.own_code import raised_in
from whichloop.text.doc import Cell, Style, Table

from .console import WIDE, check_writable, out, show_table


class OnUndecided(StrEnum):
    """How an undecided outcome counts."""

    PASSED = "pass"
    FAILED = "fail"
    UNDECIDED = "undecided"


class OnWorseHere(StrEnum):
    """How tasks that are lost here count."""

    FAILED = "fail"
    PASSED = "pass"


class OnOtherAnswers(StrEnum):
    """How answers of the same score count that are others than the blessed ones."""

    PASSED = "pass"
    FAILED = "fail"


@dataclass(frozen=True, slots=True)
class GateTargets:
    """Where the outcome goes, besides stdout, and how it counts there."""

    on_undecided: OnUndecided
    on_worse_here: OnWorseHere
    on_other_answers: OnOtherAnswers
    junit: Path | None
    summary: Path | None
    annotations: bool

    def flags(self) -> Iterator[str]:
        """Return the flags of how outcomes count, where they are not the defaults."""
        return Counting(self.on_undecided.value, self.on_worse_here.value, self.on_other_answers.value).words()

    def counted(self, judged: GateResult) -> GateResult:
        """Return the result with what lets it pass or makes it fail by these settings, and with their flags in its commands."""
        judged = replace(judged, advice=judged.advice.with_flags([*self.flags()]))
        return let_through(judged, self.on_worse_here.value, self.on_undecided.value).with_answers_held(self.on_other_answers.value)

    def check(self) -> None:
        """Check that the files can be written, and make their folders. Raises ValueError."""
        for flag, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None:
                check_writable(flag, path, "nothing was judged")

    def write_error(self, error: Exception, message: str) -> None:
        """Write an error that keeps the gate from judging."""
        self.write_unjudged(message, raised_in(error))

    def write_unjudged(self, message: str, place: tuple[str | Path, int] | None) -> None:
        """Write what keeps the gate from judging, and annotate its place. A file that cannot be written is left out."""
        if self.junit is not None:
            with suppress(OSError):
                self.junit.write_text(error_junit(message), encoding="utf-8")
        if self.summary is not None:
            with suppress(OSError):
                append_error(self.summary, message)
        if self.annotations:
            print(unjudged_annotation(message, place), file=sys.stderr)

    def write(self, judged: GateResult) -> None:
        """Write the outcome to the files, and print the annotations."""
        if self.junit is not None:
            self.junit.write_text(to_junit(judged, self.on_undecided.value, self.on_worse_here.value), encoding="utf-8")
        if self.summary is not None:
            append_summary(self.summary, judged)
        if self.annotations:  # GitHub reads stderr too, and stdout is for results
            for line in github_annotations(judged, self.on_undecided.value, self.on_worse_here.value):
                print(line, file=sys.stderr)


STYLES: Mapping[str, Style] = {**dict.fromkeys((*PASSES, "within here"), "good"), "undecided": "warn"}
"""Of an outcome; the others are bad."""
NAMED_IN_SHORT = 1
"""Arms and metrics that the first lines of the short form name: the rows below them have the others."""
MAX_EXAMPLE = 4
"""Lines of a trial that was lost, which a sentence fits into; what a model or a tool wrote may be longer, and the command below it
shows it whole."""


def print_gate(judged: GateResult, *, verbose: bool) -> None:
    """Print the outcome: a row per arm and an example of each cause, or, if `verbose`, every metric and the first 20 tasks."""
    width = out().width
    _print(_first_lines(judged, width, MAX_NAMED if verbose else NAMED_IN_SHORT))
    if verbose:
        if judged.lines:
            show_table(table(judged))
        for line in (*paragraphs(judged), *other_stops(shown_stops(judged)), *task_lines(judged)):
            _print(_line(line, width))
        return
    if judged.lines:
        heading, *rows = brief.rows(judged, short=width < WIDE)
        show_table(Table("", heading, tuple((*cells, Cell(end, STYLES.get(end.partition(",")[0], "bad"))) for *cells, end in rows)))
    for line in brief.changed(judged):
        _print(_line(line, width))
    for line in brief.examples(judged):
        _print(_line(line, width, MAX_EXAMPLE if line.startswith("- ") else None))
    if judged.lines:
        _print(_wrapped(brief.margins(judged), width, "dim"))
    for line in brief.brief_sentences(judged):
        _print(_line(line, width))


def _print(lines: Iterable[Text]) -> None:
    for line in lines:
        out().print(line, soft_wrap=True)


def _first_lines(judged: GateResult, width: int, named: int) -> Iterator[Text]:
    style = {"good": "bold green", "warn": "bold yellow"}.get(STYLES.get(judged.word, ""), "bold red")
    yield from _wrapped(headline(judged, named), width, style)
    for line in further_lines(judged, named):
        yield from _line(line, width)


def _line(line: str, width: int, most: int | None = None) -> Iterator[Text]:
    """Yield a sentence in lines, at most so many, or a command, which is copied whole, in one."""
    if line.startswith(brief.COMMANDS):
        yield Text(f"    {line}")
    else:
        yield from [Text(line)] if line.startswith(" ") else _wrapped(line, width, most=most)


def _wrapped(line: str, width: int, style: str = "", most: int | None = None) -> Iterator[Text]:
    if width >= WIDE:
        yield Text(line, style=style)
        return
    indent = "  " if line.startswith("- ") else ""
    first, *others = [part.plain.rstrip() for part in Text(line).wrap(out(), width - len(indent))] or [line]
    if most is not None and len(others) >= most:
        others[most - 2 :] = [f"{others[most - 2]} …"]
    yield Text(first, style=style)
    # A wrapped part that begins with `::` would be a command to a CI server.
    yield from (Text(f"{indent}{literal(part)}", style=style) for part in others)
