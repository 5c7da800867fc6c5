"""Going on with a run that was cut off, as `whichloop resume` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whichloop import session
from whichloop.experiments.compare.reopen import reopen
from whichloop.reports.dataframes import Loaded
from whichloop.runs.folders import is_optimization
from whichloop.runs.permissions import Permissions
from whichloop.runs.typed_runs import run_folder

from .arguments import question
from .carry_out import CutSearch, carry_out_run
from .conclusion import Conclusion, OptimizeAnswer
from .questions import AnyRun, carried_out_search


@question
def resume(
    run: AnyRun,
    *,
    runs: str | Path | None = None,
    allow: Sequence[str] = (),
    base_url: str | None = None,
    cassette: str | Path | None = None,
    progress: bool | None = None,
) -> Loaded | OptimizeAnswer:
    """Go on with a run that was cut off: only what is missing is run. A whole one is only read.

    `run`: a comparison or an ablation, which gives what `compare` returns, or an optimization, which gives what `optimize` returns.
    `allow`, `base_url`, `cassette`: code of your own, the server and the recordings that the run names, which have to be passed
    again; what this program handed over as objects is allowed already. Raises ValueError for a run that is none of these, and
    where code, suite or profiles have changed since it began.
    """
    folder = _folder(run, None if runs is None else Path(runs))
    allowed = Permissions([*allow, *session.names()], base_url, None if cassette is None else Path(cassette))
    if not is_optimization(folder):
        return carry_out_run(lambda: reopen(folder, allowed), {"cassette": cassette}, progress)
    return carried_out_search(CutSearch(folder, allowed), progress)


def _folder(run: AnyRun, runs: Path | None) -> Path:
    if isinstance(run, Loaded):
        return run.results.folder
    return run.finding.folder if isinstance(run, Conclusion) else run_folder(run, runs)
