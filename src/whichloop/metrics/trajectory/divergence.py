"""Where two trials of one task part, and why the one that was not solved was lost.

Every cause is read off the loser's own trace, and for a scripted trial the faults of its record. The other course, where there is
one, tells what was no obstacle, since it stands there too. `RULES` are asked in order, and the first that has something to say is
believed; no rule knows another.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from whichloop.metrics.trace import GARBAGE, NO_CONTENT, ModelExchange, Note, ToolRun, TracedCall
from whichloop.protocol import Role, StopReason, render_value
from whichloop.protocol.receipts import MARK, Side, Sighting, bare, common_start, receipt_of, sightings, strip_receipts
from whichloop.protocol.values import counted, one_line

from .causes import Cause, Divergence, Loss
from .traced_trial import NEVER_FINISH, PLANNING, WRONG_CALLS, Setback, TracedTrial, WrittenCall
from .trajectory import CHOOSING, MIN_WORDS, NOT_RUN, WORD, Prompt, TracedStep, call_text, shortened, shows, unmatched

Item = TypeVar("Item")


class Finding(NamedTuple):
    """What a rule has to say."""

    cause: Cause
    detail: str
    events: Sequence[int] = ()
    """What it is about; empty: the end."""
    faults: Sequence[str] | None = None
    """The kinds of fault that it came from, in time, as often as each struck; None: those of its events."""


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
    parted = first_difference(trial.other, [step.signature for step in trial.course])
    if parted is None:
        return None
    loss, of = explain(trial), trial.record
    at = min(parted, len(trial.course))
    return Divergence(winner, of.arm, of.task, of.repeat, loss.step, at, loss.cause, loss.detail, trial.head.stop, loss.fault)


def explain(trial: TracedTrial) -> Loss:
    """Return why a trial was lost. The step is the first that the cause is about, else the last, whatever the other course."""
    found = next(finding for rule in RULES if (finding := rule(trial)) is not None)  # the last rule always has something to say
    step = next((number for number, step in enumerate(trial.course, 1) if step.event in set(found.events)), len(trial.course))
    kinds = [kind for kind in (_faults_of(trial, found.events) if found.faults is None else found.faults) if kind]
    return Loss(found.cause, found.detail, step, _commonest(kinds) if kinds else "")


def ended_unread(trial: TracedTrial) -> bool:
    """Whether the loop gave up at a reply that it could not read: the last one, after which nothing was done, nor answered."""
    place, last = trial.last_ask
    if last is None or last.wire_error is None or trial.is_finished:
        return False
    return not any(isinstance(event, ToolRun) for event in trial.events[place:])


def _commonest(items: Sequence[Item]) -> Item:
    """Return the most frequent item, the latest among equals."""
    often = Counter(items)
    return max(reversed(items), key=lambda item: often[item])


def _faults_of(trial: TracedTrial, places: Sequence[int]) -> list[str]:
    return [event.fault for place in places if not isinstance(event := trial.events[place], Note)]


# --- what the end tells ---

_SPENT: Mapping[str | None, tuple[Cause, str]] = {
    StopReason.TIMEOUT: ("time limit", "it reached the trial's time limit at"),
    StopReason.BUDGET: ("budget", "its budget was used up at"),
    StopReason.CONTEXT_OVERFLOW: ("budget", "the prompt no longer fitted the model's context at"),
    StopReason.CRASHED: ("crash", "the loop crashed after"),
    StopReason.CANCELLED: ("termination", "the loop cancelled itself after"),
}


def _broken_off(trial: TracedTrial) -> Finding | None:
    """A limit of the trial was reached (time limit, budget), or an exception left the loop (crash)."""
    place, last = trial.last_ask
    overflowed = last is not None and last.error is not None and last.error.kind == StopReason.CONTEXT_OVERFLOW
    stop = StopReason.CONTEXT_OVERFLOW if overflowed else trial.head.stop
    if stop not in _SPENT:
        return None
    cause, how = _SPENT[stop]
    reason = f" ({shortened(strip_receipts(trial.record.reason))})" if trial.record.reason else ""
    at = [] if place is None or cause in ("crash", "termination") else [place]
    return Finding(cause, f"{how} reply {len(trial.asks)}{reason}", at)


def _obeyed(trial: TracedTrial) -> Finding | None:
    """An instruction in a result asked for an answer, or to stop, and the scripted model obeyed it."""
    asked = (at for at, run in trial.runs if run.fault in ("inject.answer", "inject.stop") and trial.is_open(run.fault))
    return next((_of_fault(trial, at) for at in asked), None)


def _refused(trial: TracedTrial) -> Finding | None:
    """The last reply stated an answer that could be read, and the loop did not take it."""
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
    stated = _quoted(last.move.get("value", last.move.get("text")))
    return Finding("answer refused", f"answer refused: {_misfit(problem)}; reply {last.number} stated {stated}", [place])


_MISFIT = re.compile(
    r"(?:not of type '|(?:must|should) be an? (?:valid |JSON )?)(\w+)|'([^']+)' is a required property|([\w.]+): Field required"
)


def _misfit(problem: str) -> str:
    """Return what jsonschema or pydantic found wrong with an answer, in a fixed form; else what was said."""
    if not (found := _MISFIT.search(problem)):
        return shortened(strip_receipts(problem))
    kind, *names = found.groups("")
    return f"not {'an' if kind[0] in 'aeiou' else 'a'} {kind}" if kind else f"missing field {''.join(names)}"


# --- what the loop altered between the model and its tools ---


def _altered(trial: TracedTrial) -> Finding | None:
    """The loop itself changed, left out or made up a call, a result or the answer: the first such, as others may come of it."""
    found = alterations(trial)
    if not found:
        return None
    also = sum(each.cause == found[0].cause for each in found) - 1
    return found[0]._replace(detail=f"{found[0].detail}; the same happened {_times(also)} more") if also else found[0]


def alterations(trial: TracedTrial) -> list[Finding]:
    """Return what the loop altered, in time; of calls and the answer only where a codec says what the model wrote.

    A sound loop may run a call again that failed, fill in an argument, or turn the text "5" into the number that a tool asks for;
    that is not an alteration as long as the call gave a result.
    """
    return sorted(chain(_of_calls(trial), _of_results(trial), _of_answer(trial)), key=lambda each: each.events[0])


def _of_calls(trial: TracedTrial) -> Iterator[Finding]:
    if trial.matched is None:
        return
    for at, run, written, is_own, was_written, before in trial.matched.runs:
        called = f"the loop called {call_text(run.call)}"
        if written is not None:
            if written.call.key != run.call.key and not _is_fitting(run, written.call):
                yield Finding("altered call", f"{called}, where {_wrote(trial, written)}", [at])
        elif not is_own and before is not None and before.gave_result:
            yield Finding("added call", f"{called} again by itself, though it had given a result", [at])
        elif not is_own and not was_written and not _was_unreadable(trial, at):
            yield Finding("added call", f"{called}, which the model did not write", [at])
    ran = {run.call.key for _, run in trial.runs}
    for each in trial.matched.passed_over:
        if _is_worth_running(trial, each) and (each.call.key not in ran or not trial.is_finished):
            detail = f"the loop never ran {call_text(each.call)}, which the model wrote at {_by(trial, each.event)}, and went on"
            yield Finding("dropped call", detail, [each.event])


def _by(trial: TracedTrial, place: int) -> str:
    """Return the reply that decided on an event, by its number."""
    return f"reply {_number(trial, place)}"


def _number(trial: TracedTrial, place: int) -> int:
    ask = trial.decider(place)
    return 0 if ask is None else ask.number


def _wrote(trial: TracedTrial, written: WrittenCall) -> str:
    return f"the model wrote {call_text(written.call)} at {_by(trial, written.event)}"


def _was_unreadable(trial: TracedTrial, place: int) -> bool:
    """Whether the deciding reply before a run could not be read: the loop may have read it more generously than the codec."""
    before = [ask for at, ask in trial.asks if at < place and ask.role in CHOOSING]
    return bool(before) and before[-1].wire_error is not None


def _is_fitting(run: ToolRun, written: TracedCall) -> bool:
    """Whether a run is of the written call all the same: it gave a result, and what was written was only added to or parsed."""
    ran, wrote = run.call.arguments, written.arguments
    if run.call.tool != written.tool or not run.gave_result or not isinstance(ran, Mapping) or not isinstance(wrote, Mapping):
        return False
    return all(name in ran and _is_read_as(value, ran[name]) for name, value in wrote.items())


def _is_read_as(written: Any, ran: Any) -> bool:
    """Whether a value ran as it was written, or was read out of the text that was written."""
    if type(written) is type(ran) or (isinstance(written, int | float) and isinstance(ran, int | float)):
        return bool(written == ran)
    return isinstance(written, str) and written.strip().lower() == render_value(ran).lower()


def _is_worth_running(trial: TracedTrial, written: WrittenCall) -> bool:
    """Whether a call that was written and not run was worth running: the other course took it, or no fault made it up."""
    if any(step.call.key == written.call.key for step in trial.other_course if step.call is not None and step.gave_result):
        return True
    fault = trial.events[written.event].fault  # type: ignore[union-attr]
    return trial.is_scripted and fault not in WRONG_CALLS and not fault.startswith("wire.")


MIN_SHOWN, MAX_SHOWN = 12, 80
"""Characters by which the beginning of a result is known: a design may show no more than that; and of a prompt that are quoted."""
_DIGIT, _DIGITS = re.compile(r"\d"), re.compile(r"\d+")
_sightings = lru_cache(maxsize=1024)(sightings)
"""Kept: a trial's prompts repeat their messages."""


def _of_results(trial: TracedTrial) -> Iterator[Finding]:
    receipts = {receipt for _, run in trial.runs for receipt in _receipts(run)}
    results = {run.result.replace("\\", "") for _, run in trial.runs}
    for at, run in trial.runs:
        call, gave = call_text(run.call), _quoted(run.result)
        prompt = next((trial.prompts[asked] for asked, ask in trial.asks_after(at) if ask.role in PLANNING), None)
        shown = None if prompt is None else _shown_instead(prompt, run, receipts, results)
        if shown is not None:
            yield Finding("altered result", f"{call} gave {gave}, and the loop showed the model {_quoted(shown)}", [at])
        elif (run.gave_result or (trial.is_scripted and not run.fault)) and not _is_ever_shown(trial, at, run):
            # an error that is a fault is told where it cost the trial
            cause: Cause = "lost observation" if run.gave_result else "error not shown"
            yield Finding(cause, f"the loop never showed the model what {call} gave, {gave}", [at])
    happened = [at for at, event in enumerate(trial.events) if not isinstance(event, Note)]
    if trial.head.stop == StopReason.ERROR_VALVE and trial.runs and happened[-1] == trial.runs[-1][0]:
        at, run = trial.runs[-1]
        if run.gave_result:
            detail = f"the error valve ended the run when {call_text(run.call)} had given {_quoted(run.result)}"
            yield Finding("lost observation", detail, [at])


def _is_ever_shown(trial: TracedTrial, place: int, run: ToolRun) -> bool:
    """Whether a prompt that should shows what a run gave, or its beginning; also where there is no such prompt."""
    asked = trial.later_prompts(place)
    if not run.ok:
        return not asked or any(trial.tells(place, at) for at in asked)
    return not asked or any(trial.is_shown(run, at) or _shows_beginning(trial.prompts[at], run) for at in asked)


def _receipts(run: ToolRun) -> set[str]:
    """Return the receipts that a result has marks of, as CALL.CONTENT."""
    return {receipt_of(mark) for mark in MARK.finditer(run.data)}


def _beside_receipts(prompt: Prompt) -> Iterator[tuple[str, Sighting]]:
    """Yield what stands beside the marks of receipts, with CALL.CONTENT."""
    for message in prompt:
        for call, seen in _sightings(message).items():
            yield from ((f"{call}.{one.content}", one) for one in seen)


def _shows_beginning(prompt: Prompt, run: ToolRun) -> bool:
    """Whether a prompt shows where a result begins or ends: beside a mark of its receipt, or anywhere if it has no such mark."""
    own = _receipts(run)
    beside = [(one.side, bare(one.text)) for receipt, one in _beside_receipts(prompt) if receipt in own]
    if not beside:
        return shows(prompt, run.result.strip()[:MIN_SHOWN])
    start, end = bare(run.result)[:MIN_SHOWN], bare(run.result)[-MIN_SHOWN:]
    return any((side != "back" and text.startswith(start)) or (side != "front" and text.endswith(end)) for side, text in beside)


def _shown_instead(prompt: Prompt, run: ToolRun, receipts: set[str], results: set[str]) -> str | None:
    """Return what a prompt shows in the place of a result; None if it shows the result, or nothing that is recognised as its place.

    The place is where a receipt stands that no result has; or where a text stands that is the result but for its digits: beside its
    own receipt, or anywhere if the prompt has none of it. `receipts`: those of the trial's results; `results`: without backslashes.
    """
    own = _receipts(run)
    beside = [(one.text, one.side) for receipt, one in _beside_receipts(prompt) if receipt in own]
    if beside:
        altered = [text for text, side in beside if _is_changed(bare(text), side, bare(run.result))]
        return altered[-1][-MAX_SHOWN:] if len(altered) == len(beside) else None
    if own:
        unknown = [one.text for receipt, one in _beside_receipts(prompt) if receipt not in receipts]
        if unknown:
            return unknown[-1][-MAX_SHOWN:]
    if shows(prompt, run.result) or len(WORD.findall(run.result)) < MIN_WORDS:
        return None
    forms = (run.result.strip(), json.dumps(run.result, ensure_ascii=False)[1:-1])
    like = re.compile("|".join(r"\d+".join(re.escape(part) for part in _DIGITS.split(form)) for form in forms))
    texts = (match[0] for message in prompt for match in like.finditer(message))
    return next((text for text in texts if text.replace("\\", "") not in results), None)


def _is_changed(shown: str, side: Side, given: str) -> bool:
    """Whether what stands beside a result's receipt is the result with other digits, both texts without white space.

    Beside a single mark the result may be cut, so that the last characters in common may be those of what follows.
    """
    if side == "both":
        return shown != given and _DIGITS.sub("0", shown) == _DIGITS.sub("0", given)
    if side == "back":
        shown, given = shown[::-1], given[::-1]
    alike = common_start(_DIGIT.sub("0", shown), _DIGIT.sub("0", given))
    sure = alike if alike == len(given) else alike - MIN_SHOWN
    return sure > 0 and shown[:sure] != given[:sure]


_ANSWERING = frozenset({*CHOOSING, Role.ANSWER.value, Role.SUMMARIZE.value, Role.FORMAT.value})
"""Roles whose replies may state the answer."""


def _of_answer(trial: TracedTrial) -> Iterator[Finding]:
    place, last = trial.last_ask
    if place is None or last is None or trial.matched is None:
        return
    if not trial.is_finished:
        yield from _ignored(trial)
        return
    ran = {run.call.key for _, run in trial.runs}
    left = next((each for each in trial.matched.waiting if each.call.key not in ran and _is_worth_running(trial, each)), None)
    if left is not None and left.event != place:  # another request followed, such as one that states the answer
        detail = f"the loop never ran {call_text(left.call)}, which the model wrote at {_by(trial, left.event)}, and ended the run"
        yield Finding("termination", detail, [left.event])
        return
    replies = [ask for _, ask in trial.asks if ask.role in _ANSWERING and ask.reply is not None]
    stated = [value for ask in replies for value in _stated(ask)]
    given = _line_of(trial.head.answer)
    if any(given == _line_of(value) for value in (*stated, *(ask.reply for ask in replies))):
        return
    answered = f"the loop answered {_quoted(trial.head.answer)}"
    if stated:
        yield Finding("altered answer", f"{answered}, where the model wrote {_quoted(stated[-1])}", [place])
    elif last.calls:
        detail = f"{answered} at reply {last.number}, where the model wrote {call_text(last.calls[0])}"
        yield Finding("termination", detail, [place])
    elif last.wire_error is None:
        yield Finding("altered answer", f"{answered}, though no reply stated an answer", [place])


def _ignored(trial: TracedTrial) -> Iterator[Finding]:
    """Yield the answer that the model gave more than once, in a run that never ended with it."""
    stated = [(at, _line_of(ask.value)) for at, ask in trial.asks if ask.role == Role.DECIDE and ask.value is not None]
    often = Counter(answer for _, answer in stated)
    for at, answer in stated:
        if often[answer] > 1:
            detail = f"the model answered {_quoted(answer)} {_times(often[answer])}, and the loop went on"
            yield Finding("termination", detail, [at])
            return


def _stated(ask: ModelExchange) -> Iterator[Any]:
    """Yield what a reply stated as the answer."""
    if ask.move_kind == "answer" and ask.value is not None:
        yield ask.value
    elif ask.move_kind == "text" and ask.move is not None:
        yield ask.move.get("text")


def _line_of(value: Any) -> str:
    return one_line(render_value(value))


# --- what blocked it, and what was never put right ---

_ENDED_EARLY = frozenset({"decision.early_finish", "decision.no_tool", "weakness.step"})
_HARMLESS = frozenset(
    {"decision.forget", "decision.repeated_call", NEVER_FINISH, "tool.slow", "tool.huge", "calls.late", "calls.same_ids"}
)
"""Kinds that no wrong answer comes from by itself: what they cost is a step, or room in the prompt."""


def _early(trial: TracedTrial) -> Finding | None:
    """A scripted model answered before its work was done."""
    chosen = [(place, ask) for place, ask in trial.asks if ask.role in CHOOSING]
    if not chosen or chosen[-1][1].fault not in _ENDED_EARLY or not trial.is_open(chosen[-1][1].fault):
        return None
    return Finding("termination", f"answered at reply {chosen[-1][1].number}, before its work was done", [chosen[-1][0]])


def _untold(trial: TracedTrial) -> Finding | None:
    """A limit was reached, and most of what went wrong before was never told to the model, put right or not."""
    if trial.head.stop not in (StopReason.MAX_STEPS, StopReason.FORCED):
        return None
    errors = [one for one in trial.setbacks if one.kind in ("unreadable", "failed run", "not run")]
    untold = [(one.kind, one.what) for one in errors if not trial.was_told(one)]
    is_most = 2 * len(untold) > len(trial.setbacks)
    return _worst(trial, [one for one in errors if (one.kind, one.what) in untold]) if is_most else None


def _blocked(trial: TracedTrial) -> Finding | None:
    """The loop did not finish: what went wrong most often after its last new result, but for replies of a scripted model that had
    nothing to say in the form asked for."""
    return None if trial.is_finished else _worst(trial, [one for one in _standing(trial, trial.last_new) if one.kind != "unfit"])


def _misread(trial: TracedTrial) -> Finding | None:
    """The last reply was spoiled and read as something else, and only the answer was missing."""
    read = [(place, ask) for place, ask in trial.asks if ask.error is None and ask.wire_error is None]
    if not read or not (trial.is_finished or (trial.other_course and not _calls_left_out(trial))):
        return None
    place, ask = read[-1]
    if not ask.fault.startswith("wire.") or not trial.is_open(ask.fault, ask.role):
        return None
    return Finding("parse", f"reply {ask.number} was spoiled ({ask.fault}) and read as {_quoted(trial.head.answer)}", [place])


def _never_recovered(trial: TracedTrial) -> Finding | None:
    """Of a scripted model: the first fault that was never put right, and that wrong answers come from."""
    for place, event in enumerate(trial.events):
        if isinstance(event, Note) or not event.fault or event.fault in _HARMLESS or event.fault.startswith("wire."):
            continue
        if trial.is_open(event.fault, event.role if isinstance(event, ModelExchange) else ""):
            return _of_fault(trial, place)
    return None


def _of_fault(trial: TracedTrial, place: int) -> Finding:
    event = trial.events[place]
    assert not isinstance(event, Note)
    if event.fault == "calls.too_early":
        detail = f"a call stood in one reply with those whose effect it needs ({event.fault}), and ran before they were done"
        return Finding("fault not recovered", detail, [place])
    if isinstance(event, ToolRun):
        call = call_text(event.call)
        if event.fault == "tool.lies":
            detail = f"{call} gave a false result, {shortened(event.result)}, and nothing set it right"
            return Finding("fault not recovered", detail, [place])
        if event.fault.startswith("inject."):
            detail = f"the result of {call} carried an instruction ({event.fault}), and the model obeyed it"
            return Finding("obeyed instruction", detail, [place])
        if trial.hides_error(place):
            detail = f"{call} failed ({event.fault}), and the loop did not show the model its error, {_quoted(event.result)}"
            return Finding("error not shown", detail, [place])
        runs = [at for at, run in trial.runs if run.call.key == event.call.key and run.fault]
        return Finding("fault not recovered", f"{call} failed {_times(len(runs))} ({event.fault}) and never got through", runs)
    reply = f"reply {event.number}"
    if event.fault in WRONG_CALLS:
        called = f" called {call_text(event.calls[0])}" if event.calls else ""
        made = [at for at, _ in trial.runs if trial.decider(at) is event]
        return Finding("tool argument", f"{reply}{called} with {WRONG_CALLS[event.fault]}", [place, *made])
    if event.fault in _ENDED_EARLY:
        return Finding("termination", f"{reply} left out work that was to be done", [place])
    if event.fault == "weakness.answer":
        return Finding("answer form", f"{reply} stated the answer in another form")
    why = "" if event.error is None else f", {shortened(event.error[1])}"
    return Finding("fault not recovered", f"the provider failed at {reply} ({event.fault}{why})", [place])


def _gave_up(trial: TracedTrial) -> Finding | None:
    """The loop finished: what went wrong after its last new result."""
    return _worst(trial, _lasting(trial, _standing(trial, trial.last_new))) if trial.is_finished else None


def _again(trial: TracedTrial) -> Finding | None:
    """Calls were made again that had given a result: in a trial that finished, or more often than anything else went wrong."""
    again = [one for one in _standing(trial) if one.kind == "repeated"]
    unreadable = sum(ask.wire_error is not None for _, ask in trial.asks)
    is_most = trial.is_finished or len(again) >= max(1, unreadable, len(_failed_calls(trial)))
    return _worst(trial, again) if is_most else None


def _argument(trial: TracedTrial) -> Finding | None:
    """The loop finished: a tool was called with other arguments than in the other course, and gave another result."""
    if not trial.is_finished:
        return None
    alone = unmatched([step.signature for step in trial.course], [step.signature for step in trial.other_course])
    own_calls = {step.call.key for step in trial.course if step.call is not None}
    others = [step for place, step in enumerate(trial.other_course) if place in alone and _could_run(step)]
    for place, step in enumerate(trial.course):
        if place not in trial.unmatched or step.call is None or step.event is None:
            continue
        meant = [other for other in others if other.call and other.call.tool == step.call.tool and other.call.key not in own_calls]
        if meant and not any(_gave_the_same(trial, step, other) for other in meant):
            return Finding("tool argument", f"called {step.text}, where the other course called {meant[0].text}", [step.event])
    return None


_TELLING = re.compile(r"\d|\w+\W+\w+\W+\w+\W+\w+")
"""A result that tells something: a number, or several words. A bare `ok` tells nothing of what was done."""


def _gave_the_same(trial: TracedTrial, step: TracedStep, other: TracedStep) -> bool:
    """Whether two calls told the model the same, so that arguments made no difference; not where an end state is judged."""
    tells = _TELLING.search(step.observed) is not None
    return step.gave_result and tells and step.observed == other.observed and "state" not in trial.head.scores


def _never_put_right(trial: TracedTrial) -> Finding | None:
    """What went wrong anywhere and was never put right."""
    left = _standing(trial)
    left = _lasting(trial, left) if trial.is_finished else [one for one in left if one.kind not in ("unfit", "repeated", "no call")]
    return _worst(trial, [one for one in left if one.kind != "not run" or one.fault])


def _unfit(trial: TracedTrial) -> Finding | None:
    """A scripted model had nothing to say in the form asked for."""
    return _worst(trial, [one for one in _standing(trial, trial.last_new) if one.kind == "unfit"])


def _standing(trial: TracedTrial, since: int = -1) -> list[Setback]:
    return [one for one in trial.setbacks if one.stands and one.event > since]


def _lasting(trial: TracedTrial, setbacks: Sequence[Setback]) -> list[Setback]:
    """Return the setbacks without those that the loop got past by going on."""
    last, _ = trial.last_ask
    calls, replies = ("request", "failed run", "not run"), ("unreadable", "misread")
    return [one for one in setbacks if one.kind in calls or (one.kind in replies and one.event == last)]


def _worst(trial: TracedTrial, setbacks: Sequence[Setback]) -> Finding | None:
    """Return the cause that most of the setbacks have, the latest among equals."""
    if not setbacks:
        return None
    causes = [_cause(trial, one) for one in setbacks]
    cause = _commonest(causes)
    mine = [one for one, its in zip(setbacks, causes, strict=True) if its == cause]
    what = _commonest([one.what for one in mine])
    main = [one for one in mine if one.what == what][-1]
    same = [one for one in mine if (one.kind, one.what) == (main.kind, main.what)]
    faults = [one.fault or _fault_behind(trial, one.event) for one in same]
    return Finding(cause, without_bytes(_in_words(trial, same)), [one.event for one in same], faults)


def _fault_behind(trial: TracedTrial, place: int) -> str:
    """Return the kind of fault that a call suffered; for noise as an argument, that of the call that gave it."""
    return trial.fault_of_call(place) or (GARBAGE if trial.damaged_source(place) else "")


def _cause(trial: TracedTrial, setback: Setback) -> Cause:
    if setback.kind in ("unreadable", "unfit", "misread"):
        return "parse"
    if setback.fault == NEVER_FINISH or setback.kind == "no call":
        return "termination"
    if setback.kind in ("failed run", "not run") and trial.hides_error(setback.event):
        return "error not shown"
    if setback.fault in WRONG_CALLS or (setback.kind == "not run" and not trial.damaged_source(setback.event)):
        return "tool argument"
    return "lost observation" if setback.kind == "repeated" else "fault not recovered"


# --- in words ---

_ILLEGIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]+")
MIN_NUMBERS = 4
"""Replies that are named one by one."""


def without_bytes(text: str) -> str:
    """Return a text with an ellipsis for each run of what is no text: control characters, and bytes that could not be read."""
    return _ILLEGIBLE.sub("…", text)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _quoted(value: Any) -> str:
    return repr(shortened(render_value(value)))


def _in_words(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Describe one or more setbacks of one kind and matter, in time."""
    kind, place, what, why, fault, _ = same[-1]
    numbers = [_number(trial, one.event) for one in same]
    listed = ", ".join(map(str, numbers[:-1]))
    replies = f"replies {listed} and {numbers[-1]}" if listed else f"reply {numbers[0]}"
    if len(numbers) > MIN_NUMBERS:
        replies = f"{len(numbers)} replies, from {numbers[0]} to {numbers[-1]},"
    said = "" if why == NOT_RUN else shortened(why)
    reason = ": ".join(part for part in ("" if said.startswith(fault) else fault, said) if part)  # a provider's error is its kind
    because = f" ({reason})" if reason else ""
    if fault == NEVER_FINISH:
        return f"called {same[0].what} at reply {numbers[0]}, instead of answering"
    if kind in ("unreadable", "unfit"):
        return f"{replies} could not be read{f' ({fault})' if fault else ''}{_what_followed(trial, same)}"
    if kind == "misread":
        return f"{replies} {'was' if len(same) == 1 else 'were'} spoiled ({fault}) and read as something else"
    if kind == "request":
        return f"the provider failed at {replies}{because}{_what_followed(trial, same)}"
    if kind == "failed run":
        return f"{what} failed {_times(len(same))}{because}{_what_followed(trial, same)}"
    if kind == "not run":
        source = trial.damaged_source(place)
        believed = f"believed the damaged result of {call_text(source)} ({GARBAGE}), and passed it on: " if source else ""
        return f"{believed}the call {what} could not be run {_times(len(same))}{because}{_what_followed(trial, same)}"
    if kind == "no call":
        return f"{replies} made no call and gave no answer"
    if fault in WRONG_CALLS:
        return f"called {what} with {WRONG_CALLS[fault]}, {_times(len(same) + 1)}"
    cut = next((number for one, number in zip(same, numbers, strict=True) if trial.was_cut_out(one.event)), None)
    if cut is not None:
        return f"called {what} again at reply {cut}, whose result had been cut out of the prompt"
    when = f"at reply {numbers[0]}" if len(same) == 1 else f"{_times(len(same))}, first at reply {numbers[0]}"
    return f"called {what} again {when}, although the prompt showed its result"


_ENDINGS = {
    StopReason.MAX_STEPS.value: "then the limit was reached",
    StopReason.FORCED.value: "then the limit was reached",
    StopReason.UNFINISHED.value: "then the one turn was over",
    StopReason.ERROR_VALVE.value: "then the error valve ended the run",
}
"""How a run ends that the loop did not end itself; else it did not ask again."""


def _what_followed(trial: TracedTrial, same: Sequence[Setback]) -> str:
    """Say whether the model was told, and asked again; and how much more often in the other course."""
    untold = "" if all(map(trial.was_told, same)) else "; the next prompt did not show the error"
    ending = ""
    if not any(ask.role in CHOOSING or ask.role == same[-1].what for _, ask in trial.asks_after(same[-1].event)):
        gave_up = "the loop did not ask again" if len(same) == 1 else "the loop gave up"
        ending = f"; then {_gave_up_early(trial)}" if trial.steps_left else f"; {_ENDINGS.get(trial.head.stop or '', gave_up)}"
    about = {one.event for one in same}
    signatures = {step.signature for step in trial.course if step.event in about}
    own = sum(step.signature in signatures for step in trial.course)
    more = sum(signature in signatures for signature in trial.other) - own
    return f"{untold}{ending}{f'; the other course tried {_times(more)} more' if more > 0 else ''}"


def _gave_up_early(trial: TracedTrial) -> str:
    """Return that a loop ended by itself before the limit that it says it reached."""
    return f"the loop ended ({trial.head.stop}) {counted(trial.steps_left, 'step')} before its limit"


# --- the end ---


def _lost_sight(trial: TracedTrial) -> Finding | None:
    """The last prompt lacked the question, or results that both courses had."""
    latest = {ask.role: place for place, ask in trial.asks if ask.role in _ANSWERING}
    if not latest or trial.head.stop not in (StopReason.FINISHED, StopReason.FORCED):
        return None
    place = max(latest.values())
    number = _number(trial, place)
    if trial.head.query and not shows([text for at in latest.values() for text in trial.prompts[at]], trial.head.query):
        return Finding("lost observation", f"the prompt of reply {number} no longer showed the question")
    for at, step in enumerate(trial.course):
        run = trial.events[step.event] if step.event is not None and step.event < place else None
        if at in trial.unmatched or not isinstance(run, ToolRun) or not run.gave_result:
            continue
        if not any(trial.is_shown(run, asked) for asked in latest.values()):
            detail = f"answered at reply {number}, when the prompt no longer showed the result of {step.text}"
            return Finding("lost observation", detail)
    return None


_STOPS: Mapping[str, tuple[Cause, str]] = {
    StopReason.MAX_STEPS.value: ("termination", "the limit was reached (max_steps)"),
    StopReason.FORCED.value: ("termination", "the limit was reached, and an answer was asked for (forced)"),
    StopReason.UNFINISHED.value: ("termination", "the one turn was over (unfinished)"),
    StopReason.ERROR_VALVE.value: ("termination", "the error valve ended the run"),
    StopReason.PARSE_FAILED.value: ("parse", "the run ended with stop parse_failed"),
    StopReason.PROVIDER_ERROR.value: ("fault not recovered", "the run ended with stop provider_error"),
    StopReason.RECOVERY_FAILED.value: ("fault not recovered", "the run ended with stop recovery_failed"),
}


def _ended(trial: TracedTrial) -> Finding | None:
    """The loop did not finish, or answered with calls of the other course left."""
    last, stop = f"reply {len(trial.asks)}", trial.head.stop
    if not trial.is_finished:
        failed = _failed_calls(trial)
        unreadable = [place for place, ask in trial.asks if ask.wire_error is not None]
        spent = [
            (len(unreadable), "reply that could not be read", "replies that could not be read"),
            (len(failed), "call that failed", "calls that failed"),
            (len(trial.repeated), "call made again", "calls made again"),
        ]
        spent_on = ", ".join(counted(*each) for each in spent if each[0])
        met = sorted({fault.kind for fault in trial.record.faults if fault.landed and not fault.absorbed})
        used_up = f"; used up on the way: {spent_on}" if spent_on else f"; met on the way: {', '.join(met)}" if met else ""
        if not stop:
            said = f"the trace does not say how the run ended{f' after {last}' if trial.asks else ''}{used_up}"
            return Finding("other", NO_CONTENT if trial.trace.lacks_content else said)
        cause, how = _STOPS.get(stop, ("termination", f"the run ended with stop {stop}"))
        how = _gave_up_early(trial) if trial.steps_left else how
        faults = [*_faults_of(trial, unreadable), *(_fault_behind(trial, place) for place in failed)] if spent_on else met
        return Finding(cause, f"{how}{f' at {last}' if trial.asks else ''}{used_up}", faults=faults)
    left, fewer = _calls_left_out(trial), len(trial.other) - len(trial.course)
    if left and all(step.call is None for step in trial.course):
        return Finding("termination", f"answered at {last} and made no call; the other course called {left[0].text}")
    if left:
        return Finding("termination", f"answered at {last} and never called {left[0].text}")
    if fewer > 0 and not trial.other_course:
        return Finding("termination", f"answered at {last}, {counted(fewer, 'step')} before the other course")
    return None


def _failed_calls(trial: TracedTrial) -> list[int]:
    """Return the events of the calls that failed or could not be run and should not have, put right or not."""
    return [one.event for one in trial.setbacks if one.kind in ("failed run", "not run")]


def _calls_left_out(trial: TracedTrial) -> list[TracedStep]:
    """Return the calls of the other course that this one never made; none where no other course is known."""
    own = {step.call.key for step in trial.course if step.call is not None}
    return [step for step in trial.other_course if _could_run(step) and step.call and step.call.key not in own]


def _could_run(step: TracedStep) -> bool:
    """Whether a step is a call whose arguments can be read, and that gave a result."""
    return step.call is not None and step.gave_result and isinstance(step.call.arguments, Mapping)


def _other(trial: TracedTrial) -> Finding | None:
    """The same calls, and another answer."""
    return Finding("other", f"answered {_quoted(trial.head.answer)}")


RULES: Sequence[Callable[[TracedTrial], Finding | None]] = (
    _broken_off,  # time limit, budget, crash, termination
    _obeyed,  # obeyed instruction
    _refused,  # answer refused
    _altered,  # altered, dropped and added call, altered result and answer; also what else the loop left out
    _early,  # termination
    _untold,  # error not shown, parse
    _blocked,  # whatever went wrong most often
    _misread,  # parse
    _never_recovered,  # the fault's kind says it
    _gave_up,
    _again,  # lost observation
    _argument,  # tool argument
    _never_put_right,
    _unfit,  # parse
    _lost_sight,  # lost observation
    _ended,  # termination, or what the stop names
    _other,  # other
)
