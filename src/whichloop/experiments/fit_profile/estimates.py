"""Estimates from counts: the rate of each kind of fault with its interval, what clears faults, latencies, and abilities."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy

from whichloop.metrics.statistics import ALPHA, Interval, interval_json, wilson
from whichloop.models.faults import FLAKY_ATTEMPTS
from whichloop.models.profiles import FAULT_KINDS, Abilities
from whichloop.protocol.values import counted

from .forgetting import RecallPoint, fault_share, forgetting_rates
from .tally import (
    ALL,
    BARE,
    END,
    EXTRA,
    FIRST,
    FIRST_ANSWER,
    LATER,
    NO_TOOL,
    OPEN_FIRST,
    OPEN_LATER,
    OPEN_REPEAT,
    PLAIN,
    Counts,
    Tally,
    latency_of_bin,
)

MIN_POINTS = 30
"""Minimum number of points for an estimate without a caveat in the profile."""
SLOW_TIMES = 5.0
"""Factor over the median that makes a reply slow, if it is also `SLOW_FROM_S` above it."""
SLOW_FROM_S = 1.0

UNTELLABLE: Mapping[str, str] = {
    "decision.wrong_value": "a call with a wrong value looks like any other: the plan would tell",
    "decision.early_finish": "an answer given too early looks like any other; at the first point it counts as no_tool",
    "tool.garbage": "what a tool returns is taken as it is",
    "tool.huge": "what a tool returns is taken as it is",
    "tool.slow": "the trace does not time the tools",
    "tool.lies": "what a tool returns is taken as it is",
    "calls.late": "the trace does not time the tools",
    "calls.same_ids": "only replies with several native calls would tell, and they are not counted apart",
    "calls.too_early": "which call needs the effect of another one only the plan tells",
    "mcp.error": "an error of the tool's server counts as tool.raises",
    "mcp.list_changed": "an error of the tool's server counts as tool.raises",
    "mcp.drifted": "arguments that are refused count as the model's mistake",
    "mcp.cut": "what a tool returns is taken as it is",
    "inject.call": "what a tool returns is taken as it is",
    "inject.answer": "what a tool returns is taken as it is",
    "inject.stop": "what a tool returns is taken as it is",
}
"""Kinds of fault that a trace cannot show, with the reason; they are not estimated."""


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """The rate of one kind of fault per point where it can occur."""

    count: float
    """Number of affected points, a fraction if ambiguous points are divided."""
    points: float
    interval: Interval | None
    """The interval of the rate; None if there is no point, or a trace cannot show the fault."""
    note: str = ""

    @property
    def rate(self) -> float:
        return self.interval.value if self.interval is not None else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        interval = interval_json(self.interval)
        return {"count": self.count, "points": self.points, "interval": interval, "note": self.note}


# --- rates ---


@dataclass(frozen=True, slots=True)
class _Shares:
    """The shares for dividing ambiguous points, taken from the clear ones."""

    first_calls: float
    """The share of first points with a call."""
    later_calls: float
    repeats: float
    """The share of repeated calls that replace another call."""


_NEARLY_NONE = 1e-9


def _share(part: float, total: float) -> float:
    return part / total if total else 1.0


def _exposed_points(kind: str, points: Counts, shares: _Shares) -> float:
    """Count the points of one task at which a kind of fault can occur and be visible, see `whichloop.models.faults`."""
    first = points[FIRST] + points[OPEN_FIRST] * shares.first_calls
    later = points[LATER] + points[OPEN_LATER] * shares.later_calls
    if kind in ("wire.malformed", "wire.truncated"):  # a damaged plain text is still readable
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


def estimate_rates(tally: Tally, alpha: float, *, timed: bool) -> dict[str, RateEstimate]:
    """Return the rate of each kind of fault, from how often it struck; `timed`: replies' times were measured."""
    total: Counts = defaultdict(float)
    for counts in (*tally.points.values(), *tally.struck.values()):
        for name, count in counts.items():
            total[name] += count
    repeats, ends = total["decision.repeated_call"], total["decision.never_finish"]
    if not repeats + ends:
        repeats, ends = total[LATER], total[END]
    shares = _Shares(
        _share(total[FIRST], total[FIRST] + total[FIRST_ANSWER] + _NEARLY_NONE),
        _share(total[LATER], total[LATER] + total[END]),
        _share(repeats, repeats + ends),
    )
    slow = _slow_by_task(tally) if timed else {}
    for task, struck in tally.struck.items():
        struck["decision.repeated_call"] += struck[OPEN_REPEAT] * shares.repeats
        struck["decision.never_finish"] += struck[OPEN_REPEAT] * (1 - shares.repeats)
        struck[OPEN_REPEAT] = 0.0
        struck["provider.slow"] += slow.get(task, 0)
    arms = float(len(tally.arms))
    effect = max(_own_effect(_pairs(tally, None, shares), alpha) or 1.0, arms)
    least = arms if tally.paired else 1.0  # a fault in every arm counts once
    rates = {}
    for kind in FAULT_KINDS:
        pairs = _pairs(tally, kind, shares)
        interval = cluster_rate(pairs, effect, least, alpha)
        rates[kind] = _unknown_rate(kind, tally.untold, timed=timed) or _estimate(kind, pairs, interval, tally)
    return rates


def _unknown_rate(kind: str, untold: Collection[str], *, timed: bool) -> RateEstimate | None:
    if kind in UNTELLABLE:
        return RateEstimate(0, 0, None, f"a trace cannot tell: {UNTELLABLE[kind]}")
    if kind.partition(".")[0] in untold:
        return RateEstimate(0, 0, None, "the traces were imported, and their format does not tell")
    if kind == "provider.slow" and not timed:
        return RateEstimate(0, 0, None, "a trace cannot tell: the run's time was simulated, or a recording answered")
    return None


def _pairs(tally: Tally, kind: str | None, shares: _Shares) -> list[tuple[float, float]]:
    """Return affected points and all points per task; for any kind of fault if `kind` is None."""
    pairs = []
    for task, points in tally.points.items():
        struck = tally.struck[task]
        if kind is None:
            pairs.append((min(sum(struck[name] for name in FAULT_KINDS), points[ALL]), points[ALL]))
        else:
            exposed = _exposed_points(kind, points, shares)
            pairs.append((min(struck[kind], exposed), exposed))
    return [pair for pair in pairs if pair[1] > 0]


def _estimate(kind: str, pairs: Sequence[tuple[float, float]], interval: Interval | None, tally: Tally) -> RateEstimate:
    """Return the estimate with its caveats."""
    count, points = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    notes = [_KIND_NOTES[kind]] if kind in _KIND_NOTES and count else []
    if kind == "decision.no_tool" and not points:
        notes.append("only a second trial of the same task (--repeats 2) tells")
    elif points < MIN_POINTS:
        notes.append(f"fewer than {MIN_POINTS} points: this says little")
    if kind.startswith("provider.") and tally.retries and count:
        notes.append("each retry of the client's counts as a point of its own")
    if kind in _TOOL_FAILURES and tally.own_errors:
        named = ", ".join(f"{error} {count}" for error, count in sorted(tally.own_errors.items())[:4])
        untold = f"calls that failed and were never seen to work, as if the error were the tool's answer: {named}"
        if not count:
            return RateEstimate(0, 0, None, f"a trace cannot tell: there are {untold}")
        notes.append(f"not counted are {untold}")
    if kind == "decision.unknown_tool" and tally.unexplained:
        notes.append(f"{tally.unexplained:g} more calls were not run, and nothing tells why")
    return RateEstimate(count, points, interval, "; ".join(notes))


_TOOL_FAILURES = ("tool.raises", "tool.flaky")
_KIND_NOTES: Mapping[str, str] = {
    "decision.repeated_call": "calls made again, less those that overlooked results explain: see forget",
    "tool.flaky": f"failed {FLAKY_ATTEMPTS} times, then worked; a `tool.raises` that clears after {FLAKY_ATTEMPTS} looks the same",
    "provider.dropped": "connections that broke, where nothing says that a reply had begun",
}


def cluster_rate(
    pairs: Sequence[tuple[float, float]], effect: float = 1.0, least: float = 1.0, alpha: float = ALPHA
) -> Interval | None:
    """Return a rate from (affected, points) per task: Wilson's interval on the effective number of points. None without points.

    Points of one task are dependent, hence n_eff = p(1-p)/SE² x (z/t)², with the linearized error of a ratio over G tasks,
    SE² = G/(G-1) Σ(y_t - p n_t)²/n² (Korn & Graubard 1998); at most n / `least`. If no or every point is affected, there is no
    spread, and n_eff = n / `effect`, a design effect from elsewhere.
    """
    n = math.fsum(pair[1] for pair in pairs)
    if n <= 0:
        return None
    value = min(math.fsum(pair[0] for pair in pairs) / n, 1.0)
    effective = n / max(_own_effect(pairs, alpha) or effect, least, 1.0)
    low, high = wilson(value * effective, effective, alpha)
    return Interval(value, min(low, value), max(high, value), round(n))


def _own_effect(pairs: Sequence[tuple[float, float]], alpha: float) -> float | None:
    """Return n / n_eff from the spread between tasks; None without a spread."""
    n, groups = math.fsum(pair[1] for pair in pairs), len(pairs)
    value = math.fsum(pair[0] for pair in pairs) / n if n else 0.0
    squares = math.fsum((struck - value * points) ** 2 for struck, points in pairs)
    if groups < 2 or not 0 < value < 1 or squares <= _NEARLY_NONE:
        return None
    variance = groups / (groups - 1) * squares / n**2
    small = float(scipy.special.stdtrit(groups - 1, 1 - alpha / 2) / scipy.special.ndtri(1 - alpha / 2)) ** 2
    return n * variance / (value * (1 - value)) * small


def profile_rates(rates: Mapping[str, RateEstimate], notes: dict[str, str]) -> dict[str, float]:
    """Return the rates above 0, rounded, and scaled if their sum exceeds 1."""
    rounded = {kind: estimate.rate for kind, estimate in rates.items() if estimate.rate > 0}
    total = math.fsum(rounded.values())
    if total > 1:
        rounded = {kind: rate / total for kind, rate in rounded.items()}
        notes["rates"] = f"scaled by {1 / total:.4g}: at most one fault fits a point"
    return {kind: math.floor(rate * 10**_DIGITS + (0 if total > 1 else 0.5)) / 10**_DIGITS for kind, rate in rounded.items()}


_DIGITS = 6


# --- other fields ---


def sort_recalls(tally: Tally) -> float:
    """Share calls made again out between faults of the decision, which are counted, and overlooked results; return `forget`."""
    pooled = Counter[RecallPoint]()
    for (_, point), count in tally.recalls.items():
        pooled[point] += count
    rates = forgetting_rates(pooled)
    for (task, point), count in tally.recalls.items():
        if point.again:
            tally.struck[task][point.sort] += count * fault_share(point, rates)
    return rates.forget


def _median(tally: Tally) -> float:
    sizes = Counter[int]()
    for (_, size), count in tally.seconds.items():
        sizes[size] += count
    half, cumulated = sizes.total() / 2, 0
    for size in sorted(sizes):
        cumulated += sizes[size]
        if cumulated >= half:
            return latency_of_bin(size)
    return 0.0


def _slow(tally: Tally) -> Counter[tuple[str, int]]:
    median = _median(tally)
    limit = max(SLOW_TIMES * median, median + SLOW_FROM_S)
    return Counter({key: count for key, count in tally.seconds.items() if latency_of_bin(key[1]) > limit})


def _slow_by_task(tally: Tally) -> Counter[str]:
    tasks = Counter[str]()
    for (task, _), count in _slow(tally).items():
        tasks[task] += count
    return tasks


def estimate_latency_s(tally: Tally, notes: dict[str, str], *, timed: bool) -> float:
    """Return the seconds that a reply takes, and note what that rests on."""
    if not timed:
        notes["latency_s"] = "not measured: the run's time was simulated, or a recording answered"
        return 0.0
    notes["latency_s"] = f"the median of {tally.seconds.total()} first attempts, to within 2 %"
    return round(_median(tally), 4)


def estimate_slow_s(tally: Tally, notes: dict[str, str]) -> float:
    """Return the seconds that a slow reply takes beyond the others, and note what that rests on."""
    slow = _slow(tally)
    if not slow:
        notes["slow_s"] = "the default: no slow reply was timed"
        return 20.0
    notes["slow_s"] = (
        f"the mean of {counted(slow.total(), 'reply', 'replies')} that took over {SLOW_TIMES:g} times the median, less the median"
    )
    mean = sum(latency_of_bin(size) * count for (_, size), count in slow.items()) / slow.total()
    return round(mean - _median(tally), 3)


def estimate_abilities(tally: Tally, notes: dict[str, str]) -> Abilities:
    """Return what the model showed that it can do, and note what that rests on."""
    forced = tally.forced
    choice = forced[False] == 0 or forced[True] > 0
    if forced.total():
        notes["tool_choice"] = f"of requests that force a tool {forced[True]:,} were accepted, {forced[False]:,} refused"
    else:
        notes["tool_choice"] = "the default: no request forced a tool"
    if tally.settled:
        notes["abilities"] = (
            f"{counted(tally.settled, 'request was', 'requests were')} refused for good (key, access, form): no chance, so no rate"
        )
    refused = tally.overflowed
    if refused is None:
        notes["context_tokens"] = f"no request was too long; the longest had about {counted(tally.accepted, 'token')}"
        return Abilities(tool_choice=choice)
    notes["context_tokens"] = f"about {counted(tally.accepted, 'token was', 'tokens were')} accepted, {refused} refused"
    if tally.accepted >= refused:
        notes["context_tokens"] += ": the estimates overlap"
    return Abilities(tool_choice=choice, context_tokens=max(1, (tally.accepted + refused) // 2))
