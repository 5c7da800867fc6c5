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
from whichloop.models.profiles import FAULT_KINDS, Profile, make_profile
from whichloop.protocol.names import SCRIPTED, toml_text
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest, Settings, read_manifest
from whichloop.runs.store.files import RunError, policy_of
from whichloop.runs.store.trials import Traces, each_record

from .clearing import estimate_clears
from .decision_points import read_points
from .estimates import (
    SLOW_TIMES,
    RateEstimate,
    basis_of,
    estimate_abilities,
    estimate_latency_s,
    estimate_rates,
    estimate_slow_s,
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
    alpha: float = ALPHA
    basis: Mapping[str, Any] = field(default_factory=dict)
    """The counts that the other values rest on, as `basis_of` names them."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "profile": self.profile.model_dump(mode="json"),
            "digest": self.profile.digest,
            "rates": {kind: rate.as_dict() for kind, rate in self.rates.items()},
            "trials": self.trials,
            "tasks": self.tasks,
            "arms": list(self.arms),
            "alpha": self.alpha,
            "basis": dict(self.basis),
        }


def fit(
    trials: Iterable[tuple[Trace, Mapping[str, int]]],
    *,
    name: str = "fitted",
    description: str = "",
    alpha: float = ALPHA,
    timed: bool = True,
    paired: bool = False,
) -> FittedProfile:
    """Estimate a profile from trials, read one by one; memory grows with the number of tasks, not of trials.

    `trials`: traces, each with the retries of the client's own by kind of failure. `timed`: False if time was simulated or a
    recording answered, so that latencies say nothing. `paired`: arms have the same faults, as under a scripted model, so that
    only another repeat is another trial.
    Raises ValueError for no trace, one that contradicts itself, a bad name, or alpha outside of (0, 1).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: must lie between 0 and 1, not {alpha:g}")
    make_profile({"name": name}, f"--name {name}")  # reports a bad name before the work
    tally = Tally(paired=paired)
    for trace, retries in trials:
        tally.add(read_points(trace, retries))
    if not tally.trials:
        raise ValueError("no traces to fit a profile to")
    tally.settle()
    forget = round(sort_recalls(tally), 4)
    rates = estimate_rates(tally, alpha, timed=timed)
    profile = Profile(
        name=name,
        description=description,
        rates=profile_rates(rates),
        clears=estimate_clears(tally.retried, tally.outages[0] / tally.outages[1] if tally.outages[1] else None),
        forget=forget,
        bluff=0.0,
        latency_s=estimate_latency_s(tally, timed=timed),
        slow_s=estimate_slow_s(tally),
        abilities=estimate_abilities(tally),
    )
    basis = basis_of(tally, rates, timed=timed)
    return FittedProfile(profile, rates, tally.trials, len(tally.points), tuple(sorted(tally.arms)), alpha, basis)


# --- reading a run ---


def fit_run(
    folder: Path,
    *,
    arms: Sequence[str] = (),
    profile: str | None = None,
    model: str | None = None,
    name: str | None = None,
    alpha: float = ALPHA,
    tasks: Collection[str] | None = None,
) -> FittedProfile:
    """Fit to a run's traces, errored trials included: all arms of one model, or the arms named, each by a unique part.

    `tasks`: ids of those whose traces are read; None: all.

    Raises RunError for an unknown run or arm, and if arms of several models or profiles would be pooled.
    """
    manifest = read_manifest(folder)
    if policy_of(folder) == "failures":
        raise RunError(f"{folder}: only the traces of failures were kept (-s traces=failures): rates from them would be too high")
    selected, source = _selection(folder, manifest, arms, profile, model)
    scripted = source[0] == SCRIPTED
    label = source[1] if scripted else source[0]
    profile_name = name or (f"fitted-{_slug(label)}" if scripted else _slug(label))
    timed = _is_timed(manifest.settings, scripted=scripted)
    summary = f"fitted to {label} from the traces of {folder.resolve().name}"
    try:
        traces = _traces(folder, selected, tasks)
        return fit(traces, name=profile_name, description=summary, alpha=alpha, timed=timed, paired=scripted)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None


def _is_timed(settings: Settings, *, scripted: bool) -> bool:
    """Tell whether replies took the model's own time: not if it is simulated, or a recording may have answered."""
    if scripted:
        return settings.real_time
    return settings.cassette is None or settings.cassette_mode in ("record", "refresh")


def _selection(
    folder: Path, manifest: Manifest, arms: Sequence[str], profile: str | None, model: str | None
) -> tuple[frozenset[str], tuple[str, str]]:
    """Return the names of the arms to pool, and the model and profile that they share."""
    entries = [(arm.arm, arm.model, arm.profile, arm.met or arm.profile) for arm in manifest.arms]
    asked = [arm for arm in entries if (model is None or arm[1] == model) and (profile is None or arm[2] == profile)]
    names = {_arm(folder, text, [arm[0] for arm in asked]) for text in arms}
    selected = [arm for arm in asked if not arms or arm[0] in names]
    if not selected:
        raise RunError(f"{folder}: no such arm; this run has {_some(arm[0] for arm in entries)}")
    models, profiles = sorted({arm[1] for arm in selected}), sorted({arm[3] for arm in selected})
    if len(models) > 1:
        raise RunError(f"{folder}: arms of several models cannot be pooled ({_some(models)}); choose with --model or --arm")
    if len(profiles) > 1:
        raise RunError(
            f"{folder}: arms under several profiles cannot be pooled ({_some(profiles)}); choose with --profile or --arm"
        )
    return frozenset(arm[0] for arm in selected), (models[0], profiles[0])


def _arm(folder: Path, text: str, names: Sequence[str]) -> str:
    matching = [name for name in names if name == text] or [name for name in names if text in name]
    if len(matching) != 1:
        problem = f"matches {counted(len(matching), 'arm')}" if matching else "is no arm"
        raise RunError(f"{folder}: {text!r} {problem}; this run has {_some(names)}")
    return matching[0]


def _some(names: Iterable[str]) -> str:
    all_names = list(names)
    return ", ".join(all_names[:6]) + (", …" if len(all_names) > 6 else "")


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

HOW: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "clears": ("maximum a posteriori over the retries of first failures; the default where there was none", ("retried", "cleared")),
    "forget": ("by where the results stand whose calls were made again", ()),
    "bluff": ("a trace cannot tell", ()),
    "patience": ("the default: a trace cannot tell", ()),
    "latency_s": ("the median of first attempts; 0 where time was simulated or a recording answered", ("timed",)),
    "slow_s": (
        f"the mean of replies over {SLOW_TIMES:g} times the median, less the median; the default where there was none",
        ("slow",),
    ),
    "tool_choice": ("by requests that force a tool", ("forced_accepted", "forced_refused")),
    "context_tokens": (
        "between the longest request accepted and the shortest refused, in tokens",
        ("longest_accepted", "shortest_refused"),
    ),
}
"""Field → how its value is estimated, and the counts that it rests on."""
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
    counts = {name: fitted.basis.get(name) for name in IN_NO_RATE}
    scale = fitted.basis.get("scaled_by", 1.0)
    return [
        *([f"rates scaled, so that their sum is 1: by {scale:.4g}"] if scale < 1 else []),
        *(f"{IN_NO_RATE[name]}: {_number(count)}" for name, count in counts.items() if count),
    ]


def _number(count: Any) -> str:
    return ", ".join(f"{name} {n}" for name, n in count.items()) if isinstance(count, Mapping) else f"{count:g}"


def counts_of(fitted: FittedProfile, name: str) -> str:
    """Return the counts that the value of a field rests on: `retried 103, cleared 100`."""
    counts = {count.replace("_", " "): fitted.basis.get(count) for count in HOW[name][1]}
    return ", ".join(f"{count} {'none' if number is None else number}" for count, number in counts.items())


def to_toml(fitted: FittedProfile, checked: Sequence[str] = ()) -> str:
    """Return a profile file for `load_profile`, with the origin of each value in a comment.

    `checked`: what came of holding the profile against its run, line by line.
    """
    values = fitted.profile.model_dump(mode="json")

    def assigned(name: str, value: object) -> str:
        note = _comment("; ".join(filter(None, (counts_of(fitted, name), HOW[name][0]))))
        return f"# {name}: {note[2:]}" if value is None else f"{name} = {toml_text(value)}  {note}"

    lines = [
        _comment(
            f"Fitted by `whichloop learn profile` to {fitted.trials} trials of {fitted.tasks} tasks: {', '.join(fitted.arms)}"
        ),
        _comment(f"In brackets: {100 * (1 - fitted.alpha):g} % intervals, clustered by task. Rates are per point reached."),
        *(_comment(f"{_CHECKED}{line}") for line in checked),
        *(f"{name} = {toml_text(values[name])}" for name in ("name", "description")),
        *(assigned(name, values[name]) for name in ("forget", "bluff", "patience", "latency_s", "slow_s")),
        "",
        "[rates]",
        *map(_comment, warnings_of(fitted)),
    ]
    for kind, estimate in fitted.rates.items():
        rate, said = values["rates"].get(kind), remark(estimate)
        lines.append(_comment(f'"{kind}": {said}') if rate is None else f'"{kind}" = {rate!r}  {_comment(said)}')
    lines += ["", "[clears]", _comment(f"{counts_of(fitted, 'clears')}; {HOW['clears'][0]}")]
    lines += [f"{name} = {toml_text(value)}" for name, value in values["clears"].items()]
    lines += ["", "[abilities]", *(assigned(name, value) for name, value in values["abilities"].items())]
    return "\n".join(lines) + "\n"


def remark(rate: RateEstimate) -> str:
    """Return interval, counts and note of a rate."""
    if rate.interval is None:
        return rate.note or "no point at which it could strike"
    counts = f"{round(rate.count, 2):g} of {rate.points:.0f} points"
    between = f"[{rate.interval.low:.4f}, {rate.interval.high:.4f}], {counts}"
    few = f"fewer than {MIN_POINTS} points: this says little" if rate.points < MIN_POINTS else ""
    known = between if rate.count else f"{counts}, at most {rate.interval.high:.4f}"
    return "; ".join(filter(None, (known, rate.note, few)))


def _comment(text: str) -> str:
    """Return a comment on one line, whatever characters a run's names have."""
    return "# " + "".join(char if char.isprintable() else " " for char in text)


_CHECKED = "Checked: "
_REMARK = re.compile(r'^(?:# )?"([a-z_.]+)"(?:: | = [^#]*# )(.*)$', re.MULTILINE)


def remarks(text: str) -> dict[str, str]:
    """Return kind of fault → remark on its rate in a fitted profile's file."""
    return {kind: said for kind, said in _REMARK.findall(text) if kind in FAULT_KINDS}


def check_lines(text: str) -> list[str]:
    """Return what a fitted profile's file says of its check against the run, line by line."""
    begin = f"# {_CHECKED}"
    return [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]
