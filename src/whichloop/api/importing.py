"""`whichloop.import_results`: results of other tools, from files, DataFrames or rows, as a run like any other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from whichloop.datasets.importing.rows import FrameTable, is_frame, rows_given
from whichloop.experiments.compare.results import results
from whichloop.experiments.import_runs import (
    GivenRows,
    ImportRequest,
    ReadingOptions,
    ScoreScale,
    check_map,
    import_files,
    run_place,
)
from whichloop.experiments.import_runs.table_rows import json_cell
from whichloop.protocol.values import shown_short
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import report_html
from whichloop.runs.folders import RUNS

from .arguments import Kind, check_known, naming_files, question
from .carry_out import warn_caller, write_or_note

if TYPE_CHECKING:
    import pandas as pd

Source: TypeAlias = "str | Path | pd.DataFrame"
Rows: TypeAlias = Sequence[Mapping[str, Any]]
WANTED = "a path, a DataFrame, a list of these, or a list of dicts, a row each"
NAMES = Kind((str, list, tuple), "a name, or a list with the name of each file's", Kind((str,), "a text"))
IMPORT_KINDS: Mapping[str, Kind] = {
    "map": Kind((Mapping,), "a mapping from meanings to columns, such as {'task': 'question'}"),
    "scorer": Kind((str,), "the name of a column, a scorer or an evaluator"),
    "arm": NAMES,
    "name": Kind((str, Path), "the run's name, or a path"),
    "format": Kind((str,), "the name of a format, such as 'inspect'"),
    "rows": Kind((str,), "the place of the list of rows in a JSON object, such as 'results.rows'"),
    "scale": Kind((str, list, tuple), "the worst and the best score, such as (0, 100)", Kind((Real, str), "two numbers")),
    "cluster": Kind((str,), "the name of a column or a metadata key"),
    "errors_as_failures": Kind((bool,), "True or False"),
    "replace": Kind((bool,), "True or False"),
    "suite": Kind((str,), "a text"),
}
"""Setting → the kind of its values, checked here as some mean something else in other calls."""
OWN = ("map", "scorer", "arm", "name", "format")


class ImportSettings(TypedDict, total=False):
    """The settings of an import beside the named parameters."""

    models: Sequence[str]
    rows: str | None
    scale: str | Sequence[float | str] | None
    cluster: str | None
    errors_as_failures: bool
    suite: str | None
    alpha: float
    margin: float
    runs: str | Path
    replace: bool


SETTINGS = (*OWN, *ImportSettings.__annotations__)
ELSEWHERE = {"max_left_out": "it is the command's, whose exit code it sets; here run.trials['status'] tells what was left out"}


@question
def import_results(
    files: Source | Sequence[Source] | Rows,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    scorer: str | None = None,
    arm: str | Sequence[str] = (),
    name: str | None = None,
    format: str | None = None,  # noqa: A002
    **settings: Unpack[ImportSettings],
) -> Loaded:
    """Read what other tools measured into a run directory, as `whichloop import` does, and return the run as `load` does.

    `files`: a path (a log, a report, a table, a folder of trajectories), a DataFrame with a row per trial, a list of these to be
    compared, or a list of dicts, a row each. `map`: meaning → the column, or the place in a trajectory, that has it, such as
    `{"task": "question", "arm": "agent"}`; an empty name: none has. Meanings may be named as columns are, such as `usd` for
    `cost_usd`. `scorer`: the column, scorer or evaluator that is the accuracy.
    `arm`: names of the files' arms in turn; equal ones are repeats of one arm. `name`: of the run below `runs`, or a path.
    `format`: of all files; None: recognized in each. `settings`: models (a list, the model of each file's arm), rows (the
    place of the list of rows in a JSON object), scale (worst and
    best score, such as `(0, 100)`), cluster, errors_as_failures, suite, alpha, margin, runs, replace (True: an imported run of the
    same name).

    Raises ValueError in one line that names file, row and setting for what is wrong; then no run directory is left. What was not
    read is a warning.
    """
    check_known(settings, SETTINGS, ELSEWHERE)
    settings_given = {"map": map, "scorer": scorer, "arm": arm, "name": name, "format": format, **settings}
    for setting, kind in IMPORT_KINDS.items():
        if settings_given.get(setting) is not None:
            kind.check(setting, settings_given[setting])
    runs = Path(settings.get("runs") or RUNS)
    with naming_files({"files": files, "name": name, "runs": runs}):
        request = _request(settings_given)
        imported = import_files(_sources(files), request, run_place(name, runs), runs)
    run_results = results(imported.folder)
    notes = [*imported.remarks, *write_or_note(report_html(run_results), run_results.folder)]
    warn_caller(notes)
    return Loaded(run_results)


def _request(settings: Mapping[str, Any]) -> ImportRequest:
    columns = check_map({meaning: "" if column is None else column for meaning, column in (settings["map"] or {}).items()})
    arm, scale = settings["arm"], settings.get("scale")
    if scale is not None and not isinstance(scale, str):
        scale = ",".join(str(end) for end in scale)
    return ImportRequest(
        format=settings["format"],
        reading=ReadingOptions(
            settings["scorer"],
            settings.get("rows"),
            None if scale is None else ScoreScale.parse(scale),
            settings.get("cluster"),
            columns,
            bool(settings.get("errors_as_failures")),
        ),
        arms=[arm] if isinstance(arm, str) else list(arm),
        models=list(settings.get("models") or ()),
        suite=settings.get("suite"),
        replace=bool(settings.get("replace")),
        **{name: settings[name] for name in ("alpha", "margin") if settings.get(name) is not None},
    )


def _sources(files: Any) -> list[Path | GivenRows]:
    """Return what is to be read, in turn. Raises ValueError for what is none of these."""
    if isinstance(files, str | Path) or is_frame(files):
        return [_source(files, "DataFrame")]
    if not isinstance(files, list | tuple) or not files:
        raise ValueError(f"files: give {WANTED}; got {shown_short(files)}")
    if isinstance(files[0], Mapping):
        return [_given_rows("rows", files)]
    frames = sum(is_frame(one) for one in files)
    return [_source(one, f"DataFrame {number}" if frames > 1 else "DataFrame") for number, one in enumerate(files, 1)]


def _source(source: Any, name: str) -> Path | GivenRows:
    if isinstance(source, str | Path):
        return Path(source)
    if not is_frame(source):
        raise ValueError(f"files: give {WANTED}; got {shown_short(source)}")
    if any(level is not None for level in source.index.names):
        source = source.reset_index()  # an index with a name is a column, such as the task after a groupby
    table = FrameTable(source, name)
    table.keep(table.columns or ())
    return _given_rows(name, [cells for _, _, cells in table.rows()])


def _given_rows(name: str, rows: Sequence[Any]) -> GivenRows:
    return GivenRows(name, json.dumps([json_cell(row) for row in rows_given(name, rows)]).encode())
