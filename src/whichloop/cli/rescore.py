"""`whichloop rescore`: judge the answers of a run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.compare import rescore as rescoring
from whichloop.experiments.compare.rescore import Rescored
from whichloop.metrics.statistics import Interval
from whichloop.protocol.values import counted
from whichloop.runs.config import IfAbsent
from whichloop.text.output import plain_line, terminal_safe
from whichloop.text.table import Table

from .console import out, print_prose
from .options import AllowOption, JsonOption, OptionGroup, RunChoice, with_options
from .outcome import code_of_run, write_report
from .own_prints import own_prints_aside
from .render_answer import FAULT_STYLE, faults_of
from .tables import print_table


class DataOption(OptionGroup):
    data: Annotated[Path | None, IfAbsent("the file of the run")] = None
    """File that the suite reads its tasks from, if it is no longer the file of the run."""


@with_options()
def rescore(choice: RunChoice, code: AllowOption, suite: DataOption, output: JsonOption) -> None:
    """Judge a run's answers again with today's scorers and expected answers.

    No model and no tool is called.
    """
    folder = choice.folder
    with own_prints_aside():
        rescored = rescoring.rescore(folder, code.allow, suite.data)
    if output.as_json:
        print(json.dumps(rescored.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        _print(rescored)
    write_report(rescored.results)
    raise typer.Exit(code_of_run(rescored.results))


def _print(rescored: Rescored) -> None:
    console = out()
    every = counted(len(rescored.results.records), "trial")
    judged = counted(rescored.judged, f"of {every} was", f"of {every} were")
    console.print(terminal_safe(f"{judged} judged again: {counted(rescored.changed, 'counts', 'count')} otherwise now"))
    rows = [(arm.arm, _accuracy_text(arm.before), _accuracy_text(arm.after), str(arm.changed)) for arm in rescored.arms]
    print_table(Table("Accuracy", ("arm", "before", "after", "changed"), tuple(rows)), console)
    for why, count in rescored.kept_scores.items():
        console.print(terminal_safe(f"{counted(count, 'trial keeps its score', 'trials keep their scores')}: {why}"))
    for fault in faults_of(rescored.results):
        print_prose(plain_line(fault), FAULT_STYLE)


def _accuracy_text(accuracy: Interval | None) -> str:
    if accuracy is None:
        return "–"
    return f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] (n = {accuracy.n})"
