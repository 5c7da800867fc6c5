"""Estimates from counts: the rate of each kind of fault with its interval, what clears faults, latencies, and abilities."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import scipy

from whichloop.metrics.statistics import ALPHA, Interval, interval_json, wilson
from whichloop.models.faults import FLAKY_ATTEMPTS
from whichloop.models.feedback import Level
from whichloop.models.profiles import FAULT_KINDS, Abilities, Clears

from .decision_points import RetryRun
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

SLOW_TIMES = 5.0
"""Factor over the median that makes a reply slow, if it is also `SLOW_FROM_S` above it."""
SLOW_FROM_S = 1.0

_UNTOLD: Mapping[str, str] = {
    "a call with a wrong value looks like any other: the plan would tell": "decision.wrong_value",
    "an answer given too early looks like any other; at the first point it counts as no_tool": "decision.early_finish",
    "what a tool returns is taken as it is": ("tool.garbage tool.huge tool.lies mcp.cut inject.call inject.answer inject.stop"),
    "the trace does not time the tools": "tool.slow calls.late",
    "only replies with several native calls would tell, and they are not counted apart": "calls.same_ids",
    "which call needs the effect of another one only the plan tells": "calls.too_early",
    "an error of the tool's server counts as tool.raises": "mcp.error mcp.list_changed",
    "arguments that are refused count as the model's mistake": "mcp.drifted",
}
UNTELLABLE = {kind: why for why, kinds in _UNTOLD.items() for kind in kinds.split()}
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
    """What to keep in mind of this kind, or why nothing is known of it."""

    @property
    def rate(self) -> float:
        return self.interval.value if self.interval is not None else 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"interval": interval_json(self.interval)}


# --- rates ---


_NEARLY_NONE = 1e-9


def _share(part: float, total: float) -> float:
    return part / total if total else 1.0


def _exposed_points(kind: str, points: Counts, calling: tuple[float, float]) -> float:
    """Count the points of one task at which a kind of fault can occur and be visible, see `whichloop.models.faults`.

    `calling`: the shares of first and of later points with a call, by which ambiguous points are divided.
    """
    first = points[FIRST] + points[OPEN_FIRST] * calling[0]
    later = points[LATER] + points[OPEN_LATER] * calling[1]
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
        return points[END] + points[OPEN_LATER] * (1 - calling[1])
    return first + later


def estimate_rates(tally: Tally, *, timed: bool) -> dict[str, RateEstimate]:
    """Return the rate of each kind of fault, from how often it struck; `timed`: replies' times were measured."""
    total: Counts = defaultdict(float)
    for counts in (*tally.points.values(), *tally.struck.values()):
        for name, count in counts.items():
            total[name] += count
    repeats, ends = total["decision.repeated_call"], total["decision.never_finish"]
    if not repeats + ends:
        repeats, ends = total[LATER], total[END]
    replacing = _share(repeats, repeats + ends)  # of repeated calls, those in the place of another call
    calling = (
        _share(total[FIRST], total[FIRST] + total[FIRST_ANSWER] + _NEARLY_NONE),
        _share(total[LATER], total[LATER] + total[END]),
    )
    if timed:
        for (task, _), count in _slow(tally).items():
            tally.struck[task]["provider.slow"] += count
    for struck in tally.struck.values():
        struck["decision.repeated_call"] += struck[OPEN_REPEAT] * replacing
        struck["decision.never_finish"] += struck[OPEN_REPEAT] * (1 - replacing)
        struck[OPEN_REPEAT] = 0.0
    arms = float(len(tally.arms))
    effect = max(_own_effect(_pairs(tally, None, calling)) or 1.0, arms)
    least = arms if tally.paired else 1.0  # a fault in every arm counts once
    rates = {}
    for kind in FAULT_KINDS:
        pairs = _pairs(tally, kind, calling)
        count, points = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        known = RateEstimate(count, points, cluster_rate(pairs, effect, least), _KIND_NOTES.get(kind, ""))
        rates[kind] = _unknown_rate(kind, count, tally, timed=timed) or known
    return rates


def _unknown_rate(kind: str, count: float, tally: Tally, *, timed: bool) -> RateEstimate | None:
    note = UNTELLABLE.get(kind) or (NOT_TIMED if kind == "provider.slow" and not timed else "")
    if not note and kind.partition(".")[0] in tally.untold:
        return RateEstimate(0, 0, None, "the traces were imported, and their format does not tell")
    if not note and kind in _TOOL_FAILURES and tally.own_errors and not count:
        note = "no call that failed was seen to work, so that its error may be its answer"
    return RateEstimate(0, 0, None, f"a trace cannot tell: {note}") if note else None


def _pairs(tally: Tally, kind: str | None, calling: tuple[float, float]) -> list[tuple[float, float]]:
    """Return affected points and all points per task; for any kind of fault if `kind` is None."""
    pairs = []
    for task, points in tally.points.items():
        struck = tally.struck[task]
        if kind is None:
            pairs.append((min(sum(struck[name] for name in FAULT_KINDS), points[ALL]), points[ALL]))
        else:
            exposed = _exposed_points(kind, points, calling)
            pairs.append((min(struck[kind], exposed), exposed))
    return [pair for pair in pairs if pair[1] > 0]


NOT_TIMED = "the run's time was simulated, or a recording answered"
_TOOL_FAILURES = ("tool.raises", "tool.flaky")
_KIND_NOTES: Mapping[str, str] = {
    "decision.no_tool": "counted where another trial of the task (--repeats 2) began with a call",
    "decision.repeated_call": "less those that overlooked results explain: see forget",
    "tool.flaky": f"failed {FLAKY_ATTEMPTS} times, then worked; a tool.raises that clears after {FLAKY_ATTEMPTS} looks the same",
    "provider.dropped": "connections that broke, where nothing says that a reply had begun",
}


def cluster_rate(pairs: Sequence[tuple[float, float]], effect: float = 1.0, least: float = 1.0) -> Interval | None:
    """Return a rate from (affected, points) per task: Wilson's interval on the effective number of points. None without points.

    Points of one task are dependent, hence n_eff = p(1-p)/SE² x (z/t)², with the linearized error of a ratio over G tasks,
    SE² = G/(G-1) Σ(y_t - p n_t)²/n² (Korn & Graubard 1998); at most n / `least`. If no or every point is affected, there is no
    spread, and n_eff = n / `effect`, a design effect from elsewhere.
    """
    n = math.fsum(pair[1] for pair in pairs)
    if n <= 0:
        return None
    value = min(math.fsum(pair[0] for pair in pairs) / n, 1.0)
    effective = n / max(_own_effect(pairs) or effect, least, 1.0)
    low, high = wilson(value * effective, effective)
    return Interval(value, min(low, value), max(high, value), round(n))


def _own_effect(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return n / n_eff from the spread between tasks; None without a spread."""
    n, groups = math.fsum(pair[1] for pair in pairs), len(pairs)
    value = math.fsum(pair[0] for pair in pairs) / n if n else 0.0
    squares = math.fsum((struck - value * points) ** 2 for struck, points in pairs)
    if groups < 2 or not 0 < value < 1 or squares <= _NEARLY_NONE:
        return None
    variance = groups / (groups - 1) * squares / n**2
    small = float(scipy.special.stdtrit(groups - 1, 1 - ALPHA / 2) / scipy.special.ndtri(1 - ALPHA / 2)) ** 2
    return n * variance / (value * (1 - value)) * small


def profile_rates(rates: Mapping[str, RateEstimate]) -> dict[str, float]:
    """Return the rates above 0, scaled and rounded, down where they were scaled."""
    total = math.fsum(estimate.rate for estimate in rates.values())
    scaled = {kind: estimate.rate / max(total, 1.0) for kind, estimate in rates.items() if estimate.rate > 0}
    return {kind: math.floor(rate * 10**_DIGITS + (0 if total > 1 else 0.5)) / 10**_DIGITS for kind, rate in scaled.items()}


_DIGITS = 6


# --- other fields ---


def sort_recalls(tally: Tally) -> float:
    """Share calls made again out between faults of the decision, which are counted, and overlooked results; return `forget`."""
    pooled = Counter[RecallPoint]()
    for (_, point), count in tally.recalls.items():
        pooled[point] += count
    forget, faults = forgetting_rates(pooled)
    for (task, point), count in tally.recalls.items():
        if point.again:
            tally.struck[task][point.sort] += count * fault_share(point, forget, faults)
    return forget


def median_latency(tally: Tally) -> float:
    """Return the seconds that a reply takes: the median of first attempts, to within 2 %."""
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
    median = median_latency(tally)
    limit = max(SLOW_TIMES * median, median + SLOW_FROM_S)
    return Counter({key: count for key, count in tally.seconds.items() if latency_of_bin(key[1]) > limit})


def estimate_slow_s(tally: Tally) -> float:
    """Return the seconds that a slow reply takes beyond the median; the default where none was slow."""
    slow = _slow(tally)
    if not slow:
        return 20.0
    mean = sum(latency_of_bin(size) * count for (_, size), count in slow.items()) / slow.total()
    return round(mean - median_latency(tally), 3)


def estimate_abilities(tally: Tally) -> Abilities:
    """Return what the model showed that it can do: a context ends between the longest request accepted and the shortest refused."""
    choice = tally.forced[False] == 0 or tally.forced[True] > 0
    if tally.overflowed is None:
        return Abilities(tool_choice=choice)
    return Abilities(tool_choice=choice, context_tokens=max(1, (tally.accepted + tally.overflowed) // 2))


LEVELS: tuple[Level, ...] = get_args(Level)
PRIOR_SD = 0.15
"""Standard deviation of the prior of each chance: the runs of a hundred retries outweigh it."""
_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""


def estimate_clears(runs: Mapping[RetryRun, int], attempts: float | None = None) -> Clears:
    """Return what clears a mistake: the share that never clears, and the chance of a retry by how much its prompt shows of it.

    A mistake that was still there when the loop gave up may have cleared at the next retry: it is censored, not permanent. So the
    share that never clears is a cure fraction (Boag 1949; Farewell 1982) beside a chance per retry, by what the request shows, see
    `whichloop.models.feedback`. A normal prior round the default decides what the runs leave open (maximum a posteriori).
    `attempts`: mean number of attempts that outages took; None: the default.
    """
    usual = Clears()
    given = {"attempts": usual.attempts if attempts is None else round(min(100.0, max(1.0, attempts)), 4)}
    if not sum(runs.values()):
        return Clears(**given)
    failed = np.array([[run.failed.count(level) for level in LEVELS] for run in runs], float)
    cures = np.array([-1 if run.cure is None else LEVELS.index(run.cure) for run in runs])
    counts = np.array(list(runs.values()), float)
    before = np.array([usual.never, *(getattr(usual, level) for level in LEVELS)])

    def loss(values: np.ndarray) -> float:
        never, cleared = values[0], values[1:]
        stays = failed @ np.log1p(-cleared)
        censored = np.log(never + (1 - never) * np.exp(stays))
        likely = np.where(cures < 0, censored, np.log1p(-never) + stays + np.log(cleared[cures]))
        return float(-counts @ likely + ((values - before) ** 2).sum() / (2 * PRIOR_SD**2))

    best = scipy.optimize.minimize(loss, before, method="L-BFGS-B", bounds=[(_EDGE, 1 - _EDGE)] * len(before)).x
    chances = np.maximum.accumulate(best[1:])  # a prompt that says more never helps less
    never = round(float(best[0]) if best[0] > 10 * _EDGE else 0.0, 4)
    return Clears(never=never, **given, **dict(zip(LEVELS, chances.round(4).tolist(), strict=True)))


def basis_of(tally: Tally, rates: Mapping[str, RateEstimate]) -> dict[str, Any]:
    """Return what is in no rate, and by what all rates are multiplied so that their sum is at most 1: one fault fits a point."""
    return {
        "scaled_by": 1 / max(math.fsum(rate.rate for rate in rates.values()), 1.0),
        "client_retries": tally.retries,
        "not_run": tally.unexplained,
        "never_worked": dict(sorted(tally.own_errors.items())),
        "refused_for_good": tally.settled,
    }
