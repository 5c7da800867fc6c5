"""Results on the terminal: a run's, or those of several runs side by side."""

from __future__ import annotations

import shlex

from rich.text import Text

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.several_runs import SeveralRuns, several_runs_notes, several_runs_tables, verdicts
from whichloop.experiments.compare.tables import comparison_notes, comparison_tables
from whichloop.experiments.compare.view_tables import harness_sentences, harness_tables
from whichloop.text.output import terminal_safe

from .columns import print_lines
from .console import out, print_line, print_prose, with_whole_intervals
from .render_answer import answer_lines
from .render_arms import arm_lines
from .tables import print_table


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
