"""An optimization from configuration to tested programs: search each design's prompts, then open the test split, once."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.saving import get_dependency_versions

from loopbench.datasets.task import Suite, Task
from loopbench.dspy_seam import lm_of
from loopbench.dspy_seam.program import LoopProgram, loop_with
from loopbench.experiments.compare import prepare as compare_prepare
from loopbench.experiments.compare import reopen as compare_reopen
from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import Experiment
from loopbench.models.metering import Meter
from loopbench.models.proposer import ScriptedProposer
from loopbench.models.real import RealModel
from loopbench.protocol import Model, Optimizable, Program
from loopbench.protocol.names import parse_spec
from loopbench.protocol.program import ABOUT
from loopbench.protocol.redact import redact
from loopbench.runs.code_digests import code_digest
from loopbench.runs.config import BudgetConfig, CompareConfig
from loopbench.runs.engine.job import budget_of
from loopbench.runs.engine.runner import Progress
from loopbench.runs.folders import TEST, new_folder
from loopbench.runs.lookup import check_plans, suite_of
from loopbench.runs.manifest import read_manifest, timestamp, write_manifest
from loopbench.runs.new_manifest import (
    PACKAGES,
    VERSIONS,
    configuration,
    loop_program_digest,
    package_version,
    suite_code,
    typed_options,
)
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions, allowed_config, own_code
from loopbench.runs.schedule import Arm, make_arms
from loopbench.runs.store.files import MANIFEST, RunError, write_whole
from loopbench.runs.store.lock import locked
from loopbench.runs.trial.setting import TrialContext
from loopbench.runs.trial_models import TrialModels, open_models
from loopbench.text.plain_text import json_safe

from .candidates import Candidate, SearchEnd, Status, Watcher
from .config import OptimizeConfig, optimize_config_from
from .event_loop_thread import Background
from .files import CANDIDATES, ENDED, FAILURE, PROGRAM, PROPOSALS, ROLLOUTS, saved_digest
from .log import log_digest
from .manifest import DesignEntry, Opened, OptimizationManifest, OptimizerEntry, SuiteEntry, read_optimization_manifest
from .optimizers import Optimizer, OptimizerFailed, Workshop, optimizer_named, unheard
from .proposals import Proposals
from .rollouts import BudgetSpent, Rollouts, RunStopped
from .splits import Splits, split
from .watchers import SILENT


@dataclass(frozen=True, slots=True)
class DesignSearch:
    """One loop whose prompts are optimized."""

    arm: Arm
    folder: Path

    @property
    def name(self) -> str:
        """As typed, canonical."""
        return str(self.arm.spec)

    @property
    def is_done(self) -> bool:
        return (self.folder / ENDED).is_file()

    def ended(self) -> SearchEnd:
        """Raises RunError where it has not ended, or what says so cannot be read."""
        path = self.folder / ENDED
        try:
            return SearchEnd.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path}: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, slots=True)
class Optimization:
    """An optimization that is ready to go: everything looked up, the directory made."""

    folder: Path
    config: OptimizeConfig
    suite: Suite
    splits: Splits
    designs: tuple[DesignSearch, ...]
    optimizer: Optimizer
    manifest: OptimizationManifest


def prepare(config: OptimizeConfig) -> Optimization:
    """Look everything up and make the run directory. Raises ValueError for bad input; then nothing was made."""
    suite, splits, arms, optimizer = _look_up(config)
    check_plans(config.compare, suite, splits.test)  # not when the search is done
    open_models(_search_config(config), arms)  # a missing key or price is told now
    _proposer(config)
    folder = new_folder(config.compare.runs, f"{suite.name}-optimized")
    designs = _designs(folder, arms)
    manifest = _manifest(folder, config, suite, splits, designs, optimizer)
    write_manifest(folder, manifest)
    return Optimization(folder, config, suite, splits, designs, optimizer, manifest)


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, mlflow: bool | None = None) -> Optimization:
    """An interrupted optimization. Raises RunError where code, suite or profiles have changed since.

    `mlflow`: whether it logs from now on; None: as it began.
    """
    manifest = read_optimization_manifest(folder)
    config = optimize_config_from(manifest.config, f"{folder}/manifest.json")
    begun_with = config.compare if mlflow is None else config.compare.model_copy(update={"mlflow": mlflow})
    config = config.model_copy(update={"compare": allowed_config(folder, begun_with, allowed)})
    name = parse_spec(config.search.optimizer).name
    if ":" in name and name not in allowed.code:
        raise RunError(f"{folder}: this run uses {name}, code of your own; type its name to let it be imported: --allow {name}")
    suite, splits, arms, optimizer = _look_up(config)
    designs = _designs(folder, arms)
    now = _manifest(folder, config, suite, splits, designs, optimizer)
    for what in ("versions", "suite", "profiles", "designs", "optimizer"):
        if getattr(now, what) != getattr(manifest, what):
            raise RunError(f"{folder}: {what} changed since this run began; start a new run (nothing was written)")
    for name, entry in now.splits.items():
        if name not in manifest.splits or entry.digest != manifest.splits[name].digest:
            raise RunError(f"{folder}: split {name} changed since this run began; start a new run (nothing was written)")
    return Optimization(folder, config, suite, splits, designs, optimizer, manifest)


def _look_up(config: OptimizeConfig) -> tuple[Suite, Splits, tuple[Arm, ...], Optimizer]:
    suite = suite_of(config.compare)
    arms = make_arms(config.compare, suite)
    for arm in arms:
        if not isinstance(arm.loop, Optimizable):
            raise ValueError(f"loop {arm.spec}: its prompts cannot be changed: it has no predictors and with_predictors")
    labels = [replace(arm.spec, program=PROGRAM).label for arm in arms]
    for arm, label in zip(arms, labels, strict=True):
        if label in {other.spec.label for other in arms}:
            raise ValueError(f"loop {arm.spec}: rename the program that it begins with: the run will call its own {PROGRAM}")
        if labels.count(label) > 1:
            raise ValueError(f"loop {arm.spec}: another design is the same loop with another program: optimize them one by one")
    return suite, split(suite, config), arms, optimizer_named(parse_spec(config.search.optimizer))


def _designs(folder: Path, arms: Sequence[Arm]) -> tuple[DesignSearch, ...]:
    return tuple(DesignSearch(arm, folder / "designs" / f"{place}-{_slug(str(arm.spec))}") for place, arm in enumerate(arms, 1))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-")[:60]


def _search_config(config: OptimizeConfig) -> CompareConfig:
    """What the rollouts are asked under."""
    return config.compare.model_copy(update={"budget": config.search.budget, "concurrency": config.threads})


def _proposer(config: OptimizeConfig) -> Model:
    """The model that proposes. Raises ValueError for a name that leads nowhere, or a missing key."""
    if config.proposer == "scripted":
        return ScriptedProposer(config.compare.seed)
    asked = config.compare.model_copy(
        update={"models": (config.proposer,), "profiles": ("clean",), "budget": config.proposer_budget}
    )
    return open_models(asked, ()).real[config.proposer]


def _manifest(
    folder: Path, config: OptimizeConfig, suite: Suite, splits: Splits, designs: Sequence[DesignSearch], optimizer: Optimizer
) -> OptimizationManifest:
    code = suite_code(config.compare, suite)
    return OptimizationManifest(
        kind="optimization",
        created=timestamp(),
        config=config.public(),
        seed=config.compare.seed,
        versions=dict(VERSIONS),
        suite=SuiteEntry(
            name=suite.name,
            version=suite.version,
            digest=suite.digest,
            max_tool_steps=config.compare.max_tool_steps or suite.max_tool_steps,
            **({"code": code} if code else {}),
        ),
        profiles={design.arm.profile.name: design.arm.profile.digest for design in designs},
        optimizer=OptimizerEntry(spec=config.search.optimizer, name=optimizer.name, options=dict(optimizer.options)),
        designs=tuple(_design(folder, design) for design in designs),
        splits=splits.entries(),
        packages={name: package_version(name) for name in (*PACKAGES, "gepa", "optuna")},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )


def _design(folder: Path, design: DesignSearch) -> DesignEntry:
    arm = design.arm
    return DesignEntry(
        design=design.name,
        folder=str(design.folder.relative_to(folder)),
        loop=arm.spec.name,
        options=typed_options(arm),
        configuration=configuration(arm.loop),
        code=code_digest(arm.loop),
        program=loop_program_digest(arm.loop) or "",
    )


# --- running ---


def run(made: Optimization, watcher: Watcher = SILENT, progress: Progress = SILENT) -> str:
    """Optimize what has not been, then test; `progress`: told of each trial of the test.

    Gives why it stopped early, or an empty text; KeyboardInterrupt leaves a resumable run. Raises RunError and ValueError.
    """
    with locked(made.folder):
        try:
            for design in made.designs:
                if design.is_done:
                    watcher.ended(design.name, design.ended(), _kept(design))
                else:
                    _optimize(made, design, watcher)
        except RunStopped as stopped:
            return str(stopped)
        ends = [design.ended() for design in made.designs]
        if all(ended.status == "failed" for ended in ends):
            where = made.designs[0].folder / FAILURE
            raise RunError(f"{ends[0].reason} (on all designs; the traceback stands in {where}); the test split stays locked")
        return compare.run(open_test(made), progress)


def _optimize(made: Optimization, design: DesignSearch, watcher: Watcher) -> None:
    config = made.config
    design.folder.mkdir(parents=True, exist_ok=True)
    answers = open_models(_search_config(config), (design.arm,))
    with Background() as background, _opened(background, answers) as ready:
        setting = TrialContext(
            made.suite,
            ready,
            config.compare.trial_timeout_s,
            budget_of(config.compare.trial_budget),
            Meter(budget_of(config.search.budget)),
            config.compare.real_time,
            config.compare.tool_timeout_s,
        )
        rollouts = Rollouts(
            design.arm,
            made.splits.searched,
            setting,
            background,
            design.folder / ROLLOUTS,
            watcher,
            seed=config.compare.seed,
            is_soft=made.optimizer.only_collects,
        )
        proposer = _proposer(config)
        proposals = Proposals(
            proposer,
            Meter(budget_of(config.proposer_budget)),
            background,
            design.folder / PROPOSALS,
            rollouts.proposed,
        )
        with contextlib.closing(rollouts), contextlib.closing(proposals):
            ended, kept = _search(made, design, rollouts, proposals)
            if isinstance(proposer, RealModel):
                background.submit(proposer.aclose()).result()
    _keep(made, design, rollouts, ended, kept)
    watcher.ended(design.name, ended, kept)


@contextlib.contextmanager
def _opened(background: Background, answers: TrialModels) -> Iterator[TrialModels]:
    """Ready to answer within the background's event loop."""
    context = answers.opened()
    ready = background.submit(context.__aenter__()).result()
    try:
        yield ready
    finally:
        background.submit(_left(context)).result()
        answers.close(whole=True)


async def _left(context: contextlib.AbstractAsyncContextManager[TrialModels]) -> None:
    await context.__aexit__(None, None, None)


def _search(made: Optimization, design: DesignSearch, rollouts: Rollouts, proposals: Proposals) -> tuple[SearchEnd, Candidate]:
    """One compile, and the dev scores of what it began with and what it gave."""
    loop = design.arm.loop
    student = LoopProgram(loop, runner=rollouts)
    own = rollouts.candidate(student.program)
    told: list[str] = []
    status: Status = "finished"
    reason = ""
    try:
        compiled = made.optimizer.compile(
            Workshop(
                student,
                [_example(task) for task in made.splits.train],
                [_example(task) for task in made.splits.dev],
                lm_of(proposals),
                made.config.threads,
                made.config.compare.seed,
                told.append,
            )
        )
        kept = rollouts.candidate(compiled.program)
    except BudgetSpent as spent:
        status, reason, kept = "budget", str(spent), rollouts.best()
    except OptimizerFailed as failure:
        status, reason, kept = "failed", str(failure), rollouts.best()
        write_text(design.folder / FAILURE, redact("".join(traceback.format_exception(failure))))
    if status == "finished" and (used_up := rollouts.setting.meter.exhausted):
        status, reason = "budget", used_up
    before = rollouts.dev_scores(loop, own.program)
    after = rollouts.dev_scores(loop, kept.program)
    ended = SearchEnd(
        design.name,
        status,
        reason,
        kept.digest,
        kept.number,
        len(rollouts.candidates),
        before,
        after,
        rollouts.spent,
        proposals.spent,
        rollouts.evaluation,
        tuple(_warnings(made, rollouts, proposals, told)),
    )
    return ended, rollouts.candidates[kept.digest]


def _example(task: Task) -> Any:
    """What a teleprompter is handed of a task."""
    return dspy.Example(query=task.query.full_text, task=task.id, answer=task.expected).with_inputs("query", "task")


def _warnings(made: Optimization, rollouts: Rollouts, proposals: Proposals, told: Sequence[str]) -> Iterator[str]:
    """`told`: what DSPy has logged."""
    asked = next(iter(rollouts.candidates.values())).program
    unasked = [name for name in asked if rollouts.heard and name not in rollouts.heard]
    if unasked and any(map(_OF_UNASKED.search, told)):
        yield f"never asked in the search, so that nothing could be learned for it: {', '.join(unasked)}"
    yield from (f"{made.optimizer.name} says: {line}" for line in told if not (unasked and _OF_UNASKED.search(line)))
    if rollouts.errored:
        yield f"{rollouts.errored} rollouts were errored, after several attempts; the optimizer was told a score of 0 for them"
    if said := unheard(proposals.spent.calls, [item.program for item in rollouts.candidates.values()]):
        yield said


_OF_UNASKED = re.compile(r"No valid reflective examples found for|No valid predictions found for any module")
"""What GEPA says when its turn comes to a predictor that no rollout has asked."""


def _keep(made: Optimization, design: DesignSearch, rollouts: Rollouts, ended: SearchEnd, kept: Candidate) -> None:
    """The program, the candidates, and at last that the design is done."""
    config, arm = made.config, design.arm
    about = {
        "design": arm.loop.name,
        "loop": arm.spec.name,
        "options": {name: json_safe(value) for name, value in arm.spec.options.items()},
        "suite": f"{made.suite.name} {made.suite.version}",
        "profile": arm.profile.name,
        "model": arm.model,
        "optimizer": config.search.optimizer,
        "seed": config.compare.seed,
        "budget": config.search.budget.model_dump(exclude_none=True),
        "candidate": kept.number,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    state = LoopProgram(loop_with(arm.loop, kept.program)).dump_state()
    write_json(design.folder / PROGRAM, {**state, "metadata": {"dependency_versions": _dependencies()}, ABOUT: about})
    write_json(design.folder / CANDIDATES, [_candidate(item) for item in rollouts.candidates.values()])
    write_json(design.folder / ENDED, ended.to_json())


def _dependencies() -> dict[str, str | None]:
    """As DSPy's own files have them: it warns where they differ."""
    shown: dict[str, str | None] = get_dependency_versions()
    return shown


def _candidate(item: Candidate) -> dict[str, Any]:
    program = {
        name: {"instructions": prompt.instructions, "demos": [dict(demo) for demo in prompt.demos]}
        for name, prompt in item.program.items()
    }
    return {"number": item.number, "digest": item.digest, "train": dict(item.train), "dev": dict(item.dev), "program": program}


def _kept(design: DesignSearch) -> Candidate:
    """The candidate that a design ended with, from its files. Raises RunError."""
    path = design.folder / CANDIDATES
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
        item = items[design.ended().chosen]
        own = design.arm.loop.predictors  # type: ignore[attr-defined]  # checked when it was looked up
        program: Program = {
            name: replace(own[name], instructions=state["instructions"], demos=tuple(state["demos"]))
            for name, state in item["program"].items()
        }
        return Candidate(item["number"], item["digest"], program, item["train"], item["dev"])
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Whole or not at all."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))


# --- the test ---


def open_test(made: Optimization) -> Experiment:
    """The comparison on the test split: each design as it was, and with its program. Goes on with one that was begun.

    Before the first trial, the manifest says when the split was opened, for which programs, and what had been asked until then.
    Raises RunError where it was opened before for other programs.
    """
    programs = {design.name: design.ended().digest for design in made.designs}
    asked = {design.name: log_digest(design.folder / ROLLOUTS) for design in made.designs}
    folder = made.folder / TEST
    manifest = read_optimization_manifest(made.folder)
    test = manifest.splits["test"]
    for what, now in (("programs", programs), ("rollouts", asked)):
        if test.opened is not None and getattr(test.opened, what) != now:
            raise RunError(f"{made.folder}: the test split was opened before, for other {what}; it is opened once: start a new run")
    for design in made.designs:
        if saved_digest(design.folder / PROGRAM) != programs[design.name]:
            raise RunError(f"{design.folder / PROGRAM}: not the program that the optimization gave")
    if test.opened is None:
        test = test.model_copy(update={"opened": Opened(at=timestamp(), programs=programs, rollouts=asked)})
        write_manifest(made.folder, manifest.model_copy(update={"splits": {**manifest.splits, "test": test}}))
    config, is_begun = test_config(made), (folder / MANIFEST).is_file()
    if not is_begun:
        return compare_prepare.prepare(config, folder)
    _follow(folder, config)
    return compare_reopen.reopen(folder, _typed(config))


def test_config(made: Optimization) -> CompareConfig:
    """The comparison on the test split."""
    loops = [*(design.name for design in made.designs), *(_optimized(design) for design in made.designs)]
    return made.config.compare.model_copy(
        update={"loops": tuple(loops), "split": "test", "budget": BudgetConfig(), "mlflow": False}
    )


def _optimized(design: DesignSearch) -> str:
    return str(replace(design.arm.spec, program=str((design.folder / PROGRAM).resolve())))


def _follow(folder: Path, config: CompareConfig) -> None:
    """The run may have been moved since its test was begun, and the programs with it."""
    manifest = read_manifest(folder)
    loops = [*config.loops]
    if manifest.config["loops"] != loops:
        write_manifest(folder, manifest.model_copy(update={"config": {**manifest.config, "loops": loops}}))


def _typed(config: CompareConfig) -> Permissions:
    """The user has typed it when the whole run was reopened."""
    return Permissions(own_code(config), config.base_url, config.cassette, tracking_uri=config.tracking_uri)
