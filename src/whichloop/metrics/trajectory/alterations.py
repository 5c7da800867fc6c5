"""What a loop altered between the model and its tools: calls, results or an answer that it changed, left out or made up.

Where what the model wrote, what ran, what the next prompt showed and what was answered do not fit, the loop did it: neither the
model nor a fault stands between them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from whichloop.metrics.trace import ToolRun, TracedCall
from whichloop.protocol import Role, StopReason, render_value
from whichloop.protocol.receipts import MARK, Sighting, bare, common_start, receipt_of, sightings
from whichloop.protocol.values import one_line

from .causes import Cause
from .traced_trial import MIN_SHOWN, PLANNING, WRONG_CALLS, TracedTrial
from .trajectory import CHOOSING, MIN_WORDS, WORD, WrittenCall, call_text, shortened, shows


class LossFinding(NamedTuple):
    """What a rule has to say."""

    cause: Cause
    detail: str
    events: Sequence[int] = ()
    """What it is about; empty: the end."""
    faults: Sequence[str] | None = None
    """The kinds of fault that it came from, in time, as often as each struck; None: those of its events."""


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def quoted(value: Any) -> str:
    return repr(shortened(render_value(value)))


def altered(trial: TracedTrial) -> LossFinding | None:
    """The loop itself changed, left out or made up a call, a result or the answer: the first such, as others may come of it."""
    found = alterations(trial)
    if not found:
        return None
    also = sum(each.cause == found[0].cause for each in found) - 1
    return found[0]._replace(detail=f"{found[0].detail}; the same happened {times(also)} more") if also else found[0]


def alterations(trial: TracedTrial) -> list[LossFinding]:
    """Return what the loop altered, in time; of calls and the answer only where a codec says what the model wrote.

    A sound loop may run a call again that failed, fill in an argument, or turn the text "5" into the number that a tool asks for;
    that is not an alteration as long as the call gave a result.
    """
    return sorted(chain(_of_calls(trial), _of_results(trial), _of_answer(trial)), key=lambda each: each.events[0])


def _of_calls(trial: TracedTrial) -> Iterator[LossFinding]:
    if trial.matched is None:
        return
    runs, passed_over, _ = trial.matched
    for at, run, written, is_own, was_written, had_result in runs:
        called = f"the loop called {call_text(run.call)}"
        if written is not None:
            if written.call.key != run.call.key and not _is_fitting(run, written.call):
                wrote = f"the model wrote {call_text(written.call)} at reply {trial.number(written.event)}"
                yield LossFinding("altered call", f"{called}, where {wrote}", [at])
        elif not is_own and had_result:
            yield LossFinding("added call", f"{called} again by itself, though it had given a result", [at])
        elif not is_own and not was_written:
            yield LossFinding("added call", f"{called}, which the model did not write", [at])
    for each in passed_over:
        if _is_worth_running(trial, each) and not (trial.is_finished and _ever_ran(trial, each.call)):
            yield LossFinding("dropped call", f"{_never_ran(trial, each)}, and went on", [each.event])


def _never_ran(trial: TracedTrial, written: WrittenCall) -> str:
    return f"the loop never ran {call_text(written.call)}, which the model wrote at reply {trial.number(written.event)}"


def _ever_ran(trial: TracedTrial, call: TracedCall) -> bool:
    return any(run.call.key == call.key for _, run in trial.runs)


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
    fault = getattr(trial.events[written.event], "fault", "")
    return trial.is_scripted and fault not in WRONG_CALLS and not fault.startswith("wire.")


MAX_SHOWN = 80
"""Characters of a prompt that are quoted."""
_sightings = lru_cache(maxsize=1024)(sightings)
"""Kept: a trial's prompts repeat their messages."""


def _of_results(trial: TracedTrial) -> Iterator[LossFinding]:
    receipts = {receipt_of(mark) for _, run in trial.runs for mark in MARK.finditer(run.data)}
    results = {run.result.replace("\\", "") for _, run in trial.runs}
    for at, run in trial.runs:
        call, gave = call_text(run.call), quoted(run.result)
        prompt = next((trial.prompts[asked] for asked, ask in trial.asks_after(at) if ask.role in PLANNING), None)
        shown = None if prompt is None else _shown_instead(prompt, run, receipts, results)
        if shown is not None:
            yield LossFinding("altered result", f"{call} gave {gave}, and the loop showed the model {quoted(shown)}", [at])
        elif (run.gave_result or (trial.is_scripted and not run.fault)) and not trial.shows_result(at):
            # Of an error that is a fault a later rule tells where it cost the trial.
            cause: Cause = "lost observation" if run.gave_result else "error not shown"
            yield LossFinding(cause, f"the loop never showed the model what {call} gave, {gave}", [at])
    if trial.stop == StopReason.ERROR_VALVE and trial.runs and trial.runs[-1][0] > trial.last_at and trial.runs[-1][1].gave_result:
        detail = f"the error valve ended the run when {call} had given {gave}"
        yield LossFinding("lost observation", detail, [trial.runs[-1][0]])


def _shown_instead(prompt: Sequence[str], run: ToolRun, receipts: set[str], results: set[str]) -> str | None:
    """Return what a prompt shows in the place of a result; None if it shows the result, or nothing that is recognised as its place.

    The place is where a receipt stands that no result has; or where a text stands that is the result but for its digits: beside its
    own receipt, or anywhere if the prompt has none of it. `receipts`: those of the trial's results; `results`: without backslashes.
    """
    own = {receipt_of(mark) for mark in MARK.finditer(run.data)}
    beside = [(f"{call}.{one.content}", one) for text in prompt for call, seen in _sightings(text).items() for one in seen]
    shown = [one for receipt, one in beside if receipt in own]
    if shown:
        return shown[-1].text[-MAX_SHOWN:] if all(_is_changed(one, bare(run.result)) for one in shown) else None
    unknown = [one.text for receipt, one in beside if receipt not in receipts]
    if own and unknown:
        return unknown[-1][-MAX_SHOWN:]
    if shows(prompt, run.result) or len(WORD.findall(run.result)) < MIN_WORDS:
        return None
    forms = (run.result.strip(), json.dumps(run.result, ensure_ascii=False)[1:-1])
    like = re.compile("|".join(r"\d+".join(re.escape(part) for part in re.split(r"\d", form)) for form in forms))
    found = (match[0] for message in prompt for match in like.finditer(message))
    return next((text for text in found if text.replace("\\", "") not in results), None)


def _is_changed(seen: Sighting, given: str) -> bool:
    """Whether what stands beside a result's receipt is the result with other digits, white space aside.

    Behind a single mark the result may be cut, so that the last characters in common may be those of what follows.
    """
    shown = bare(seen.text)
    if seen.side == "front":
        alike = common_start(re.sub(r"\d", "0", shown), re.sub(r"\d", "0", given))
        sure = alike if alike == len(given) else max(0, alike - MIN_SHOWN)
        shown, given = shown[:sure], given[:sure]
    return shown != given and re.sub(r"\d+", "0", shown) == re.sub(r"\d+", "0", given)


ANSWERING = frozenset({*CHOOSING, Role.ANSWER.value, Role.SUMMARIZE.value, Role.FORMAT.value})
"""Roles whose replies may state the answer."""


def _of_answer(trial: TracedTrial) -> Iterator[LossFinding]:
    last, at = trial.last, trial.last_at
    if last is None or trial.matched is None:
        return
    if not trial.is_finished:  # did the model answer more than once?
        decided = [
            (place, one_line(render_value(ask.value)))
            for place, ask in trial.asks
            if ask.role == Role.DECIDE and ask.value is not None
        ]
        often = Counter(answer for _, answer in decided)
        for place, answer in [each for each in decided if often[each[1]] > 1][:1]:
            detail = f"the model answered {quoted(answer)} {times(often[answer])}, and the loop went on"
            yield LossFinding("termination", detail, [place])
        return
    left = [each for each in trial.matched[2] if not _ever_ran(trial, each.call) and _is_worth_running(trial, each)]
    if left and left[0].event != at:  # another request followed, such as one that states the answer
        yield LossFinding("termination", f"{_never_ran(trial, left[0])}, and ended the run", [left[0].event])
        return
    replies = [ask for _, ask in trial.asks if ask.role in ANSWERING and ask.reply is not None]
    moves = [ask.move for ask in replies if ask.move is not None and ask.move_kind in ("answer", "text")]
    stated = [value for move in moves if (value := move.get("value", move.get("text"))) is not None]
    given = one_line(render_value(trial.head.answer))
    if any(given == one_line(render_value(value)) for value in (*stated, *(ask.reply for ask in replies))):
        return
    answered = f"the loop answered {quoted(trial.head.answer)}"
    if stated:
        yield LossFinding("altered answer", f"{answered}, where the model wrote {quoted(stated[-1])}", [at])
    elif last.calls:
        yield LossFinding(
            "termination", f"{answered} at reply {last.number}, where the model wrote {call_text(last.calls[0])}", [at]
        )
    elif last.wire_error is None:
        yield LossFinding("altered answer", f"{answered}, though no reply stated an answer", [at])
