"""What a run is called: the name that the user gave it, or what was compared, as people would say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize.manifest import OptimizationManifest
from whichloop.protocol.names import SCRIPTED, without_process
from whichloop.runs.folders import run_name

MAX_LOOPS = 6
"""Loops that a title names; of more it says how many."""
DOT = " · "


def run_title(run: Results) -> str:
    """Return the name of a run, or what it compared."""
    of_test = "Test: " if "/" in run_name(run.folder) else ""
    return run.manifest.settings.name or f"{of_test}{compared(run)}"


def compared(run: Results) -> str:
    """Return what a run compared, the most accurate loop first: `finish vs bare, react_extract · arithmetic · flaky-format`."""
    manifest = run.manifest
    models = tuple(dict.fromkeys(arm.model for arm in manifest.arms))
    has_faults = manifest.imported is None and SCRIPTED in models
    profiles = dict.fromkeys(arm.profile for arm in manifest.arms) if has_faults else ()
    return _joined([_subject(run, models), manifest.suite.name, ", ".join(profiles), _real(models), run.comparison.limits.words])


def _subject(run: Results, models: Sequence[str]) -> str:
    ablation = ablation_result(run)
    if ablation is not None:
        return f"{ablation.ablation.loop}, varied in {', '.join(ablation.ablation.factors)}"
    same = f"/{models[0]}" if len(models) == 1 else "/"
    first, *others = (row.loop.removesuffix(same) for row in run.answer.rows)
    if len(others) < MAX_LOOPS:
        return f"{first} vs {', '.join(others)}" if others else first
    return f"{first} vs {', '.join(others[: MAX_LOOPS - 1])} and {len(others) - MAX_LOOPS + 1} others"


def optimization_title(manifest: OptimizationManifest) -> str:
    """Return the name of an optimization, or what it optimized: `finish, bare, optimized with GEPA · arithmetic · teachable`."""
    compare = manifest.settings.compare
    return compare.name or optimized(manifest)


def optimized(manifest: OptimizationManifest) -> str:
    """Return what was optimized."""
    compare = manifest.settings.compare
    designs = ", ".join(design.design for design in manifest.designs)
    profiles = compare.profiles if SCRIPTED in compare.models else ()
    subject = f"{designs}, optimized with {without_process(manifest.optimizer.name)}"
    return _joined([subject, manifest.suite.name, ", ".join(profiles), _real(compare.models)])


def _real(models: Sequence[str]) -> str:
    """Return the models, unless there is only the scripted one."""
    return "" if tuple(models) == (SCRIPTED,) else ", ".join(models)


def _joined(parts: Iterable[str]) -> str:
    return DOT.join(part for part in parts if part)
