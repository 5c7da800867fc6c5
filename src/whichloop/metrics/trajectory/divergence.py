"""Where two trials of one task part, and why the one that was not solved was lost.

Every cause is read off the loser's own trace: its requests as they were sent, its replies, its tools' runs, and for a scripted
trial the faults of its record. The other course, where there is one, tells what was no obstacle, since it stands there too. The
rules are asked in this order, and the first that has something to say is believed:

 1. (its limits)       the stop is the trial's time limit (time limit), or a budget or a prompt that no longer fits (budget)
 2. crash              an exception left the loop; one that cancelled itself is a termination
 3. obeyed instruction an instruction in a result asked for an answer, or to stop, and the scripted model obeyed it
 4. answer refused     the last reply stated an answer that could be read, and the loop did not take it
 5. (what it altered)  calls, results or an answer that the loop itself changed, left out or made up: see `alterations`
 6. termination        a scripted model answered before its work was done
 7. (what it hid)      a limit was reached, and most of what went wrong before was never told to the model, put right or not
 8. (what blocked it)  the loop did not finish: of what went wrong after its last new result, what went wrong most often, but for
                       replies of a scripted model that had nothing to say in the form asked for
 9. parse              the last reply was spoiled and read as something else, and only the answer was missing
10. (the fault's kind) of a scripted model: the first fault that was never put right, and that wrong answers come from
11. (what blocked it)  the loop finished: what went wrong after its last new result
12. lost observation   calls were made again after they had given a result: in a trial that finished, or more often than
                       anything else went wrong
13. tool argument      the loop finished: a tool was called with other arguments than in the other course, and gave another result
14. (what blocked it)  what went wrong anywhere and was never put right
15. parse              a scripted model had nothing to say in the form asked for
16. lost observation   the last prompt lacked the question, or results that both had
17. termination        the loop did not finish, or answered with calls of the other course left
18. other              also where the trace does not say how the run ended

What blocks a trial: replies that cannot be read (parse); calls that cannot be run, or that a scripted model's fault has made wrong
(tool argument); tools and providers that fail, or noise of a tool that is passed on (fault not recovered); repeated calls that had
given a result (lost observation); replies that neither call nor answer (termination). Where the prompt that followed did not show
a tool's error, that is the cause (error not shown).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from whichloop.metrics.record import Record
from whichloop.protocol import Role, StopReason
from whichloop.protocol.receipts import strip_receipts

from ..trace import ModelExchange, Note, ToolRun, Trace
from .alterations import alterations, hides_error
from .causes import Cause, Divergence, Loss
from .failure_text import (
    BROKEN,
    SPENT,
    RuleFinding,
    calls_left_out,
    could_run,
    damaged_source,
    fault_behind_call,
    faults_of_events,
    how_it_ended,
    in_words,
    misfit,
    quoted_answer,
    reply,
    times,
)
from .failures import (
    NEVER_FINISH,
    WRONG_CALLS,
    Setback,
    TracedTrial,
    failed_calls,
    of_calls,
    of_replies,
    setbacks,
    unreadable_replies,
    was_told,
)
from .trajectory import CHOOSING, TracedStep, call_text, course, shortened, shows, unmatched

END_STATE = "state"
"""The score of a task that says what state its world was to end in."""
ENDED_EARLY = frozenset({"decision.early_finish", "decision.no_tool", "weakness.step"})
HARMLESS = frozenset(
    {"decision.forget", "decision.repeated_call", NEVER_FINISH, "tool.slow", "tool.huge", "calls.late", "calls.same_ids"}
)
"""Kinds that no wrong answer comes from by itself: what they cost is a step, or room in the prompt."""


def first_difference(a: Sequence[str], b: Sequence[str]) -> int | None:
    """Return the step, from 1, of `b` at which it parts from `a`, both signatures of courses; None where they are equal.

    The first step of `b` that `a` does not have anywhere: two designs may do the same in another order. Where `a` has them all, the
    first in whose place `a` has another; one beyond the end of `b` where that is only shorter.
    """
    if list(a) == list(b):
        return None
    alone = unmatched(a, b)
    if alone:
        return min(alone) + 1
    return next((place for place, (one, other) in enumerate(zip(a, b, strict=False), 1) if one != other), min(len(a), len(b)) + 1)


def divergence(winner: str, winner_course: Sequence[TracedStep], loser: TracedTrial) -> Divergence | None:
    """Return where a lost trial parts from the course of `winner`, an arm, and why; None where their courses are equal."""
    trial = loser.against(winner_course)
    if list(trial.other) == [step.signature for step in trial.course]:
        return None
    loss, record = explain(trial), trial.record
    parted = first_difference(trial.other, [step.signature for step in trial.course]) or len(trial.course)
    at = min(parted, len(trial.course))
    return Divergence(
        winner,
        record.arm,
        record.task,
        record.repeat,
        step=loss.step,
        parts_at=at,
        cause=loss.cause,
        detail=loss.detail,
        stop=trial.head.stop,
        fault=loss.fault,
    )


def cause_of(trace: Trace, record: Record, other: Sequence[str] = ()) -> Loss:
    """Return why a trial was lost, from its own trace; `other`: signatures of a course that was not lost, if one is known."""
    return explain(read_trial(trace, record, other))


def read_trial(trace: Trace, record: Record, other: Sequence[str] = (), limit: int | None = None) -> TracedTrial:
    """Return a trial as its trace tells it, held against a course of these signatures. `limit`: see `TracedTrial`."""
    return TracedTrial(trace, course(trace), record, other, limit=limit)


def explain(trial: TracedTrial) -> Loss:
    """Return why a trial was lost."""
    finding = next(finding for rule in _RULES if (finding := rule(trial)) is not None)  # the last rule always has something to say
    return Loss(finding.cause, finding.detail, _step(trial, finding), _fault(trial, finding))


def ended_unread(trial: TracedTrial) -> bool:
    """Whether the loop gave up at a reply that it could not read: the last one, after which nothing was done, nor answered."""
    place, last = trial.last_ask
    if last is None or last.wire_error is None or trial.is_finished:
        return False
    return not any(isinstance(event, ToolRun) for event in trial.events[place:])


def _step(trial: TracedTrial, finding: RuleFinding) -> int:
    """Return the first step that the cause is about, else the last: no other course has a say, so that every command names it."""
    about = set(finding.events)
    return next((number for number, step in enumerate(trial.course, 1) if step.event in about), len(trial.course))


def _fault(trial: TracedTrial, finding: RuleFinding) -> str:
    """Return the kind of fault that struck most of what the cause is about, the latest among equals; empty without any."""
    kinds = [kind for kind in (faults_of_events(trial, finding.events) if finding.faults is None else finding.faults) if kind]
    often = Counter(kinds)
    return max(reversed(kinds), key=lambda kind: often[kind], default="")


# --- what the end tells ---


def _limited(trial: TracedTrial) -> RuleFinding | None:
    place, last = trial.last_ask
    stop = trial.head.stop
    if last is not None and last.error is not None and last.error[0] == StopReason.CONTEXT_OVERFLOW:
        stop = last.error[0]
    if stop not in SPENT:
        return None
    cause: Cause = "time limit" if stop == StopReason.TIMEOUT else "budget"
    return RuleFinding(cause, f"{SPENT[stop]} at {reply(trial.replies)}{_reason(trial)}", [] if place is None else [place])


def _broken(trial: TracedTrial) -> RuleFinding | None:
    cause: Cause = "crash" if (stop := trial.head.stop) == StopReason.CRASHED else "termination"
    return RuleFinding(cause, f"{BROKEN[stop]} after {reply(trial.replies)}{_reason(trial)}") if stop in BROKEN else None


def _reason(trial: TracedTrial) -> str:
    return f" ({shortened(strip_receipts(trial.record.reason))})" if trial.record.reason else ""


def _obeyed(trial: TracedTrial) -> RuleFinding | None:
    for place, event in enumerate(trial.events):
        if isinstance(event, ToolRun) and event.fault in ("inject.answer", "inject.stop") and trial.is_open(event.fault):
            return _of_fault(trial, place, event)
    return None


def _refused(trial: TracedTrial) -> RuleFinding | None:
    """Return the answer at which the trial ended, which its codec could read and the loop did not take."""
    place, last = trial.last_ask
    if place is None or last is None or last.move is None or trial.is_finished or last.fault.startswith("wire."):
        return None
    if last.move_kind != "answer" and (last.move_kind != "text" or last.role in CHOOSING):
        return None
    notes = [event.data.get("problem") for event in trial.events[place:] if isinstance(event, Note)]
    details = trial.head.details if trial.head.stop == StopReason.PARSE_FAILED else None
    told = [*notes, details.get("error") if isinstance(details, Mapping) else None]
    problem = next((text for text in told if isinstance(text, str) and text), None)
    if problem is None:
        return None
    stated = quoted_answer(last.move.get("value", last.move.get("text")))
    return RuleFinding("answer refused", f"answer refused: {misfit(problem)}; {reply(last.number)} stated {stated}", [place])


def _altered(trial: TracedTrial) -> RuleFinding | None:
    """Return the first thing that the loop altered: what came after it may have come from it."""
    altered = alterations(trial)
    if not altered:
        return None
    first = altered[0]
    also = sum(each.cause == first.cause for each in altered) - 1
    return RuleFinding(first.cause, f"{first.detail}{f'; the same happened {times(also)} more' if also else ''}", [first.event])


def _early(trial: TracedTrial) -> RuleFinding | None:
    chosen = [(place, ask) for place, ask in trial.asks() if ask.role in CHOOSING]
    if not chosen:
        return None
    place, last = chosen[-1]
    if last.fault not in ENDED_EARLY or not trial.is_open(last.fault):
        return None
    return RuleFinding("termination", f"answered at {reply(last.number)}, before its work was done", [place])


def _misread(trial: TracedTrial) -> RuleFinding | None:
    """Return the divergence of a trial whose last reply was spoiled, and which missed nothing but the answer."""
    for place, ask in reversed(list(trial.asks())):
        if ask.error is None and ask.wire_error is None:
            is_decisive = trial.is_finished or (trial.other_course and not calls_left_out(trial))
            if ask.fault.startswith("wire.") and trial.is_open(ask.fault, ask.role) and is_decisive:
                sentence = f"{reply(ask.number)} was spoiled ({ask.fault}) and read as {quoted_answer(trial.head.answer)}"
                return RuleFinding("parse", sentence, [place])
            return None
    return None


# --- what blocked it ---


def _untold(trial: TracedTrial) -> RuleFinding | None:
    """Return what most of the steps before a limit went into that the loop did not tell the model, put right or not."""
    if trial.head.stop not in (StopReason.MAX_STEPS, StopReason.FORCED):
        return None
    met = [*of_replies(trial, every=True), *of_calls(trial, every=True)]
    errors = [one for one in met if one.kind in ("unreadable", "failed run", "not run")]
    untold = [(one.kind, one.what) for one in errors if not was_told(trial, one)]
    return _worst(trial, [one for one in errors if (one.kind, one.what) in untold]) if 2 * len(untold) > len(met) else None


def _blocked(trial: TracedTrial) -> RuleFinding | None:
    if trial.is_finished:
        return None
    return _worst(trial, [setback for setback in setbacks(trial, trial.last_new) if setback.kind != "unfit"])


def _gave_up(trial: TracedTrial) -> RuleFinding | None:
    return _worst(trial, _lasting(trial, setbacks(trial, trial.last_new))) if trial.is_finished else None


def _again(trial: TracedTrial) -> RuleFinding | None:
    """Return what was done again: a call that was repeated, or what the steps of an unfinished trial went into most."""
    again = [setback for setback in setbacks(trial, -1) if setback.kind == "repeated"]
    return (
        _worst(trial, again)
        if trial.is_finished or len(again) >= max(1, len(unreadable_replies(trial)), len(failed_calls(trial)))
        else None
    )


def _never_put_right(trial: TracedTrial) -> RuleFinding | None:
    remaining = setbacks(trial, -1)
    remaining = (
        _lasting(trial, remaining) if trial.is_finished else [setback for setback in remaining if setback.kind not in _LATER]
    )
    return _worst(trial, [setback for setback in remaining if setback.kind != "not run" or setback.fault])


_LATER = frozenset({"unfit", "repeated", "no call"})
"""Setbacks that are not the cause as long as there is another."""


def _unfit(trial: TracedTrial) -> RuleFinding | None:
    """Return what a scripted model said when it had nothing that fits the form."""
    return _worst(trial, [setback for setback in setbacks(trial, trial.last_new) if setback.kind == "unfit"])


def _lasting(trial: TracedTrial, setbacks: Sequence[Setback]) -> list[Setback]:
    """Return the setbacks without those that the loop got past by going on."""
    last, _ = trial.last_ask
    return [setback for setback in setbacks if setback.kind in ("request", "failed run", "not run") or _is_at(setback, last)]


def _is_at(setback: Setback, last: int | None) -> bool:
    return setback.kind in ("unreadable", "misread") and setback.event == last


def _worst(trial: TracedTrial, setbacks: Sequence[Setback]) -> RuleFinding | None:
    """Return the cause that most of the setbacks have, the latest among equals."""
    if not setbacks:
        return None
    causes = [_cause(trial, setback) for setback in setbacks]
    often = Counter(causes)
    cause = max(reversed(causes), key=lambda cause: often[cause])
    mine = [setback for setback, its in zip(setbacks, causes, strict=True) if its == cause]
    what = Counter(setback.what for setback in mine)
    main = max(reversed(mine), key=lambda setback: what[setback.what])
    same = [setback for setback in mine if (setback.kind, setback.what) == (main.kind, main.what)]
    faults = [setback.fault or fault_behind_call(trial, setback.event) for setback in same]
    return RuleFinding(cause, in_words(trial, same), [setback.event for setback in same], faults)


def _cause(trial: TracedTrial, setback: Setback) -> Cause:
    if setback.kind in ("unreadable", "unfit", "misread"):
        return "parse"
    if setback.fault == NEVER_FINISH or setback.kind == "no call":
        return "termination"
    if setback.kind in ("failed run", "not run") and hides_error(trial, setback.event):
        return "error not shown"
    if setback.fault in WRONG_CALLS or (setback.kind == "not run" and not damaged_source(trial, setback.event)):
        return "tool argument"
    return "lost observation" if setback.kind == "repeated" else "fault not recovered"


# --- what a scripted model's faults tell ---


def _faults(trial: TracedTrial) -> RuleFinding | None:
    for place, event in enumerate(trial.events):
        if isinstance(event, Note) or not event.fault or event.fault in HARMLESS or event.fault.startswith("wire."):
            continue
        if trial.is_open(event.fault, event.role if isinstance(event, ModelExchange) else ""):
            return _of_fault(trial, place, event)
    return None


def _of_fault(trial: TracedTrial, place: int, event: ModelExchange | ToolRun) -> RuleFinding:
    if event.fault == "calls.too_early":
        detail = f"a call stood in one reply with those whose effect it needs ({event.fault}), and ran before they were done"
        return RuleFinding("fault not recovered", detail, [place])
    if isinstance(event, ToolRun):
        if event.fault == "tool.lies":
            detail = f"{call_text(event.call)} gave a false result, {shortened(event.result)}, and nothing set it right"
            return RuleFinding("fault not recovered", detail, [place])
        if event.fault.startswith("inject."):
            detail = f"the result of {call_text(event.call)} carried an instruction ({event.fault}), and the model obeyed it"
            return RuleFinding("obeyed instruction", detail, [place])
        key = event.call.key
        runs = [at for at, run in enumerate(trial.events) if isinstance(run, ToolRun) and run.call.key == key and run.fault]
        if hides_error(trial, place):
            error = quoted_answer(event.result)
            detail = f"{call_text(event.call)} failed ({event.fault}), and the loop did not show the model its error, {error}"
            return RuleFinding("error not shown", detail, [place])
        detail = f"{call_text(event.call)} failed {times(len(runs))} ({event.fault}) and never got through"
        return RuleFinding("fault not recovered", detail, runs)
    if event.fault in WRONG_CALLS:
        call = f" called {call_text(event.calls[0])}" if event.calls else ""
        return RuleFinding("tool argument", f"{reply(event.number)}{call} with {WRONG_CALLS[event.fault]}", _made_by(trial, place))
    if event.fault in ENDED_EARLY:
        return RuleFinding("termination", f"{reply(event.number)} left out work that was to be done", [place])
    if event.fault == "weakness.answer":
        return RuleFinding("answer form", f"{reply(event.number)} stated the answer in another form", [])
    why = "" if event.error is None else f", {shortened(event.error[1])}"
    return RuleFinding("fault not recovered", f"the provider failed at {reply(event.number)} ({event.fault}{why})", [place])


def _made_by(trial: TracedTrial, place: int) -> list[int]:
    """Return a reply's own event, and those of the runs that it decided on."""
    runs = (at for at, event in enumerate(trial.events) if isinstance(event, ToolRun) and trial.decider(at) is trial.events[place])
    return [place, *runs]


# --- what the other course tells ---


def _argument(trial: TracedTrial) -> RuleFinding | None:
    if not trial.is_finished:
        return None
    alone = unmatched([step.signature for step in trial.course], [step.signature for step in trial.other_course])
    own_calls = {step.call.key for step in trial.course if step.call is not None}
    others = [step for place, step in enumerate(trial.other_course) if place in alone and could_run(step)]
    for place, step in enumerate(trial.course):
        if place not in trial.unmatched or step.call is None or step.event is None:
            continue
        meant = [other for other in others if other.call and other.call.tool == step.call.tool and other.call.key not in own_calls]
        if meant and not any(_gave_the_same(trial, step, other) for other in meant):
            sentence = f"called {step.text}, where the other course called {meant[0].text}"
            return RuleFinding("tool argument", sentence, [step.event])
    return None


def _gave_the_same(trial: TracedTrial, step: TracedStep, other: TracedStep) -> bool:
    """Whether two calls told the model the same, so that arguments made no difference; not where an end state is judged."""
    tells = _TELLING.search(step.observed) is not None  # a bare `ok` tells nothing of what was done
    return step.gave_result and tells and step.observed == other.observed and END_STATE not in trial.head.scores


_TELLING = re.compile(r"\d|\w+\W+\w+\W+\w+\W+\w+")
"""A result that tells something: a number, or several words."""


def _lost(trial: TracedTrial) -> RuleFinding | None:
    """Return what the prompts lacked that the answer came from: the question, or results that the other course came from, too."""
    latest = {ask.role: place for place, ask in trial.asks() if ask.role in _ANSWERING}
    if not latest or trial.head.stop not in _ANSWERED:
        return None
    messages = [message for place in latest.values() for message in trial.prompts[place]]
    place, number = max((place, ask.number) for place, ask in trial.asks() if place in latest.values())
    if trial.head.query and not shows(messages, trial.head.query):
        return RuleFinding("lost observation", f"the prompt of {reply(number)} no longer showed the question")
    for at, step in enumerate(trial.course):
        run = trial.events[step.event] if step.event is not None and step.event < place else None
        if at in trial.unmatched or not isinstance(run, ToolRun) or not run.gave_result:
            continue
        if any(trial.is_shown(run, asked) for asked in latest.values()):
            continue
        sentence = f"answered at {reply(number)}, when the prompt no longer showed the result of {step.text}"
        return RuleFinding("lost observation", sentence)
    return None


_ANSWERED = frozenset({StopReason.FINISHED.value, StopReason.FORCED.value})
_ANSWERING = frozenset({*CHOOSING, Role.ANSWER.value, Role.SUMMARIZE.value, Role.FORMAT.value})


def _other(trial: TracedTrial) -> RuleFinding | None:
    return RuleFinding("other", f"answered {quoted_answer(trial.head.answer)}")


_RULES: Sequence[Callable[[TracedTrial], RuleFinding | None]] = (
    _limited,
    _broken,
    _obeyed,
    _refused,
    _altered,
    _early,
    _untold,
    _blocked,
    _misread,
    _faults,
    _gave_up,
    _again,
    _argument,
    _never_put_right,
    _unfit,
    _lost,
    how_it_ended,
    _other,
)
