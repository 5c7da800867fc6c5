"""`whichloop replay`: one trial of a run again, as it was or with other faults."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from whichloop.experiments.why.replay import landed, profile_named, replayable_run, trace_of, unmet
from whichloop.metrics.record import Record
from whichloop.runs.folders import trials_folder
from whichloop.runs.store.each_record import find_trial
from whichloop.runs.store.files import read_manifest_json, step_limit
from whichloop.text.trace_text import as_judged

from . import render_trace
from .console import print_line, say
from .options import AllowOption, JsonOption, OptionGroup, RunChoice, with_options
from .own_prints import own_prints_aside, quiet_loops


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
        render_trace.trace(as_judged(trace_of(done), now, limit), now, full=False)
    else:
        print_line(f"{now.name} {_in_words(now)}; in the run it {_in_words(before)}")


def _in_words(record: Record) -> str:
    """Return `was solved, stop finished, 5 steps, with no fault`."""
    if record.status != "scored":
        return f"was {record.status}: {record.reason}"
    result = "was solved" if record.is_solved else f"was lost, accuracy {record.accuracy:.2f}"
    return f"{result}, stop {record.stop}, {record.steps} steps, with {', '.join(landed(record)) or 'no fault'}"
