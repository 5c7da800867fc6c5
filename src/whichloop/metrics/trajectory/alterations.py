"""What a loop altered between the model and its tools: calls, results or an answer that it changed, left out or made up.

A trace keeps what the model wrote, as the loop's own codec reads it, and, apart from that, what was run, what the next prompt
showed and what the outcome states. Where the two do not fit, the loop did it: neither the model nor a fault stands between them. A
sound loop may run a call again that failed, fill in an argument, or turn the text "5" into the number that a tool asks for; that is
not an alteration as long as the call gave a result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from whichloop.protocol import Role, StopReason, render_value
from whichloop.protocol.receipts import MARK, Side, Sighting, bare, common_start, receipt_of, sightings
from whichloop.protocol.values import one_line

from ..trace import Note, ToolRun, TracedCall
from .failure_text import quoted_answer, reply, times
from .failures import PLANNING, WRONG_CALLS, TracedTrial, tells
from .trajectory import CHOOSING, MIN_WORDS, WORD, Prompt, call_text, shows
from .written_calls import MatchedRun, Matching, WrittenCall, tells_what_was_read

AlterationCause = Literal[
    "altered call",
    "dropped call",
    "added call",
    "altered result",
    "lost observation",
    "error not shown",
    "altered answer",
    "termination",
]
ANSWERING = frozenset({*CHOOSING, Role.ANSWER.value, Role.SUMMARIZE.value, Role.FORMAT.value})
"""Roles whose replies may state the answer."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """One thing that the loop altered."""

    cause: AlterationCause
    detail: str
    """One sentence, in plain words, without its full stop."""
    event: int
    """Its event in the trace: the run, or the reply if nothing ran."""


def alterations(trial: TracedTrial) -> list[Alteration]:
    """Return what the loop altered, in time; empty if it altered nothing, or if no codec says what the model wrote."""
    unsorted = [*_of_calls(trial), *trial.once(_beside_calls)]
    return sorted(unsorted, key=lambda each: each.event)


def _beside_calls(trial: TracedTrial) -> list[Alteration]:
    """Return what the loop altered of results and of the answer, which no other course has a say in."""
    return [*_of_results(trial), *_shut_by_result(trial), *_of_answer(trial)]


# --- calls ---


def _of_calls(trial: TracedTrial) -> Iterator[Alteration]:
    if not trial.once(_is_known):
        return
    matching = trial.once(_matching)
    for matched in matching.runs:
        yield from _of_run(trial, matched)
    for each in matching.passed_over:
        if _is_worth_running(trial, each) and (each.call.key not in matching.last or not trial.is_finished):
            detail = f"the loop never ran {call_text(each.call)}, which the model wrote at {reply(each.by.number)}, and went on"
            yield Alteration("dropped call", detail, each.event)


def _is_known(trial: TracedTrial) -> bool:
    return tells_what_was_read(trial.events)


def _matching(trial: TracedTrial) -> Matching:
    return Matching.of(trial.events)


def _of_run(trial: TracedTrial, matched: MatchedRun) -> Iterator[Alteration]:
    run, before = matched.run, matched.before
    if matched.is_as_written or matched.is_allowed_by_itself:
        return
    if matched.stands_for is not None:
        if not _is_fitting(run, matched.stands_for.call):
            yield Alteration("altered call", _altered_text(run.call, matched.stands_for), matched.event)
    elif before is not None and before.gave_result:
        yield Alteration(
            "added call", f"the loop called {call_text(run.call)} again by itself, though it had given a result", matched.event
        )
    elif not matched.was_written and not _was_unreadable(trial, matched.event):
        yield Alteration("added call", f"the loop called {call_text(run.call)}, which the model did not write", matched.event)


def _was_unreadable(trial: TracedTrial, place: int) -> bool:
    """Whether the deciding reply before a run could not be read: the loop may have read it more generously than the codec."""
    choosing_asks = [ask for at, ask in trial.asks() if at < place and ask.role in CHOOSING]
    return bool(choosing_asks) and choosing_asks[-1].wire_error is not None


def _altered_text(called: TracedCall, written: WrittenCall) -> str:
    wrote = f"the model wrote {call_text(written.call)} at {reply(written.by.number)}"
    return f"the loop called {call_text(called)}, where {wrote}"


def _is_fitting(run: ToolRun, written: TracedCall) -> bool:
    """Whether a run is of the written call all the same: it gave a result, and what was written was only added to or parsed."""
    ran, wrote = run.call.arguments, written.arguments
    if run.call.tool != written.tool or not run.gave_result or not isinstance(ran, Mapping) or not isinstance(wrote, Mapping):
        return False
    return all(name in ran and _is_read_as(value, ran[name]) for name, value in wrote.items())


def _is_read_as(written: Any, ran: Any) -> bool:
    """Whether a value ran as it was written, or was read out of the text that was written."""
    if type(written) is type(ran):
        return bool(written == ran)
    if isinstance(written, int | float) and isinstance(ran, int | float):
        return written == ran
    return isinstance(written, str) and written.strip().lower() == render_value(ran).lower()


def _is_worth_running(trial: TracedTrial, written: WrittenCall) -> bool:
    """Whether a call that was written and not run was worth running: the other course took it, or no fault made it up."""
    if any(step.call.key == written.call.key for step in trial.other_course if step.call is not None and step.gave_result):
        return True
    fault = written.by.fault
    return trial.is_scripted and fault not in WRONG_CALLS and not fault.startswith("wire.")


# --- results ---


def _of_results(trial: TracedTrial) -> Iterator[Alteration]:
    runs = [(place, event) for place, event in enumerate(trial.events) if isinstance(event, ToolRun)]
    known_receipts = frozenset(receipt for _, run in runs for receipt in _receipts(run))
    others = frozenset(run.result.replace("\\", "") for _, run in runs)
    for place, run in runs:
        prompt = next((trial.prompts[at] for at, ask in trial.asks(place) if ask.role in PLANNING), None)
        shown_text = None if prompt is None else _told_instead(prompt, run, known_receipts, others)
        if shown_text is not None:
            detail = (
                f"{call_text(run.call)} gave {quoted_answer(run.result)}, and the loop showed the model {quoted_answer(shown_text)}"
            )
            yield Alteration("altered result", detail, place)
        elif _never_shown(trial, place, run):
            detail = f"the loop never showed the model what {call_text(run.call)} gave, {quoted_answer(run.result)}"
            yield Alteration("lost observation" if run.gave_result else "error not shown", detail, place)


def _shut_by_result(trial: TracedTrial) -> Iterator[Alteration]:
    """Return the error valve that ended a run right after a call that had given a result."""
    place, last = next(((at, run) for at, run in reversed(list(enumerate(trial.events))) if not isinstance(run, Note)), (0, None))
    if trial.head.stop == StopReason.ERROR_VALVE and isinstance(last, ToolRun) and last.gave_result:
        detail = f"the error valve ended the run when {call_text(last.call)} had given {quoted_answer(last.result)}"
        yield Alteration("lost observation", detail, place)


def _never_shown(trial: TracedTrial, place: int, run: ToolRun) -> bool:
    """Whether the next request of the same kind, or else any later one, lacks even the beginning of a result; false without one."""
    is_known = run.gave_result or (trial.is_scripted and not run.fault)  # of a fault, `hides_error` says it where it cost the trial
    return is_known and _is_left_out(trial, place, run)


def hides_error(trial: TracedTrial, place: int) -> bool:
    """Whether the event is a run of a tool that failed, and the loop asked on without the error.

    After a run with which the trial ended, what it did with the run of the same call before counts.
    """
    run = trial.events[place]
    if not isinstance(run, ToolRun) or run.ok:
        return False
    if any(ask.role in PLANNING for _, ask in trial.asks(place)):
        return _is_left_out(trial, place, run)
    before = (
        at for at in range(place - 1, -1, -1) if isinstance(other := trial.events[at], ToolRun) and other.call.key == run.call.key
    )
    return (earlier := next(before, None)) is not None and hides_error(trial, earlier)


def _is_left_out(trial: TracedTrial, place: int, run: ToolRun) -> bool:
    later = list(trial.asks(place))
    if not any(ask.role in PLANNING for _, ask in later):
        return False
    decider = trial.decider(place)
    same = [at for at, ask in later if decider is not None and (ask.role, ask.scope) == (decider.role, decider.scope)]
    places = same[:1] or [at for at, ask in later if trial.is_finished or not ask.scope]  # a scope's turn may never have come

    def shows_it(at: int) -> bool:
        return trial.is_shown(run, at) or _shows_beginning(trial.prompts[at], run) if run.ok else tells(trial, place, at)

    return bool(places) and not any(map(shows_it, places))


MIN_SHOWN = 12
"""Characters by which the beginning of a result is known: a design may show no more than that."""


def _shows_beginning(prompt: Prompt, run: ToolRun) -> bool:
    """Whether a prompt shows where a result begins or ends: beside a mark of its receipt, or anywhere if it has no such mark."""
    beside = _beside_own_receipt(prompt, run)
    if not beside:
        return shows(prompt, run.result.strip()[:MIN_SHOWN])
    start, end = bare(run.result)[:MIN_SHOWN], bare(run.result)[-MIN_SHOWN:]
    begins = any(text.startswith(start) for one, text in beside if one.side != "back")
    return begins or any(text.endswith(end) for one, text in beside if one.side != "front")


def _beside_own_receipt(prompt: Prompt, run: ToolRun) -> list[tuple[Sighting, str]]:
    """Return what stands beside the marks of a result's receipt, each also without quotes and white space."""
    own = _receipts(run)
    return [(one, bare(one.text)) for receipt, seen in _beside_receipts(prompt).items() if receipt in own for one in seen]


def _receipts(run: ToolRun) -> set[str]:
    """Return the receipts that a result has marks of, as CALL.CONTENT."""
    return {receipt_of(mark) for mark in MARK.finditer(run.data)}


def _is_shown_whole(prompt: Prompt, run: ToolRun) -> bool:
    """Whether a prompt shows a result just as the tool gave it, between the two marks of its receipt: nothing was changed, then."""
    marks = list(MARK.finditer(run.data))
    if len(marks) != 2 or marks[0].start() or marks[1].end() != len(run.data) or marks[0].group(1, 2) != marks[1].group(3, 4):
        return False
    return any(run.data in message for message in prompt)


def _beside_receipts(prompt: Prompt) -> dict[str, list[Sighting]]:
    """Return what stands beside the marks of receipts, by CALL.CONTENT."""
    sightings: dict[str, list[Sighting]] = {}
    for message in prompt:
        for call, seen in _sightings(message).items():
            for one in seen:
                sightings.setdefault(f"{call}.{one.content}", []).append(one)
    return sightings


_sightings = lru_cache(maxsize=1024)(sightings)
"""Kept: a trial's prompts repeat their messages."""


def _told_instead(prompt: Prompt, run: ToolRun, known_receipts: frozenset[str], others: frozenset[str]) -> str | None:
    """Return what a prompt shows in the place of a result; None if it shows the result, or nothing that is recognised as its place.

    The place is where a receipt stands that no result has; or where a text stands that is the result but for its digits: beside its
    own receipt, or anywhere if the prompt has none of it. `known_receipts`: receipts of the trial's results;
    `others`: its results, without backslashes.
    """
    if _is_shown_whole(prompt, run):
        return None
    beside_own = _beside_own_receipt(prompt, run)
    if beside_own:
        altered_texts = [one.text for one, text in beside_own if _is_changed(text, one.side, bare(run.result))]
        return altered_texts[-1][-MAX_SHOWN:] if len(altered_texts) == len(beside_own) else None
    if MARK.search(run.data):
        unknown = [one.text for receipt, seen in _beside_receipts(prompt).items() if receipt not in known_receipts for one in seen]
        if unknown:
            return unknown[-1][-MAX_SHOWN:]
    if shows(prompt, run.result):
        return None
    like = _but_for_digits(run.result)
    texts = (match[0] for message in prompt for match in like.finditer(message)) if like is not None else iter(())
    return next((text for text in texts if text.replace("\\", "") not in others), None)


MAX_SHOWN = 80
"""Characters of a prompt that are quoted."""
_DIGIT, _DIGITS = re.compile(r"\d"), re.compile(r"\d+")


def _is_changed(shown_text: str, side: Side, given_text: str) -> bool:
    """Whether what stands beside a result's receipt is the result with other digits, both texts without white space.

    Beside a single mark the result may be cut, so that the last characters in common may be those of what follows.
    """
    if side == "both":
        return shown_text != given_text and _DIGITS.sub("0", shown_text) == _DIGITS.sub("0", given_text)
    if side == "back":
        shown_text, given_text = shown_text[::-1], given_text[::-1]
    alike = common_start(_DIGIT.sub("0", shown_text), _DIGIT.sub("0", given_text))
    sure = alike if alike == len(given_text) else alike - MIN_SHOWN
    return sure > 0 and shown_text[:sure] != given_text[:sure]


def _but_for_digits(text: str) -> re.Pattern[str] | None:
    """Return a pattern of a text with any other digits; None for a text of few words, which says little without its own."""
    quoted_once = json.dumps(text, ensure_ascii=False)[1:-1]
    if len(WORD.findall(text)) < MIN_WORDS:
        return None
    forms = (r"\d+".join(re.escape(part) for part in _DIGITS.split(form)) for form in (text.strip(), quoted_once))
    return re.compile("|".join(forms))


# --- the answer ---


def _of_answer(trial: TracedTrial) -> Iterator[Alteration]:
    place, last = trial.last_ask
    if place is None or last is None or not trial.once(_is_known):
        return
    if not trial.is_finished:
        yield from _ignored(trial)
        return
    matching = trial.once(_matching)
    never_ran = (call for call in matching.waiting if call.call.key not in matching.last)
    left = next((call for call in never_ran if _is_worth_running(trial, call)), None)
    if left is not None and left.by is not last:  # another request followed, such as one that states the answer
        detail = f"the loop never ran {call_text(left.call)}, which the model wrote at {reply(left.by.number)}, and ended the run"
        yield Alteration("termination", detail, left.event)
        return
    stated = list(_stated(trial))
    given_line = _line_of_value(trial.head.answer)
    read_whole = (ask.reply for _, ask in trial.asks() if ask.role in ANSWERING and ask.reply is not None)
    if any(given_line == _line_of_value(value) for value in (*stated, *read_whole)):
        return
    answered = f"the loop answered {quoted_answer(trial.head.answer)}"
    if stated:
        yield Alteration("altered answer", f"{answered}, where the model wrote {quoted_answer(stated[-1])}", place)
    elif last.calls:
        yield Alteration(
            "termination", f"{answered} at {reply(last.number)}, where the model wrote {call_text(last.calls[0])}", place
        )
    elif last.wire_error is None:
        yield Alteration("altered answer", f"{answered}, though no reply stated an answer", place)


def _ignored(trial: TracedTrial) -> Iterator[Alteration]:
    """Return the answer that the model gave more than once, in a run that never ended with it."""
    stated = [
        (place, _line_of_value(ask.value)) for place, ask in trial.asks() if ask.role == Role.DECIDE and ask.value is not None
    ]
    for place, answer in stated:
        count = sum(other == answer for _, other in stated)
        if count > 1:
            yield Alteration(
                "termination", f"the model answered {quoted_answer(answer)} {times(count)}, and the loop went on", place
            )
            return


def _stated(trial: TracedTrial) -> Iterator[Any]:
    """Yield what replies stated as the answer, in time."""
    for _, ask in trial.asks():
        if ask.role in ANSWERING and ask.reply is not None:
            if ask.move_kind == "answer" and ask.value is not None:
                yield ask.value
            elif ask.move_kind == "text" and ask.move is not None:
                yield ask.move.get("text")


def _line_of_value(value: Any) -> str:
    return one_line(render_value(value))
