"""`whichloop import`: read what other tools measured into a run directory, for report, size, bless and gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import (
    ImportedRun,
    ImportRequest,
    ReadingOptions,
    ScoreScale,
    import_files,
    parse_map,
    run_place,
)
from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.statistics import ALPHA
from whichloop.protocol.values import counted
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import RUNS

from .console import say
from .options import JsonOption, OptionGroup, RunsOption, Texts, VerboseOption, with_options
from .process import INVALID
from .render import code_of_run, print_results, write_report


class ImportOptions(OptionGroup):
    files: Annotated[list[Path], typer.Argument()]
    """Logs, reports, tables, result files, trajectories or folders of jobs; as many as are to be compared."""
    name: Annotated[Path | None, typer.Option("--name", "-o"), IfAbsent("generated")] = None
    """Name of the run in the runs folder, or a path."""
    replace: bool = False
    """Replace the imported run that has this name."""
    format_: Annotated[str | None, typer.Option("--format"), IfAbsent("taken from each file")] = None
    """Format of all files, such as inspect."""
    arm: Texts
    """Name of the agent of each file in turn; files with equal names are repeats of one agent."""
    model: Texts
    """Model of each file in turn; the agent is then called AGENT/MODEL, with the AGENT that --arm names."""
    scorer: str | None = None
    """Scorer, evaluator or column whose score is the accuracy."""
    rows: Annotated[str | None, IfAbsent("the one list that holds trials")] = None
    """Place of the list of rows in a JSON object, such as results.rows."""
    scale: Annotated[str | None, IfAbsent("0,1")] = None
    """Scale of numeric scores, WORST,BEST such as 0,100."""
    map_: Annotated[Texts, typer.Option("--map")]
    """Columns of a table, or places in a trace, by what they mean: task=question,arm=variant; status= leaves a column out."""
    cluster: str | None = None
    """Metadata key or column of what tasks share, such as a template."""
    errors_as_failures: bool = False
    """Score trials that ended with an error 0, as the agent's own; also those that terminal-bench could not judge."""
    max_left_out: Annotated[float | None, IfAbsent("any share")] = None
    """Largest share of trials without a score, from 0 to 1; above it the exit code is 4."""
    suite: Annotated[str | None, IfAbsent("taken from the files")] = None
    """Name of the list of tasks."""
    alpha: float = ALPHA
    """Significance level of tests; intervals have a confidence of 1 - alpha."""
    margin: float = MARGIN
    """Difference in accuracy, from 0 to 1, below which two agents count as equivalent."""

    @property
    def request(self) -> ImportRequest:
        scale = None if self.scale is None else ScoreScale.parse(self.scale)
        if self.max_left_out is not None and not 0 <= self.max_left_out <= 1:
            raise ValueError(f"--max-left-out is not within 0 and 1: {self.max_left_out:g}")
        return ImportRequest(
            format=self.format_,
            reading=ReadingOptions(self.scorer, self.rows, scale, self.cluster, parse_map(self.map_), self.errors_as_failures),
            arms=self.arm,
            models=self.model,
            suite=self.suite,
            alpha=self.alpha,
            margin=self.margin,
            replace=self.replace,
        )


@with_options()
def import_(options: ImportOptions, place: RunsOption, output: JsonOption, depth: VerboseOption) -> None:
    """Import and compare results of other tools.

    It reads Inspect logs, pydantic-evals reports, tables as CSV, TSV, JSON or Parquet, and runs of terminal-bench; and, with what
    happened in each trial, trajectories in ATIF, jobs of Harbor, results of tau-bench and tau2-bench, memories of
    smolagents, spans of OTLP, traces of MLflow, and runs of LangSmith.

    A table has a row for each trial. With the columns `agent`, `question`, `result` (PASS, FAIL or ERROR), `cost` ($0.04)
    and `latency_ms` in results.csv, this compares its agents; the others are known by their names:

    whichloop import results.csv --map task=question,score=result
    """
    below = place.runs or RUNS
    imported = import_files(options.files, options.request, run_place(options.name, below), below)
    run = results(imported.folder)
    write_report(run)
    for remark in (*imported.readings, *imported.remarks):
        say(remark)
    say(f"run directory: {imported.folder}")
    print_results(run, as_json=output.as_json, verbose=depth.verbose)
    supports_none = bool(imported.apart) or _too_many(imported, options.max_left_out)
    raise typer.Exit(INVALID if supports_none else code_of_run(run))


def _too_many(imported: ImportedRun, most: float | None) -> bool:
    """Return whether more trials lack a score than the user allows, and say so."""
    if most is None or imported.share_left_out <= most:
        return False
    say(
        f"--max-left-out {most:g}: {imported.share_left_out:.1%} of {counted(imported.trials, 'trial has', 'trials have')} no score"
    )
    return True
