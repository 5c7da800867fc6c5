"""`loopbench report` and `show`: what a run says, printed and as a page; no model is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .codes import DONE, INVALID
from .folders import run_folder
from .optimize import print_report

if TYPE_CHECKING:
    from loopbench.experiments.compare.results import Results


Form = Literal["tables", "json", "csv", "markdown"]
Runs = Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def report(
    run: Annotated[
        list[Path],
        typer.Argument(help="Run directory, its name under runs/, or `latest`; several are set side by side.", show_default=False),
    ],
    runs: Runs = None,
    as_json: Json = False,
    all_metrics: Annotated[bool, typer.Option("--all-metrics", help="Print the pairs on steps, calls and tokens too.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the arms as CSV.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="File of the page [default: report.html in the run, of several here].", show_default=False),
    ] = None,
    no_html: Annotated[bool, typer.Option("--no-html", help="Write no page.")] = False,
) -> None:
    """Print the tables of a run again, and write its page; no model is called."""
    from loopbench.runs.folders import is_optimization

    if as_json + as_csv + as_markdown > 1:
        raise ValueError("--json, --csv and --markdown exclude each other")
    if html is not None and no_html:
        raise ValueError("--html and --no-html exclude each other")
    form: Form = "json" if as_json else "csv" if as_csv else "markdown" if as_markdown else "tables"
    folders = [run_folder(name, runs) for name in run]
    if len(folders) > 1:
        code = _several(folders, form, html, no_html=no_html, all_metrics=all_metrics)
    elif is_optimization(folders[0]):
        code = print_report(folders[0], as_json=as_json, as_csv=as_csv, as_markdown=as_markdown, all_metrics=all_metrics)
        if not no_html:
            _write_optimization(folders[0], html)
    else:
        code = _one(folders[0], form, html, no_html=no_html, all_metrics=all_metrics)
    raise typer.Exit(code)


def _one(folder: Path, form: Form, html: Path | None, *, no_html: bool, all_metrics: bool) -> int:
    from loopbench.experiments.compare.results import results
    from loopbench.experiments.compare.tables import to_csv

    found = results(folder)
    if form == "csv":
        print(to_csv(found.comparison), end="")
    elif form == "markdown":
        print(_markdown(found), end="")
    else:
        print_results(found, as_json=form == "json", all_metrics=all_metrics)
    if not no_html:
        write_report(found, html)
    return INVALID if found.comparison.invalid else DONE


def _markdown(found: Results) -> str:
    from loopbench.experiments.ablate import tables as ablation_report
    from loopbench.experiments.ablate.ablation import ablated
    from loopbench.experiments.compare.tables import to_markdown
    from loopbench.runs.folders import run_name

    made = ablated(found)
    if made is not None:
        return ablation_report.to_markdown(made)
    return to_markdown(run_name(found.folder), found.comparison, found.views)


def _several(folders: Sequence[Path], form: Form, html: Path | None, *, no_html: bool, all_metrics: bool) -> int:
    from loopbench.experiments.compare.results import results
    from loopbench.experiments.compare.several_runs import collect, to_markdown
    from loopbench.reports.html.files import PAGE
    from loopbench.reports.html.page import collection_html
    from loopbench.runs.folders import TEST, is_optimization

    from . import render

    if form == "csv" or all_metrics:
        raise ValueError(f"--{'csv' if form == 'csv' else 'all-metrics'} is for one run, not for {len(folders)}")
    for folder in folders:
        if is_optimization(folder):
            raise ValueError(f"{folder} is an optimization; beside other runs stands its test: {folder / TEST}")
    found = collect([results(folder) for folder in folders])
    if form == "json":
        print(json.dumps(found.to_json(), ensure_ascii=True, allow_nan=False))
    elif form == "markdown":
        print(to_markdown(found), end="")
    else:
        render.collection(found)
    if not no_html:
        _write(collection_html(found), html, Path(PAGE))
    return INVALID if found.invalid else DONE


def print_results(found: Results, *, as_json: bool, all_metrics: bool = False) -> None:
    """To stdout; of an ablation its effects, and the arms' own tables where all metrics are asked for."""
    from loopbench.experiments.ablate.ablation import ablated

    from . import render, render_effects

    ablation = ablated(found)
    if as_json:
        print(json.dumps(found.to_json() | (ablation.to_json() if ablation else {}), ensure_ascii=True, allow_nan=False))
        return
    if ablation is not None:
        render_effects.ablation(ablation)
    if ablation is None or all_metrics:
        render.results(found, all_metrics=all_metrics)
    if found.traces.kept:
        render.aside(str(found.traces))


# --- pages ---


def write_report(found: Results, html: Path | None = None) -> str:
    """The page of a run, into its directory unless another file was typed; gives its text."""
    from loopbench.reports.html.files import PAGE
    from loopbench.reports.html.page import report_html

    page = report_html(found)
    _write(page, html, found.folder / PAGE)
    return page


def _write_optimization(folder: Path, html: Path | None) -> None:
    from loopbench.experiments.optimize.result import optimization_result
    from loopbench.reports.html.files import PAGE
    from loopbench.reports.html.page import optimization_html

    _write(optimization_html(optimization_result(folder)), html, folder / PAGE)


def _write(text: str, typed: Path | None, usual: Path) -> None:
    """Where the usual place cannot be written that is a warning; a file that was typed has to be. Raises OSError."""
    from loopbench.reports.html.files import write_page

    from . import render

    try:
        render.say(f"page: {write_page(text, typed or usual)}")
    except OSError as error:
        if typed is not None:
            raise
        where = error.filename or usual
        render.say(f"warning: the page was not written: {where}: {error.strerror}; --html FILE writes it elsewhere")


# --- one trial ---


def show(
    run: Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)],
    trial: Annotated[
        str | None, typer.Argument(help="ARM/TASK/REPEAT, or a unique part of it; left out: list the trials that were not solved.")
    ] = None,
    runs: Runs = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    as_json: Json = False,
) -> None:
    """Print the trace of one trial: prompt, reply, move, observation, faults."""
    from loopbench.runs.folders import trials_folder
    from loopbench.runs.store.files import read_manifest_json
    from loopbench.runs.store.records import find_trial
    from loopbench.runs.store.traces import read_trace
    from loopbench.text.trace_text import as_judged

    from . import render_trace

    folder = trials_folder(run_folder(run, runs))
    read_manifest_json(folder)  # what has none is no run
    if trial is None:
        _list_missed(folder, as_json=as_json)
        return
    record = find_trial(folder, trial)
    trace = as_judged(read_trace(folder, record), record)
    if as_json:
        print(json.dumps(trace, ensure_ascii=True))
    else:
        render_trace.trace(trace, record.faults, full=full)


def _list_missed(folder: Path, *, as_json: bool) -> None:
    """The trials that were not solved."""
    from loopbench.runs.store.records import read_records

    from . import render_trace

    missed = [record for record in read_records(folder) if record.status != "excluded" and record.accuracy < 1]
    missed.sort(key=lambda record: record.key)
    if as_json:
        print(json.dumps([record.to_json() for record in missed], ensure_ascii=True))
    else:
        render_trace.failures(missed)
