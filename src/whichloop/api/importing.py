"""`whichloop.import_results`: results of other tools, from files, DataFrames or rows, as a run like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whichloop.datasets.importing.rows import frame_table, is_frame, rows_given
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
from whichloop.experiments.import_runs.columns import as_json
from whichloop.protocol.values import shown_short
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import report_html
from whichloop.runs.folders import RUNS

from .carry_out import warn_caller, write_or_note
from .questions import question

WANTED = "a path, a DataFrame, a list of these, or a list of dicts, a row each"


@question
def import_results(
    files: Any,
    *,
    map: Mapping[str, str | None] | None = None,  # noqa: A002
    scorer: str | None = None,
    arm: str | Sequence[str] = (),
    models: Sequence[str] = (),
    name: str | Path | None = None,
    format: str | None = None,  # noqa: A002
    rows: str | None = None,
    scale: str | Sequence[float | str] | None = None,
    errors_as_failures: bool = False,
    decimal_comma: bool = False,
    suite: str | None = None,
    alpha: float = 0.05,
    margin: float = 0.02,
    runs: str | Path = RUNS,
    replace: bool = False,
) -> Loaded:
    """Read what other tools measured into a run directory, as `whichloop import` does, and return the run as `load` does.

    `files`: a path (a log, a report, a table, a folder of trajectories), a DataFrame with a row per trial, a list of these to be
    compared, or a list of dicts, a row each. `map`: meaning → the column, or the place in a trajectory, that has it, such as
    `{"task": "question", "arm": "agent"}`; an empty name: none has. `scorer`: the column, scorer or evaluator that is the accuracy.
    `arm`: names of the files' arms in turn; equal ones are repeats of one arm. `name`: of the run below `runs`, or a path.
    `format`: of all files; None: recognized in each. `models`: the model of each file's arm. `rows`: the place of the list of rows
    in a JSON object. `scale`: worst and best score, such as `(0, 100)`. `decimal_comma`: numbers in texts are as
    1.234,5. `replace`: an imported run of the same name.

    Raises ValueError in one line that names file, row and setting for what is wrong, and OSError for a file that cannot be read;
    then no run directory is left. What was not read is a warning.
    """
    ends = scale if scale is None or isinstance(scale, str) else ",".join(str(end) for end in scale)
    request = ImportRequest(
        format=format,
        reading=ReadingOptions(
            scorer,
            rows,
            None if ends is None else ScoreScale.parse(ends),
            check_map({meaning: column or "" for meaning, column in (map or {}).items()}),
            errors_as_failures,
            decimal_comma,
        ),
        arms=[arm] if isinstance(arm, str) else list(arm),
        models=list(models),
        suite=suite,
        replace=replace,
        alpha=alpha,
        margin=margin,
    )
    imported = import_files(_sources(files), request, run_place(name, Path(runs)), Path(runs))
    run_results = results(imported.folder)
    warn_caller([*imported.remarks, *write_or_note(report_html(run_results), run_results.folder)])
    return Loaded(run_results)


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
    return _given_rows(name, [cells for _, cells in frame_table(source, name).rows(None)])


def _given_rows(name: str, rows: Sequence[Any]) -> GivenRows:
    return GivenRows(name, as_json(rows_given(name, rows)).encode())
