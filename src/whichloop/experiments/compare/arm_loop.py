"""The loop of an arm as an object, set as it was compared: what a product imports once it has chosen."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.protocol import Loop, Optimizable
from whichloop.protocol.names import Spec, parse_spec
from whichloop.protocol.program import with_program
from whichloop.runs.built_in import builtin_names
from whichloop.runs.folders import OPTIMIZED, TEST
from whichloop.runs.manifest import ArmEntry
from whichloop.runs.new_manifest import configuration, loop_program_digest
from whichloop.runs.registry import loops_named, make_loop
from whichloop.runs.store.files import RunError


def arm_loop(run: Results, arm: str, named: str, program: str | Path | None = None) -> Loop:
    """Return the loop of an arm, with the limit of steps of its author or user alone. `named`: what the user typed for it.

    Code of your own is imported only where `named` holds its whole name. `program`: the file of the arm's optimized program; left
    out, it is the one that an optimization keeps beside its test. Raises RunError for code that was not named, an arm of an
    imported run, one whose program is another one or not there, and a loop whose options or their defaults have changed since.
    """
    entry = run.manifest.arm(arm)
    if entry is None or run.manifest.imported is not None or not entry.configuration:
        raise RunError(f"{run.folder}: {arm}: another tool ran this loop, and it cannot be made here")
    spec = Spec(entry.loop, entry.options)
    for name in loops_named(spec):
        if name not in builtin_names("loop") and name not in re.split(r"[^\w.:]+", named):
            raise RunError(f"{run.folder}: {named!r} leads to code of your own, {name}: give its whole name to import it")
    typed = run.manifest.settings.max_tool_steps
    try:
        ran, loop = make_loop(spec, typed, run.manifest.suite.max_tool_steps), make_loop(spec, typed)
    except (ValueError, OSError) as error:
        raise RunError(f"{run.folder}: {arm}: {error}") from None
    if configuration(ran) != entry.configuration:
        raise RunError(f"{run.folder}: {arm}: this loop is set differently now; it ran as {entry.configuration}")
    return _programmed(run, entry, loop, named, program)


def _programmed(run: Results, entry: ArmEntry, loop: Loop, named: str, typed: str | Path | None) -> Loop:
    """Return the loop with the arm's optimized program, where it has one. Raises RunError."""
    if entry.program is None and typed is not None:
        raise RunError(f"{run.folder}: {entry.arm}: it ran with its own prompts; leave program out")
    if entry.program is None:
        return loop
    if typed is not None:
        return _read(entry, loop, Path(typed))
    whole = run.folder.resolve()
    for path in sorted(whole.parent.glob(f"designs/*/{OPTIMIZED}")) if whole.name == TEST else ():
        with contextlib.suppress(RunError):  # that of another design
            return _read(entry, loop, path)
    specs = map(parse_spec, run.manifest.settings.loops)
    file = next((spec.program for spec in specs if spec.program and entry.arm.startswith(f"{spec.label}/")), None)
    call = f"run.loop({named!r}, program={'FILE' if file is None else repr(file)})"
    raise RunError(f"{run.folder}: {entry.arm}: its prompts come from {file or 'an optimized program'}: {call} reads them")


def _read(entry: ArmEntry, loop: Loop, path: Path) -> Loop:
    """Return the loop with the program of a file. Raises RunError for another one than the arm ran with."""
    if not isinstance(loop, Optimizable):
        raise RunError(f"{path}: it does not fit {entry.arm}, whose prompts cannot be changed any more")
    try:
        programmed: Loop = with_program(loop, path)
    except ValueError as error:  # which names the file
        raise RunError(str(error)) from None
    if loop_program_digest(programmed) != entry.program:
        raise RunError(f"{path}: not the program that {entry.arm} ran with")
    return programmed
