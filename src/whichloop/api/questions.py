"""One function for each question that whichloop answers, with the settings of the command of the same name.

Settings beyond the named parameters are fields of `CompareConfig`, such as `tasks=50`, `repeats=3` or `workers=2`; `whichloop list
settings` prints them. A mistake raises SettingError, a ValueError of one line that names the setting.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from pydantic import ConfigDict, InstanceOf, ValidationError, validate_call

from whichloop import session
from whichloop._extras import needed_by
from whichloop.experiments import gate as gates
from whichloop.experiments.ablate.prepare import prepare as prepare_varied
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import Experiment, prepare
from whichloop.experiments.gate.baseline import bless_as
from whichloop.experiments.gate.rerun import project_permissions
from whichloop.experiments.optimize.config import OptimizeConfig, load_optimize_config
from whichloop.experiments.optimize.doc import optimize_doc
from whichloop.experiments.size.doc import size_doc
from whichloop.experiments.size.pilot import PURPOSES, SizeRequest
from whichloop.experiments.size.sizes import size as work_out_sizes
from whichloop.protocol import Loop
from whichloop.protocol.names import SCRIPTED, parse_spec, value_text
from whichloop.protocol.own_code import refuse_in_import
from whichloop.protocol.values import shown_short
from whichloop.reports.dataframes import Loaded, load
from whichloop.reports.why_shown import ShownWhy, shown_why
from whichloop.runs.config import CompareConfig, SettingError, load_config
from whichloop.runs.engine.runner import Progress
from whichloop.runs.folders import is_optimization, run_folder
from whichloop.runs.permissions import Permissions

from .carry_out import carry_out_run
from .conclusion import Conclusion, GateAnswer, OptimizeAnswer, SizeAnswer
from .objects import check_workers_can_import, loop_name, optimizer_name, profile_name, suite_name

AnyRun = str | Path | InstanceOf[Loaded] | InstanceOf[Conclusion[Any]]
"""A run: its name, its directory, or what `compare`, `optimize` or `load` returned."""
Result = TypeVar("Result")
Given = ParamSpec("Given")


def question(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Check the arguments by their types first. Raises SettingError, which names the argument."""
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    names = [*inspect.signature(function).parameters]

    @functools.wraps(function)
    def asked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        refuse_in_import()
        try:
            with needed_by(function.__name__):
                return checked(*args, **kwargs)
        except ValidationError as error:
            if error.title != function.__name__:
                raise
            first = error.errors(include_url=False)[0]
            place, *inner = first["loc"]
            name = names[min(place, len(names) - 1)] if isinstance(place, int) else place
            keys = inner if isinstance(kwargs.get(name), Mapping) else []  # else they name types of a union
            setting = ".".join([name, *map(str, keys)])
            raise SettingError(setting, f"{first['msg']}, got {shown_short(first['input'])}") from None

    return asked


@question
def compare(
    loops: Any = (),
    suite: Any = "arithmetic",
    profiles: Any = (),
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    scorer: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Loaded:
    """Run loops over a suite's tasks under fault profiles, and return the run, which prints as its verdict.

    `loops`: one or several, by names such as `"finish(parse_retries=0)"`, as classes or objects; the five designs if empty.
    `suite`: a name, a Suite, or a function that makes one. `profiles`: names, TOML files or Profile objects; two stress tests if
    empty, of a real model none. `vary`: option of the one loop → its values, the base first, such as
    `{"parse_retries": [0, 2, 5]}`; the run prints as the effect of each. `scorer`: judges every task of the suite. `progress`: None
    shows it in a terminal and in a notebook.
    `settings`: fields of CompareConfig.

    Raises ValueError for bad input, before anything is run; KeyboardInterrupt leaves a run that `resume` continues, and says so.
    """
    config = _config({"loops": loops, "suite": suite, "profiles": profiles, "scorer": scorer, **settings})
    if not vary:
        return carry_out_run(lambda: prepare(config), progress)
    if len(config.loops) != 1:
        raise SettingError("vary", "it is about the options of one loop: pass it alone as loops")
    varied = [f"{option}={','.join(_value_text(value) for value in values)}" for option, values in vary.items()]
    return carry_out_run(lambda: prepare_varied(config.loops[0], varied, config), progress)


@question
def bless(
    run: AnyRun,
    baseline: str | Path,
    *,
    metrics: Mapping[str, float] | None = None,
    accept: Sequence[str] = (),
    runs: str | Path | None = None,
) -> Path:
    """Write a run as the baseline file that `gate` compares later runs with, in the place of an older one; return its path.

    `metrics`: metric → margin, `accept`: reasons that pass, as `whichloop gate --bless` takes them. `runs`: the folder of a run
    that is named; None: `runs`. Raises ValueError for a run that is no baseline, such as one that is not complete, and for a file
    that is something else.
    """
    path = Path(baseline)
    bless_as(path, _loaded(run, runs).results, metrics or {}, accept)
    return path


@question
def gate(
    baseline: str | Path,
    run: AnyRun | None = None,
    *,
    loops: Any = (),
    metrics: Mapping[str, float] | None = None,
    accept: Sequence[str] = (),
    seed: int | None = None,
    allow: Sequence[str] = (),
    base_url: str | None = None,
    cassette: str | Path | None = None,
    runs: str | Path | None = None,
    progress: bool | None = None,
) -> GateAnswer:
    """Hold a run against a baseline file, and return an answer that prints as the outcome; `finding.outcome` is its word.

    `run`: a finished run; None runs the baseline's configuration again, with `loops` in the place of its own and with `seed`,
    `allow`, `base_url` and `cassette`. Objects that this program handed over need no `allow`. `runs`: the folder of a run that is
    named, and of a new one. `metrics`: metric → margin, `accept`: reasons that pass, both beside those of the baseline.

    Raises ValueError for bad input and for runs that cannot be compared with the baseline.
    """
    path = Path(baseline)
    blessed = gates.read_baseline(path)
    blessed = blessed.model_copy(update={"gate": blessed.gate.changed(metrics or {}, accept)})
    if run is not None:
        if loops or allow or any(value is not None for value in (seed, base_url, cassette)):
            raise SettingError("run", "loops, seed, allow, base_url and cassette are for a new run; leave them out, or run")
        judged = gates.judge(gates.read_run(_loaded(run, runs).results.folder), blessed, path=path)
        return GateAnswer(gates.gate_doc(judged), judged)
    found, code = list[gates.GateResult](), [*allow, *session.names()]  # what the program itself handed over
    allowed = project_permissions(Permissions(code, base_url, None if cassette is None else Path(cassette)))
    asked = {"runs": Path(runs or "runs"), "loops": tuple(map(loop_name, _several(loops))), "seed": seed}
    settings = {name: value for name, value in asked.items() if value not in (None, ())}

    def carry_on(experiment: Experiment, watched: Progress) -> str:
        found.append(gates.run_and_judge(experiment, watched, blessed, blessed.gate, path)[1])
        return ""

    config = gates.config_again(blessed, path, settings, allowed)
    carry_out_run(lambda: gates.prepare_again(blessed, path, config), progress, carry_on)
    return GateAnswer(gates.gate_doc(found[0]), found[0])


@question
def optimize(
    loops: Any = (),
    optimizer: Any = "BootstrapFewShot",
    *,
    suite: Any = "arithmetic",
    profile: Any = "clean",
    model: str = SCRIPTED,
    scorer: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> OptimizeAnswer:
    """Optimize each loop's prompts on an equal budget, and test them on tasks that the search never saw.

    `optimizer`: a teleprompter by name, `name(option=value)`, or a class or an object with DSPy's `compile`. `settings`: fields
    of SearchConfig (budget, proposer, train, dev, threads) and of CompareConfig; `budget="500calls"`, and `tasks` is the
    maximum number of tasks of the test.
    Raises ValueError for bad input, and KeyboardInterrupt, which says how the search goes on.
    """
    named = _named({"profiles": (profile,), "models": (model,), **settings, "loops": loops, "suite": suite, "scorer": scorer})
    config = load_optimize_config(None, named | {"optimizer": optimizer_name(optimizer)})
    _check_importable(config.compare)
    return _carried_out(config, progress)


def _carried_out(request: OptimizeConfig | tuple[Path, Permissions], progress: bool | None) -> OptimizeAnswer:
    from .carry_out_search import carry_out_search  # needs DSPy

    result = carry_out_search(request, progress)
    return OptimizeAnswer(optimize_doc(result), result)


@question
def size(
    run: AnyRun,
    *,
    purpose: Literal["compare", "gate"] | None = None,
    metric: str = "accuracy",
    loops: Sequence[str] = (),
    profiles: Sequence[str] = (),
    margin: float | None = None,
    alpha: float | None = None,
    power: float = 0.8,
    runs: str | Path | None = None,
) -> SizeAnswer:
    """Work out from a pilot run how many tasks and repeats a decision needs, and what they cost; no model is called.

    `purpose`: None answers for both. `loops`, `profiles`: those of the planned run, by their names in the pilot; empty: all.
    `margin`: the difference that matters, of a share in points from 0 to 1, of any other metric as a share of it. `alpha`: the
    level of its tests; None: the pilot's. `power`: the probability of reaching the decision. `runs`: the folder of runs that are
    named; None: `runs`.
    Raises ValueError for bad arguments and for a pilot that cannot tell.
    """
    purposes = PURPOSES if purpose is None else (purpose,)
    request = SizeRequest(metric, power=power, purposes=purposes, loops=loops, profiles=profiles, margin=margin, alpha=alpha)
    sizing = work_out_sizes(_loaded(run, runs).results, request)
    return SizeAnswer(size_doc(sizing), sizing)


@question
def why(run: AnyRun, a: Any = None, b: Any = None, *, task: str | None = None, runs: str | Path | None = None) -> ShownWhy:
    """Say why trials were lost, as `run.why` does: in sum, of one arm, or where two arms part; no model is called.

    `a`, `b`: arms by name, or loops in all their arms. `task`: only its trials. `runs`: the folder of a run that is named; None:
    `runs`. Raises ValueError for a name that no arm or task has, and for `b` without `a`.
    """
    named = [
        arm if arm is None or isinstance(arm, str) else str(parse_spec(loop_name(arm, setting)))
        for arm, setting in ((a, "a"), (b, "b"))
    ]
    return shown_why(_loaded(run, runs).results, *named, task=task)


@question
def resume(
    run: AnyRun,
    *,
    runs: str | Path | None = None,
    allow: Sequence[str] = (),
    base_url: str | None = None,
    cassette: str | Path | None = None,
    budget: Any = None,
    progress: bool | None = None,
) -> Loaded | OptimizeAnswer:
    """Go on with a run that was cut off: only what is missing is run. A whole one is only read.

    `run`: a comparison, which gives what `compare` returns, or an optimization, which gives what `optimize` returns. `allow`,
    `base_url`, `cassette`: code of your own, the server and the recordings that the run names, which have to be passed again; what
    this program handed over as objects is allowed already. `budget`: new limits of the whole run. Raises ValueError for a run that
    is none of these, and where code, suite or profiles have changed since it began.
    """
    if isinstance(run, Loaded):
        folder = run.results.folder
    else:
        folder = run.finding.folder if isinstance(run, Conclusion) else run_folder(run, Path(runs or "runs"))
    allowed = Permissions([*allow, *session.names()], base_url, None if cassette is None else Path(cassette))
    if is_optimization(folder):
        return _carried_out((folder, allowed), progress)
    return carry_out_run(lambda: reopen(folder, allowed, {} if budget is None else {"budget": budget}), progress)


# --- shared ---


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names in the place of objects; `scorer` becomes part of the suite, and so do its file and tools."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    fields["loops"] = tuple(loop_name(loop) for loop in _several(fields["loops"]))
    scorer = fields.pop("scorer", None)
    source = {} if scorer is None else {name: fields.pop(name, None) for name in ("data", "tools")}
    fields["suite"] = suite_name(fields["suite"], scorer, **source)
    fields["profiles"] = tuple(profile_name(profile, fields.get("runs") or "runs") for profile in _several(fields["profiles"]))
    return fields


def _several(value: Any) -> Sequence[Any]:
    """Return a list as it is, and one name or object as a list of it."""
    return value if isinstance(value, list | tuple) else (value,)


def _config(settings: Mapping[str, Any]) -> CompareConfig:
    config = load_config(None, _named(settings))
    _check_importable(config)
    return config


def _check_importable(config: CompareConfig) -> None:
    if config.is_spread:
        check_workers_can_import("loops", config.loops)
        check_workers_can_import("suite", [config.suite])


def _value_text(value: Any) -> str:
    """Return a value of a loop's option as it is typed; a loop inside a loop may be an object."""
    return "none" if value is None else value_text(loop_name(value, "vary") if isinstance(value, Loop) else value)


def _loaded(run: AnyRun, runs: str | Path | None = None) -> Loaded:
    """Return a run. `runs`: the folder in which one that is named is looked up."""
    return run if isinstance(run, Loaded) else load(run, runs)
