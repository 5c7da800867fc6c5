"""Counting faults in traces: the points at which each kind of fault could occur and those at which it did, by task."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy

from whichloop.models.faults import CALLING, FLAKY_ATTEMPTS
from whichloop.protocol.model import MESSAGE_OVERHEAD, estimate_tokens

from .attempts import GIVEN_TEXT, PLAIN_KIND, REFUSED, REPEATED, TOOL, Attempt, Shape, provider_fault
from .decision_points import DecisionPoint, ReadTrial, RetryRun, ToolTrouble
from .forgetting import RecallPoint, recall_point

_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""
_BOUNDS = [(_EDGE, 1 - _EDGE)] * 3 + [(0.5, 1 - _EDGE), (_EDGE, 0.5)]
"""Of the shares of flaky calls, of those that never clear and of those that clear slowly, and of the high and the low chance."""


Strikes = tuple[int, bool]
"""How a call went that failed at first: its failures in a row, and whether it worked then or the loop gave up."""


def flaky_shares(counts: Mapping[Strikes, int]) -> dict[Strikes, float]:
    """Return for each way to go the chance that such a call was flaky, under the likeliest shares; empty for no count."""
    ways = list(counts)
    if not ways:
        return {}
    failures = np.array([failed for failed, _ in ways], float)
    worked = np.array([works for _, works in ways])
    numbers = np.array([counts[way] for way in ways], float)
    can_be_flaky = np.where(worked, failures == FLAKY_ATTEMPTS, failures <= FLAKY_ATTEMPTS)

    def chances(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flaky, never, slow, high, low = values
        usual = never * ~worked
        for share, clears in (((1 - never) * (1 - slow), high), ((1 - never) * slow, low)):
            usual = usual + share * (1 - clears) ** (failures - 1) * np.where(worked, clears, 1.0)
        return flaky * can_be_flaky, (1 - flaky) * usual

    def loss(values: np.ndarray) -> float:
        return float(-numbers @ np.log(np.add(*chances(values))))

    starts = ((0.1, 0.1, 0.2, 0.8, 0.3), (0.4, 0.02, 0.1, 0.9, 0.2), (0.05, 0.3, 0.5, 0.7, 0.4))
    fits = [scipy.optimize.minimize(loss, start, method="L-BFGS-B", bounds=_BOUNDS) for start in starts]
    best = min(fits, key=lambda one: float(one.fun))
    flaky, usual = chances(best.x)
    return dict(zip(ways, (flaky / (flaky + usual)).tolist(), strict=True))


TROUBLES = frozenset({"ToolUnavailable", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "OSError"})
"""Errors that are a tool's own failure, whether or not the same call works later."""
HANGS = "TimeoutError"
_OWN_FAILURE = "tool.raises or tool.flaky"

ALL, PLAIN, NO_TOOL, EXTRA, BARE = "all", "plain", "no tool", "extra call", "no arguments"
FIRST, FIRST_ANSWER, OPEN_FIRST = "first call", "first answer", "open first"
LATER, END, OPEN_LATER = "later call", "end", "open later"
OPEN_REPEAT = "open repeat"
Counts = defaultdict[str, float]


# --- latencies ---

_BIN_STEP = 1.02
"""Factor between latency bins, which keeps latencies to within 2 %."""
_MAX_S = 86_400.0
"""The longest latency that a profile can have."""


def latency_bin(seconds: float) -> int:
    """Return the number of the bin of a latency; 0 for less than a millisecond."""
    return 0 if seconds < 0.001 else 1 + int(math.log(min(seconds, _MAX_S) / 0.001) / math.log(_BIN_STEP))


def latency_of_bin(size: int) -> float:
    return 0.0 if size == 0 else min(0.001 * _BIN_STEP ** (size - 0.5), _MAX_S)


# --- counts ---


class Tally:
    """The counts of the traces read so far, by task."""

    def __init__(self, *, paired: bool) -> None:
        self.paired = paired
        self.trials = 0
        self.arms: set[str] = set()
        self.points: dict[str, Counts] = {}
        """Task → number of points of each sort."""
        self.struck: dict[str, Counts] = {}
        """Task → number of points affected by each kind of fault."""
        self.refused: Counter[tuple[str, str, Shape, str, bool, RetryRun | None]] = Counter()
        """Task, tool, arguments, hint, whether it was tried, retries → number of calls that could not run."""
        self.troubles: Counter[tuple[str, ToolTrouble]] = Counter()
        """Task, how a call failed → number of such calls."""
        self.worked_after: dict[str, set[str]] = defaultdict(set)
        """Task → digests of calls that worked, each with the calls before it."""
        self.called: dict[str, set[int]] = defaultdict(set)
        """Task → up to two of its trials (repeats if arms are paired) that began with a call."""
        self.silent: dict[str, Counter[int]] = defaultdict(Counter)
        """Task → trial or repeat → number of answers without any call."""
        self.shapes: dict[str, set[Shape]] = defaultdict(set)
        """Tool → shapes of arguments with which it worked."""
        self.exists: set[str] = set()
        self.seconds: Counter[tuple[str, int]] = Counter()
        """Task, latency bin → number of first attempts."""
        self.retried: Counter[RetryRun] = Counter()
        self.outages = [0.0, 0.0]
        """Failed runs of calls that worked in the end, and number of such calls."""
        self.recalls: Counter[tuple[str, RecallPoint]] = Counter()
        """Task, point → points at which a call may have been made again."""
        self.accepted = 0
        self.overflowed: int | None = None
        self.forced = Counter[bool]()
        """Whether a request that forces a tool was accepted → number of requests."""
        self.settled = 0
        self.retries = 0
        self.unexplained = 0.0
        """Number of refused calls of unknown kind."""
        self.own_errors = Counter[str]()
        """Tool errors that may be the answer to the call and no fault."""
        self.untold: set[str] = set()
        """Families of faults that some of the traces cannot show."""

    def add(self, course: ReadTrial) -> None:
        head = course.head
        self.trials += 1
        self.arms.add(head.arm)
        points = self.points.setdefault(head.task, defaultdict(float))
        struck = self.struck.setdefault(head.task, defaultdict(float))
        points[EXTRA] += course.extra_calls
        for point in course.points:
            self._count(head.task, point, points, struck)
            if point.is_first and point.states_calls is not None:
                unit, called = head.repeat if self.paired else self.trials, self.called[head.task]
                if not point.states_calls:
                    self.silent[head.task][unit] += 1
                elif len(called) < 2:
                    called.add(unit)
        for key, runs in course.runs.items():
            tool, shape = course.made[key]
            if "" in runs:
                self.shapes[tool].add(shape)
        self.worked_after[head.task] |= course.worked_after
        self.exists |= course.exists
        self.untold.update(head.untold)
        for trouble in course.troubles():
            self.troubles[head.task, replace(trouble, strikes=min(trouble.strikes, _MAX_STRIKES))] += 1
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
        self.seconds[task, latency_bin(first.seconds)] += 1
        retried = point.retries()
        if retried is not None and stumble != REFUSED:
            self.retried[retried] += 1
        if point.role in CALLING:
            points[_sort(point)] += 1
            points[BARE] += point.states_calls is True and not point.has_arguments
        if first.distances and stumble in ("", REPEATED, TOOL):
            self.recalls[task, recall_point(REPEATED_AS[point.states_calls], first.again, first.distances)] += 1
        elif stumble == REPEATED:
            struck[REPEATED_AS[point.states_calls]] += 1
        elif stumble == REFUSED:
            call = next(call for call in first.calls if call.is_refused)
            self.refused[task, call.tool, call.shape, call.hint, bool(call.runs), retried] += 1
        elif stumble != TOOL and stumble:
            struck[stumble] += 1

    def _abilities(self, attempts: Sequence[Attempt]) -> None:
        """Count accepted and refused requests that force a tool or are long."""
        beside: dict[str, int] = {}
        for attempt in attempts:
            calls = [call for message in attempt.messages for call in message.calls]
            text = sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in calls)
            text += sum(MESSAGE_OVERHEAD + estimate_tokens(message.content) for message in attempt.messages)
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
        """Classify refused calls and tool errors, once successful calls show the tools' arguments."""
        for (task, tool, shape, hint, tried, retried), count in self.refused.items():
            kind = self.mistake(tool, shape, hint, tried=tried)
            if not kind:
                self.unexplained += count
                continue
            self.struck[task][kind] += count
            if retried is not None:
                self.retried[retried] += count
        passing = {trouble.error for _, trouble in self.troubles if trouble.worked}
        kinds = {(task, trouble): self._kind_of(task, trouble, passing) for task, trouble in self.troubles}
        own = Counter[Strikes]()
        for (task, trouble), count in self.troubles.items():
            if kinds[task, trouble] == _OWN_FAILURE:
                own[trouble.strikes, trouble.worked] += count
        shares = flaky_shares(own)
        for (task, trouble), count in self.troubles.items():
            kind = kinds[task, trouble]
            if kind == _OWN_FAILURE:
                flaky = count * shares[trouble.strikes, trouble.worked]
                self.struck[task]["tool.flaky"] += flaky
                self.struck[task]["tool.raises"] += count - flaky
                if trouble.worked:
                    self.outages[0] += (count - flaky) * trouble.strikes
                    self.outages[1] += count - flaky
            elif kind:
                self.struck[task][kind] += count
            else:
                self.own_errors[trouble.error] += count
        for task in self.points:
            self._sort_silent(task)

    def _kind_of(self, task: str, trouble: ToolTrouble, passing: Collection[str]) -> str:
        """Return the kind of fault of a call that failed; empty where the error may be the tool's answer to it.

        `passing`: the errors after which the same call worked later. A call that worked in another trial of its task, after the
        same calls, failed by the tool's own failure, too.
        """
        kind = self.mistake(trouble.tool, trouble.shape, "", tried=True) if trouble.tool in self.shapes else ""
        if kind:
            return kind
        if trouble.error == HANGS:
            return "tool.hangs"
        worked_elsewhere = trouble.after in self.worked_after[task]
        return _OWN_FAILURE if worked_elsewhere or trouble.error in TROUBLES or trouble.error in passing else ""

    def mistake(self, tool: str, shape: Shape, hint: str, *, tried: bool) -> str:
        """Return the mistake of a call, by the tool's successful calls, else by the hint; "" if unknown."""
        if hint == "decision.unknown_tool" or (tool not in self.exists and not tried):
            return "decision.unknown_tool"
        shapes = self.shapes.get(tool)
        if not shapes:
            return hint
        arguments, accepted = dict(shape), [dict(item) for item in shapes]
        if not set.intersection(*(set(item) for item in accepted)) <= arguments.keys():
            return "decision.missing_argument"
        if not arguments.keys() <= set().union(*accepted):
            return "decision.extra_argument"
        wrong = {kind for name, kind in arguments.items() if all(item.get(name) != PLAIN_KIND.get(kind, kind) for item in accepted)}
        if wrong:
            return "" if wrong == {GIVEN_TEXT} else "decision.wrong_type"
        return hint

    def _sort_silent(self, task: str) -> None:
        """Count an answer without any call as `no_tool` if another trial of the task began with a call.

        A trial is not evidence about its own task, so trials are counted only if there is such another one.
        """
        points, called, silent = self.points[task], self.called[task], self.silent[task]
        struck = sum(count for unit, count in silent.items() if called - {unit})
        self.struck[task]["decision.no_tool"] += struck
        points[NO_TOOL] = struck + (points[FIRST] if len(called) > 1 else 0)
        if called or len(silent) < 2:  # a single trial leaves open whether the task needs a tool
            points[FIRST if called else OPEN_FIRST] += points[FIRST_ANSWER]
            points[FIRST_ANSWER] = 0


_MAX_STRIKES = 9
REPEATED_AS = {True: "decision.repeated_call", False: "decision.never_finish", None: OPEN_REPEAT}


def _sort(point: DecisionPoint) -> str:
    states = point.states_calls
    if states is None:
        return OPEN_FIRST if point.is_first else OPEN_LATER
    if point.is_first:
        return FIRST if states else FIRST_ANSWER
    return LATER if states else END
