"""The loop of an arm as an object, set as it was compared: what a product imports once it has chosen."""

from __future__ import annotations

import re

from loopbench.experiments.compare.results import Results
from loopbench.protocol import Loop
from loopbench.protocol.names import Spec
from loopbench.runs.built_in import builtin_names
from loopbench.runs.manifest import ArmEntry
from loopbench.runs.new_manifest import configuration
from loopbench.runs.registry import loops_named, make_loop
from loopbench.runs.store.files import RunError


def arm_loop(run: Results, arm: str, named: str) -> Loop:
    """Return the loop of an arm, under the limit of steps that the run gave it. `named`: what the user typed for it.

    Code of your own is imported only where `named` holds its whole name. Raises RunError for code that was not named, an arm of
    an imported run, one with an optimized program, and a loop whose options or their defaults have changed since the run.
    """
    entry = run.manifest.arm(arm)
    if entry is None or run.manifest.imported is not None or not entry.configuration:
        raise RunError(f"{run.folder}: {arm}: another tool ran this loop, and it cannot be made here")
    if entry.program is not None:
        raise RunError(f"{run.folder}: {arm}: its prompts come from an optimized program; with_program puts a file into a loop")
    spec = Spec(entry.loop, entry.options)
    _check_named(run, spec, named)
    loop = _made(run, entry, spec)
    if configuration(loop) != entry.configuration:
        raise RunError(f"{run.folder}: {arm}: this loop is set differently now; it ran as {entry.configuration}")
    return loop


def _check_named(run: Results, spec: Spec, named: str) -> None:
    """Raise RunError for code outside of loopbench that the user did not name: a run's files import nothing."""
    typed = re.split(r"[^\w.:]+", named)
    for name in loops_named(spec):
        if name not in builtin_names("loop") and name not in typed:
            raise RunError(f"{run.folder}: {named!r} leads to code of your own, {name}: give its whole name to import it")


def _made(run: Results, entry: ArmEntry, spec: Spec) -> Loop:
    try:
        return make_loop(spec, run.manifest.suite.max_tool_steps)
    except (ValueError, OSError) as error:
        raise RunError(f"{run.folder}: {entry.arm}: {error}") from None
