"""The warnings of a run, each of a kind with a fixed text and its numbers, never left out for a loop that is called worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whichloop.metrics.comparison import ArmResult, Caveat, Comparison
from whichloop.models.profiles import FORMS
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.silent_end import is_blocked
from whichloop.text.numbers import listed_names, reasons

from .measured_forms import applies, form_of

OFTEN = 0.1
"""Share of an arm's trials that end at the limit of steps, from which on it is a warning."""


def caveats(comparison: Comparison) -> list[Caveat]:
    """Return all warnings of a run, those that make it invalid first."""
    arms = comparison.arms
    first = [each for each in comparison.caveats if each.kind != "costs not known"]
    costs = [each for each in comparison.caveats if each.kind == "costs not known"]
    return [*first, *_at_limit(comparison), *_forms(arms), *_lost_trials(comparison), *costs]


def at_limit(comparison: Comparison, arms: Sequence[ArmResult]) -> int:
    """Return how many trials of arms ended at their limit of steps, or at a limit that the run set."""
    stops, ended = comparison.limits.stops, comparison.limits.ended
    return sum(max(sum(arm.summary.stops.get(stop, 0) for stop in stops), ended.get(arm.info.arm, 0)) for arm in arms)


def _at_limit(comparison: Comparison) -> Iterator[Caveat]:
    """Yield the loops of which many trials ended at their limit under some profile: the limit made their results."""
    by_loop: dict[str, list[ArmResult]] = {}
    for arm in comparison.arms:
        by_loop.setdefault(arm.info.variant, []).append(arm)
    often = []
    for loop, arms in by_loop.items():
        if any((n := at_limit(comparison, [arm])) and n >= OFTEN * arm.summary.scored for arm in arms):
            ended = at_limit(comparison, arms)
            often.append((ended, f"{loop} {ended:,} of {sum(arm.summary.scored for arm in arms):,} trials"))
    if often:
        each = ", ".join(text for _, text in sorted(often, reverse=True))
        limit = "limit that the run set" if comparison.limits.words else "step limit (--max-tool-steps)"
        yield Caveat("at limit", f"ended at the {limit}: {each}")


def _forms(arms: Sequence[ArmResult]) -> Iterator[Caveat]:
    """Yield which profiles do not apply to a loop's form of calls, and where loops met different ones."""
    for profile in dict.fromkeys(arm.info.profile for arm in arms):
        own = [arm.info for arm in arms if arm.info.profile == profile]
        strangers = {info.variant: form_of(info) for info in own if not applies(info)}
        if strangers:
            form = FORMS[next(iter(strangers.values()))]
            yield Caveat("profile does not apply", f"{profile}: measured of {form}, does not apply to {listed_names([*strangers])}")
        met = {info.variant: info.met for info in own if info.met}
        if len(set(met.values())) > 1:
            each = "; ".join(f"{loop} met {name}" for loop, name in met.items())
            yield Caveat("forms of calls differ", f"{profile}: {each}")


def _lost_trials(comparison: Comparison) -> Iterator[Caveat]:
    """Yield of each arm the trials that crashed, hung or ran out of time, with the most frequent reasons."""
    is_own_limit = StopReason.TIMEOUT in comparison.limits.stops
    for arm in comparison.arms:
        summary = arm.summary
        scored = counted(summary.scored, "trial")
        hung = {told: trials for told, trials in summary.late.items() if is_blocked(told)}
        late = summary.stops.get(StopReason.TIMEOUT, 0) - sum(hung.values())
        if summary.crashes and not arm.death_cause:
            yield Caveat(
                "crashed", f"{arm.info.arm}: {sum(summary.crashes.values())} of {scored} crashed: {reasons(summary.crashes)}"
            )
        if hung and not arm.death_cause:
            yield Caveat("hung", f"{arm.info.arm}: {sum(hung.values())} of {scored} hung: {reasons(hung)}")
        if late > 0 and not is_own_limit:
            yield Caveat("out of time", f"{arm.info.arm}: {late} of {scored} ran out of time")
