"""Preparing an optimization from a configuration: everything looked up, the run directory created or reopened."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

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
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_code, allowed_config, check_tracking
from whichloop.runs.schedule import Arm, make_arms
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.context_use import Pricing
from whichloop.runs.trial_models import check_scripted_price, open_models, scripted_price, with_scripted_price

from . import manifest as files
from .candidates import SearchEnd
from .config import OptimizeConfig, optimize_config_from
from .optimizer import Optimizer, optimizer_named


class Splits(NamedTuple):
    """The tasks of an optimization; the optimizer never gets `test`."""

    train: Sequence[Task]
    dev: Sequence[Task]
    test: Sequence[Task]

    def entries(self) -> dict[files.SplitName, files.SplitEntry]:
        """Return sizes and digests, by split."""
        named: dict[files.SplitName, dict[str, Any]] = {
            name: {"tasks": len(tasks), "digest": digest([task.as_dict() for task in tasks])}
            for name, tasks in zip(get_args(files.SplitName), self, strict=True)
        }
        named["test"]["opened"] = None
        return {name: files.SplitEntry(**parts) for name, parts in named.items()}

    @property
    def searched(self) -> Mapping[str, tuple[str, Task]]:
        """Task id → split name and task, for all tasks that an optimizer may see."""
        return {task.id: (name, task) for name, tasks in (("train", self.train), ("dev", self.dev)) for task in tasks}


def split(suite: Suite, config: OptimizeConfig) -> Splits:
    """Return the suite's own splits, or if it has none, splits by task id.

    Quarantined tasks, and for the scripted model those without a plan, are not searched by. Raises ValueError for an empty split.
    """
    scripted = config.model == SCRIPTED
    found = {name: tasks_of_split(suite, name) for name in ("train", "dev", "test")}
    for name in ("train", "dev"):
        found[name] = [task for task in found[name] if not task.quarantined and not (scripted and task.plan is None)]
        if not found[name]:
            reason = "all are quarantined, or have no plan, which the scripted model needs" if scripted else "all are quarantined"
            raise ValueError(f"suite {suite.name}: no task of its split {name} can be run: {reason}")
    sizes = (config.search.train, config.search.dev, config.compare.tasks)
    splits = Splits(*(tasks[:most] for tasks, most in zip(found.values(), sizes, strict=True)))
    split_of: dict[str, str] = {}
    for name, tasks in splits._asdict().items():
        for task in tasks:
            if split_of.setdefault(task.id, name) != name:
                raise ValueError(f"suite {suite.name}: task {task.id} is in two splits, {split_of[task.id]} and {name}")
    return splits


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
        return (self.folder / files.ENDED).is_file()

    def ended(self) -> SearchEnd:
        """Read the end of the search. Raises RunError if it has not ended, or its file is unreadable."""
        end = files.read_end(self.folder)
        if end is None:
            raise RunError(f"{self.folder / files.ENDED}: no such file")
        return end


@dataclass(frozen=True, slots=True)
class Optimization:
    """An optimization that is ready to run: everything looked up, the directory created."""

    folder: Path
    config: OptimizeConfig
    suite: Suite
    splits: Splits
    designs: tuple[DesignSearch, ...]
    optimizer: Optimizer
    manifest: files.OptimizationManifest


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
    manifest = files.read_optimization_manifest(folder)
    config = optimize_config_from(manifest.config, f"{folder}/manifest.json")
    begun_with = config.compare if mlflow is None else config_from({**config.compare.model_dump(mode="json"), "mlflow": mlflow})
    config = config.model_copy(update={"compare": allowed_config(folder, begun_with, allowed)})
    name = parse_spec(config.search.optimizer).name
    allowed_code(folder, [name] if ":" in name else [], allowed.code)
    suite, splits, arms, optimizer = _look_up(config)
    designs = _designs(folder, arms)
    now = _manifest(folder, config, suite, splits, designs, optimizer)
    parts = ("versions", "suite", "profiles", "designs", "optimizer")
    changed = [part for part in parts if getattr(now, part) != getattr(manifest, part)]
    digests = {name: entry.digest for name, entry in manifest.splits.items()}
    changed += [f"split {name}" for name, entry in now.splits.items() if digests.get(name) != entry.digest]
    if changed:
        raise RunError(f"{folder}: {changed[0]} changed since this run began; start a new run (nothing was written)")
    return Optimization(folder, config, suite, splits, designs, optimizer, manifest)


def _look_up(config: OptimizeConfig) -> tuple[Suite, Splits, tuple[Arm, ...], Optimizer]:
    suite = suite_of(config.compare)
    arms = make_arms(config.compare, suite)
    for arm in arms:
        if not isinstance(arm.loop, Optimizable):
            raise ValueError(f"loop {arm.spec}: its prompts cannot be changed: it has no predictors and with_predictors")
    labels = [replace(arm.spec, program=files.PROGRAM).label for arm in arms]
    for arm, label in zip(arms, labels, strict=True):
        if label in {other.spec.label for other in arms}:
            raise ValueError(f"loop {arm.spec}: rename the program that it begins with: the run will call its own {files.PROGRAM}")
        if labels.count(label) > 1:
            raise ValueError(f"loop {arm.spec}: another design is the same loop with another program: optimize them one by one")
    return suite, split(suite, config), arms, optimizer_named(parse_spec(config.search.optimizer))


def _designs(folder: Path, arms: Sequence[Arm]) -> tuple[DesignSearch, ...]:
    names = [re.sub(r"[^A-Za-z0-9._]+", "-", str(arm.spec)).strip("-")[:60] for arm in arms]
    folders = [folder / "designs" / f"{place}-{name}" for place, name in enumerate(names, 1)]
    return tuple(map(DesignSearch, arms, folders))


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
) -> files.OptimizationManifest:
    code, steps = suite_code(config.compare, suite), config.compare.max_tool_steps or suite.max_tool_steps
    identity = {"name": suite.name, "version": suite.version, "digest": suite.digest, "max_tool_steps": steps}
    return files.OptimizationManifest(
        kind="optimization",
        created=timestamp(),
        config=config.public(),
        seed=config.compare.seed,
        versions=versions_of(config.compare),
        suite=files.SearchedSuite(**identity, **({"code": code} if code else {})),
        profiles={design.arm.profile.name: design.arm.profile.digest for design in designs},
        optimizer=files.OptimizerEntry(spec=config.search.optimizer, name=optimizer.name, options=dict(optimizer.options)),
        designs=tuple(_design(folder, design) for design in designs),
        splits=splits.entries(),
        packages={name: package_version(name) for name in (*PACKAGES, "gepa", "optuna")},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )


def _design(folder: Path, design: DesignSearch) -> files.DesignEntry:
    arm = design.arm
    return files.DesignEntry(
        design=design.name,
        folder=str(design.folder.relative_to(folder)),
        loop=arm.spec.name,
        options=typed_options(arm),
        configuration=configuration(arm.loop),
        code=code_digest(arm.loop),
        program=loop_program_digest(arm.loop) or "",
    )
