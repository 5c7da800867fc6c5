"""The warnings of a run: those of its comparison, and what its profiles, its limits and the ends of its trials add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whichloop.metrics.caveats import Caveat, in_order
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.models.profiles import FORMS
from whichloop.protocol import StopReason
from whichloop.runs.trial.watchdog import is_blocked

from .measured_forms import applies, form_of

OFTEN = 0.1
"""Share of an arm's trials that end at the limit of steps, from which on it is a warning."""


def caveats(comparison: Comparison) -> tuple[Caveat, ...]:
    """Return all warnings of a run, what weighs most first."""
    return in_order([*comparison.caveats, *_at_limit(comparison), *_forms(comparison.arms), *_lost_trials(comparison)])


def at_limit(comparison: Comparison, arms: Sequence[ArmResult]) -> int:
    """Return how many trials of arms ended at their limit of steps, or at a limit that the run set."""
    stops, ended = comparison.limits.stops, comparison.limits.ended
    return sum(max(sum(arm.summary.stops.get(stop, 0) for stop in stops), ended.get(arm.info.arm, 0)) for arm in arms)


def _at_limit(comparison: Comparison) -> list[Caveat]:
    """Return the loops of which many trials ended at their limit under some profile, most first: the limit made their results."""
    code, often = "at limit of run" if comparison.limits.words else "at limit", []
    for loop in dict.fromkeys(arm.info.variant for arm in comparison.arms):
        arms = [arm for arm in comparison.arms if arm.info.variant == loop]
        if any((n := at_limit(comparison, [arm])) and n >= OFTEN * arm.summary.scored for arm in arms):
            of = sum(arm.summary.scored for arm in arms)
            often.append(Caveat(code, (loop,), {"trials": at_limit(comparison, arms), "of": of}))
    return sorted(often, key=lambda caveat: -caveat.numbers["trials"])


def _forms(arms: Sequence[ArmResult]) -> Iterator[Caveat]:
    """Yield which profiles do not apply to a loop's form of calls, and where loops met different ones."""
    for profile in dict.fromkeys(arm.info.profile for arm in arms):
        own = [arm.info for arm in arms if arm.info.profile == profile]
        strangers = {info.variant: form_of(info) for info in own if not applies(info)}
        if strangers:
            form = FORMS[next(iter(strangers.values()))]
            yield Caveat("profile does not apply", tuple(strangers), {"profile": profile, "form": form})
        met = {info.variant: info.met for info in own if info.met}
        if len(set(met.values())) > 1:
            yield Caveat("forms of calls differ", tuple(met), {"profile": profile, "met": ", ".join(met.values())})


def _lost_trials(comparison: Comparison) -> Iterator[Caveat]:
    """Yield of each arm the trials that crashed, hung or ran out of time, with the most frequent reasons."""
    is_own_limit = StopReason.TIMEOUT in comparison.limits.stops
    for arm in comparison.arms:
        summary = arm.summary
        hung = {told: trials for told, trials in summary.late.items() if is_blocked(told)}
        late = {} if is_own_limit else {told: trials for told, trials in summary.late.items() if told not in hung}
        crashes = {} if summary.always_crashed else summary.crashes
        for code, found in (("crashed", crashes), ("hung", hung), ("out of time", late)):
            if found:
                yield Caveat(code, (arm.info.arm,), {"trials": sum(found.values()), "of": summary.scored, "reasons": found})
