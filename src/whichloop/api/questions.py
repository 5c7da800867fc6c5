"""One function for each question that whichloop answers, with the settings of the command of the same name.

Settings beyond the named parameters are fields of `CompareConfig`, such as `tasks=50`, `repeats=3`, `workers=2` or
`mlflow=False`; docs/reference.md lists them. A mistake raises ValueError in one line that names the setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from whichloop import session
from whichloop.experiments import gate as gates
from whichloop.experiments.ablate.prepare import AblationRequest
from whichloop.experiments.ablate.prepare import prepare as prepare_ablation
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import run as run_trials
from whichloop.experiments.gate.baseline import bless_as
from whichloop.experiments.gate.rerun import project_permissions
from whichloop.experiments.optimize import tables as optimize_tables
from whichloop.experiments.optimize.config import SETTINGS as OPTIMIZE_SETTINGS
from whichloop.experiments.optimize.config import OptimizeConfig, load_optimize_config
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.size.doc import size_doc
from whichloop.experiments.size.pilot import PURPOSES, Purpose, SizeRequest
from whichloop.experiments.size.sizes import size as work_out_sizes
from whichloop.models.profiles import Profile
from whichloop.protocol import Loop
from whichloop.protocol.names import SCRIPTED, parse_spec, value_text
from whichloop.reports.dataframes import Loaded, load
from whichloop.reports.why_shown import ShownWhy, shown_why
from whichloop.runs.config import CompareConfig, load_config
from whichloop.runs.engine.runner import Progress
from whichloop.runs.folders import is_optimization, run_folder
from whichloop.runs.permissions import Permissions
from whichloop.text.doc import Doc, Lines

from .arguments import check_known, naming_files, question
from .carry_out import CutSearch, carry_out_run
from .conclusion import Conclusion, GateAnswer, OptimizeAnswer, SizeAnswer
from .objects import AnyScorer, AnySuite, check_workers_can_import, loop_name, optimizer_name, profile_name, suite_name

AnyLoop = str | Loop | type[Loop]
AnyProfile = str | Path | Profile
AnyRun = str | Path | Loaded | Conclusion[OptimizationResult]
COMPARE_SETTINGS = (*CompareConfig.model_fields, "scorer", "progress")
CELLS = ("design", "max_trials", "interactions")
"""The settings of an ablation that a comparison does not have."""


class RerunOptions(TypedDict, total=False):
    """The settings of `gate`: those of a new run."""

    seed: int
    runs: str | Path
    allow: Sequence[str]
    base_url: str
    cassette: str | Path


class SizeSettings(TypedDict, total=False):
    """What the planned run of `size` is of, and how it is judged."""

    loops: Sequence[str]
    """Those of the pilot, by their names in it; empty: all of them."""
    profiles: Sequence[str]
    """Those of the pilot; empty: all of them."""
    margin: float | None
    """The difference that matters: for a share in points from 0 to 1, for any other metric as a share of it."""
    alpha: float | None
    """The level of its tests; None: the pilot's."""


RERUN_SETTINGS = tuple(RerunOptions.__annotations__)
RERUN_ELSEWHERE = {name: "it is the baseline's, also in a new run" for name in COMPARE_SETTINGS if name not in RERUN_SETTINGS}
OPTIMIZE_ELSEWHERE = {
    "profiles": "designs are optimized and compared under the same conditions: pass one as profile",
    "models": "designs are optimized and compared under the same conditions: pass one as model",
    "test": "pass it as tasks, the maximum number of tasks of the test",
}
OPTIMIZE_KNOWN = (*(name for name in OPTIMIZE_SETTINGS if name not in OPTIMIZE_ELSEWHERE), "profile", "model", "scorer", "progress")


@question
def compare(
    loops: Sequence[AnyLoop] = (),
    suite: AnySuite = "arithmetic",
    profiles: Sequence[AnyProfile] = (),
    *,
    scorer: AnyScorer | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Loaded:
    """Run loops over a suite's tasks under fault profiles, and return the run, which prints as its verdict.

    `loops`: names such as `"finish(parse_retries=0)"`, classes or objects; the five designs if empty. `suite`: a name, a Suite,
    or a function that makes one. `profiles`: names, TOML files or Profile objects; two stress tests if empty, of a real model
    none. `scorer`: judges every task of the suite.
    `progress`: None shows it in a terminal and in a notebook. `settings`: fields of CompareConfig.

    Raises ValueError for bad input, before anything is run; and KeyboardInterrupt, which leaves a run that can be resumed.
    """
    check_known(settings, COMPARE_SETTINGS)
    config = _config({"loops": loops, "suite": suite, "profiles": profiles, "scorer": scorer, **settings})
    return carry_out_run(lambda: prepare(config), config.model_dump(), progress)


@question
def ablate(
    loop: AnyLoop,
    factors: Mapping[str, Sequence[Any]],
    *,
    suite: AnySuite = "arithmetic",
    profiles: Sequence[AnyProfile] = (),
    progress: bool | None = None,
    **settings: Any,
) -> Loaded:
    """Vary a loop's options together, and return the run, which prints as the effect of each of them.

    `factors`: option → its values, the base first, such as `{"parse_retries": [0, 2, 5]}`. `settings`: what `compare` takes,
    and `design` ("full" runs all cells, "fractional" a fraction of them; left out, all where `max_trials` allows it),
    `max_trials` (the maximum number of trials, over all cells and profiles) and `interactions` (True; False tests no
    interactions of two factors). Everything else is as for `compare`, and so is what is raised.
    """
    check_known(settings, (*CELLS, *COMPARE_SETTINGS), {"loops": "an ablation varies one loop: pass it as loop"})
    named = loop_name(loop, "loop")
    texts = tuple(f"{option}={','.join(_value_text(option, value) for value in _values(option, factors))}" for option in factors)
    cells = {name: settings.pop(name) for name in CELLS if settings.get(name) is not None}
    request = AblationRequest(named, texts, **cells)
    config = _config({"loops": (named,), "suite": suite, "profiles": profiles, **settings})
    return carry_out_run(lambda: prepare_ablation(request, config), config.model_dump(), progress)


@question
def bless(
    run: AnyRun,
    baseline: str | Path,
    *,
    metrics: Mapping[str, float] = MappingProxyType({}),
    accept: Sequence[str] = (),
    runs: str | Path | None = None,
) -> Path:
    """Write a run as the baseline file that `gate` compares later runs with, in the place of an older one; return its path.

    `metrics`: metric → margin, `accept`: reasons that pass, as `whichloop gate --bless` takes them. `runs`: the folder of a run
    that is named; None: `runs`. Raises ValueError for a run that is no baseline, such as one that is not complete, and for a file
    that is something else.
    """
    path = Path(baseline)
    with naming_files({"baseline": path}):
        bless_as(path, _loaded(run, runs).results, metrics, accept)
    return path


@question
def gate(
    baseline: str | Path,
    run: AnyRun | None = None,
    *,
    loops: Sequence[AnyLoop] = (),
    metrics: Mapping[str, float] = MappingProxyType({}),
    accept: Sequence[str] = (),
    progress: bool | None = None,
    **settings: Unpack[RerunOptions],
) -> GateAnswer:
    """Hold a run against a baseline file, and return an answer that prints as the outcome; `finding.outcome` is its word.

    `run`: a finished run; None runs the baseline's configuration again, with `loops` in the place of its own and with `settings`:
    seed, runs, allow, base_url, cassette. Objects that this program handed over need no `allow`. Of a finished run `runs` is the
    folder of one that is named. `metrics`: metric → margin, `accept`: reasons that pass, both beside those of the baseline.

    Raises ValueError for bad input and for runs that cannot be compared with the baseline.
    """
    path = Path(baseline)
    check_known(settings, RERUN_SETTINGS, RERUN_ELSEWHERE)
    if not path.exists():
        raise ValueError(f"baseline: {path}: no such file; whichloop.bless(run, {str(path)!r}) writes one")
    with naming_files({"baseline": path}):
        blessed = gates.read_baseline(path)
    blessed = blessed.model_copy(update={"gate": blessed.gate.changed(metrics, accept)})
    if run is None:
        judged = _run_again(blessed, path, loops, progress, settings)
    elif loops or settings.keys() - {"runs"}:
        of_a_new_run = next((name for name in settings if name != "runs"), "loops")
        raise ValueError(f"{of_a_new_run} is for a new run; leave it out, or leave run out")
    else:
        judged = gates.judge(gates.read_run(_loaded(run, settings.get("runs")).results.folder), blessed, path=path)
    return GateAnswer(gates.gate_doc(judged), judged)


@question
def optimize(
    loops: Sequence[AnyLoop] = (),
    optimizer: str | type | object = "BootstrapFewShot",
    *,
    suite: AnySuite = "arithmetic",
    profile: AnyProfile = "clean",
    model: str = SCRIPTED,
    progress: bool | None = None,
    **settings: Any,
) -> OptimizeAnswer:
    """Optimize each loop's prompts on an equal budget, and test them on tasks that the search never saw; MLflow gets both.

    `optimizer`: a teleprompter by name, `name(option=value)`, or a class or an object with DSPy's `compile`. `settings`: fields
    of SearchConfig (budget, proposer, train, dev, threads) and of CompareConfig; `budget="500calls"`, and `tasks` is the
    maximum number of tasks of the test.
    Raises ValueError for bad input, RunStopped where the search cannot go on; the run directory can be resumed.
    """
    check_known(settings, OPTIMIZE_KNOWN, OPTIMIZE_ELSEWHERE)
    named = _named({"loops": loops, "suite": suite, "profiles": (profile,), "models": (model,), **settings})
    config = load_optimize_config(None, named | {"optimizer": optimizer_name(optimizer)})
    _check_importable(config.compare)
    return carried_out_search(config, progress)


def carried_out_search(request: OptimizeConfig | CutSearch, progress: bool | None) -> OptimizeAnswer:
    """Search and test, or go on with that, and return the answer. Raises as `optimize`."""
    from .carry_out_search import carry_out_search  # needs DSPy

    result = carry_out_search(request, progress)
    sentences = [*optimize_tables.verdicts(result), *optimize_tables.brief_lines(result)]
    return OptimizeAnswer(Doc(result.title, (_notes(sentences), *optimize_tables.optimization_tables(result))), result)


@question
def size(
    run: AnyRun,
    *,
    again: AnyRun | None = None,
    purpose: Purpose | None = None,
    metric: str = "accuracy",
    power: float = 0.8,
    runs: str | Path | None = None,
    **settings: Unpack[SizeSettings],
) -> SizeAnswer:
    """Work out from a pilot run how many tasks and repeats a decision needs, and what they cost; no model is called.

    `again`: a second run of the same configuration with another seed, from which noise is measured. `purpose`: compare or gate;
    None answers for both. `power`: the probability of reaching the decision. `runs`: the folder of runs that are named; None:
    `runs`. `settings`: what the planned run is of, and how it is judged. Raises ValueError for bad arguments and for a pilot that
    cannot tell.
    """
    check_known(settings, SizeSettings.__annotations__)
    purposes = PURPOSES if purpose is None else (purpose,)
    request = SizeRequest(metric, power=power, purposes=purposes, **settings)
    sizing = work_out_sizes(_loaded(run, runs).results, request, None if again is None else _loaded(again, runs).results)
    return SizeAnswer(size_doc(sizing), sizing)


@question
def why(
    run: AnyRun,
    a: AnyLoop | None = None,
    b: AnyLoop | None = None,
    *,
    task: str | None = None,
    runs: str | Path | None = None,
) -> ShownWhy:
    """Say why trials were lost, as `run.why` does: in sum, of one arm, or where two arms part; no model is called.

    `a`, `b`: arms by name, or loops in all their arms. `task`: only its trials. `runs`: the folder of a run that is named; None:
    `runs`. Raises ValueError for a name that no arm or task has, and for `b` without `a`.
    """
    run_results = _loaded(run, runs).results
    named = [
        None if arm is None else arm if isinstance(arm, str) else str(parse_spec(loop_name(arm, setting)))
        for arm, setting in ((a, "a"), (b, "b"))
    ]
    return shown_why(run_results, *named, task=task)


# --- shared ---


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names in the place of objects; `scorer` becomes part of the suite, and so do its file and tools."""
    for name in ("loops", "profiles", "models"):
        if isinstance(settings.get(name), list) and not settings[name]:
            raise ValueError(f"{name}: the list is empty; leave it out for the default")
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    fields["loops"] = tuple(loop_name(loop) for loop in fields["loops"])
    with naming_files(settings):
        scorer = fields.pop("scorer", None)
        source = {} if scorer is None else {name: fields.pop(name, None) for name in ("data", "tools")}
        fields["suite"] = suite_name(fields["suite"], scorer, **source)
        fields["profiles"] = tuple(profile_name(profile, Path(fields.get("runs") or "runs")) for profile in fields["profiles"])
    return fields


def _config(settings: Mapping[str, Any]) -> CompareConfig:
    config = load_config(None, _named(settings))
    _check_importable(config)
    return config


def _check_importable(config: CompareConfig) -> None:
    if config.is_spread:
        check_workers_can_import("loops", config.loops)
        check_workers_can_import("suite", [config.suite])


def _values(option: str, factors: Mapping[str, Any]) -> Sequence[Any]:
    values = factors[option]
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f"factors: {option}: give a list of values, got {values!r}")
    return values


def _value_text(option: str, value: Any) -> str:
    """Return a factor's value as it is typed; a loop inside a loop may be an object."""
    if isinstance(value, Loop):
        return value_text(loop_name(value, f"factors: {option}"))
    return "none" if value is None else value_text(value)


def _notes(lines: Sequence[str]) -> Lines:
    return Lines(tuple(("", line) for line in lines))


def _run_again(
    baseline: gates.Baseline, path: Path, loops: Sequence[AnyLoop], progress: bool | None, settings: Mapping[str, Any]
) -> gates.GateResult:
    """Run a baseline's configuration again, and judge the run."""
    cassette, runs = settings.get("cassette"), Path(settings.get("runs") or "runs")
    project = project_permissions()
    code = [*project.code, *(settings.get("allow") or ()), *session.names()]  # what the program itself handed over
    server = settings.get("base_url") or project.base_url
    allowed = Permissions(code, server, project.cassette if cassette is None else Path(cassette))
    rerun = gates.Rerun([loop_name(loop) for loop in loops], settings.get("seed"), allowed, runs)
    judged: list[gates.GateResult] = []

    def prepared() -> Experiment:
        return gates.prepare_again(baseline, path, gates.config_again(baseline, path, rerun))

    def carry_on(experiment: Experiment, watched: Progress) -> str:
        judged.append(gates.run_and_judge(experiment, watched, baseline, baseline.gate, path, run_trials)[1])
        return ""

    carry_out_run(prepared, {**settings, "runs": runs}, progress, carry_on)
    return judged[0]


def _loaded(run: AnyRun, runs: str | Path | None = None) -> Loaded:
    """Return a run. `runs`: the folder in which one that is named is looked up."""
    return run if isinstance(run, Loaded) else load(run, runs)


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
