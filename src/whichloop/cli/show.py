"""`whichloop show`: one trial, or the trials that were not solved; and a trial of the scripted model once more."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .flags import LATEST, Allow, Json, Run, Runs, Verbose, one_of, only_with

if TYPE_CHECKING:
    from whichloop.text.doc import Doc

AGAIN = "Run the trial again"
"""Panel of the help."""


def show(
    run: Run = LATEST,
    trial: Annotated[
        str | None, typer.Argument(metavar="TRIAL", help="ARM/TASK/REPEAT, or a part; an ARM: its unsolved ones.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Cut no prompt, reply or result.")] = False,
    again: Annotated[
        bool, typer.Option("--again", metavar="", help="As it was; nothing is written.", rich_help_panel=AGAIN)
    ] = False,
    faults: Annotated[
        str | None, typer.Option(metavar="LIST", help="KIND@ROLE:CALL,…, none, or FILE.toml.", rich_help_panel=AGAIN)
    ] = None,
    minimal: Annotated[
        bool, typer.Option("--minimal", metavar="", help="Fewest faults that lose it.", rich_help_panel=AGAIN)
    ] = False,
    max_runs: Annotated[int | None, typer.Option(metavar="N", help="Runs for --minimal, else 200.", rich_help_panel=AGAIN)] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Their profile, a .toml.", rich_help_panel=AGAIN)
    ] = None,
    allow: Allow = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print a trial's steps, its faults, and why it was lost; -v: its prompts and replies.

    Without TRIAL it counts the trials that were not solved; with -v it lists them.
    """
    from whichloop.experiments.why.trial import missed_doc, recorded_doc
    from whichloop.runs.folders import run_folder, trials_folder
    from whichloop.runs.store.files import RunError, arms_in, read_manifest_json
    from whichloop.runs.store.trials import find_trial

    from . import console

    reruns = again or faults is not None
    one_of(minimal=minimal, again=again)
    one_of(minimal=minimal, faults=faults)
    only_with("--minimal", minimal, max_runs=max_runs, output=output)
    only_with("--again, --faults or --minimal", reruns or minimal, allow=allow)
    only_with("TRIAL", trial, again=again, faults=faults, minimal=minimal, full=full)
    folder = trials_folder(run_folder(run, runs))
    manifest, verbose = read_manifest_json(folder), verbose or full
    if trial is None:
        doc = missed_doc(folder)
    elif minimal:
        doc = _minimal(folder, trial, allow or [], max_runs, output)
    elif reruns:
        doc = _again(folder, trial, faults, allow or [], whole=verbose and not as_json, full=full)
    else:
        try:
            doc = recorded_doc(folder, find_trial(folder, trial), full=full)
        except RunError:
            if not (arms := arms_in(manifest, trial)):
                raise
            doc, verbose = missed_doc(folder, arms), True
    console.show(doc, as_json=as_json, verbose=verbose)


def _again(folder: Path, trial: str, faults: str | None, allow: list[str], *, whole: bool, full: bool) -> Doc:
    """Run a trial again, as it was or with other faults. `whole`: return all of it, not how it differs from before."""
    from whichloop.experiments.why.replay import again_doc, profile_named, replays_of, unchanged_run, unmet
    from whichloop.experiments.why.trial import trial_doc
    from whichloop.metrics.trace import Trace
    from whichloop.runs.manifest import read_manifest
    from whichloop.runs.store.trials import find_trial
    from whichloop.text.trace_text import as_judged

    from .console import say
    from .process import own_prints_aside, quiet_loops

    before = find_trial(folder, trial)
    with own_prints_aside(), quiet_loops(), asyncio.Runner() as runner:
        replays = replays_of(unchanged_run(folder, allow), before, runner)
        profile = profile_named(replays, faults)
        done = replays.run(profile)
    for fault in unmet(profile, done.record):
        say(f"{fault}: the trial did not come to where it strikes")
    if not whole:
        return again_doc(before, done.record)
    limit = read_manifest(folder).step_limits.get(done.record.arm)
    return trial_doc(folder, as_judged(Trace.from_json(json.loads(done.trace)), done.record, limit), done.record, full=full)


def _minimal(folder: Path, trial: str, allow: list[str], max_runs: int | None, output: Path | None) -> Doc:
    """Find the fewest faults of a lost trial with which it is still lost. Raises ValueError."""
    from whichloop.experiments.why.doc import minimal_doc
    from whichloop.experiments.why.replay import MAX_RUNS, NO_FAULTS, minimal_among, replays_of, unchanged_run
    from whichloop.runs.store.trials import find_trial

    from .console import check_writable, say
    from .process import own_prints_aside, quiet_loops

    if max_runs is not None and max_runs < 2:
        raise ValueError(f"--max-runs {max_runs}: at least 2 are needed, with no fault and with all of them")
    if output is not None and output.suffix != ".toml":
        raise ValueError(f"--output {output}: a profile's file ends in .toml")
    record = find_trial(folder, trial)
    if record.status != "scored" or record.is_solved:
        state = "was solved" if record.status == "scored" else f"is {record.status}"
        raise ValueError(f"{record.name} {state}; --minimal is about a lost trial")
    if output is not None:
        check_writable("--output", output, "nothing was run again")
    with own_prints_aside(), quiet_loops(), asyncio.Runner() as runner:
        replays = replays_of(unchanged_run(folder, allow), record, runner)
        minimal = minimal_among(replays, record, max_runs or MAX_RUNS)
    if output is not None:
        output.write_text(minimal.profile.to_toml(), encoding="utf-8")
        say(f"wrote {output}")
    allowed = [word for name in allow for word in ("--allow", name)]
    typed = str(output or ",".join(minimal.faults) or NO_FAULTS)
    again = ["whichloop", "show", str(folder), record.name, "--again", "--faults", typed, *allowed]
    return minimal_doc(folder, record, minimal, shlex.join(again))
