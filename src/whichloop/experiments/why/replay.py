"""Running one trial of a run again, with the scripted model, under faults of choice; and the fewest faults that lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.reopen import look_again
from whichloop.experiments.compare.run import Experiment
from whichloop.metrics.record import Record
from whichloop.models.metering import Meter
from whichloop.models.profiles import Profile, load_profile, make_profile
from whichloop.runs.manifest import manifest_changes, read_manifest, summary
from whichloop.runs.permissions import Permissions
from whichloop.runs.schedule import Trial
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.trial import FinishedTrial, TrialContext, run_trial, setting_of
from whichloop.runs.trial_models import TrialModels
from whichloop.text.doc import Doc, Table

ASKS_NOBODY = {"engine": "local", "mlflow": False}
"""A replay goes to no cluster, and is logged nowhere."""
NO_FAULTS = "none"
"""What stands for no fault where faults are named."""
CHOSEN = "-chosen"
"""What the name of a profile ends in whose faults were chosen."""
_SOURCE = "chosen profile"


@dataclass(frozen=True, slots=True)
class Replays:
    """Runs a trial with a scripted model again, as often as is asked for; the event loop keeps what the loop starts."""

    trial: Trial
    context: TrialContext
    runner: asyncio.Runner

    @property
    def profile(self) -> Profile:
        return self.trial.arm.profile_met

    def profile_with(self, faults: Sequence[str]) -> Profile:
        """Return the trial's profile with these faults, KIND@ROLE:CALL, in place of those that it draws. Raises ValueError."""
        name = self.profile.name.removesuffix(CHOSEN)
        chosen = {
            "name": f"{name}{CHOSEN}",  # a built-in name means what is built in
            "description": f"Faults of choice; all else is as in {name}.",
            "faults": tuple(faults),
        }
        try:
            return make_profile(self.profile.model_dump(exclude={"evidence", "sources"}) | chosen, _SOURCE)
        except ValueError as error:
            raise ValueError(f"--faults: {str(error).removeprefix(f'{_SOURCE}: faults: ')}") from None

    def run(self, profile: Profile) -> FinishedTrial:
        """Run the trial under a profile. Raises RunError if the trial cannot be scored."""
        arm = replace(self.trial.arm, profile=profile)
        done = self.runner.run(run_trial(replace(self.trial, arm=arm), self.context))
        if done.record.status != "scored":
            raise RunError(f"{done.record.name}: its replay is {done.record.status}: {done.record.reason}")
        return done


def unchanged_run(folder: Path, allow: Collection[str] = ()) -> Experiment:
    """Return a run as its trials can be run again. `allow`: the user's own code that they need.

    Raises RunError for a run whose suite, loops or profiles have changed or need code that is not allowed.
    """
    config = read_manifest(folder).config  # a replay uses neither server nor recordings, so that nobody types them again
    cassette = None if config.get("cassette") is None else Path(config["cassette"])
    run, today = look_again(folder, Permissions(code=allow, base_url=config.get("base_url"), cassette=cassette), ASKS_NOBODY)
    if changes := manifest_changes(run.manifest, today):
        raise RunError(f"{folder}: changed since this run began: {summary(changes)}; no trial of it can be run as it was")
    return run


def replays_of(run: Experiment, record: Record, runner: asyncio.Runner) -> Replays:
    """Return what runs a trial again. Raises RunError for one that the manifest does not make, ValueError for a real model's."""
    arm = next((arm for arm in run.arms if arm.name == record.arm), None)
    task = next((task for task in run.tasks if task.id == record.task), None)
    if arm is None or task is None:
        raise RunError(f"{run.folder}: {record.name} is none of the trials that its manifest makes")
    if not arm.is_scripted:
        raise ValueError(f"{record.name}: its model is {arm.model}; only a scripted model says the same again")
    trial = Trial(arm, task, record.repeat, run.config.seed)
    return Replays(trial, setting_of(run.config, run.suite, TrialModels(), Meter()), runner)


def landed(record: Record) -> tuple[str, ...]:
    """Return the faults that landed in a trial, KIND@ROLE:CALL, each once."""
    return tuple(dict.fromkeys(f"{fault.kind}@{fault.point}" for fault in record.faults if fault.landed))


def again_doc(before: Record, now: Record) -> Doc:
    """Return how a trial ended when it was run again, beside how it had ended."""
    rows = []
    for name, record in (("again", now), ("run", before)):
        result = record.status if record.status != "scored" else "solved" if record.is_solved else "lost"
        faults = ", ".join(landed(record)) or NO_FAULTS
        rows.append((name, result, f"{record.accuracy:.2f}", record.stop or record.reason, str(record.steps), faults))
    table = Table("", ("", "result", "accuracy", "stop", "steps", "faults"), tuple(rows))
    return Doc(now.name, (table,), {"before": before.to_json(), "now": now.to_json(), "faults": landed(now)})


def profile_named(replays: Replays, faults: str | None) -> Profile:
    """Return the profile that a user names: `none`, faults between commas, a profile's file; None: the trial's own.

    Raises ValueError for what is none of them, OSError for a file that cannot be read.
    """
    if faults is None:
        return replays.profile
    if faults.endswith(".toml"):
        return load_profile(faults)
    return replays.profile_with(() if faults == NO_FAULTS else [text.strip() for text in faults.split(",")])


def unmet(profile: Profile, record: Record) -> list[str]:
    """Return the faults that a profile lists and the trial did not come to."""
    came_up = {f"{fault.kind}@{fault.point}" for fault in record.faults}
    return [text for text in profile.faults or () if text not in came_up]


# --- the smallest set of a lost trial's faults with which it is still lost ---

MAX_RUNS = 200
"""How often a test is run at most where nothing else is said."""
Faults = tuple[str, ...]
Fails = Callable[[Faults], bool]
"""Says whether the test fails with these items and no others."""


def smallest_set(items: Faults, fails: Fails, max_runs: int) -> tuple[Faults | None, int, bool]:
    """Find the smallest set of items with which a test fails, in at most `max_runs` runs of it, each with another set.

    Returns the set, None if the test passes with all items; how often it was run; and whether no smaller set fails, or else the
    runs were used up before that was known. Raises ValueError for `max_runs` below 2: nothing and everything are tested first.
    """
    if max_runs < 2:
        raise ValueError(f"at least 2 runs are needed, not {max_runs}")
    known: dict[Faults, bool] = {}

    def tests(chosen: Faults) -> bool:
        if chosen not in known:
            if len(known) >= max_runs:
                raise _UsedUpError
            known[chosen] = fails(chosen)
        return known[chosen]

    is_proven = True
    if not tests(()):
        if not tests(items):
            return None, len(known), True
        try:
            smallest = ddmin(items, tests)
            _ = any(tests(chosen) for size in range(1, len(smallest)) for chosen in combinations(items, size))
        except _UsedUpError:
            is_proven = False
    return min((chosen for chosen, failed in known.items() if failed), key=len), len(known), is_proven


def ddmin(items: Faults, fails: Fails) -> Faults:
    """Return a 1-minimal set with which the test fails; it fails with all items, and passes with none."""
    parts = 2
    while len(items) > 1:
        ends = [len(items) * number // parts for number in range(parts + 1)]
        chunks = [items[start:end] for start, end in pairwise(ends)]
        rests = [tuple(item for item in items if item not in chunk) for chunk in chunks]
        if (smaller := next(filter(fails, chunks), None)) is not None:
            items, parts = smaller, 2
        elif parts > 2 and (smaller := next(filter(fails, rests), None)) is not None:
            items, parts = smaller, parts - 1
        elif parts == len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items


class _UsedUpError(Exception):
    """No more runs are allowed."""


class SolvedAgainError(RunError):
    """A lost trial is solved when all of its faults strike again."""


@dataclass(frozen=True)
class MinimalFaults:
    """The smallest set of faults with which a trial is lost."""

    trial: str
    """ARM/TASK/REPEAT"""
    landed: Faults
    """The faults that landed in the trial, KIND@ROLE:CALL."""
    faults: Faults
    """Those of the smallest set."""
    runs: int
    """How often the trial was run again."""
    smallest: bool
    """No smaller set of the landed faults loses the trial; else the runs were used up before that was known."""
    profile: Profile
    """The trial's profile with these faults alone: it loses the trial again."""

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"profile": self.profile.model_dump(mode="json")}


def minimal_among(replays: Replays, record: Record, max_runs: int = MAX_RUNS) -> MinimalFaults:
    """Find the smallest set of the faults that landed in a lost trial with which it is still lost.

    Raises SolvedAgainError if the trial is solved when all of them strike again, ValueError for `max_runs` below 2.
    """
    faults = landed(record)

    def is_lost(chosen: Faults) -> bool:
        return not replays.run(replays.profile_with(chosen)).record.is_solved

    smallest, runs, is_proven = smallest_set(faults, is_lost, max_runs)
    if smallest is None:
        message = f"{record.name}: it is solved when its {len(faults)} landed faults strike again: nothing to single out"
        raise SolvedAgainError(message)
    return MinimalFaults(record.name, faults, smallest, runs, is_proven, replays.profile_with(smallest))
