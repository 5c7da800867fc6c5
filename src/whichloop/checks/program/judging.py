"""From a run to a finding: by its requests, its calls and its answer, never by the agent's own word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from whichloop.protocol import Outcome as LoopOutcome
from whichloop.protocol import Request, StopReason, render_value

from .agent_faults import MAX_SHOWN_CHARS, AgentFault, FaultFinding, Outcome
from .bench import AgentLog
from .explanation import new_text, telling_lines, telling_request

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
MAX_DETAIL_CHARS = 300


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How a run ended."""

    outcome: LoopOutcome | None = None
    error: str = ""
    """What left the agent, `Type: message`."""
    stopped: str = ""
    """Why the check stopped it."""


def is_right(answer: object, expected: int) -> bool:
    """Return whether the last number in an answer is the expected one."""
    numbers = _NUMBER.findall(render_value(answer))
    return bool(numbers) and float(numbers[-1].replace(",", "")) == expected


def judged(fault: AgentFault, log: AgentLog, end: AgentEnd, expected: int, clean: Sequence[Request]) -> FaultFinding:
    """Return the finding of one run. `clean`: the requests of the same task without a fault."""
    if log.struck is None and not end.stopped and not end.error:
        return FaultFinding(fault.name, "not applicable", _no_room(fault), requests=len(log.asked), calls=len(log.called))
    outcome, detail = _outcome(fault, log, end, expected, clean)
    struck = len(log.asked) - 1 if log.struck is None else log.struck
    telling = telling_request(fault, log.asked, struck, clean)
    after = struck + 1 if struck + 1 < len(log.asked) else None
    place = telling if telling is not None else after
    shown_lines = "" if place is None else telling_lines(fault, new_text(log.asked, struck, place, clean))
    number = None if place is None else place + 1
    return FaultFinding(
        fault.name, outcome, detail[:MAX_DETAIL_CHARS], number, shown_lines[:MAX_SHOWN_CHARS], len(log.asked), len(log.called)
    )


def _no_room(fault: AgentFault) -> str:
    if fault.task == "pair":
        return "no reply of its model has two calls"
    if fault.strikes == "endless":
        return "it asks for the answer in a request that leaves no room for a call"
    return "the format of its replies has no room for it"


def _outcome(fault: AgentFault, log: AgentLog, end: AgentEnd, expected: int, clean: Sequence[Request]) -> tuple[Outcome, str]:
    """Return the outcome and how the run ended, in words."""
    if end.stopped:
        return "unlimited", end.stopped
    if end.error:
        return "error", end.error
    assert end.outcome is not None
    answer, stop = render_value(end.outcome.answer), end.outcome.stop
    if end.outcome.answer is not None and is_right(end.outcome.answer, expected):
        return _recovered(fault, log, clean), f"answer {answer}"
    if stop is not StopReason.FINISHED:
        why = end.outcome.details.get("error", "")
        return "error", f"stop {stop.value}{f': {why}' if why else ''}"
    if end.outcome.answer is None:
        return "error", "it gave no answer: None"
    return "silent", f"answer {answer!r}" if answer.strip() else "an empty answer"


def _recovered(fault: AgentFault, log: AgentLog, clean: Sequence[Request]) -> Outcome:
    """Return how a run with the right answer got over the fault."""
    assert log.struck is not None
    is_told = telling_request(fault, log.asked, log.struck, clean) is not None
    if fault.strikes == "provider":
        return "handled"
    if fault.strikes == "order" and len(log.asked) <= len(clean):
        return "handled"
    if fault.name in ("duplicate_ids", "two_calls") and _ran_together(log) and len(log.asked) <= len(clean):
        return "handled"
    if is_told:
        return "told"
    if fault.strikes == "endless" or (fault.strikes in ("result", "tool") and len(log.asked) <= len(clean)):
        return "handled"
    is_unaware = fault.strikes in ("call", "reply") and fault.task != "pair" and _ran(log)
    return "unaware" if is_unaware else "untold"


def _ran(log: AgentLog) -> bool:
    """Return whether a call of the spoiled reply ran and gave a result."""
    assert log.struck is not None
    return any(one.after == log.struck + 1 and one.seen.ok for one in log.called)


def _ran_together(log: AgentLog) -> bool:
    """Return whether two calls ran and gave results, after the fault and with no request between them."""
    assert log.struck is not None
    ran = Counter(one.after for one in log.called if one.seen.ok and one.after > log.struck)
    return any(count > 1 for count in ran.values())
