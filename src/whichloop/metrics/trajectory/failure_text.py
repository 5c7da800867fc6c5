"""What went wrong in a trial, in a sentence: which replies, which call, what the loop did about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whichloop.metrics.trace import GARBAGE, ToolRun, TracedCall
from whichloop.protocol import StopReason, render_value
from whichloop.protocol.values import counted

from .failures import NEVER_FINISH, WRONG_CALLS, Setback, TracedTrial, was_asked_again, was_cut_out, was_told
from .trajectory import NOT_RUN, call_text, shortened

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
