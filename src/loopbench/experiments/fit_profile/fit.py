"""A fault profile fitted to a run: rates, each with its interval, from what the traces show, and the TOML that holds them.

The traces' marks of injected faults are never read: they are the answer key of a scripted run.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from loopbench.metrics.statistics import ALPHA, Interval, wilson
from loopbench.models.faults import CALLING, FLAKY_ATTEMPTS
from loopbench.models.profiles import FAULT_KINDS, Abilities, Clears, Profile
from loopbench.models.tokens import MESSAGE_OVERHEAD, estimate_tokens
from loopbench.protocol import Message
from loopbench.runs.manifest import Manifest, Settings, read_manifest
from loopbench.runs.store.files import RunError
from loopbench.runs.store.records import each_record
from loopbench.runs.store.traces import Traces, policy_of

from .decision_points import REFUSED, REPEATED, TOOL, Attempt, DecisionPoint, Hint, ReadTrial, Shape, provider_fault, read_course

MIN_POINTS = 30
"""Fewer points than this, and an estimate says little: the profile says so."""
SLOW_TIMES = 5.0
"""A reply is slow that takes so many times the median, and `SLOW_FROM_S` more than that."""
SLOW_FROM_S = 1.0
TROUBLES = frozenset({"ToolUnavailable", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "OSError"})
"""Errors that are a tool's own trouble whether or not the same call is seen to work."""
HANGS = "TimeoutError"

UNTELLABLE: Mapping[str, str] = {
    "decision.wrong_value": "a call with a wrong value looks like any other: the plan would tell",
    "decision.early_finish": "an answer given too early looks like any other; at the first point it counts as no_tool",
    "tool.garbage": "what a tool returns is taken as it is",
    "tool.huge": "what a tool returns is taken as it is",
    "tool.slow": "the trace does not time the tools",
    "tool.lies": "what a tool returns is taken as it is",
}
"""Kinds of fault that no trace tells, and why; they are not guessed."""


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """How often one kind of fault strikes, per point where it can."""

    count: float
    """Points struck; no whole number where points that tell no more are shared out."""
    points: float
    interval: Interval | None
    """None where there was no point, or where a trace cannot tell."""
    note: str = ""

    @property
    def rate(self) -> float:
        return self.interval.value if self.interval is not None else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        interval = None if self.interval is None else self.interval.as_dict()
        return {"count": self.count, "points": self.points, "interval": interval, "note": self.note}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A profile, and what it rests on."""

    profile: Profile
    rates: Mapping[str, RateEstimate]
    """Every kind of fault, in the order of FAULT_KINDS."""
    trials: int
    tasks: int
    arms: tuple[str, ...] = ()
    alpha: float = ALPHA
    notes: Mapping[str, str] = field(default_factory=dict)
    """Field of the profile → where its value comes from."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "profile": self.profile.model_dump(mode="json"),
            "digest": self.profile.digest,
            "rates": {kind: rate.as_dict() for kind, rate in self.rates.items()},
            "trials": self.trials,
            "tasks": self.tasks,
            "arms": list(self.arms),
            "alpha": self.alpha,
            "notes": dict(self.notes),
        }


def fit(
    traces: Iterable[Mapping[str, Any]],
    *,
    name: str = "fitted",
    description: str = "",
    alpha: float = ALPHA,
    timed: bool = True,
    paired: bool = False,
) -> Fitted:
    """Estimate a profile from traces, read one by one; what is kept grows with the number of tasks, not of trials.

    `timed`: False where time was simulated or a recording answered, so that latencies say nothing. `paired`: arms meet the same
    stumbles, as under a scripted model, so that only another repeat is another trial. A trace may hold `retries`, the client's own
    by kind.
    Raises ValueError for no trace, one that is none, a bad name, or alpha outside of (0, 1).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: must lie between 0 and 1, not {alpha:g}")
    Profile(name=name)  # a bad name is told before the work
    found = _Tally(paired=paired)
    for trace in traces:
        found.add(read_course(trace))
    if not found.trials:
        raise ValueError("no traces to fit a profile to")
    found.settle()
    rates = _rates(found, alpha, timed=timed)
    notes: dict[str, str] = {}
    profile = Profile(
        name=name,
        description=description,
        rates=_fitting(rates, notes),
        clears=_clears(found, notes),
        forget=0.0,
        bluff=0.0,
        latency_s=_latency(found, notes, timed=timed),
        slow_s=_slow_s(found, notes),
        abilities=_abilities(found, notes),
    )
    notes["patience"] = "the default: a trace does not tell"
    notes["forget"] = "a trace cannot tell; a call made again counts as repeated_call"
    notes["bluff"] = "a trace cannot tell whether a wrong answer was a bluff"
    return Fitted(profile, rates, found.trials, len(found.points), tuple(sorted(found.arms)), alpha, notes)


# --- reading a run ---


def fit_run(
    folder: Path,
    *,
    arms: Sequence[str] = (),
    profile: str | None = None,
    model: str | None = None,
    name: str | None = None,
    alpha: float = ALPHA,
) -> Fitted:
    """Fit to a run's traces, errored trials included: all arms of one model, or the arms named, each by a unique part.

    Raises RunError where there is no such run or arm, and where arms of several models or profiles would be pooled.
    """
    manifest = read_manifest(folder)
    if policy_of(folder) == "failures":
        raise RunError(f"{folder}: only the traces of failures were kept (--traces failures): rates from them would be too high")
    chosen, source = _chosen(folder, manifest, arms, profile, model)
    scripted = source[0] == "scripted"
    label = source[1] if scripted else source[0]
    made = name or (f"fitted-{_slug(label)}" if scripted else _slug(label))
    timed = _is_timed(manifest.settings, scripted=scripted)
    said = f"fitted to {label} from the traces of {folder.resolve().name}"
    try:
        return fit(_traces(folder, chosen), name=made, description=said, alpha=alpha, timed=timed, paired=scripted)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None


def _is_timed(settings: Settings, *, scripted: bool) -> bool:
    """Whether replies took the time that the model takes: not where it is simulated, or where a recording may have answered."""
    if scripted:
        return settings.real_time
    return settings.cassette is None or settings.cassette_mode in ("record", "refresh")


def _chosen(
    folder: Path, manifest: Manifest, arms: Sequence[str], profile: str | None, model: str | None
) -> tuple[frozenset[str], tuple[str, str]]:
    """Names of the arms to pool, and the model and profile that they share."""
    listed = [(arm.arm, arm.model, arm.profile) for arm in manifest.arms]
    names = {_arm(folder, text, [arm[0] for arm in listed]) for text in arms}
    kept = [arm for arm in listed if not arms or arm[0] in names]
    kept = [arm for arm in kept if (model is None or arm[1] == model) and (profile is None or arm[2] == profile)]
    if not kept:
        raise RunError(f"{folder}: no such arm; this run has {_some(arm[0] for arm in listed)}")
    models, profiles = sorted({arm[1] for arm in kept}), sorted({arm[2] for arm in kept})
    if len(models) > 1:
        raise RunError(f"{folder}: arms of several models cannot be pooled ({_some(models)}); choose with --model or --arm")
    if len(profiles) > 1:
        raise RunError(
            f"{folder}: arms under several profiles cannot be pooled ({_some(profiles)}); choose with --profile or --arm"
        )
    return frozenset(arm[0] for arm in kept), (models[0], profiles[0])


def _arm(folder: Path, text: str, known: Sequence[str]) -> str:
    matching = [name for name in known if name == text] or [name for name in known if text in name]
    if len(matching) != 1:
        what = f"matches {len(matching)} arms" if matching else "is no arm"
        raise RunError(f"{folder}: {text!r} {what}; this run has {_some(known)}")
    return matching[0]


def _some(names: Iterable[str]) -> str:
    all_names = list(names)
    return ", ".join(all_names[:6]) + (", …" if len(all_names) > 6 else "")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower().rpartition("/")[2]).strip("-._") or "fitted"


def _traces(folder: Path, arms: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """Trace by trace, in the order in which trials ended; attempts that infrastructure made fail are among them."""
    traces, seen = Traces(folder), set[tuple[int, ...]]()
    for record in each_record(folder):
        if record.arm in arms and record.trace_at is not None and record.trace_at not in seen:  # judged again, it has two lines
            seen.add(record.trace_at)
            yield {**traces.read(record), "retries": record.retries}


# --- counting ---

ALL, PLAIN, NO_TOOL, EXTRA, BARE = "all", "plain", "no tool", "extra call", "no arguments"
FIRST, FIRST_ANSWER, OPEN_FIRST = "first call", "first answer", "open first"
LATER, END, OPEN_LATER = "later call", "end", "open later"
OPEN_REPEAT = "open repeat"
Counts = defaultdict[str, float]


class _Tally:
    """What the traces read so far come to, by task."""

    def __init__(self, *, paired: bool) -> None:
        self.paired = paired
        self.trials = 0
        self.arms: set[str] = set()
        self.points: dict[str, Counts] = {}
        """Task → how many points of which sort."""
        self.struck: dict[str, Counts] = {}
        """Task → how many points each kind of fault struck."""
        self.refused: Counter[tuple[str, str, Shape, Hint, bool]] = Counter()
        """Task, tool, arguments, what was said of it, whether anybody tried → calls that could not run."""
        self.troubles: Counter[tuple[str, str, Shape, str, int, bool]] = Counter()
        """Task, tool, arguments, error, failures in a row, whether it worked later → calls that ran and failed."""
        self.called: dict[str, set[int]] = defaultdict(set)
        """Task → up to two of its trials (repeats, where arms are paired) that began with a call."""
        self.silent: dict[str, Counter[int]] = defaultdict(Counter)
        """Task → trial, or repeat → answers given without any call."""
        self.shapes: dict[str, set[Shape]] = defaultdict(set)
        """Tool → arguments with which it worked."""
        self.exists: set[str] = set()
        self.seconds: Counter[tuple[str, int]] = Counter()
        """Task, size of the latency → first attempts."""
        self.cleared: Counter[tuple[str, int]] = Counter()
        self.accepted = 0
        self.overflowed: int | None = None
        self.forced = Counter[bool]()
        """Whether a request that forces a tool was accepted."""
        self.settled = 0
        self.retries = 0
        self.unexplained = 0.0
        """Refused calls that tell no kind."""
        self.own_errors = Counter[str]()
        """Errors of tools that are their answer to the call, not a trouble."""

    def add(self, course: ReadTrial) -> None:
        """Take one trial."""
        self.trials += 1
        self.arms.add(course.arm)
        points = self.points.setdefault(course.task, defaultdict(float))
        struck = self.struck.setdefault(course.task, defaultdict(float))
        points[EXTRA] += course.extra_calls
        for point in course.points:
            self._count(course.task, point, points, struck)
            if point.is_first and point.states_calls is not None:
                self._began(course.task, course.repeat if self.paired else self.trials, calling=point.states_calls)
        for tool, shape in course.worked:
            self.shapes[tool].add(shape)
        self.exists |= course.exists
        for trouble in course.troubles:
            key = (course.task, trouble.tool, trouble.shape, trouble.error, min(trouble.strikes, _MAX_STRIKES), trouble.worked)
            self.troubles[key] += 1
        for kind, count in course.retries.items():
            if fault := provider_fault(kind):
                struck[fault] += count
                points[ALL] += count
                self.retries += count
        self._abilities(course.attempts)

    def _count(self, task: str, point: DecisionPoint, points: Counts, struck: Counts) -> None:
        first, stumble = point.attempts[0], point.attempts[0].stumble
        points[ALL] += 1
        points[PLAIN] += first.is_plain
        self.seconds[task, _size(first.seconds)] += 1
        if (cleared := point.cleared()) is not None and not (stumble == TOOL and cleared[1] == FLAKY_ATTEMPTS):
            self.cleared[cleared] += 1
        if point.role in CALLING:
            points[_sort(point)] += 1
            points[BARE] += point.states_calls is True and not point.has_arguments
        if stumble == REPEATED:
            struck[_REPEATED_AS[point.states_calls]] += 1
        elif stumble == REFUSED:
            call = next(call for call in first.calls if call.is_refused)
            self.refused[task, call.tool, call.shape, call.hint, bool(call.runs)] += 1
        elif stumble != TOOL and stumble:
            struck[stumble] += 1

    def _began(self, task: str, unit: int, *, calling: bool) -> None:
        if not calling:
            self.silent[task][unit] += 1
        elif len(self.called[task]) < 2:
            self.called[task].add(unit)

    def _abilities(self, attempts: Sequence[Attempt]) -> None:
        """What was accepted and refused of requests that force a tool, or are long."""
        beside: dict[str, int] = {}
        for attempt in attempts:
            text = _text_tokens(attempt.messages)
            if attempt.input_tokens is not None:
                beside.setdefault(attempt.role, max(0, attempt.input_tokens - text))
            size = text + beside.get(attempt.role, 0)
            overflow = attempt.error == "context_overflow"
            if overflow:
                self.overflowed = size if self.overflowed is None else min(size, self.overflowed)
            elif not attempt.error:
                self.accepted = max(self.accepted, size)
            refused = attempt.error == "provider.refused" or (
                attempt.error == "provider.bad_request" and "tool_choice" in attempt.error_text
            )
            if attempt.forced and (refused or not attempt.error):
                self.forced[not refused] += 1
            elif attempt.error and not overflow and not provider_fault(attempt.error):
                self.settled += 1

    def settle(self) -> None:
        """Once tools are known by the calls that worked: which mistake a refused call is, and whose trouble an error is."""
        for (task, tool, shape, hint, tried), count in self.refused.items():
            kind = self.mistake(tool, shape, hint, tried=tried)
            if kind:
                self.struck[task][kind] += count
            else:
                self.unexplained += count
        passing = {error for (_, _, _, error, _, worked) in self.troubles if worked}
        for (task, tool, shape, error, strikes, worked), count in self.troubles.items():
            kind = self.mistake(tool, shape, "", tried=True) if tool in self.shapes else ""
            if not kind and error == HANGS:
                kind = "tool.hangs"
            elif not kind and (error in passing or error in TROUBLES):
                kind = "tool.flaky" if worked and strikes == FLAKY_ATTEMPTS else "tool.raises"
            if kind:
                self.struck[task][kind] += count
            else:
                self.own_errors[error] += count
        for task in self.points:
            self._sort_silent(task)

    def mistake(self, tool: str, shape: Shape, hint: Hint, *, tried: bool) -> str:
        """What is wrong with a call, by the calls of that tool that worked, else by what was said of it; "" where neither tells."""
        if hint == "unknown" or (tool not in self.exists and not tried):
            return "decision.unknown_tool"
        shapes = self.shapes.get(tool)
        if not shapes:
            return _BY_HINT[hint]
        given, taken = dict(shape), [dict(known) for known in shapes]
        if not set.intersection(*(set(known) for known in taken)) <= given.keys():
            return "decision.missing_argument"
        if not given.keys() <= set().union(*taken):
            return "decision.extra_argument"
        if any(all(known.get(name) != kind for known in taken) for name, kind in given.items()):
            return "decision.wrong_type"
        return _BY_HINT[hint]

    def _sort_silent(self, task: str) -> None:
        """An answer without any call is `no_tool` where another trial of the task began with a call.

        A trial says nothing of its own task: trials are counted, called or not, only where there is such another one.
        """
        points, called, silent = self.points[task], self.called[task], self.silent[task]
        struck = sum(count for unit, count in silent.items() if called - {unit})
        self.struck[task]["decision.no_tool"] += struck
        points[NO_TOOL] = struck + (points[FIRST] if len(called) > 1 else 0)
        if called or len(silent) < 2:  # a single trial leaves open whether the task needs a tool
            points[FIRST if called else OPEN_FIRST] += points[FIRST_ANSWER]
            points[FIRST_ANSWER] = 0


_MAX_STRIKES = 9
_REPEATED_AS = {True: "decision.repeated_call", False: "decision.never_finish", None: OPEN_REPEAT}
_BY_HINT: Mapping[Hint, str] = {
    "unknown": "decision.unknown_tool",
    "missing": "decision.missing_argument",
    "extra": "decision.extra_argument",
    "type": "decision.wrong_type",
    "": "",
}


def _sort(point: DecisionPoint) -> str:
    states = point.states_calls
    if states is None:
        return OPEN_FIRST if point.is_first else OPEN_LATER
    if point.is_first:
        return FIRST if states else FIRST_ANSWER
    return LATER if states else END


def _text_tokens(messages: Sequence[Message]) -> int:
    calls = sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for message in messages for call in message.calls)
    return calls + sum(MESSAGE_OVERHEAD + estimate_tokens(message.content) for message in messages)


# --- rates ---


@dataclass(frozen=True, slots=True)
class _Shares:
    """How points that tell no more are shared out: as those that tell are."""

    first_calls: float
    """Of the first points: how many state a call."""
    later_calls: float
    repeats: float
    """Of calls made again: how many stand where another call was due."""


def _shares(found: _Tally) -> _Shares:
    total: Counts = defaultdict(float)
    for counts in (*found.points.values(), *found.struck.values()):
        for name, count in counts.items():
            total[name] += count
    repeats, ends = total["decision.repeated_call"], total["decision.never_finish"]
    if not repeats + ends:
        repeats, ends = total[LATER], total[END]
    return _Shares(
        _share(total[FIRST], total[FIRST] + total[FIRST_ANSWER] + _NEARLY_NONE),
        _share(total[LATER], total[LATER] + total[END]),
        _share(repeats, repeats + ends),
    )


_NEARLY_NONE = 1e-9


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _where(kind: str, points: Counts, shares: _Shares) -> float:
    """Points of one task at which a kind of fault can strike, and be seen: see `loopbench.models.faults`."""
    first = points[FIRST] + points[OPEN_FIRST] * shares.first_calls
    later = points[LATER] + points[OPEN_LATER] * shares.later_calls
    if kind in ("wire.malformed", "wire.truncated"):  # of a plain text all that is left is read
        return points[ALL] - points[PLAIN]
    if kind.startswith(("wire.", "provider.")):
        return points[ALL]
    if kind in ("decision.missing_argument", "decision.wrong_type"):
        return max(first + later - points[BARE], 0.0)
    if kind.startswith("tool."):
        return first + later + points[EXTRA]
    if kind == "decision.no_tool":
        return points[NO_TOOL]
    if kind == "decision.repeated_call":
        return later
    if kind == "decision.never_finish":
        return points[END] + points[OPEN_LATER] * (1 - shares.later_calls)
    return first + later


def _rates(found: _Tally, alpha: float, *, timed: bool) -> dict[str, RateEstimate]:
    shares = _shares(found)
    slow = _slow_by_task(found) if timed else {}
    for task, struck in found.struck.items():
        struck["decision.repeated_call"] += struck[OPEN_REPEAT] * shares.repeats
        struck["decision.never_finish"] += struck[OPEN_REPEAT] * (1 - shares.repeats)
        struck[OPEN_REPEAT] = 0.0
        struck["provider.slow"] += slow.get(task, 0)
    arms = float(len(found.arms))
    effect = max(_own_effect(_pairs(found, None, shares), alpha) or 1.0, arms)
    least = arms if found.paired else 1.0  # a stumble that every arm met is one
    rates = {}
    for kind in FAULT_KINDS:
        pairs = _pairs(found, kind, shares)
        interval = cluster_rate(pairs, effect, least, alpha)
        rates[kind] = _untold(kind, timed=timed) or _estimate(kind, pairs, interval, found)
    return rates


def _untold(kind: str, *, timed: bool) -> RateEstimate | None:
    if kind in UNTELLABLE:
        return RateEstimate(0, 0, None, f"a trace cannot tell: {UNTELLABLE[kind]}")
    if kind == "provider.slow" and not timed:
        return RateEstimate(0, 0, None, "a trace cannot tell: the run's time was simulated, or a recording answered")
    return None


def _pairs(found: _Tally, kind: str | None, shares: _Shares) -> list[tuple[float, float]]:
    """Points struck and points, per task; of any kind of fault where none is given."""
    pairs = []
    for task, points in found.points.items():
        struck = found.struck[task]
        if kind is None:
            pairs.append((min(sum(struck[name] for name in FAULT_KINDS), points[ALL]), points[ALL]))
        else:
            where = _where(kind, points, shares)
            pairs.append((min(struck[kind], where), where))
    return [pair for pair in pairs if pair[1] > 0]


def _estimate(kind: str, pairs: Sequence[tuple[float, float]], interval: Interval | None, found: _Tally) -> RateEstimate:
    """With what is to be kept in mind."""
    count, points = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    notes = [_KIND_NOTES[kind]] if kind in _KIND_NOTES and count else []
    if kind == "decision.no_tool" and not points:
        notes.append("only a second trial of the same task (--repeats 2) tells")
    elif points < MIN_POINTS:
        notes.append(f"fewer than {MIN_POINTS} points: this says little")
    if kind.startswith("provider.") and found.retries and count:
        notes.append("each retry of the client's counts as a point of its own")
    if kind == "tool.raises" and found.own_errors:
        named = ", ".join(f"{error} {count}" for error, count in sorted(found.own_errors.items())[:4])
        notes.append(f"not counted, for the same call was never seen to work: {named}")
    if kind == "decision.unknown_tool" and found.unexplained:
        notes.append(f"{found.unexplained:g} more calls were not run, and nothing tells why")
    return RateEstimate(count, points, interval, "; ".join(notes))


_KIND_NOTES: Mapping[str, str] = {
    "decision.repeated_call": "forgotten results count too",
    "tool.flaky": f"failed {FLAKY_ATTEMPTS} times, then worked; a `tool.raises` that clears after {FLAKY_ATTEMPTS} looks the same",
    "provider.dropped": "connections that broke, where nothing says that a reply had begun",
}


def cluster_rate(
    pairs: Sequence[tuple[float, float]], effect: float = 1.0, least: float = 1.0, alpha: float = ALPHA
) -> Interval | None:
    """A rate from (struck, points) of each task: Wilson's interval on the effective number of points. None without points.

    Points of one task are dependent, hence n_eff = p(1-p)/SE² x (z/t)², with the linearized error of a ratio over G tasks,
    SE² = G/(G-1) Σ(y_t - p n_t)²/n² (Korn & Graubard 1998); at most n / `least`. Where nothing or everything was struck there is no
    spread to go by, and n_eff = n / `effect`, a design effect from elsewhere.
    """
    n = math.fsum(pair[1] for pair in pairs)
    if n <= 0:
        return None
    value = min(math.fsum(pair[0] for pair in pairs) / n, 1.0)
    effective = n / max(_own_effect(pairs, alpha) or effect, least, 1.0)
    low, high = wilson(value * effective, effective, alpha)
    return Interval(value, min(low, value), max(high, value), round(n))


def _own_effect(pairs: Sequence[tuple[float, float]], alpha: float) -> float | None:
    """n / n_eff by the spread between tasks; None where there is none to go by."""
    n, groups = math.fsum(pair[1] for pair in pairs), len(pairs)
    value = math.fsum(pair[0] for pair in pairs) / n if n else 0.0
    squares = math.fsum((struck - value * points) ** 2 for struck, points in pairs)
    if groups < 2 or not 0 < value < 1 or squares <= _NEARLY_NONE:
        return None
    variance = groups / (groups - 1) * squares / n**2
    small = float(stats.t.ppf(1 - alpha / 2, groups - 1) / stats.norm.ppf(1 - alpha / 2)) ** 2
    return n * variance / (value * (1 - value)) * small


def _fitting(rates: Mapping[str, RateEstimate], notes: dict[str, str]) -> dict[str, float]:
    """The rates that are not 0, rounded; scaled where they add up to more than a point holds."""
    made = {kind: found.rate for kind, found in rates.items() if found.rate > 0}
    total = math.fsum(made.values())
    if total > 1:
        made = {kind: rate / total for kind, rate in made.items()}
        notes["rates"] = f"scaled by {1 / total:.4g}: at most one fault fits a point"
    return {kind: math.floor(rate * 10**_DIGITS + (0 if total > 1 else 0.5)) / 10**_DIGITS for kind, rate in made.items()}


_DIGITS = 6


# --- all else ---


def _clears(found: _Tally, notes: dict[str, str]) -> Clears:
    ways = Counter[str]()
    attempts = []
    for (way, failures), count in found.cleared.items():
        ways[way] += count
        attempts += [failures] * count if way == "after" else []
    total = ways.total()
    if not total:
        notes["clears"] = "the default: no failure was tried again long enough to tell"
        return Clears()
    notes["clears"] = (
        f"after {total} first failures: {ways['feedback']} gone with the first request that said more, {ways['after']} otherwise, "
        f"{ways['never']} still there when the loop gave up"
    )
    if total < MIN_POINTS:
        notes["clears"] += f"; fewer than {MIN_POINTS}: this says little"
    after, never = (round(ways[way] / total, 4) for way in ("after", "never"))
    usual = sorted(attempts)[len(attempts) // 2] if attempts else Clears().attempts
    return Clears(feedback=max(0.0, round(1 - after - never, 4)), after=after, never=never, attempts=min(usual, 100))


_STEP = 1.02
"""Latencies are kept to within 2 %."""
_MAX_S = 86_400.0
"""What a profile can say."""


def _size(seconds: float) -> int:
    """Number of the bin of a latency; 0 for less than a millisecond."""
    return 0 if seconds < 0.001 else 1 + int(math.log(min(seconds, _MAX_S) / 0.001) / math.log(_STEP))


def _seconds(size: int) -> float:
    """The middle of a bin."""
    return 0.0 if size == 0 else min(0.001 * _STEP ** (size - 0.5), _MAX_S)


def _median(found: _Tally) -> float:
    sizes = Counter[int]()
    for (_, size), count in found.seconds.items():
        sizes[size] += count
    half, seen = sizes.total() / 2, 0
    for size in sorted(sizes):
        seen += sizes[size]
        if seen >= half:
            return _seconds(size)
    return 0.0


def _slow(found: _Tally) -> Counter[tuple[str, int]]:
    median = _median(found)
    limit = max(SLOW_TIMES * median, median + SLOW_FROM_S)
    return Counter({key: count for key, count in found.seconds.items() if _seconds(key[1]) > limit})


def _slow_by_task(found: _Tally) -> Counter[str]:
    tasks = Counter[str]()
    for (task, _), count in _slow(found).items():
        tasks[task] += count
    return tasks


def _latency(found: _Tally, notes: dict[str, str], *, timed: bool) -> float:
    if not timed:
        notes["latency_s"] = "not measured: the run's time was simulated, or a recording answered"
        return 0.0
    notes["latency_s"] = f"the median of {found.seconds.total()} first attempts, to within 2 %"
    return round(_median(found), 4)


def _slow_s(found: _Tally, notes: dict[str, str]) -> float:
    slow = _slow(found)
    if not slow:
        notes["slow_s"] = "the default: no slow reply was timed"
        return 20.0
    notes["slow_s"] = f"the mean of {slow.total()} replies that took over {SLOW_TIMES:g} times the median, less the median"
    mean = sum(_seconds(size) * count for (_, size), count in slow.items()) / slow.total()
    return round(mean - _median(found), 3)


def _abilities(found: _Tally, notes: dict[str, str]) -> Abilities:
    forced = found.forced
    choice = forced[False] == 0 or forced[True] > 0
    if forced.total():
        notes["tool_choice"] = f"{forced[True]} requests that force a tool were accepted, {forced[False]} refused"
    else:
        notes["tool_choice"] = "the default: no request forced a tool"
    if found.settled:
        notes["abilities"] = f"{found.settled} requests were refused for good (key, access, form): no chance, so no rate"
    refused = found.overflowed
    if refused is None:
        notes["context_tokens"] = f"no request was too long; the longest had about {found.accepted} tokens"
        return Abilities(tool_choice=choice)
    notes["context_tokens"] = f"about {found.accepted} tokens were accepted, {refused} refused"
    if found.accepted >= refused:
        notes["context_tokens"] += ": the estimates overlap"
    return Abilities(tool_choice=choice, context_tokens=max(1, (found.accepted + refused) // 2))


# --- the file ---


def to_toml(fitted: Fitted) -> str:
    """A profile file that `load_profile` reads; where each value comes from stands beside it."""
    profile, notes = fitted.profile, fitted.notes
    lines = [
        _comment(f"Fitted by `loopbench profile fit` to {fitted.trials} trials of {fitted.tasks} tasks: {', '.join(fitted.arms)}"),
        _comment(f"In brackets: {100 * (1 - fitted.alpha):g} % intervals, clustered by task. Rates are per point reached."),
        _assigned("name", profile.name),
        _assigned("description", profile.description),
        _assigned("forget", profile.forget, notes),
        _assigned("bluff", profile.bluff, notes),
        _assigned("patience", profile.patience, notes),
        _assigned("latency_s", profile.latency_s, notes),
        _assigned("slow_s", profile.slow_s, notes),
        "",
        "[rates]",
    ]
    if "rates" in notes:
        lines.append(_comment(notes["rates"]))
    for kind, found in fitted.rates.items():
        rate, said = profile.rates.get(kind), _said(found)
        lines.append(_comment(f'"{kind}": {said}') if rate is None else f"{_quoted(kind)} = {rate!r}  {_comment(said)}")
    lines += ["", "[clears]"] + ([_comment(notes["clears"])] if "clears" in notes else [])
    lines += [_assigned(name, value) for name, value in profile.clears.model_dump().items()]
    lines += ["", "[abilities]"] + ([_comment(notes["abilities"])] if "abilities" in notes else [])
    abilities = profile.abilities.model_dump()
    lines += [_assigned(name, value, notes) for name, value in abilities.items() if value is not None]
    lines += [_comment(f"context_tokens: {notes['context_tokens']}")] if abilities["context_tokens"] is None and notes else []
    return "\n".join(lines) + "\n"


def _said(found: RateEstimate) -> str:
    """Interval, counts and note in words."""
    parts = [found.note] if found.note else []
    if found.interval is not None:
        low, high = found.interval.low, found.interval.high
        counts = f"{round(found.count, 2):g} of {found.points:.0f} points"
        between = f"[{low:.4f}, {high:.4f}], {counts}" if found.count else f"0 of {found.points:.0f} points, at most {high:.4f}"
        parts.insert(0, between)
    return "; ".join(parts) or "no point at which it could strike"


def _assigned(name: str, value: Any, notes: Mapping[str, str] | None = None) -> str:
    written = str(value).lower() if isinstance(value, bool) else _quoted(value) if isinstance(value, str) else repr(value)
    note = (notes or {}).get(name)
    return f"{name} = {written}" + (f"  {_comment(note)}" if note else "")


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def _escaped(char: str) -> str:
    return char if char.isprintable() and char != "\x7f" else f"\\U{ord(char):08x}"


def _comment(text: str) -> str:
    """On one line, whatever a run's names hold."""
    return "# " + "".join(char if char.isprintable() else " " for char in text)


_REMARK = re.compile(r'^(?:# )?"([a-z_.]+)"(?:: | = [^#]*# )(.*)$', re.MULTILINE)


def remarks(text: str) -> dict[str, str]:
    """Kind of fault → what a fitted profile's file says of its rate."""
    return {kind: said for kind, said in _REMARK.findall(text) if kind in FAULT_KINDS}
