"""What went wrong in a trial, in a sentence: which replies, which call, what the loop did about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.metrics.trace import GARBAGE, NO_CONTENT, Note, ToolRun, TracedCall
from whichloop.protocol import StopReason, render_value
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.values import counted

from .causes import Cause
from .failures import (
    NEVER_FINISH,
    WRONG_CALLS,
    Setback,
    TracedTrial,
    failed_calls,
    fault_of_call,
    unreadable_replies,
    was_asked_again,
    was_cut_out,
    was_told,
)
from .trajectory import NOT_RUN, TracedStep, call_text, shortened

SPENT = {
    StopReason.BUDGET.value: "its budget was used up",
    StopReason.TIMEOUT.value: "it reached the trial's time limit",
    StopReason.CONTEXT_OVERFLOW.value: "the prompt no longer fitted the model's context",
}
BROKEN = {StopReason.CRASHED.value: "the loop crashed", StopReason.CANCELLED.value: "the loop cancelled itself"}
"""Stop reason → what ended a trial."""
NOT_SHOWN = "; the next prompt did not show the error"
MIN_NUMBERS = 4
"""Replies that are named one by one."""
_ILLEGIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]+")
"""What is left in a text of a tool that gave bytes."""


def in_words(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Describe one or more setbacks of one kind and matter, in time."""
    tell = _never_finished if same[-1].fault == NEVER_FINISH else _TELLS[same[-1].kind]
    return without_bytes(tell(trial, same))


def without_bytes(text: str) -> str:
    """Return a text with an ellipsis for each run of what is no text: control characters, and bytes that could not be read."""
    return _ILLEGIBLE.sub("…", text)


def reply(number: int) -> str:
    return f"reply {number}"


def times(count: int) -> str:
    """Return `once`, `twice` or `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def quoted_answer(answer: Any) -> str:
    return repr(shortened(render_value(answer)))


def misfit(problem: str) -> str:
    """Return what jsonschema or pydantic found wrong with an answer, in a fixed form; else what was said."""
    if not (found := _MISFIT.search(problem)):
        return shortened(strip_receipts(problem))
    kind, *names = found.groups("")
    return f"not {'an' if kind[0] in 'aeiou' else 'a'} {kind}" if kind else f"missing field {''.join(names)}"


_MISFIT = re.compile(
    r"(?:not of type '|(?:must|should) be an? (?:valid |JSON )?)(\w+)|'([^']+)' is a required property|([\w.]+): Field required"
)


def _unreadable(trial: TracedTrial, same: Sequence[Setback]) -> str:
    fault = f" ({same[-1].fault})" if same[-1].fault else ""
    return f"{_replies(trial, same)} could not be read{fault}{_what_the_loop_did(trial, same)}"


def _misread(trial: TracedTrial, same: Sequence[Setback]) -> str:
    were = "was" if len(same) == 1 else "were"
    return f"{_replies(trial, same)} {were} spoiled ({same[-1].fault}) and read as something else"


def _request(trial: TracedTrial, same: Sequence[Setback]) -> str:
    return f"the provider failed at {_replies(trial, same)}{_because(same[-1])}{_what_the_loop_did(trial, same)}"


def _failed_run(trial: TracedTrial, same: Sequence[Setback]) -> str:
    return f"{same[-1].what} failed {times(len(same))}{_because(same[-1])}{_what_the_loop_did(trial, same)}"


def _not_run(trial: TracedTrial, same: Sequence[Setback]) -> str:
    source = damaged_source(trial, same[-1].event)
    believed = f"believed the damaged result of {call_text(source)} ({GARBAGE}), and passed it on: " if source else ""
    sentence = f"the call {same[-1].what} could not be run {times(len(same))}{_because(same[-1])}{_what_the_loop_did(trial, same)}"
    return f"{believed}{sentence}"


def damaged_source(trial: TracedTrial, place: int) -> TracedCall | None:
    """Return the call whose result was noise, of what this run was given as an argument; None where it was given none."""
    failed = trial.events[place]
    if not isinstance(failed, ToolRun) or not isinstance(failed.call.arguments, dict):
        return None
    passed_texts = {value for value in failed.call.arguments.values() if isinstance(value, str)}
    for event in trial.events[:place]:
        if isinstance(event, ToolRun) and event.fault == GARBAGE and event.result.strip() in passed_texts:
            return event.call
    return None


def _because(setback: Setback) -> str:
    """Return the kind of the fault where it is known, and what was said about it, in brackets."""
    why = "" if setback.why == NOT_RUN else shortened(setback.why)
    fault = "" if why.startswith(setback.fault) else setback.fault  # a provider's error is named by its kind
    reason = ": ".join(part for part in (fault, why) if part)
    return f" ({reason})" if reason else ""


def _repeated(trial: TracedTrial, same: Sequence[Setback]) -> str:
    what, fault = same[-1].what, same[-1].fault
    if fault in WRONG_CALLS:
        return f"called {what} with {WRONG_CALLS[fault]}, {times(len(same) + 1)}"
    for setback in same:
        if was_cut_out(trial, setback.event):
            return f"called {what} again at {reply(_number(trial, setback))}, whose result had been cut out of the prompt"
    first = reply(_number(trial, same[0]))
    when = f"at {first}" if len(same) == 1 else f"{times(len(same))}, first at {first}"
    return f"called {what} again {when}, although the prompt showed its result"


def _never_finished(trial: TracedTrial, same: Sequence[Setback]) -> str:
    return f"called {same[0].what} at {reply(_number(trial, same[0]))}, instead of answering"


def _no_call(trial: TracedTrial, same: Sequence[Setback]) -> str:
    return f"{_replies(trial, same)} made no call and gave no answer"


_TELLS: Mapping[str, Callable[[TracedTrial, Sequence[Setback]], str]] = {
    "unreadable": _unreadable,
    "unfit": _unreadable,
    "misread": _misread,
    "request": _request,
    "failed run": _failed_run,
    "not run": _not_run,
    "repeated": _repeated,
    "no call": _no_call,
}
_ENDINGS = {
    StopReason.MAX_STEPS.value: "then the limit was reached",
    StopReason.FORCED.value: "then the limit was reached",
    StopReason.UNFINISHED.value: "then the one turn was over",
    StopReason.ERROR_VALVE.value: "then the error valve ended the run",
}
"""How a run ends that the loop did not end itself; else it did not ask again."""


def _what_the_loop_did(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Whether the model was told, and asked again; and how much more often in the other course."""
    if_untold = "" if all(was_told(trial, setback) for setback in same) else NOT_SHOWN
    gave_up = "the loop did not ask again" if len(same) == 1 else "the loop gave up"
    ending = f"then {gave_up_early(trial)}" if trial.steps_left else _ENDINGS.get(trial.head.stop or "", gave_up)
    if_ended = "" if was_asked_again(trial, same[-1]) else f"; {ending}"
    return f"{if_untold}{if_ended}{_other_tries(trial, same)}"


def gave_up_early(trial: TracedTrial) -> str:
    """Return that a loop ended by itself before the limit that it says it reached."""
    return f"the loop ended ({trial.head.stop}) {counted(trial.steps_left, 'step')} before its limit"


def _other_tries(trial: TracedTrial, same: Sequence[Setback]) -> str:
    about = {setback.event for setback in same}
    signatures = {step.signature for step in trial.course if step.event in about}
    own = sum(step.signature in signatures for step in trial.course)
    more = sum(signature in signatures for signature in trial.other) - own
    return f"; the other course tried {times(more)} more" if more > 0 else ""


def _replies(trial: TracedTrial, same: Sequence[Setback]) -> str:
    numbers = [_number(trial, setback) for setback in same]
    if len(numbers) > MIN_NUMBERS:
        return f"{len(numbers)} replies, from {numbers[0]} to {numbers[-1]},"
    listed = ", ".join(map(str, numbers[:-1]))
    return f"replies {listed} and {numbers[-1]}" if listed else reply(numbers[0])


def _number(trial: TracedTrial, setback: Setback) -> int:
    """Return the number of the reply that it came from, as `whichloop show` counts them; 0 if it came from none."""
    ask = trial.decider(setback.event)
    return ask.number if ask is not None else 0


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
