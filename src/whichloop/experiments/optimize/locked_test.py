"""The test split of an optimization: opened once, then run as a comparison of the programs before and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from whichloop.experiments.compare import prepare as compare_prepare
from whichloop.experiments.compare import reopen as compare_reopen
from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.optimize.files import PROGRAM, ROLLOUTS, saved_digest
from whichloop.experiments.optimize.log import log_digest
from whichloop.experiments.optimize.manifest import SplitOpening, read_optimization_manifest
from whichloop.experiments.optimize.prepare import DesignSearch, Optimization, typed_permissions
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.folders import TEST
from whichloop.runs.manifest import read_manifest, timestamp, write_manifest
from whichloop.runs.store.files import MANIFEST, RunError


def open_test(search: Optimization) -> Experiment:
    """Create or reopen the comparison on the test split: each design as it was, and with its program.

    Before the first trial, the manifest records when the split was opened, for which programs, and the rollouts until then.
    Raises RunError if it was opened before for other programs.
    """
    programs = {design.name: design.ended().digest for design in search.designs}
    rollouts = {design.name: log_digest(design.folder / ROLLOUTS) for design in search.designs}
    folder = search.folder / TEST
    manifest = read_optimization_manifest(search.folder)
    test = manifest.splits["test"]
    for part, now in (("programs", programs), ("rollouts", rollouts)):
        if test.opened is not None and getattr(test.opened, part) != now:
            raise RunError(
                f"{search.folder}: the test split was opened before, for other {part}; it is opened once: start a new run"
            )
    for design in search.designs:
        if saved_digest(design.folder / PROGRAM) != programs[design.name]:
            raise RunError(f"{design.folder / PROGRAM}: not the program that the optimization gave")
    if test.opened is None:
        test = test.model_copy(update={"opened": SplitOpening(at=timestamp(), programs=programs, rollouts=rollouts)})
        write_manifest(search.folder, manifest.model_copy(update={"splits": {**manifest.splits, "test": test}}))
    config, is_begun = test_config(search), (folder / MANIFEST).is_file()
    if not is_begun:
        return compare_prepare.prepare(config, folder)
    _follow(folder, config)
    return compare_reopen.reopen(folder, typed_permissions(config))


def test_config(optimization: Optimization) -> CompareConfig:
    """Return the configuration of the comparison on the test split."""
    loops = [*(design.name for design in optimization.designs), *(_optimized(design) for design in optimization.designs)]
    return optimization.config.compare.model_copy(
        update={"name": None, "loops": tuple(loops), "split": "test", "budget": BudgetConfig(), "mlflow": False}
    )


def _optimized(design: DesignSearch) -> str:
    return str(replace(design.arm.spec, program=str((design.folder / PROGRAM).resolve())))


def _follow(folder: Path, config: CompareConfig) -> None:
    """Update the paths in a test that began before the run directory was moved."""
    manifest = read_manifest(folder)
    if manifest.settings.loops != config.loops:
        write_manifest(folder, manifest.model_copy(update={"config": {**manifest.config, "loops": [*config.loops]}}))
