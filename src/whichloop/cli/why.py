"""`whichloop why`: why trials were lost; no model is called; and `whichloop replay`: one trial again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments import why as reruns
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.why.doc import lost_doc, minimal_doc, why_doc
from whichloop.experiments.why.losses import arms_named, comparable, losses_explained, lost_trial, pairs_named, required_arms
from whichloop.experiments.why.minimal import MAX_RUNS
from whichloop.experiments.why.replay import landed, profile_named, replayable_run, trace_of, unmet
from whichloop.experiments.why.trial import trial_doc
from whichloop.metrics.record import Record
from whichloop.protocol.names import meant
from whichloop.runs.folders import trials_folder
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.each_record import find_trial
from whichloop.text.doc import Doc, Table
from whichloop.text.trace_text import as_judged

from .console import check_writable, say, show
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, RunChoice, with_options
from .process import own_prints_aside, quiet_loops

MIN_RUNS = 2
SHOWN_EXAMPLES = 3
"""Examples of each cause and pair, but for --json, which has all."""


class WhyOptions(OptionGroup):
    a: Annotated[str | None, typer.Argument()] = None
    """Arm, or a loop for all its arms, or a trial ARM/TASK/REPEAT; or a part of the name that no other has."""
    b: Annotated[str | None, typer.Argument()] = None
    """Arm or loop to compare A with."""
    task: str | None = None
    """Task to explain, or a part of its id that no other has; others are left out."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print every cause's example, base rates, pairs of arms and notable tasks, too."""


class MinimalOptions(AllowOption):
    minimal: bool = False
    """Of the faults that landed in the trial A, find the smallest set with which it is still lost, by running it again."""
    max_runs: int = MAX_RUNS
    """Times that the trial is run again at most."""
    out: Path | None = None
    """File, ending in .toml, to write the trial's profile to with that set of faults alone."""


@with_options()
def why(choice: ReadRunChoice, options: WhyOptions, smallest: MinimalOptions, output: JsonOption) -> None:
    """Say what trials were lost to, by cause and arm, and how often solved trials show the same."""
    a, b = options.a, options.b
    run = results(trials_folder(choice.folder), paired=False)
    if smallest.minimal:
        show(_minimal(run, a, b, smallest), as_json=output.as_json)
        return
    if smallest.out is not None or smallest.max_runs != MAX_RUNS:
        raise ValueError(f"--{'max-runs' if smallest.out is None else 'out'} goes with --minimal")
    if a is not None and b is None and not arms_named(run, a):
        if not meant(a, [record.name for record in run.records]):
            required_arms(run, a)
        record = _lost_record(run, a)
        show(lost_doc(run, record.arm, lost_trial(run, record)), as_json=output.as_json)
        return
    pairs, arms = (None, None) if a is None else ((), arms_named(run, a)) if b is None else (pairs_named(run, a, b), None)
    if (
        a is None and not options.verbose and not output.as_json and len(comparable(run)) > 1
    ):  # pairs are not shown, which saves half
        pairs, arms = (), [arm.info.arm for arm in run.comparison.arms]
    most = None if output.as_json else SHOWN_EXAMPLES
    found = losses_explained(run, pairs=pairs, arms=arms, task=options.task, most=most)
    show(why_doc(run, found, named=b is not None), as_json=output.as_json, verbose=options.verbose)


def _lost_record(run: Results, trial: str) -> Record:
    """Return the record of a lost trial. Raises ValueError for one that was not lost, RunError for an unknown one."""
    record = find_record(run, trial)
    if record.status != "scored" or record.is_solved:
        state = "was solved" if record.status == "scored" else f"is {record.status}: {record.reason}"
        raise ValueError(f"{record.name} {state}; there is no loss to explain")
    return record


def _minimal(run: Results, trial: str | None, other: str | None, options: MinimalOptions) -> Doc:
    """Find the smallest set of faults with which one trial is lost."""
    if trial is None or other is not None:
        raise ValueError("--minimal is about one trial: whichloop why RUN ARM/TASK/REPEAT --minimal")
    if options.max_runs < MIN_RUNS:
        raise ValueError(f"--max-runs {options.max_runs}: at least {MIN_RUNS} are needed, with no fault and with all of them")
    if options.out is not None and options.out.suffix != ".toml":
        raise ValueError(f"--out {options.out}: a profile's file ends in .toml")
    record = _lost_record(run, trial)
    if options.out is not None:
        check_writable("--out", options.out, "nothing was run again")
    with own_prints_aside(), quiet_loops():
        minimal = reruns.minimal_faults(reruns.replayable_run(run.folder, options.allow).trial(record), record, options.max_runs)
    if options.out is not None:
        options.out.write_text(minimal.profile.to_toml(), encoding="utf-8")
        say(f"wrote {options.out}")
    again = ["whichloop", "replay", str(run.folder), record.name, "--faults", str(options.out or minimal.as_typed)]
    return minimal_doc(run, record, minimal, shlex.join([*again, *(word for name in options.allow for word in ("--allow", name))]))


class ReplayOptions(OptionGroup):
    trial: Annotated[str, typer.Argument()]
    """ARM/TASK/REPEAT, or a unique part of it."""
    faults: str | None = None
    """Faults that strike instead of those of the run: KIND@ROLE:CALL between commas, such as tool.raises@decide:c2; none; or the
    file of a profile."""
    trace: bool = False
    """Print the whole trial, as `whichloop show -v` does."""


@with_options()
def replay(choice: RunChoice, options: ReplayOptions, code: AllowOption, output: JsonOption) -> None:
    """Run one trial of a run again, as it was or with other faults.

    The model is the scripted one. Nothing is written.
    """
    folder = trials_folder(choice.folder)
    before = find_trial(folder, options.trial)
    with own_prints_aside(), quiet_loops():
        trial = replayable_run(folder, code.allow).trial(before)
        profile = profile_named(trial, options.faults)
        with trial.opened() as replays:
            done = replays.run(profile)
    now = done.record
    for fault in unmet(profile, now):
        say(f"{fault}: the trial did not come to where it strikes")
    if options.trace and not output.as_json:
        limit = read_manifest(folder).step_limits.get(now.arm)
        show(trial_doc(folder, as_judged(trace_of(done), now, limit), now), verbose=True)
        return
    table = Table("", ("", "result", "accuracy", "stop", "steps", "faults"), (_row("replay", now), _row("run", before)))
    data = {"before": before.to_json(), "now": now.to_json(), "faults": landed(now)}
    show(Doc(now.name, (table,), data), as_json=output.as_json)


def _row(name: str, record: Record) -> tuple[str, ...]:
    result = record.status if record.status != "scored" else "solved" if record.is_solved else "lost"
    faults = ", ".join(landed(record)) or "none"
    return name, result, f"{record.accuracy:.2f}", record.stop or record.reason, str(record.steps), faults
