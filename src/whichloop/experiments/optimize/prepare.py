"""Preparing an optimization from a configuration: everything looked up, the run directory created or reopened."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dspy.utils.saving import get_dependency_versions

from whichloop.datasets.task import Suite, Task
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import Model, Optimizable
from whichloop.protocol.digest import digest
from whichloop.protocol.modules import package_version
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.runs.code_digests import code_digest
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.folders import new_folder
from whichloop.runs.lookup import check_answers, check_calls, check_plans, suite_of, tasks_of_split
from whichloop.runs.manifest import timestamp, write_manifest
from whichloop.runs.new_manifest import PACKAGES, configuration, loop_program_digest, suite_code, typed_options, versions_of
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_code, allowed_config, check_tracking, own_code
from whichloop.runs.schedule import Arm, make_arms
from whichloop.runs.store.files import RunError, read_document
from whichloop.runs.trial.context_use import Pricing
from whichloop.runs.trial_models import check_scripted_price, open_models, scripted_price, with_scripted_price

from .candidates import SearchEnd
from .config import OptimizeConfig, optimize_config_from
from .manifest import (
    ENDED,
    PROGRAM,
    DesignEntry,
    OptimizationManifest,
    OptimizerEntry,
    SearchedSuite,
    SplitEntry,
    SplitName,
    read_optimization_manifest,
)
from .optimizer import Optimizer, optimizer_named


@dataclass(frozen=True, slots=True)
class Splits:
    """The tasks of an optimization; the optimizer never gets `test`."""

    train: Sequence[Task]
    dev: Sequence[Task]
    test: Sequence[Task]

    def entries(self) -> dict[SplitName, SplitEntry]:
        """Return sizes and digests, by split."""
        splits = {name: SplitEntry(tasks=len(tasks), digest=_digest(tasks)) for name, tasks in self._named().items()}
        return {**splits, "test": splits["test"].model_copy(update={"opened": None})}

    @property
    def searched(self) -> Mapping[str, tuple[str, Task]]:
        """Task id → split name and task, for all tasks that an optimizer may see."""
        return {task.id: (name, task) for name, tasks in (("train", self.train), ("dev", self.dev)) for task in tasks}

    def _named(self) -> dict[SplitName, Sequence[Task]]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def split(suite: Suite, config: OptimizeConfig) -> Splits:
    """Return the suite's own splits, or if it has none, splits by task id. Raises ValueError for an empty one."""
    search = config.search
    by_name = {
        "train": _usable(suite, "train", config)[: search.train],
        "dev": _usable(suite, "dev", config)[: search.dev],
        "test": tasks_of_split(suite, "test")[: config.compare.tasks],
    }
    split_of: dict[str, str] = {}
    for name, tasks in by_name.items():
        for task in tasks:
            if split_of.setdefault(task.id, name) != name:
                raise ValueError(f"suite {suite.name}: task {task.id} is in two splits, {split_of[task.id]} and {name}")
    return Splits(**by_name)


def _usable(suite: Suite, name: str, config: OptimizeConfig) -> list[Task]:
    """Return the usable tasks of a split, without quarantined ones and those that lack a plan for the scripted model."""
    scripted = config.model == SCRIPTED
    usable = [task for task in tasks_of_split(suite, name) if not task.quarantined and not (scripted and task.plan is None)]
    if not usable:
        reason = f"all are quarantined{f', or have no plan, which the scripted model needs; {_WAYS_OUT}' if scripted else ''}"
        raise ValueError(f"suite {suite.name}: no task of its split {name} can be run: {reason}")
    return usable


_WAYS_OUT = "run a real one (--model), or learn plans from such a run by the command whichloop learn plans"


def _digest(tasks: Sequence[Task]) -> str:
    return digest([task.as_dict() for task in tasks])


@dataclass(frozen=True, slots=True)
class DesignSearch:
    """One loop whose prompts are optimized."""

    arm: Arm
    folder: Path

    @property
    def name(self) -> str:
        """The loop as typed, canonical."""
        return str(self.arm.spec)

    @property
    def is_done(self) -> bool:
        return (self.folder / ENDED).is_file()

    def ended(self) -> SearchEnd:
        """Read the end of the search. Raises RunError if it has not ended, or its file is unreadable."""
        path = self.folder / ENDED
        try:
            return SearchEnd.from_json(read_document(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path}: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, slots=True)
class Optimization:
    """An optimization that is ready to run: everything looked up, the directory created."""

    folder: Path
    config: OptimizeConfig
    suite: Suite
    splits: Splits
    designs: tuple[DesignSearch, ...]
    optimizer: Optimizer
    manifest: OptimizationManifest


def prepare(config: OptimizeConfig) -> Optimization:
    """Look everything up and create the run directory. Raises ValueError for bad input, without creating anything."""
    check_tracking(config.compare)
    config = config.model_copy(update={"compare": with_scripted_price(config.compare)})
    suite, splits, arms, optimizer = _look_up(config)
    for tasks in (splits.train, splits.dev, splits.test):  # all of them before the search, which costs most
        check_plans(config.compare, suite, tasks)
        check_answers(config.compare, suite, tasks)
        check_calls(config.compare, suite, tasks)
    if config.search.budget.dollars is not None:
        check_scripted_price(config.compare)
    open_models(search_config(config), arms)  # reports a missing key or price now
    open_proposer(config)
    folder = new_folder(config.compare.runs, f"{suite.name}-optimized")
    designs = _designs(folder, arms)
    manifest = _manifest(folder, config, suite, splits, designs, optimizer)
    write_manifest(folder, manifest)
    return Optimization(folder, config, suite, splits, designs, optimizer, manifest)


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, mlflow: bool | None = None) -> Optimization:
    """Reopen an interrupted optimization. Raises RunError if code, suite or profiles have changed.

    `mlflow`: whether it logs from now on; None: unchanged.
    """
    manifest = read_optimization_manifest(folder)
    config = optimize_config_from(manifest.config, f"{folder}/manifest.json")
    begun_with = config.compare if mlflow is None else config_from({**config.compare.model_dump(mode="json"), "mlflow": mlflow})
    config = config.model_copy(update={"compare": allowed_config(folder, begun_with, allowed)})
    name = parse_spec(config.search.optimizer).name
    allowed_code(folder, [name] if ":" in name else [], allowed.code)
    suite, splits, arms, optimizer = _look_up(config)
    designs = _designs(folder, arms)
    now = _manifest(folder, config, suite, splits, designs, optimizer)
    for part in ("versions", "suite", "profiles", "designs", "optimizer"):
        if getattr(now, part) != getattr(manifest, part):
            raise RunError(f"{folder}: {part} changed since this run began; start a new run (nothing was written)")
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


def search_config(config: OptimizeConfig) -> CompareConfig:
    """Return the comparison settings for the rollouts."""
    return config.compare.model_copy(update={"budget": config.search.budget, "concurrency": config.threads})


def open_proposer(config: OptimizeConfig) -> Model:
    """Open the model that proposes prompts. Raises ValueError for an unknown name or a missing key."""
    if config.proposer == SCRIPTED:
        return ScriptedProposer(config.compare.seed)
    compare_config = config.compare.model_copy(
        update={"models": (config.proposer,), "profiles": ("clean",), "budget": config.proposer_budget}
    )
    return open_models(compare_config, ()).real[config.proposer]


def proposal_pricing(config: OptimizeConfig, proposer: Model) -> Pricing | None:
    """Return what gives the scripted proposer's replies their cost; None where the run has no price, or the model its own."""
    price = scripted_price(config.compare) if isinstance(proposer, ScriptedProposer) else None
    return None if price is None else Pricing(price)


def _manifest(
    folder: Path, config: OptimizeConfig, suite: Suite, splits: Splits, designs: Sequence[DesignSearch], optimizer: Optimizer
) -> OptimizationManifest:
    code = suite_code(config.compare, suite)
    return OptimizationManifest(
        kind="optimization",
        created=timestamp(),
        config=config.public(),
        seed=config.compare.seed,
        versions=versions_of(config.compare),
        suite=SearchedSuite(
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


def dependency_versions() -> dict[str, str | None]:
    """Return the versions that DSPy stores in its own files; it warns if they differ."""
    versions: dict[str, str | None] = get_dependency_versions()
    return versions


def typed_permissions(config: CompareConfig) -> Permissions:
    """Return the permissions that the user gave on reopening the whole run."""
    return Permissions(own_code(config), config.base_url, config.cassette, tracking_uri=config.tracking_uri)
