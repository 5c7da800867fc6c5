"""Preparing an optimization from a configuration: everything looked up, the run directory created or reopened."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whichloop.datasets.task import Suite, Task
from whichloop.models.metering import Pricing
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import Model, Optimizable
from whichloop.protocol.json_text import digest
from whichloop.protocol.modules import package_version
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.runs.code_digests import code_digest
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.folders import new_folder
from whichloop.runs.lookup import check_answers, check_calls, check_plans, suite_of, tasks_of_split
from whichloop.runs.manifest import SuiteEntry, timestamp, write_manifest
from whichloop.runs.new_manifest import PACKAGES, configuration, loop_program_digest, own_files, typed_options, versions_of
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_code, allowed_config
from whichloop.runs.schedule import Arm, make_arms
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.counts import pricing_of
from whichloop.runs.trial_models import check_scripted_price, open_models, scripted_price, with_scripted_price

from . import config as entries
from .candidates import ENDED, PROGRAM, SearchEnd, read_end
from .config import OptimizeConfig
from .optimizer import Optimizer, optimizer_named

Splits = Mapping[entries.SplitName, Sequence[Task]]
"""The tasks of an optimization; the optimizer never gets those of `test`."""


def split(suite: Suite, config: OptimizeConfig) -> Splits:
    """Return the suite's own splits, or if it has none, splits by task id.

    Quarantined tasks, and for the scripted model those without a plan, are not searched by. Raises ValueError for an empty split.
    """
    scripted, found = config.model == SCRIPTED, dict[entries.SplitName, Sequence[Task]]()
    sizes: dict[entries.SplitName, int | None] = {"train": config.search.train, "dev": config.search.dev}
    for name, most in (sizes | {"test": config.compare.tasks}).items():
        tasks = tasks_of_split(suite, name)
        if name != "test":
            tasks = [task for task in tasks if not task.quarantined and not (scripted and task.plan is None)]
        if not tasks:
            reason = "all are quarantined, or have no plan, which the scripted model needs"
            raise ValueError(f"suite {suite.name}: no task of its split {name} can be run: {reason}")
        found[name] = tasks[:most]
    return found


@dataclass(frozen=True, slots=True)
class DesignSearch:
    """One loop whose prompts are optimized."""

    arm: Arm
    folder: Path

    @property
    def name(self) -> str:
        """The loop as typed, canonical."""
        return str(self.arm.spec)

    def ended(self) -> SearchEnd:
        """Read the end of the search. Raises RunError if it has not ended, or its file is unreadable."""
        end = read_end(self.folder)
        if end is None:
            raise RunError(f"{self.folder / ENDED}: no such file")
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
    manifest: entries.OptimizationManifest


def prepare(config: OptimizeConfig) -> Optimization:
    """Look everything up and create the run directory. Raises ValueError for bad input, without creating anything."""
    config = config.model_copy(update={"compare": with_scripted_price(config.compare)})
    suite, splits, arms, optimizer = _look_up(config)
    for tasks in splits.values():  # all of them before the search, which costs most
        for check in (check_plans, check_answers, check_calls):
            check(config.compare, suite, tasks)
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
    """Reopen an optimization; `mlflow`: whether it logs from now on. Raises RunError if code, suite or profiles have changed."""
    manifest = entries.read_optimization_manifest(folder)
    config = manifest.settings
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
    names = [arm.spec.label for arm in arms] + [replace(arm.spec, program=PROGRAM).label for arm in arms]
    if twice := [name for name in names if names.count(name) > 1]:
        how = "rename the file of the program that it begins with, or optimize one by one"
        raise ValueError(f"loop {twice[0]}: two arms of the test would have this name: {how}")
    return suite, split(suite, config), arms, optimizer_named(parse_spec(config.search.optimizer))


def _designs(folder: Path, arms: Sequence[Arm]) -> tuple[DesignSearch, ...]:
    names = [re.sub(r"[^A-Za-z0-9._]+", "-", str(arm.spec)).strip("-")[:60] for arm in arms]
    folders = [folder / "designs" / f"{place}-{name}" for place, name in enumerate(names, 1)]
    return tuple(map(DesignSearch, arms, folders))


def search_config(config: OptimizeConfig) -> CompareConfig:
    return config.compare.model_copy(update={"budget": config.search.budget, "concurrency": config.threads})


def open_proposer(config: OptimizeConfig) -> tuple[Model, Pricing | None]:
    """Open the model that proposes, and what prices the scripted one's replies. Raises ValueError for a bad name or no key."""
    if config.proposer == SCRIPTED:
        price = scripted_price(config.compare)
        return ScriptedProposer(config.compare.seed), None if price is None else pricing_of(price)
    changes = {"models": (config.proposer,), "profiles": ("clean",), "budget": config.proposer_budget}
    return open_models(config.compare.model_copy(update=changes), ()).real[config.proposer], None


def _manifest(
    folder: Path, config: OptimizeConfig, suite: Suite, splits: Splits, designs: Sequence[DesignSearch], optimizer: Optimizer
) -> entries.OptimizationManifest:
    files, steps = own_files(config.compare, suite), config.compare.max_tool_steps or suite.max_tool_steps
    identity = {"name": suite.name, "version": suite.version, "digest": suite.digest, "tasks": len(suite.tasks)}
    return entries.OptimizationManifest(
        kind="optimization",
        created=timestamp(),
        config=config.public(),
        seed=config.compare.seed,
        versions=versions_of(config.compare),
        suite=SuiteEntry(**identity, max_tool_steps=steps, **({"code": digest(files)} if files else {})),
        profiles={design.arm.profile.name: design.arm.profile.digest for design in designs},
        optimizer=entries.OptimizerEntry(spec=config.search.optimizer, name=optimizer.name, options=dict(optimizer.options)),
        designs=tuple(
            entries.DesignEntry(
                design=design.name,
                folder=str(design.folder.relative_to(folder)),
                loop=design.arm.spec.name,
                options=typed_options(design.arm),
                configuration=configuration(design.arm.loop),
                code=code_digest(design.arm.loop),
                program=loop_program_digest(design.arm.loop) or "",
            )
            for design in designs
        ),
        splits={
            name: entries.SplitEntry(tasks=len(tasks), digest=digest([task.as_dict() for task in tasks]), opened=None)
            for name, tasks in splits.items()
        },
        packages={name: package_version(name) for name in (*PACKAGES, "gepa", "optuna")},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )
