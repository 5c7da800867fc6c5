"""`whichloop why`: why one arm loses to another, task by task; no model is called; and `whichloop replay`: one trial again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments import why as reruns
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.why.arms import arms_named, pairs_named, required_arms
from whichloop.experiments.why.minimal import MAX_RUNS
from whichloop.experiments.why.replay import landed, profile_named, replayable_run, trace_of, unmet
from whichloop.experiments.why.why import comparable, losses_explained, lost_trial
from whichloop.metrics.record import Record
from whichloop.protocol.names import meant
from whichloop.reports import why_lines
from whichloop.reports.why_lines import Shown, WaysToSeeMore
from whichloop.runs.folders import trials_folder
from whichloop.runs.store.each_record import find_trial
from whichloop.runs.store.files import read_manifest_json, step_limit
from whichloop.text.doc import Table
from whichloop.text.trace_text import as_judged

from .console import check_writable, print_line, print_text, say, show_table
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, RunChoice, with_options
from .process import own_prints_aside, quiet_loops
from .show import print_trace


def print_shown(lines: Iterable[Shown]) -> None:
    """Print lines, sentences and tables."""
    for line in lines:
        if isinstance(line, Table):
            show_table(line)
        else:
            print_text(line)


MIN_RUNS = 2


class WhyOptions(OptionGroup):
    a: Annotated[str | None, typer.Argument()] = None
    """Arm, or a loop for all its arms, or a trial ARM/TASK/REPEAT; or a part of the name that no other has."""
    b: Annotated[str | None, typer.Argument()] = None
    """Arm or loop to compare A with."""
    task: str | None = None
    """Task to explain, or a part of its id that no other has; others are left out."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print what is notable about the tasks, too, and, unless arms are named, every pair of arms and every cause."""
    show_all: Annotated[bool, typer.Option("--all")] = False
    """Print every trial and task, not only the first of each kind."""


class MinimalOptions(AllowOption):
    minimal: bool = False
    """Of the faults that landed in the trial A, find the smallest set with which it is still lost, by running it again."""
    max_runs: int = MAX_RUNS
    """Times that the trial is run again at most."""
    out: Path | None = None
    """File, ending in .toml, to write the trial's profile to with that set of faults alone."""


@with_options()
def why(choice: ReadRunChoice, options: WhyOptions, smallest: MinimalOptions, output: JsonOption) -> None:
    """Say where arms diverge, and why trials were lost.

    It also says what is notable about the tasks. No real model is called.
    """
    a, b = options.a, options.b
    run = results(folder := trials_folder(choice.folder), paired=False)
    if len(comparable(run)) == 1:
        run = results(folder)  # how the two stand to each other is said, too
    if smallest.minimal:
        _minimal(run, a, b, smallest, as_json=output.as_json)
        return
    if smallest.out is not None or smallest.max_runs != MAX_RUNS:
        raise ValueError(f"--{'max-runs' if smallest.out is None else 'out'} goes with --minimal")
    if a is not None and b is None and not arms_named(run, a):
        if not meant(a, [record.name for record in run.records]):
            required_arms(run, a)
        _trial(run, find_record(run, a), as_json=output.as_json)
        return
    most = None if options.show_all or output.as_json else why_lines.MAX_EXAMPLES
    in_full = options.verbose or options.show_all
    in_sums = a is None and not in_full and not output.as_json
    pairs, arms = _for_sums(run) if in_sums else _asked_for(run, a, b)
    reasons = losses_explained(run, pairs=pairs, arms=arms, task=options.task, most=most)
    if output.as_json:
        print(json.dumps({"run": str(run.folder.resolve())} | reasons.to_json(), ensure_ascii=True, allow_nan=False))
    elif in_sums:
        print_shown(why_lines.sums(run, reasons, WaysToSeeMore(run.folder)))
    elif a is None:
        print_shown(why_lines.in_full(run, reasons, WaysToSeeMore(run.folder), show_all=options.show_all))
    else:
        print_shown(
            why_lines.why_lines_of(
                run, reasons, WaysToSeeMore(run.folder), show_all=options.show_all, with_tasks=in_full or bool(reasons.untraced)
            )
        )


def _asked_for(run: Results, a: str | None, b: str | None) -> tuple[Sequence[tuple[str, str]] | None, Sequence[str] | None]:
    """Return the pairs that were asked for, and the arms; None stands for all of them."""
    if a is None:
        return None, None
    return ((), arms_named(run, a)) if b is None else (pairs_named(run, a, b), None)


def _for_sums(run: Results) -> tuple[Sequence[tuple[str, str]] | None, Sequence[str] | None]:
    """Return what sums need: the arms that have others to compare them with. Of several pairs they show none, which saves half."""
    pairs = comparable(run)
    if len(pairs) <= 1:
        return None, None
    paired = {arm for pair in pairs for arm in pair}
    return (), [arm.info.arm for arm in run.comparison.arms if arm.info.arm in paired]


def _trial(run: Results, record: Record, *, as_json: bool) -> None:
    """Explain one trial by itself."""
    _refuse_unlost(record)
    lost = lost_trial(run, record)
    if as_json:
        print(json.dumps({"run": str(run.folder.resolve()), "arm": record.arm} | lost.to_json(), ensure_ascii=True))
    else:
        print_shown(why_lines.lost(record.arm, lost, WaysToSeeMore(run.folder)))


def _refuse_unlost(record: Record) -> None:
    """Raise ValueError for a trial that was not lost."""
    if record.status != "scored" or record.is_solved:
        state = "was solved" if record.status == "scored" else f"is {record.status}: {record.reason}"
        raise ValueError(f"{record.name} {state}; there is no loss to explain")


def _minimal(run: Results, trial: str | None, other: str | None, options: MinimalOptions, *, as_json: bool) -> None:
    """Find the smallest set of faults with which one trial is lost."""
    if trial is None or other is not None:
        raise ValueError("--minimal is about one trial: whichloop why RUN ARM/TASK/REPEAT --minimal")
    if options.max_runs < MIN_RUNS:
        raise ValueError(f"--max-runs {options.max_runs}: at least {MIN_RUNS} are needed, with no fault and with all of them")
    if options.out is not None and options.out.suffix != ".toml":
        raise ValueError(f"--out {options.out}: a profile's file ends in .toml")
    record = find_record(run, trial)
    _refuse_unlost(record)
    if options.out is not None:
        check_writable("--out", options.out, "nothing was run again")
    with own_prints_aside(), quiet_loops():
        minimal = reruns.minimal_faults(reruns.replayable_run(run.folder, options.allow).trial(record), record, options.max_runs)
    if options.out is not None:
        options.out.write_text(minimal.profile.to_toml(), encoding="utf-8")
        say(f"wrote {options.out}")
    if as_json:
        print(json.dumps({"run": str(run.folder.resolve())} | minimal.to_json(), ensure_ascii=True))
        return
    print_line(minimal.sentence)
    again = ["whichloop", "replay", str(run.folder), record.name, "--faults", str(options.out or minimal.as_typed)]
    again += [word for name in options.allow for word in ("--allow", name)]
    print_line(f"run it so again: {shlex.join(again)}", "dim")


class ReplayOptions(OptionGroup):
    trial: Annotated[str, typer.Argument()]
    """ARM/TASK/REPEAT, or a unique part of it."""
    faults: str | None = None
    """Faults that strike instead of those of the run: KIND@ROLE:CALL between commas, such as tool.raises@decide:c2; none; or the
    file of a profile."""
    trace: bool = False
    """Print the whole trial, as `whichloop show` does."""


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
    if output.as_json:
        print(json.dumps({"before": before.to_json(), "now": now.to_json(), "faults": landed(now)}, ensure_ascii=True))
    elif options.trace:
        limit = step_limit(read_manifest_json(folder), now.arm)
        print_trace(as_judged(trace_of(done), now, limit), now, full=False)
    else:
        print_line(f"{now.name} {_in_words(now)}; in the run it {_in_words(before)}")


def _in_words(record: Record) -> str:
    """Return `was solved, stop finished, 5 steps, with no fault`."""
    if record.status != "scored":
        return f"was {record.status}: {record.reason}"
    result = "was solved" if record.is_solved else f"was lost, accuracy {record.accuracy:.2f}"
    return f"{result}, stop {record.stop}, {record.steps} steps, with {', '.join(landed(record)) or 'no fault'}"
