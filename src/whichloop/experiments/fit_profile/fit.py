"""A fault profile fitted to a run: rates, each with its interval, from what the traces show.

The traces' records of injected faults, the answer key of a scripted run, are never read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.trace import Trace
from whichloop.models.profiles import Profile, make_profile
from whichloop.protocol.names import SCRIPTED, meant, several, toml_text
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest, read_manifest
from whichloop.runs.store.files import RunError, read_manifest_json
from whichloop.runs.store.trials import Traces, each_record
from whichloop.text.numbers import counts

from .decision_points import read_points
from .estimates import (
    RateEstimate,
    basis_of,
    estimate_abilities,
    estimate_clears,
    estimate_rates,
    estimate_slow_s,
    median_latency,
    profile_rates,
    sort_recalls,
)
from .tally import Tally


@dataclass(frozen=True, slots=True)
class FittedProfile:
    """A profile with the data that it is based on."""

    profile: Profile
    rates: Mapping[str, RateEstimate]
    """Kind of fault → rate, in the order of FAULT_KINDS."""
    trials: int
    tasks: int
    arms: tuple[str, ...] = ()
    basis: Mapping[str, Any] = field(default_factory=dict)
    """What is in no rate, as `basis_of` names it."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "profile": self.profile.model_dump(mode="json"),
            "digest": self.profile.digest,
            "rates": {kind: rate.as_dict() for kind, rate in self.rates.items()},
            "trials": self.trials,
            "tasks": self.tasks,
            "arms": list(self.arms),
            "alpha": ALPHA,
            "basis": dict(self.basis),
        }


def fit(
    trials: Iterable[tuple[Trace, Mapping[str, int]]],
    *,
    name: str = "fitted",
    description: str = "",
    timed: bool = True,
    paired: bool = False,
) -> FittedProfile:
    """Estimate a profile from trials, read one by one; memory grows with the number of tasks, not of trials.

    `trials`: traces, each with the retries of the client's own by kind of failure. `timed`: False if time was simulated or a
    recording answered, so that latencies say nothing. `paired`: arms have the same faults, as under a scripted model, so that
    only another repeat is another trial.
    Raises ValueError for no trace, one that contradicts itself, or a bad name.
    """
    make_profile({"name": name}, f"--name {name}")  # reports a bad name before the work
    tally = Tally(paired=paired)
    for trace, retries in trials:
        tally.add(read_points(trace, retries))
    if not tally.trials:
        raise ValueError("no traces to fit a profile to")
    tally.settle()
    forget = round(sort_recalls(tally), 4)
    rates = estimate_rates(tally, timed=timed)
    profile = Profile(
        name=name,
        description=description,
        rates=profile_rates(rates),
        clears=estimate_clears(tally.retried, tally.outages[0] / tally.outages[1] if tally.outages[1] else None),
        forget=forget,
        bluff=0.0,
        latency_s=round(median_latency(tally), 4) if timed else 0.0,
        slow_s=estimate_slow_s(tally),
        abilities=estimate_abilities(tally),
    )
    basis = basis_of(tally, rates)
    return FittedProfile(profile, rates, tally.trials, len(tally.points), tuple(sorted(tally.arms)), basis)


# --- reading a run ---


def fit_run(
    folder: Path,
    *,
    arms: Sequence[str] = (),
    profile: str | None = None,
    model: str | None = None,
    name: str | None = None,
    tasks: Collection[str] | None = None,
) -> FittedProfile:
    """Fit to a run's traces, errored trials included: all arms of one model, or the arms named, each by a unique part.

    `tasks`: ids of those whose traces are read; None: all.

    Raises RunError for an unknown run or arm, and if arms of several models or profiles would be pooled.
    """
    manifest = read_manifest(folder)
    if read_manifest_json(folder)["config"].get("traces") == "failures":
        raise RunError(f"{folder}: only the traces of failures were kept (-s traces=failures): rates from them would be too high")
    selected, source = _selection(folder, manifest, arms, profile, model)
    scripted = source[0] == SCRIPTED
    label = source[1] if scripted else source[0]
    profile_name = name or (f"fitted-{_slug(label)}" if scripted else _slug(label))
    settings = manifest.settings
    is_asked = settings.cassette is None or settings.cassette_mode in ("record", "refresh")  # else a recording may have answered
    timed = settings.real_time if scripted else is_asked
    summary = f"fitted to {label} from the traces of {folder.resolve().name}"
    try:
        traces = _traces(folder, selected, tasks)
        return fit(traces, name=profile_name, description=summary, timed=timed, paired=scripted)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None


def _selection(
    folder: Path, manifest: Manifest, arms: Sequence[str], profile: str | None, model: str | None
) -> tuple[frozenset[str], tuple[str, str]]:
    """Return the names of the arms to pool, and the model and profile that they share."""
    every = [arm.arm for arm in manifest.arms]
    asked = [arm for arm in manifest.arms if model in (None, arm.model) and profile in (None, arm.profile)]
    names = set[str]()
    for text in arms:
        matching = meant(text, [arm.arm for arm in asked])
        if len(matching) != 1:
            raise RunError(f"{folder}: {text!r} names {counted(len(matching), 'arm')}; this run has {several(every)}")
        names.add(matching[0])
    selected = [arm for arm in asked if not arms or arm.arm in names]
    if not selected:
        raise RunError(f"{folder}: no such arm; this run has {several(every)}")
    shared = {"model": {arm.model for arm in selected}, "profile": {arm.met or arm.profile for arm in selected}}
    for what, values in shared.items():
        if len(values) > 1:
            told = f"arms of several {what}s cannot be pooled ({several(sorted(values))})"
            raise RunError(f"{folder}: {told}; choose with --{what} or --arm")
    return frozenset(arm.arm for arm in selected), (shared["model"].pop(), shared["profile"].pop())


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower().rpartition("/")[2]).strip("-._") or "fitted"


def _traces(folder: Path, arms: frozenset[str], tasks: Collection[str] | None) -> Iterator[tuple[Trace, Mapping[str, int]]]:
    """Yield traces in the order in which trials ended, with the client's retries; also attempts that infrastructure failed."""
    traces, seen = Traces(folder), set[int]()
    for record in each_record(folder):
        wanted = record.arm in arms and (tasks is None or record.task in tasks)
        if wanted and record.trace_at and record.trace_at not in seen:  # a rescored trial has two rows
            seen.add(record.trace_at)
            yield traces.read(record), record.retries


# --- its file ---

IN_NO_RATE: Mapping[str, str] = {
    "client_retries": "retries of the client's own, each a point of its own",
    "not_run": "calls that did not run, and nothing tells why, in no rate",
    "never_worked": "calls that failed and never worked, in no rate, for the error may be their answer",
    "refused_for_good": "requests refused for good (key, access, form), in no rate",
}
"""Count → what it says of the rates."""
MIN_POINTS = 30
"""A rate from fewer points says little."""


def warnings_of(fitted: FittedProfile) -> list[str]:
    """Return what to keep in mind of all rates, each a fixed text with its numbers."""
    scale = fitted.basis.get("scaled_by", 1.0)
    lines = [f"rates scaled, so that their sum is 1: by {scale:.4g}"] if scale < 1 else []
    for name, says in IN_NO_RATE.items():
        if count := fitted.basis.get(name):
            lines.append(f"{says}: {counts(count) if isinstance(count, Mapping) else f'{count:g}'}")
    return lines


def to_toml(fitted: FittedProfile) -> str:
    """Return a profile file for `load_profile`, with what each rate rests on in a comment."""
    values = fitted.profile.model_dump(mode="json")
    lines = [
        _comment(
            f"Fitted by `whichloop learn profile` to {fitted.trials} trials of {fitted.tasks} tasks: {', '.join(fitted.arms)}"
        ),
        _comment(f"In brackets: {100 * (1 - ALPHA):g} % intervals, clustered by task. Rates are per point reached."),
        *(
            f"{name} = {toml_text(values[name])}"
            for name in ("name", "description", "forget", "bluff", "patience", "latency_s", "slow_s")
        ),
        "",
        "[rates]",
        *map(_comment, warnings_of(fitted)),
    ]
    for kind, estimate in fitted.rates.items():
        rate, said = values["rates"].get(kind), remark(estimate)
        lines.append(_comment(f'"{kind}": {said}') if rate is None else f'"{kind}" = {rate!r}  {_comment(said)}')
    for table in ("clears", "abilities"):
        lines += ["", f"[{table}]"]
        lines += [f"{name} = {toml_text(value)}" for name, value in values[table].items() if value is not None]
    return "\n".join(lines) + "\n"


def remark(rate: RateEstimate) -> str:
    """Return interval, counts and note of a rate."""
    if rate.interval is None:
        return rate.note or "no point at which it could strike"
    struck = f"{round(rate.count, 2):g} of {rate.points:.0f} points"
    between = f"[{rate.interval.low:.4f}, {rate.interval.high:.4f}], {struck}"
    few = f"fewer than {MIN_POINTS} points: this says little" if rate.points < MIN_POINTS else ""
    known = between if rate.count else f"{struck}, at most {rate.interval.high:.4f}"
    return "; ".join(filter(None, (known, rate.note, few)))


def _comment(text: str) -> str:
    """Return a comment on one line, whatever characters a run's names have."""
    return "# " + "".join(char if char.isprintable() else " " for char in text)
