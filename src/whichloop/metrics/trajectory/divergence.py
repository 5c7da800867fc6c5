"""Where two trials of one task part, and why the one that was not solved was lost.

Every cause is read off the loser's own trace, and for a scripted trial the faults of its record. The other course, where there is
one, tells what was no obstacle, since it stands there too. `RULES` are asked in order, and the first that has something to say is
believed; no rule knows another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from whichloop.metrics.trace import GARBAGE, NO_CONTENT, ModelExchange, Note, ToolRun
from whichloop.protocol import StopReason
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.values import counted

from .alterations import ANSWERING, LossFinding, altered, quoted, times
from .causes import Cause, Divergence, Loss
from .traced_trial import NEVER_FINISH, WRONG_CALLS, Setback, TracedTrial
from .trajectory import CHOOSING, NOT_RUN, TracedStep, call_text, first_difference, shortened, shows

Item = TypeVar("Item")


def divergence(winner: str, winner_course: Sequence[TracedStep], loser: TracedTrial) -> Divergence | None:
    """Return where a lost trial parts from the course of `winner`, an arm, and why; None where their courses are equal."""
    trial = loser.against(winner_course)
    parted = first_difference(trial.other, [step.signature for step in trial.course])
    if parted is None:
        return None
    of, at, told = trial.record, min(parted, len(trial.course)), vars(explain(trial))
    return Divergence(winner=winner, loser=of.arm, task=of.task, repeat=of.repeat, parts_at=at, stop=trial.stop, **told)


def explain(trial: TracedTrial) -> Loss:
    """Return why a trial was lost. The step is the first that the cause is about, else the last, whatever the other course."""
    found = next(finding for rule in RULES if (finding := rule(trial)) is not None)  # the last rule always has something to say
    step = next((number for number, step in enumerate(trial.course, 1) if step.event in set(found.events)), len(trial.course))
    struck = [getattr(trial.events[at], "fault", "") for at in found.events] if found.faults is None else found.faults
    return Loss(cause=found.cause, detail=found.detail, step=step, fault=_commonest([kind for kind in struck if kind], ""))


def ended_unread(trial: TracedTrial) -> bool:
    """Whether the loop gave up at a reply that it could not read: the last one, after which nothing was done, nor answered."""
    is_unread = trial.last is not None and trial.last.wire_error is not None and not trial.is_finished
    return is_unread and not any(at > trial.last_at for at, _ in trial.runs)


def without_bytes(text: str) -> str:
    """Return a text with an ellipsis for each run of what is no text: control characters, and bytes that could not be read."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]+", "…", text)


def _commonest(items: Sequence[Item], default: Item) -> Item:
    """Return the most frequent item, the latest among equals."""
    often = Counter(items)
    return max(reversed(items), key=lambda item: often[item], default=default)


# --- what the end tells ---

_BROKEN_OFF: Mapping[str | None, tuple[Cause, str]] = {
    StopReason.TIMEOUT: ("time limit", "it reached the trial's time limit at"),
    StopReason.BUDGET: ("budget", "its budget was used up at"),
    StopReason.CONTEXT_OVERFLOW: ("budget", "the prompt no longer fitted the model's context at"),
    StopReason.CRASHED: ("crash", "the loop crashed after"),
    StopReason.CANCELLED: ("termination", "the loop cancelled itself after"),
}


def _broken_off(trial: TracedTrial) -> LossFinding | None:
    """A limit of the trial was reached (time limit, budget), or an exception left the loop (crash)."""
    overflowed = trial.last is not None and trial.last.error is not None and trial.last.error.kind == StopReason.CONTEXT_OVERFLOW
    stop = StopReason.CONTEXT_OVERFLOW if overflowed else trial.stop
    if stop not in _BROKEN_OFF:
        return None
    cause, how = _BROKEN_OFF[stop]
    reason = f" ({shortened(strip_receipts(trial.record.reason))})" if trial.record.reason else ""
    at = [trial.last_at] if trial.asks and how.endswith(" at") else []
    return LossFinding(cause, f"{how} reply {len(trial.asks)}{reason}", at)


def _obeyed(trial: TracedTrial) -> LossFinding | None:
    """An instruction in a result asked for an answer, or to stop, and the scripted model obeyed it."""
    asked = (at for at, run in trial.runs if run.fault in ("inject.answer", "inject.stop") and trial.is_open(run.fault))
    return next((_of_fault(trial, at) for at in asked), None)


def _refused(trial: TracedTrial) -> LossFinding | None:
    """The last reply stated an answer that could be read, and the loop did not take it."""
    last = trial.last
    if last is None or last.move is None or trial.is_finished or last.fault.startswith("wire."):
        return None
    if last.move_kind != "answer" and (last.move_kind != "text" or last.role in CHOOSING):
        return None
    details = trial.head.details if trial.stop == StopReason.PARSE_FAILED else None
    notes = [event.data.get("problem") for event in trial.events[trial.last_at :] if isinstance(event, Note)]
    told = [*notes, details.get("error") if isinstance(details, Mapping) else None]
    problem = next((text for text in told if isinstance(text, str) and text), None)
    if problem is None:
        return None
    stated = quoted(last.move.get("value", last.move.get("text")))
    detail = f"answer refused: {shortened(strip_receipts(problem))}; reply {last.number} stated {stated}"
    return LossFinding("answer refused", detail, [trial.last_at])


# --- what blocked it, and what was never put right ---

_ENDED_EARLY = ("decision.early_finish", "decision.no_tool", "weakness.step")
_HARMLESS = ("decision.forget", "decision.repeated_call", NEVER_FINISH, "tool.slow", "tool.huge", "calls.late", "calls.same_ids")
"""Kinds that no wrong answer comes from by itself: what they cost is a step, or room in the prompt."""
_FAULTS: Sequence[tuple[tuple[str, ...], Cause, str]] = (
    (
        ("calls.too_early",),
        "fault not recovered",
        "a call stood in one reply with those whose effect it needs ({fault}), and ran before they were done",
    ),
    (("tool.lies",), "fault not recovered", "{what} gave a false result, {result}, and nothing set it right"),
    (("inject.",), "obeyed instruction", "the result of {what} carried an instruction ({fault}), and the model obeyed it"),
    (_ENDED_EARLY, "termination", "{what} left out work that was to be done"),
    (("weakness.answer",), "answer form", "{what} stated the answer in another form"),
)
"""Beginnings of kinds of faults, the cause that each is, and what it did, where that is all that there is to say."""


def _of_fault(trial: TracedTrial, at: int) -> LossFinding:
    event = trial.events[at]
    assert not isinstance(event, Note)
    fault, run = event.fault, event if isinstance(event, ToolRun) else None
    what, result = (f"reply {trial.number(at)}", "") if run is None else (call_text(run.call), shortened(run.result))
    for kinds, cause, says in _FAULTS:
        if fault.startswith(kinds):
            events = [] if cause == "answer form" else [at]  # which is about the end
            return LossFinding(cause, says.format(what=what, fault=fault, result=result), events)
    if run is not None:
        if trial.hides_error(at):
            detail = f"{what} failed ({fault}), and the loop did not show the model its error, {result!r}"
            return LossFinding("error not shown", detail, [at])
        runs = [place for place, other in trial.runs if other.call.key == run.call.key and other.fault]
        return LossFinding("fault not recovered", f"{what} failed {times(len(runs))} ({fault}) and never got through", runs)
    assert isinstance(event, ModelExchange)
    if fault in WRONG_CALLS:
        called = f" called {call_text(event.calls[0])}" if event.calls else ""
        made = [place for place, _ in trial.runs if trial.decider(place) is event]
        return LossFinding("tool argument", f"{what}{called} with {WRONG_CALLS[fault]}", [at, *made])
    why = "" if event.error is None else f", {shortened(event.error[1])}"
    return LossFinding("fault not recovered", f"the provider failed at {what} ({fault}{why})", [at])


def _early(trial: TracedTrial) -> LossFinding | None:
    """A scripted model answered before its work was done."""
    at, last = next(((at, ask) for at, ask in reversed(trial.asks) if ask.role in CHOOSING), (-1, None))
    if last is None or last.fault not in _ENDED_EARLY or not trial.is_open(last.fault):
        return None
    return LossFinding("termination", f"answered at reply {last.number}, before its work was done", [at])


def _untold(trial: TracedTrial) -> LossFinding | None:
    """A limit was reached, and most of what went wrong before was never told to the model, put right or not."""
    if trial.stop not in (StopReason.MAX_STEPS, StopReason.FORCED):
        return None
    errors = [one for one in trial.setbacks if one.kind in ("unreadable", *_FAILED)]
    untold = [one[:3:2] for one in errors if not trial.was_told(one)]
    return _worst(trial, [one for one in errors if one[:3:2] in untold]) if 2 * len(untold) > len(trial.setbacks) else None


def _misread(trial: TracedTrial) -> LossFinding | None:
    """The last reply was spoiled and read as something else, and only the answer was missing."""
    at, last = next(((at, ask) for at, ask in reversed(trial.asks) if ask.error is None and ask.wire_error is None), (-1, None))
    if last is None or not last.fault.startswith("wire.") or not trial.is_open(last.fault, last.role):
        return None
    if not trial.is_finished and (trial.left_out or not trial.other_course):
        return None
    return LossFinding("parse", f"reply {last.number} was spoiled ({last.fault}) and read as {quoted(trial.head.answer)}", [at])


def _never_recovered(trial: TracedTrial) -> LossFinding | None:
    """Of a scripted model: the first fault that was never put right, and that wrong answers come from."""
    for at, event in enumerate(trial.events):
        fault = "" if isinstance(event, Note) else event.fault
        role = event.role if isinstance(event, ModelExchange) else ""
        if fault and fault not in _HARMLESS and not fault.startswith("wire.") and trial.is_open(fault, role):
            return _of_fault(trial, at)
    return None


def _again(trial: TracedTrial) -> LossFinding | None:
    """Calls were made again that had given a result: in a trial that finished, or more often than anything else went wrong."""
    again = [one for one in _standing(trial) if one.kind == "repeated"]
    unreadable = sum(ask.wire_error is not None for _, ask in trial.asks)
    failed = sum(one.kind in _FAILED for one in trial.setbacks)
    return _worst(trial, again) if trial.is_finished or len(again) >= max(unreadable, failed) else None


_TELLING = re.compile(r"\d|\w+\W+\w+\W+\w+\W+\w+")
"""A result that tells something: a number, or several words. A bare `ok` tells nothing of what was done."""


def _argument(trial: TracedTrial) -> LossFinding | None:
    """The loop finished: a tool was called with other arguments than in the other course, and gave another result.

    The same result told the model the same, so that arguments made no difference, unless an end state is judged.
    """
    for place, step in enumerate(trial.course if trial.is_finished else ()):
        if place not in trial.unmatched or step.call is None or step.event is None:
            continue
        meant = [other for other in trial.left_out if other.call is not None and other.call.tool == step.call.tool]
        tells = step.gave_result and "state" not in trial.head.scores and _TELLING.search(step.observed) is not None
        if meant and not (tells and any(step.observed == other.observed for other in meant)):
            return LossFinding("tool argument", f"called {step.text}, where the other course called {meant[0].text}", [step.event])
    return None


def _never_put_right(trial: TracedTrial) -> LossFinding | None:
    """What went wrong anywhere and was never put right."""
    left = _standing(trial)
    left = _lasting(trial, left) if trial.is_finished else [one for one in left if one.kind not in ("repeated", "no call")]
    return _worst(trial, [one for one in left if one.kind != "not run" or one.fault])


_FAILED = ("failed run", "not run")


def _standing(trial: TracedTrial, since: int = -1) -> list[Setback]:
    return [one for one in trial.setbacks if one.stands and one.event > since]


def _lasting(trial: TracedTrial, setbacks: Sequence[Setback]) -> list[Setback]:
    """Return the setbacks without those that the loop got past by going on."""
    at_end = ("unreadable", "misread")
    return [one for one in setbacks if one.kind in ("request", *_FAILED) or (one.kind in at_end and one.event == trial.last_at)]


def _worst(trial: TracedTrial, setbacks: Sequence[Setback]) -> LossFinding | None:
    """Return the cause that most of the setbacks have, the latest among equals."""
    if not setbacks:
        return None
    causes = [_cause(trial, one) for one in setbacks]
    cause = _commonest(causes, "other")
    mine = [one for one, its in zip(setbacks, causes, strict=True) if its == cause]
    what = _commonest([one.what for one in mine], "")
    kind = [one.kind for one in mine if one.what == what][-1]
    same = [one for one in mine if (one.kind, one.what) == (kind, what)]
    return LossFinding(cause, without_bytes(_in_words(trial, same)), [one.event for one in same], _behind(trial, same))


def _behind(trial: TracedTrial, setbacks: Sequence[Setback]) -> list[str]:
    """Return the kinds of fault that setbacks suffered; for noise as an argument, that of the call that gave it."""
    return [one.fault or trial.fault_of_call(one.event) or (GARBAGE if trial.damaged_source(one.event) else "") for one in setbacks]


def _cause(trial: TracedTrial, setback: Setback) -> Cause:
    if setback.kind in ("unreadable", "misread"):
        return "parse"
    if setback.fault == NEVER_FINISH or setback.kind == "no call":
        return "termination"
    if setback.kind in _FAILED and trial.hides_error(setback.event):
        return "error not shown"
    if setback.fault in WRONG_CALLS or (setback.kind == "not run" and not trial.damaged_source(setback.event)):
        return "tool argument"
    return "lost observation" if setback.kind == "repeated" else "fault not recovered"


_SAYS = {
    "unreadable": "{replies} could not be read{fault}{then}",
    "misread": "{replies} {were} spoiled{fault} and read as something else",
    "request": "the provider failed at {replies}{because}{then}",
    "failed run": "{what} failed {times}{because}{then}",
    "not run": "{believed}the call {what} could not be run {times}{because}{then}",
    "no call": "{replies} made no call and gave no answer",
}
"""What is said of setbacks of a kind."""
MIN_NUMBERS = 4
"""Replies that are named one by one."""


def _in_words(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Describe one or more setbacks of one kind and matter, in time."""
    kind, place, what, why, fault, _ = same[-1]
    numbers = [trial.number(one.event) for one in same]
    if fault == NEVER_FINISH:
        return f"called {same[0].what} at reply {numbers[0]}, instead of answering"
    if kind == "repeated":
        if fault in WRONG_CALLS:
            return f"called {what} with {WRONG_CALLS[fault]}, {times(len(same) + 1)}"
        cut = next((number for one, number in zip(same, numbers, strict=True) if trial.was_cut_out(one.event)), None)
        if cut is not None:
            return f"called {what} again at reply {cut}, whose result had been cut out of the prompt"
        when = f"at reply {numbers[0]}" if len(same) == 1 else f"{times(len(same))}, first at reply {numbers[0]}"
        return f"called {what} again {when}, although the prompt showed its result"
    replies = f"reply {numbers[0]}" if len(same) == 1 else f"replies {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    if len(numbers) > MIN_NUMBERS:
        replies = f"{len(numbers)} replies, from {numbers[0]} to {numbers[-1]},"
    said = "" if why == NOT_RUN else shortened(why)
    reason = ": ".join(part for part in ("" if said.startswith(fault) else fault, said) if part)  # a provider's error is its kind
    source = trial.damaged_source(place)
    return _SAYS[kind].format(
        replies=replies,
        what=what,
        times=times(len(same)),
        were="was" if len(same) == 1 else "were",
        fault=f" ({fault})" if fault else "",
        because=f" ({reason})" if reason else "",
        believed=f"believed the damaged result of {call_text(source)} ({GARBAGE}), and passed it on: " if source else "",
        then=_what_followed(trial, same),
    )


_ENDINGS: Mapping[str | None, str] = {
    StopReason.MAX_STEPS: "then the limit was reached",
    StopReason.FORCED: "then the limit was reached",
    StopReason.UNFINISHED: "then the one turn was over",
    StopReason.ERROR_VALVE: "then the error valve ended the run",
}
"""How a run ends that the loop did not end itself; else it did not ask again."""


def _what_followed(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Say whether the model was told, and asked again."""
    untold = "" if all(map(trial.was_told, same)) else "; the next prompt did not show the error"
    ending = ""
    if not any(ask.role in CHOOSING or ask.role == same[-1].what for _, ask in trial.asks_after(same[-1].event)):
        gave_up = "the loop did not ask again" if len(same) == 1 else "the loop gave up"
        ending = f"; then {_gave_up_early(trial)}" if trial.steps_left else f"; {_ENDINGS.get(trial.stop, gave_up)}"
    return f"{untold}{ending}"


def _gave_up_early(trial: TracedTrial) -> str:
    return f"the loop ended ({trial.stop}) {counted(trial.steps_left, 'step')} before its limit"


# --- the end ---


def _lost_sight(trial: TracedTrial) -> LossFinding | None:
    """The last prompt lacked the question, or results that both courses had."""
    latest = {ask.role: at for at, ask in trial.asks if ask.role in ANSWERING}
    if not latest or trial.stop not in (StopReason.FINISHED, StopReason.FORCED):
        return None
    last = max(latest.values())
    if trial.head.query and not shows([text for at in latest.values() for text in trial.prompts[at]], trial.head.query):
        return LossFinding("lost observation", f"the prompt of reply {trial.number(last)} no longer showed the question")
    runs = dict(trial.runs)
    for place, step in enumerate(trial.course):
        was_seen = place not in trial.unmatched and step.gave_result and step.event is not None and step.event < last
        if was_seen and not any(trial.is_shown(runs[step.event or 0], at) for at in latest.values()):
            detail = f"answered at reply {trial.number(last)}, when the prompt no longer showed the result of {step.text}"
            return LossFinding("lost observation", detail)
    return None


_STOPS: Mapping[str, tuple[Cause, str]] = {
    StopReason.MAX_STEPS: ("termination", "the limit was reached (max_steps)"),
    StopReason.FORCED: ("termination", "the limit was reached, and an answer was asked for (forced)"),
    StopReason.UNFINISHED: ("termination", "the one turn was over (unfinished)"),
    StopReason.ERROR_VALVE: ("termination", "the error valve ended the run"),
    StopReason.PARSE_FAILED: ("parse", "the run ended with stop parse_failed"),
    StopReason.PROVIDER_ERROR: ("fault not recovered", "the run ended with stop provider_error"),
    StopReason.RECOVERY_FAILED: ("fault not recovered", "the run ended with stop recovery_failed"),
}


def _ended(trial: TracedTrial) -> LossFinding | None:
    """The loop did not finish, or answered with calls of the other course left."""
    last, stop = f"reply {len(trial.asks)}", trial.stop
    if trial.is_finished:
        fewer = len(trial.other) - len(trial.course)
        if trial.left_out and all(step.call is None for step in trial.course):
            said = f"answered at {last} and made no call; the other course called {trial.left_out[0].text}"
        elif trial.left_out:
            said = f"answered at {last} and never called {trial.left_out[0].text}"
        elif fewer > 0 and not trial.other_course:
            said = f"answered at {last}, {counted(fewer, 'step')} before the other course"
        else:
            return None
        return LossFinding("termination", said)
    failed = [one for one in trial.setbacks if one.kind in _FAILED]
    unreadable = [ask.fault for _, ask in trial.asks if ask.wire_error is not None]
    spent = (
        (len(unreadable), "reply that could not be read", "replies that could not be read"),
        (len(failed), "call that failed", "calls that failed"),
        (len(trial.repeated), "call made again", "calls made again"),
    )
    spent_on = ", ".join(counted(*each) for each in spent if each[0])
    met = sorted({fault.kind for fault in trial.record.faults if fault.landed and not fault.absorbed})
    on_the_way = f"; used up on the way: {spent_on}" if spent_on else f"; met on the way: {', '.join(met)}" if met else ""
    if not stop:
        after = f" after {last}" if trial.asks else ""
        said = NO_CONTENT if trial.trace.lacks_content else f"the trace does not say how the run ended{after}{on_the_way}"
        return LossFinding("other", said)
    cause, how = _STOPS.get(stop, ("termination", f"the run ended with stop {stop}"))
    how = _gave_up_early(trial) if trial.steps_left else how
    at = f" at {last}" if trial.asks else ""
    return LossFinding(cause, f"{how}{at}{on_the_way}", faults=[*unreadable, *_behind(trial, failed)] if spent_on else met)


RULES: Sequence[Callable[[TracedTrial], LossFinding | None]] = (
    _broken_off,  # time limit, budget, crash, termination
    _obeyed,  # obeyed instruction
    _refused,  # answer refused
    altered,  # altered, dropped and added call, altered result and answer; also what else the loop left out
    _early,  # termination
    _untold,  # error not shown, parse
    # it did not finish: what went wrong most often after its last new result
    lambda trial: None if trial.is_finished else _worst(trial, _standing(trial, trial.last_new)),
    _misread,  # parse
    _never_recovered,  # the fault's kind says it
    # it finished: what went wrong after its last new result
    lambda trial: _worst(trial, _lasting(trial, _standing(trial, trial.last_new))) if trial.is_finished else None,
    _again,  # lost observation
    _argument,  # tool argument
    _never_put_right,
    _lost_sight,  # lost observation
    _ended,  # termination, or what the stop names
    lambda trial: LossFinding("other", f"answered {quoted(trial.head.answer)}"),  # the same calls, and another answer
)
