"""One function for each question that loopbench answers, with the settings of the command of the same name.

Settings beyond the named parameters are fields of `CompareConfig`, such as `tasks=50`, `repeats=3`, `workers=2` or
`mlflow=False`; docs/reference.md lists them. A mistake raises ValueError in one line that names the setting.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from loopbench.cli.optimize_progress import watching as watching_search
from loopbench.datasets.task import Suite
from loopbench.experiments import gate as gates
from loopbench.experiments.ablate import ablation
from loopbench.experiments.compare.prepare import Experiment, prepare
from loopbench.experiments.compare.results import Results, results
from loopbench.experiments.compare.run import run
from loopbench.experiments.gate import outputs as gate_outputs
from loopbench.experiments.optimize import prepare as optimizations
from loopbench.experiments.optimize import tables as optimize_tables
from loopbench.experiments.optimize.config import load_optimize_config
from loopbench.experiments.optimize.result import OptimizationResult, optimization_result
from loopbench.experiments.size import tables as size_tables
from loopbench.experiments.size.pilot import PURPOSES, Purpose, SizeRequest
from loopbench.experiments.size.size import Sizing
from loopbench.experiments.size.size import size as work_out_sizes
from loopbench.experiments.why.arms import pairs_named
from loopbench.experiments.why.why import PairLosses, Why
from loopbench.experiments.why.why import why as explain
from loopbench.protocol import Loop
from loopbench.protocol.names import value_text
from loopbench.reports.dataframes import Loaded, load
from loopbench.reports.html.files import PAGE, write_page
from loopbench.reports.html.page import report_html
from loopbench.reports.logged_search import run_logged
from loopbench.runs.config import CompareConfig, SettingError, load_config
from loopbench.runs.permissions import Permissions
from loopbench.runs.run_state import read_state

from .conclusion import Conclusion
from .objects import check_workers_can_import, loop_name, suite_name
from .progress import progress_display, shows_progress

AnyLoop = str | Loop | type[Loop]
AnySuite = str | Suite | Callable[..., Suite]
AnyRun = str | Path | Loaded
Result = TypeVar("Result")
Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True)
class CellChoice:
    """Which combinations of an ablation's values run."""

    design: ablation.Kind | None = None
    """All cells (full) or a fraction of them (fractional); None takes all where `most_trials` allows it."""
    most_trials: int | None = None
    """Maximum number of trials, over all cells and profiles."""
    interactions: bool = True
    """Whether interactions of two factors are tested too."""


def _naming_settings(question: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a mistake name the setting as a program passes it, not the flag of the command line."""

    @functools.wraps(question)
    def asked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return question(*args, **kwargs)
        except SettingError as error:
            raise ValueError(error.in_python) from None

    return asked


@_naming_settings
def compare(
    loops: Sequence[AnyLoop] = (),
    suite: AnySuite = "arithmetic",
    profiles: Sequence[str | Path] = ("clean",),
    *,
    scorer: str | Callable[..., float] | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Loaded:
    """Run loops over a suite's tasks under fault profiles, and return the run, which prints as its verdict.

    `loops`: names such as `"finish(parse_retries=0)"`, classes or objects; the five designs if empty. `suite`: a name, a Suite,
    or a function that makes one. `scorer`: judges every task of a Suite object. `progress`: None shows it in a terminal and in
    a notebook. `settings`: fields of CompareConfig.

    Raises ValueError for bad input, before anything is run; and KeyboardInterrupt, which leaves a run that can be resumed.
    """
    config = _config({"loops": loops, "suite": suite, "profiles": profiles, "scorer": scorer, **settings})
    return _carry_out(lambda: prepare(config), progress)


@_naming_settings
def ablate(
    loop: AnyLoop,
    factors: Mapping[str, Sequence[Any]],
    *,
    suite: AnySuite = "arithmetic",
    profiles: Sequence[str | Path] = ("clean",),
    cells: CellChoice = CellChoice(),
    progress: bool | None = None,
    **settings: Any,
) -> Loaded:
    """Vary a loop's options together, and return the run, which prints as the effect of each of them.

    `factors`: option → its values, the base first, such as `{"parse_retries": [0, 2, 5]}`. `cells`: which combinations run.
    Everything else is as for `compare`, and so is what is raised.
    """
    named = loop_name(loop)
    for option, values in factors.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ValueError(f"factors: {option}: give a list of values, got {values!r}")
    texts = tuple(f"{option}={','.join(value_text(value) for value in values)}" for option, values in factors.items())
    request = ablation.AblationRequest(named, texts, cells.design, cells.most_trials, cells.interactions)
    config = _config({"loops": (named,), "suite": suite, "profiles": profiles, **settings})
    return _carry_out(lambda: ablation.prepare(request, config), progress)


@_naming_settings
def gate(
    baseline: str | Path,
    run: AnyRun | None = None,
    *,
    loops: Sequence[AnyLoop] = (),
    metrics: Mapping[str, float] = gates.DEFAULT_METRICS,
    alpha: float = 0.05,
    progress: bool | None = None,
    **settings: Any,
) -> Conclusion[gates.GateResult]:
    """Hold a run against a baseline file, and return an answer that prints as the outcome; `finding.outcome` is its word.

    `run`: a finished run; None runs the baseline's configuration again, with `loops` in the place of its own and with
    `settings`: seed, repeats, runs, allow, base_url, cassette. `metrics`: metric → margin.
    Raises ValueError for bad input and for runs that cannot be compared with the baseline.
    """
    path = Path(baseline)
    try:
        blessed = gates.read_baseline(path)
    except OSError as error:
        raise ValueError(f"baseline: {path}: {error.strerror}") from None
    gates.check_request(blessed, metrics, alpha)
    if run is None:
        folder = _run_again(blessed, path, loops, progress, settings)
    elif loops or settings:
        raise ValueError(f"{next(iter(settings), 'loops')} is for a new run; leave it out, or leave run out")
    else:
        folder = _loaded(run).results.folder
    judged = gates.judge(gates.read_run(folder), blessed, metrics=metrics, alpha=alpha, path=path)
    said = [*gate_outputs.paragraphs(judged), *gate_outputs.task_lines(judged)]
    return Conclusion(gate_outputs.headline(judged), said, [gate_outputs.table(judged)], judged)


@_naming_settings
def optimize(
    loops: Sequence[AnyLoop] = (),
    optimizer: str = "BootstrapFewShot",
    *,
    suite: AnySuite = "arithmetic",
    profile: str | Path = "clean",
    model: str = "scripted",
    progress: bool | None = None,
    **settings: Any,
) -> Conclusion[OptimizationResult]:
    """Optimize each loop's prompts on an equal budget, and test them on tasks that the search never saw; MLflow gets both.

    `optimizer`: a teleprompter by name, `name(option=value)`. `settings`: fields of SearchConfig (budget, proposer, train, dev,
    threads) and of CompareConfig; `budget={"calls": 500}`.
    Raises ValueError for bad input, RunStopped where the search cannot go on; the run directory can be resumed.
    """
    flags = _named({"loops": loops, "suite": suite, "profiles": (profile,), "models": (model,), **settings})
    config = load_optimize_config(None, flags | {"optimizer": optimizer})
    _check_importable(config.compare)

    failures: list[str] = []  # of MLflow, told from a thread of its own

    def search() -> Path:
        made = optimizations.prepare(config)
        with watching_search(made, quiet=not shows_progress(progress)) as display:
            stopped, _ = run_logged(made, display, failures.append)
        _warn_if_stopped(stopped, made.folder)
        return made.folder

    found = optimization_result(_apart(search))
    if failures:
        warnings.warn(failures[0], stacklevel=2)
    return Conclusion(found.title, optimize_tables.verdicts(found), optimize_tables.tables(found), found)


@_naming_settings
def size(
    run: AnyRun,
    *,
    again: AnyRun | None = None,
    purpose: Purpose | None = None,
    metric: str = "accuracy",
    margin: float | None = None,
    alpha: float | None = None,
    power: float = 0.8,
) -> Conclusion[Sizing]:
    """Work out from a pilot run how many tasks and repeats a decision needs, and what they cost; no model is called.

    `again`: a second run of the same configuration with another seed, from which noise is measured. `purpose`: compare or gate;
    None answers for both. Raises ValueError for bad arguments and for a pilot that cannot tell.
    """
    request = SizeRequest(metric, margin, alpha, power, PURPOSES if purpose is None else (purpose,))
    found = work_out_sizes(_loaded(run).results, request, None if again is None else _loaded(again).results)
    return Conclusion(found.run, [*size_tables.answers(found), *found.caveats], size_tables.tables(found), found)


def why(run: AnyRun, a: str | None = None, b: str | None = None, *, task: str | None = None) -> Conclusion[Why]:
    """Say where arms diverge, and why the one that did not solve a task lost it; no model is called.

    `a`, `b`: two arms, or two loops in all their arms; all comparable pairs if left out. `task`: only its trials.
    Raises ValueError for a name that no arm or task has, and for one arm without the other.
    """
    if (a is None) != (b is None):
        raise ValueError("why: name two arms or loops, a and b, or none")
    found = _loaded(run).results
    pairs = None if a is None or b is None else pairs_named(found, a, b)
    reasons = explain(found, pairs=pairs, task=task)
    return Conclusion(found.title, [_parting(pair) for pair in reasons.pairs], (), reasons)


# --- shared ---


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names in the place of objects; `scorer` becomes part of the suite."""
    made: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    for name in ("loops", "profiles", "models"):
        if isinstance(made.get(name), str | Path):
            raise ValueError(f"{name}: give a list, such as [{str(made[name])!r}]")
    made["loops"] = tuple(loop_name(loop) for loop in made["loops"])
    made["profiles"] = tuple(str(profile) for profile in made["profiles"])
    made["suite"] = suite_name(made["suite"], made.pop("scorer", None))
    return made


def _config(settings: Mapping[str, Any]) -> CompareConfig:
    config = load_config(None, _named(settings))
    _check_importable(config)
    return config


def _check_importable(config: CompareConfig) -> None:
    if config.is_spread:
        check_workers_can_import([*config.loops, config.suite])


def _carry_out(prepared: Callable[[], Experiment], progress: bool | None) -> Loaded:
    """Run what was prepared, write its page, log it to MLflow, and return its results."""

    def finish() -> Results:
        experiment = prepared()
        with progress_display(experiment, progress) as watching:
            stopped = run(experiment, watching)
        found = results(experiment.folder)
        _warn_if_stopped(stopped, experiment.folder)
        _publish(experiment, found)
        return found

    return Loaded(_apart(finish))


def _publish(experiment: Experiment, found: Results) -> None:
    """Write the page and log the run; a failure of either is a warning and loses no result."""
    page = report_html(found)
    try:
        write_page(page, found.folder / PAGE)
    except OSError as error:
        warnings.warn(f"the page was not written: {error}", stacklevel=2)
    if not experiment.config.mlflow:
        return
    from loopbench.reports import mlflow  # seconds to import, and not everybody logs

    tracked = mlflow.track_as_configured(found, experiment.config, page)
    if isinstance(tracked, str):
        warnings.warn(f"nothing was logged to MLflow: {tracked}", stacklevel=2)


def _run_again(
    baseline: gates.Baseline, path: Path, loops: Sequence[AnyLoop], progress: bool | None, settings: dict[str, Any]
) -> Path:
    """Run a baseline's configuration again, and return the run directory."""
    known = {"seed", "repeats", "runs", "allow", "base_url", "cassette"}
    if unknown := sorted(settings.keys() - known):
        raise ValueError(f"{unknown[0]}: a new run takes only {', '.join(sorted(known))}; everything else is the baseline's")
    allowed = Permissions(settings.get("allow", ()), settings.get("base_url"), settings.get("cassette"))
    again = gates.RerunSettings(
        [loop_name(loop) for loop in loops],
        settings.get("seed"),
        settings.get("repeats"),
        allowed,
        Path(settings.get("runs", "runs")),
    )
    return _carry_out(lambda: gates.prepare_again(baseline, path, again), progress).results.folder


def _loaded(run: AnyRun) -> Loaded:
    return run if isinstance(run, Loaded) else load(run)


def _warn_if_stopped(stopped: str, folder: Path) -> None:
    if stopped:
        left = len(read_state(folder).ended)
        warnings.warn(f"{stopped}: {left} trials have ended; go on with loopbench resume {folder}", stacklevel=4)


def _apart(work: Callable[[], Result]) -> Result:
    """Do the work here, or on a thread of its own where an event loop is running already, as in a notebook."""
    if not _an_event_loop_runs():
        return work()
    ended: list[Result | BaseException] = []

    def carry_out() -> None:
        try:
            ended.append(work())
        except BaseException as error:  # handed to the caller's thread
            ended.append(error)

    thread = threading.Thread(target=carry_out, name="loopbench", daemon=True)
    thread.start()
    thread.join()
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]


def _an_event_loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _parting(pair: PairLosses) -> str:
    """Return a sentence on the tasks on which two arms differ, and on the causes of their losses."""
    lost = [
        f"{arm} lost by {', '.join(f'{cause} {count}' for cause, count in causes.items())}"
        for arm, causes in pair.causes.items()
        if causes
    ]
    return "; ".join([f"{pair.a} against {pair.b}: {pair.counts}", *lost])
