"""`whichloop report`: print what a run says, and write it as a page; no model is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field

from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.several_runs import collect, several_doc
from whichloop.experiments.compare.tables import arms_csv
from whichloop.experiments.optimize.result import optimization_result
from whichloop.experiments.run_doc import run_doc
from whichloop.reports import html as pages
from whichloop.reports.html.files import PAGE
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import TEST, is_optimization, run_folder
from whichloop.text.doc import to_markdown

from .console import show
from .optimize_report import exit_code, print_optimization
from .options import LATEST, JsonOption, RunsOption, VerboseOption, with_options
from .render import code_of_run, print_results, write, write_optimization, write_report


class RunsChoice(RunsOption):
    run: Annotated[list[Path], typer.Argument(), IfAbsent("latest"), Field(default_factory=lambda: [LATEST])]
    """Run directory, its name in the runs folder, or `latest`; several runs are reported side by side."""


class ReportOptions(VerboseOption):
    as_csv: Annotated[bool, typer.Option("--csv")] = False
    """Print the arms as CSV."""
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False
    """Print the tables as Markdown."""
    html: Annotated[Path | None, IfAbsent("report.html, in the run directory or, for several runs, here")] = None
    """File to write the page to."""
    no_html: bool = False
    """Do not write a page."""

    def form(self, output: JsonOption) -> Literal["tables", "json", "csv", "markdown"]:
        """Return what is printed. Raises ValueError for flags that exclude each other."""
        if output.as_json + self.as_csv + self.as_markdown > 1:
            raise ValueError("--json, --csv and --markdown exclude each other")
        if self.html is not None and self.no_html:
            raise ValueError("--html and --no-html exclude each other")
        return "json" if output.as_json else "csv" if self.as_csv else "markdown" if self.as_markdown else "tables"

    def refuse_for(self, what: str) -> None:
        """Raise ValueError for flags that only one comparison can have."""
        if self.as_csv:
            raise ValueError(f"--csv is for {what}")


@with_options()
def report(choice: RunsChoice, output: JsonOption, options: ReportOptions) -> None:
    """Print what a run says, and write its page.

    What each arm took, and the answer; -v prints all tables. No model is called.
    """
    form = options.form(output)
    folders = [run_folder(name, choice.runs) for name in choice.run]
    if len(folders) > 1:
        options.refuse_for(f"one run, not for {len(folders)}")
        for folder in folders:
            if is_optimization(folder):
                raise ValueError(f"{folder} is an optimization; compare its test with other runs: {folder / TEST}")
        collection = collect([results(folder) for folder in folders])
        doc = several_doc(collection)
        if form == "markdown":
            print(to_markdown(doc), end="")
        else:
            show(doc, as_json=form == "json", verbose=options.verbose)
        if not options.no_html:
            write(pages.collection_html(collection), options.html, Path(PAGE))
        code = max(map(code_of_run, collection.runs))
    elif is_optimization(folders[0]):
        code = _optimization(folders[0], form, options)
    else:
        code = _one(folders[0], form, options)
    raise typer.Exit(code)


def _one(folder: Path, form: str, options: ReportOptions) -> int:
    run = results(folder)
    if form == "csv":
        print(arms_csv(run.comparison), end="")
    elif form == "markdown":
        print(to_markdown(run_doc(run)), end="")
    else:
        print_results(run, as_json=form == "json", verbose=options.verbose)
    if not options.no_html:
        write_report(run, options.html)
    return code_of_run(run)


def _optimization(folder: Path, form: str, options: ReportOptions) -> int:
    options.refuse_for(f"comparisons; the test is one: {folder / TEST}")
    result = optimization_result(folder)
    print_optimization(result, form, verbose=options.verbose)
    if not options.no_html:
        write_optimization(result, options.html)
    return exit_code(result)
