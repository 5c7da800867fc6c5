"""Where two trials of one task part, and why the one that was not solved was lost.

Every cause is read off the loser's own trace: its requests as they were sent, its replies, its tools' runs, and for a scripted
trial the faults of its record. The other course, where there is one, tells what was no obstacle, since it stands there too. The
rules are asked in this order, and the first that has something to say is believed:

1. budget            the stop is a budget, a time limit, or a prompt that no longer fits
2. termination       the loop crashed, or was cancelled
3. parse             the last reply was spoiled, and read as something else
4. (what blocked it) the loop did not finish: of what went wrong after its last new result, what went wrong most often
5. (a fault's kind)  of a scripted model: a fault in the last decision, else the first one that was never put right
6. (what blocked it) the loop finished: what went wrong after its last new result
7. tool argument     a tool was called with other arguments than in the other course
8. (what blocked it) what went wrong anywhere, and was never put right
9. lost observation  the last prompt lacked the question, or results that both had
10. termination      the loop did not finish, or answered with calls of the other course left
11. other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loopbench.protocol import Role, StopReason, render_value

from .course import CHOOSING, NOT_RUN, Ask, Ran, Step, end, events, shortened, steps, unmatched
from .record import Record
from .setbacks import (
    WRONG_CALLS,
    Setback,
    Trial,
    setbacks,
    was_asked_again,
    was_cut_out,
    was_told,
)
from .shown import shows

Cause = Literal["parse", "termination", "lost observation", "budget", "tool argument", "fault not recovered", "other"]

SPENT = {
    StopReason.BUDGET.value: "its budget was used up",
    StopReason.TIMEOUT.value: "its time was up",
    StopReason.CONTEXT_OVERFLOW.value: "the prompt no longer fitted the model's context",
}
BROKEN = {StopReason.CRASHED.value: "the loop crashed", StopReason.CANCELLED.value: "the loop cancelled itself"}
NEVER_FINISH = "decision.never_finish"
ENDED_EARLY = frozenset({"decision.early_finish", "decision.no_tool", "weakness.step"})
HARMLESS = frozenset({"decision.forget", "decision.repeated_call", NEVER_FINISH, "tool.slow", "tool.huge"})
"""Kinds that no wrong answer comes from by itself: what they cost is a step, or room in the prompt."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a trial was lost."""

    cause: Cause
    detail: str
    """One sentence, in plain words, without its full stop."""
    step: int
    """1-based, in its course: where it parts from the other one, or, alone, what the cause is about."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """A task that one arm solved and another did not, in the same repeat."""

    winner: str
    """Arm."""
    loser: str
    task: str
    repeat: int
    step: int
    """1-based, in the loser's course: where they part."""
    cause: Cause
    detail: str
    """One sentence, in plain words, without its full stop."""
    stop: str | None
    """The loser's."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "winner": self.winner,
            "loser": self.loser,
            "task": self.task,
            "repeat": self.repeat,
            "step": self.step,
            "cause": self.cause,
            "detail": self.detail,
            "stop": self.stop,
        }


def first_difference(a: Sequence[str], b: Sequence[str]) -> int | None:
    """1-based step of `b` at which it parts from `a`, both signatures of courses; None where they are equal.

    The first step of `b` that `a` does not have anywhere: two designs may do the same in another order. Where `a` has them all, the
    first in whose place `a` has another; one beyond the end of `b` where that is only shorter.
    """
    if list(a) == list(b):
        return None
    alone = unmatched(a, b)
    if alone:
        return min(alone) + 1
    return next((place for place, (one, other) in enumerate(zip(a, b, strict=False), 1) if one != other), min(len(a), len(b)) + 1)


def divergence(winner: str, winner_course: Sequence[Step], loser: Trial) -> Divergence | None:
    """Where a lost trial parts from the course of `winner`, an arm, and why; None where their courses are equal."""
    trial = loser.against(winner_course)
    if list(trial.other) == [step.signature for step in trial.course]:
        return None
    loss, record = explain(trial), trial.record
    return Divergence(winner, record.arm, record.task, record.repeat, loss.step, loss.cause, loss.detail, trial.ended.stop)


def cause_of(trace: Mapping[str, Any], record: Record, other: Sequence[str] = ()) -> Loss:
    """Why a trial was lost, from its own trace; `other`: signatures of a course that was not, where one is known.

    Raises ValueError for what is no trace.
    """
    return explain(read_trial(trace, record, other))


def read_trial(trace: Mapping[str, Any], record: Record, other: Sequence[str] = ()) -> Trial:
    """Raises ValueError for what is no trace."""
    happened, ended = events(trace), end(trace)
    query = trace.get("query")
    return Trial(happened, ended, steps(happened, ended), record, query if isinstance(query, str) else "", other)


def explain(trial: Trial) -> Loss:
    """Why a trial was lost."""
    for rule in _RULES:
        found = rule(trial)
        if found is not None:
            return Loss(found.cause, found.detail, _step(trial, found))
    raise AssertionError("the last rule always has something to say")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a rule has to say."""

    cause: Cause
    detail: str
    events: Sequence[int] = ()
    """What it is about; empty: the end."""


def _step(trial: Trial, found: _Found) -> int:
    """Of what the cause is about, the first step that the other course does not have; else where the courses part."""
    about = set(found.events)
    places = [place for place, step in enumerate(trial.course) if step.event in about]
    alone = [place for place in places if place in trial.unmatched]
    if alone:
        return alone[0] + 1
    if not trial.other:
        return len(trial.course)
    parted = first_difference(trial.other, [step.signature for step in trial.course])
    return min(parted or len(trial.course), len(trial.course))


# --- 1 to 3: what the end tells ---


def _budget(trial: Trial) -> _Found | None:
    failed = [(place, ask) for place, ask in trial.asks() if ask.error is not None]
    if trial.ended.stop in SPENT:
        words = SPENT[trial.ended.stop]
    elif (
        failed
        and failed[-1][1].error is not None
        and failed[-1][1].error[0] == "context_overflow"
        and _is_last(trial, failed[-1][0])
    ):
        words = SPENT[StopReason.CONTEXT_OVERFLOW.value]
    else:
        return None
    last = max((ask.number for _, ask in trial.asks()), default=0)
    why = f" ({shortened(trial.record.reason)})" if trial.record.reason else ""
    return _Found("budget", f"{words} at {_reply(last)}{why}", [place for place, _ in failed][-1:])


def _broken(trial: Trial) -> _Found | None:
    if trial.ended.stop not in BROKEN:
        return None
    last = max((ask.number for _, ask in trial.asks()), default=0)
    why = f": {shortened(trial.record.reason)}" if trial.record.reason else ""
    return _Found("termination", f"{BROKEN[trial.ended.stop]} after {_reply(last)}{why}")


def _misread(trial: Trial) -> _Found | None:
    for place, ask in reversed(list(trial.asks())):
        if ask.error is None and ask.wire_error is None:
            if ask.fault.startswith("wire.") and trial.is_open(ask.fault, ask.role) and (trial.is_finished or not _left(trial)):
                said = f"{_reply(ask.number)} was spoiled ({ask.fault}) and read as {_quoted(trial.ended.answer)}"
                return _Found("parse", said, [place])
            return None
    return None


def _early(trial: Trial) -> _Found | None:
    for place, ask in [(place, ask) for place, ask in trial.asks() if ask.role in CHOOSING][-1:]:
        if ask.fault in ENDED_EARLY and trial.is_open(ask.fault):
            return _Found("termination", f"answered at {_reply(ask.number)}, before its work was done", [place])
    return None


# --- 4, 6, 8: what blocked it ---


def _blocked(trial: Trial) -> _Found | None:
    return None if trial.is_finished else _worst(trial, setbacks(trial, trial.last_new))


def _gave_up(trial: Trial) -> _Found | None:
    return _worst(trial, _lasting(trial, setbacks(trial, trial.last_new))) if trial.is_finished else None


def _again(trial: Trial) -> _Found | None:
    """What was done once more: a seat that was booked twice, or, of a trial that did not finish, what its steps went into most."""
    again = [setback for setback in setbacks(trial, -1) if setback.kind == "repeated"]
    return _worst(trial, again) if trial.is_finished or len(again) >= max(1, *_wasted(trial)) else None


def _never_put_right(trial: Trial) -> _Found | None:
    found = _lasting(trial, setbacks(trial, -1))
    return _worst(trial, [setback for setback in found if setback.kind != "not run" or setback.fault])


def _lasting(trial: Trial, found: Sequence[Setback]) -> list[Setback]:
    """Without those that a loop got past by going on."""
    last = max((place for place, _ in trial.asks()), default=-1)
    return [
        setback
        for setback in found
        if setback.kind in ("request", "failed run", "not run")
        or (setback.kind in ("unreadable", "misread") and setback.event == last)
    ]


def _worst(trial: Trial, found: Sequence[Setback]) -> _Found | None:
    """Of setbacks the cause that most of them have, of equals the latest."""
    if not found:
        return None
    causes = [_cause(setback) for setback in found]
    often = Counter(causes)
    cause = max(reversed(causes), key=lambda cause: often[cause])
    mine = [setback for setback, its in zip(found, causes, strict=True) if its == cause]
    what = Counter(setback.what for setback in mine)
    main = max(reversed(mine), key=lambda setback: what[setback.what])
    same = [setback for setback in mine if (setback.kind, setback.what) == (main.kind, main.what)]
    words = _never_finished if main.fault == NEVER_FINISH else _IN_WORDS[main.kind]
    return _Found(cause, words(trial, same), [setback.event for setback in same])


def _cause(setback: Setback) -> Cause:
    if setback.kind in ("unreadable", "misread"):
        return "parse"
    if setback.fault == NEVER_FINISH or setback.kind == "no call":
        return "termination"
    if setback.fault in WRONG_CALLS or setback.kind == "not run":
        return "tool argument"
    return "lost observation" if setback.kind == "repeated" else "fault not recovered"


def _unreadable(trial: Trial, same: Sequence[Setback]) -> str:
    numbers = [_number(trial, setback) for setback in same]
    return f"{_replies(numbers)} could not be read{_what_the_loop_did(trial, same)}"


def _misread_there(trial: Trial, same: Sequence[Setback]) -> str:
    numbers = [_number(trial, setback) for setback in same]
    return f"{_replies(numbers)} {'was' if len(numbers) == 1 else 'were'} spoiled ({same[-1].fault}) and read as something else"


def _request(trial: Trial, same: Sequence[Setback]) -> str:
    numbers = [_number(trial, setback) for setback in same]
    return f"the provider failed at {_replies(numbers)} ({shortened(same[-1].why)}){_what_the_loop_did(trial, same)}"


def _failed_run(trial: Trial, same: Sequence[Setback]) -> str:
    return f"{same[-1].what} failed {_times(len(same))} ({same[-1].why}){_what_the_loop_did(trial, same)}"


def _not_run(trial: Trial, same: Sequence[Setback]) -> str:
    why = "" if same[-1].why == NOT_RUN else f" ({same[-1].why})"
    return f"the call {same[-1].what} could not be run {_times(len(same))}{why}{_what_the_loop_did(trial, same)}"


def _repeated(trial: Trial, same: Sequence[Setback]) -> str:
    last, number = same[-1], _number(trial, same[0])
    if last.fault in WRONG_CALLS:
        return f"called {last.what} with {WRONG_CALLS[last.fault]}, {_times(len(same) + 1)}"
    cut = [setback for setback in same if was_cut_out(trial, setback.event)]
    if cut:
        return f"called {last.what} again at {_reply(_number(trial, cut[0]))}, whose result had been cut out of the prompt"
    more = f", {_times(len(same))}" if len(same) > 1 else ""
    return (
        f"called {last.what} again from {_reply(number)} on{more}, although the prompt showed its result"
        if more
        else (f"called {last.what} again at {_reply(number)}, although the prompt showed its result")
    )


def _never_finished(trial: Trial, same: Sequence[Setback]) -> str:
    return f"called {same[0].what} at {_reply(_number(trial, same[0]))}, instead of answering"


def _no_call(trial: Trial, same: Sequence[Setback]) -> str:
    numbers = [_number(trial, setback) for setback in same]
    return f"{_replies(numbers)} made no call and gave no answer"


_IN_WORDS: Mapping[str, Callable[[Trial, Sequence[Setback]], str]] = {
    "unreadable": _unreadable,
    "misread": _misread_there,
    "request": _request,
    "failed run": _failed_run,
    "not run": _not_run,
    "repeated": _repeated,
    "no call": _no_call,
}


def _what_the_loop_did(trial: Trial, same: Sequence[Setback]) -> str:
    """Whether the model was told, and asked again; and how much more often in the other course."""
    told = "" if all(was_told(trial, setback) for setback in same) else "; the next prompt did not show the error"
    ended = "" if was_asked_again(trial, same[-1]) else f"; {_ENDINGS.get(trial.ended.stop or '', 'the loop did not ask again')}"
    return f"{told}{ended}{_other_tries(trial, same)}"


_ENDINGS = {
    StopReason.MAX_STEPS.value: "then the limit was reached",
    StopReason.FORCED.value: "then the limit was reached",
    StopReason.UNFINISHED.value: "then the one turn was over",
    StopReason.ERROR_VALVE.value: "then the error valve ended the run",
}
"""How a run ends that the loop did not end itself; else it did not ask again."""


def _other_tries(trial: Trial, same: Sequence[Setback]) -> str:
    about = {setback.event for setback in same}
    signatures = {step.signature for step in trial.course if step.event in about}
    own = sum(step.signature in signatures for step in trial.course)
    more = sum(signature in signatures for signature in trial.other) - own
    return f"; the other course tried {_times(more)} more" if more > 0 else ""


# --- 5: what a scripted model's faults tell ---


def _faults(trial: Trial) -> _Found | None:
    for place, event in enumerate(trial.happened):
        if event is None or not event.fault or event.fault in HARMLESS or event.fault.startswith("wire."):
            continue
        if trial.is_open(event.fault, event.role if isinstance(event, Ask) else ""):
            return _of_fault(trial, place, event)
    return None


def _of_fault(trial: Trial, place: int, event: Ask | Ran) -> _Found:
    if isinstance(event, Ran):
        if event.fault == "tool.lies":
            said = f"{event.call.text} gave a false result, {shortened(event.result)}, and nothing set it right"
            return _Found("fault not recovered", said, [place])
        key = event.call.key
        runs = [at for at, run in enumerate(trial.happened) if isinstance(run, Ran) and run.call.key == key and run.fault]
        said = f"{event.call.text} failed {_times(len(runs))} ({event.fault}) and never got through"
        return _Found("fault not recovered", said, runs)
    if event.fault in WRONG_CALLS:
        call = f" called {event.calls[0].text}" if event.calls else ""
        return _Found("tool argument", f"{_reply(event.number)}{call} with {WRONG_CALLS[event.fault]}", _made_by(trial, place))
    if event.fault in ENDED_EARLY:
        return _Found("termination", f"{_reply(event.number)} left out work that was to be done", [place])
    if event.fault == "weakness.answer":
        return _Found("other", f"{_reply(event.number)} stated the answer in another form", [])
    why = "" if event.error is None else f", {shortened(event.error[1])}"
    return _Found("fault not recovered", f"the provider failed at {_reply(event.number)} ({event.fault}{why})", [place])


def _made_by(trial: Trial, place: int) -> list[int]:
    """A reply's own event, and those of the runs that it decided on."""
    runs = (at for at, event in enumerate(trial.happened) if isinstance(event, Ran) and trial.decider(at) is trial.happened[place])
    return [place, *runs]


# --- 7 and 9 to 11: what the other course tells ---


def _argument(trial: Trial) -> _Found | None:
    if not trial.is_finished:
        return None
    alone = unmatched([step.signature for step in trial.course], [step.signature for step in trial.other_course])
    own = {step.call.key for step in trial.course if step.call is not None}
    others = [step.call for place, step in enumerate(trial.other_course) if place in alone and step.call is not None and step.gave]
    for place, step in enumerate(trial.course):
        if place not in trial.unmatched or step.call is None or step.event is None:
            continue
        meant = [call for call in others if call.tool == step.call.tool and call.key not in own]
        if meant:
            said = f"called {step.text}, where the other course called {meant[0].text}"
            return _Found("tool argument", said, [step.event])
    return None


def _lost(trial: Trial) -> _Found | None:
    """What the prompts lacked that the answer came from: the question, or results that the other course came from, too."""
    latest = {ask.role: place for place, ask in trial.asks() if ask.role in _ANSWERING}
    if not latest or trial.ended.stop not in _ANSWERED:
        return None
    shown = [message for place in latest.values() for message in trial.prompts[place]]
    place, number = max((place, ask.number) for place, ask in trial.asks() if place in latest.values())
    if trial.query and not shows(shown, trial.query):
        return _Found("lost observation", f"the prompt of {_reply(number)} no longer showed the question")
    for at, step in enumerate(trial.course):
        run = trial.happened[step.event] if step.event is not None and step.event < place else None
        if at in trial.unmatched or not isinstance(run, Ran) or not run.gave or shows(shown, run.data):
            continue
        return _Found(
            "lost observation", f"answered at {_reply(number)}, when the prompt no longer showed the result of {step.text}"
        )
    return None


_ANSWERED = frozenset({StopReason.FINISHED.value, StopReason.FORCED.value})
_ANSWERING = frozenset({*CHOOSING, Role.ANSWER.value, Role.SUMMARIZE.value, Role.FORMAT.value})


def _ended(trial: Trial) -> _Found | None:
    last = max((ask.number for _, ask in trial.asks()), default=0)
    if not trial.is_finished:
        how = _STOPS.get(trial.ended.stop or "", f"the run ended with stop {trial.ended.stop}")
        return _Found("termination", f"{how} at {_reply(last)}{_used_up(trial)}")
    left = _left(trial)
    if left:
        return _Found("termination", f"answered at {_reply(last)} and never called {left[0].text}")
    if len(trial.other) > len(trial.course):
        more = len(trial.other) - len(trial.course)
        return _Found(
            "termination", f"answered at {_reply(last)}, {more} {'step' if more == 1 else 'steps'} before the other course"
        )
    return None


def _left(trial: Trial) -> list[Step]:
    """Calls of the other course, where it is known, that this one never made."""
    own = {step.call.key for step in trial.course if step.call is not None}
    return [step for step in trial.other_course if step.call is not None and step.gave and step.call.key not in own]


def _wasted(trial: Trial) -> tuple[int, int]:
    """Replies that could not be read, and calls that failed or could not be run."""
    unreadable = sum(ask.wire_error is not None for _, ask in trial.asks())
    return unreadable, sum(step.call is not None and not step.gave for step in trial.course)


_STOPS = {
    StopReason.MAX_STEPS.value: "the limit was reached (max_steps)",
    StopReason.FORCED.value: "the limit was reached (forced)",
    StopReason.UNFINISHED.value: "the one turn was over (unfinished)",
    StopReason.ERROR_VALVE.value: "the error valve ended the run",
}


def _used_up(trial: Trial) -> str:
    """What the steps went into, beside new results."""
    unreadable, failed = _wasted(trial)
    parts = [
        f"{unreadable} {'reply' if unreadable == 1 else 'replies'} that could not be read" if unreadable else "",
        f"{failed} {'call' if failed == 1 else 'calls'} that failed" if failed else "",
        f"{len(trial.repeated)} made again" if trial.repeated else "",
    ]
    listed = ", ".join(part for part in parts if part)
    if listed:
        return f"; used up on the way: {listed}"
    kinds = sorted({fault.kind for fault in trial.record.faults if fault.landed and not fault.absorbed})
    return f"; met on the way: {', '.join(kinds)}" if kinds else ""


def _other(trial: Trial) -> _Found | None:
    return _Found("other", f"answered {_quoted(trial.ended.answer)}")


_RULES: Sequence[Callable[[Trial], _Found | None]] = (
    _budget,
    _broken,
    _early,
    _blocked,
    _misread,
    _faults,
    _gave_up,
    _again,
    _argument,
    _never_put_right,
    _lost,
    _ended,
    _other,
)


# --- words ---


def _number(trial: Trial, setback: Setback) -> int:
    ask = trial.decider(setback.event)
    return ask.number if ask is not None else 0


def _is_last(trial: Trial, place: int) -> bool:
    return not any(True for _ in trial.asks(place))


def _reply(number: int) -> str:
    return f"reply {number}"


def _replies(numbers: Sequence[int]) -> str:
    if len(numbers) > 4:
        return f"{len(numbers)} replies, from {numbers[0]} to {numbers[-1]},"
    listed = ", ".join(map(str, numbers[:-1]))
    return f"replies {listed} and {numbers[-1]}" if listed else _reply(numbers[0])


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _quoted(answer: Any) -> str:
    return repr(shortened(render_value(answer)))
