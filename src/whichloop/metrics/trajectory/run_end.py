"""How a lost trial ended: at which limit, at which stop, or with which calls left out, and what its steps were spent on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whichloop.metrics.trace import GARBAGE, NO_CONTENT, Note
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted

from .causes import Cause
from .failure_text import damaged_source, gave_up_early, reply
from .failures import TracedTrial, failed_calls, fault_of_call, unreadable_replies
from .trajectory import TracedStep


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a rule has to say."""

    cause: Cause
    detail: str
    events: Sequence[int] = ()
    """What it is about; empty: the end."""
    faults: Sequence[str] | None = None
    """The kinds of fault that it came from, in time, as often as each struck; None: those of its events."""


def faults_of_events(trial: TracedTrial, places: Sequence[int]) -> list[str]:
    return [event.fault for place in places if not isinstance(event := trial.events[place], Note)]


def fault_behind_call(trial: TracedTrial, place: int) -> str:
    """Return the kind of fault that a call suffered; for noise as an argument, that of the call that gave it."""
    return fault_of_call(trial, place) or (GARBAGE if damaged_source(trial, place) else "")


def how_it_ended(trial: TracedTrial) -> RuleFinding | None:
    """Return how a trial ended that no other rule explains; None where it ended as the other course did."""
    last = reply(trial.replies)
    stop = trial.head.stop
    if not stop:
        sentence = f"the trace does not say how the run ended{f' after {last}' if trial.replies else ''}{_used_up(trial)}"
        return RuleFinding("other", NO_CONTENT if trial.trace.lacks_content else sentence)
    if not trial.is_finished:
        how = gave_up_early(trial) if trial.steps_left else _STOPS.get(stop, f"the run ended with stop {stop}")
        at = f" at {last}" if trial.replies else ""
        return RuleFinding(_STOP_CAUSES.get(stop, "termination"), f"{how}{at}{_used_up(trial)}", faults=_faults_on_the_way(trial))
    calls_omitted, fewer = calls_left_out(trial), len(trial.other) - len(trial.course)
    if calls_omitted and all(step.call is None for step in trial.course):
        return RuleFinding("termination", f"answered at {last} and made no call; the other course called {calls_omitted[0].text}")
    if calls_omitted:
        return RuleFinding("termination", f"answered at {last} and never called {calls_omitted[0].text}")
    if fewer > 0 and not trial.other_course:
        return RuleFinding("termination", f"answered at {last}, {counted(fewer, 'step')} before the other course")
    return None


def calls_left_out(trial: TracedTrial) -> list[TracedStep]:
    """Return the calls of the other course that this one never made; none where no other course is known."""
    own = {step.call.key for step in trial.course if step.call is not None}
    return [step for step in trial.other_course if could_run(step) and step.call and step.call.key not in own]


_STOPS = {
    StopReason.MAX_STEPS.value: "the limit was reached (max_steps)",
    StopReason.FORCED.value: "the limit was reached, and an answer was asked for (forced)",
    StopReason.UNFINISHED.value: "the one turn was over (unfinished)",
    StopReason.ERROR_VALVE.value: "the error valve ended the run",
}


_STOP_CAUSES: Mapping[str, Cause] = {
    StopReason.PARSE_FAILED.value: "parse",
    StopReason.PROVIDER_ERROR.value: "fault not recovered",
    StopReason.RECOVERY_FAILED.value: "fault not recovered",
}
"""Causes of stops that name them."""


def _faults_on_the_way(trial: TracedTrial) -> list[str]:
    """Return the kinds of fault of what the steps of a trial were spent on, else of all that it met, as `_used_up` says it."""
    of_calls = [fault_behind_call(trial, step.event) for step in failed_calls(trial) if step.event is not None]
    return [*faults_of_events(trial, unreadable_replies(trial)), *of_calls] if _spent_on(trial) else _met(trial)


def _met(trial: TracedTrial) -> list[str]:
    """Return the kinds of fault that a trial met and did not absorb, by name."""
    return sorted({fault.kind for fault in trial.record.faults if fault.landed and not fault.absorbed})


def _spent_on(trial: TracedTrial) -> str:
    """Return what the steps of a trial were spent on that gave no new result, in words; empty for nothing."""
    spent_on = [
        (len(unreadable_replies(trial)), "reply that could not be read", "replies that could not be read"),
        (len(failed_calls(trial)), "call that failed", "calls that failed"),
        (len(trial.repeated), "call made again", "calls made again"),
    ]
    return ", ".join(counted(*each) for each in spent_on if each[0])


def _used_up(trial: TracedTrial) -> str:
    """Say what the steps of a trial were spent on, else which faults it met."""
    if spent_on := _spent_on(trial):
        return f"; used up on the way: {spent_on}"
    return f"; met on the way: {', '.join(kinds)}" if (kinds := _met(trial)) else ""


def could_run(step: TracedStep) -> bool:
    """Whether a step is a call whose arguments can be read, and that gave a result."""
    return step.call is not None and step.gave_result and isinstance(step.call.arguments, Mapping)
