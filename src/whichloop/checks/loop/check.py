"""The list of laws, and the check of all of them on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.threads import run_blocking

from . import codecs, contract, endings, honesty, interruption, prompts
from .apart import can_be_apart, finding_apart, watched_for_hangs
from .law import HUNG, Broken, Finding, Law, NotApplicable, hung
from .scene import error_summary

LAWS: tuple[Law, ...] = (
    Law("contract", "name, stops and Outcome are well formed; the configuration never changes", contract.contract),
    Law("waiting", "the event loop never stands still while a run waits", interruption.never_blocks),
    Law(
        "step limit",
        "with_step_limit(n) lets a plan of n calls be solved; no run makes more than n + 1, and each ends by itself",
        contract.step_limit,
    ),
    Law("budget", "run lets BudgetExceeded through, and makes no further model call", interruption.budget),
    Law("no state", "a run does not affect later or concurrent runs of the same loop", contract.no_state),
    Law("tool errors", "the message of a tool's exception reaches the model", contract.tool_errors),
    Law(
        "finishing",
        "an undisturbed run is right, stops as finished, and calls no tool after its answer",
        contract.finishing,
    ),
    Law(
        "typed answers",
        "the answer to a query with a type is an instance of it, or there is none",
        codecs.typed_answers,
    ),
    Law("once", "each call that the model decides on is made once", contract.once),
    Law("cancellation", "run lets CancelledError through at once, and leaves no task or tool running", interruption.cancellation),
    Law("gold", "no request contains the expected answer", contract.gold),
    Law("codecs", "a codec parses what it renders, and reads any reply as a move or raises WireError", codecs.codecs),
    Law("results", "a request shows each result that the model needs, and no receipt without its result", honesty.results),
    Law("own words", "the answer is what the model says, also where that is wrong", honesty.own_words),
    Law("stops", "every declared stop can occur, and no other does", endings.stops),
    Law(
        "order",
        "the order of concurrent replies changes nothing; their scopes differ",
        interruption.shuffled,
    ),
    Law(
        "calls at once",
        "calls of one reply that end in another order are made once each, and each result is given for its own call",
        interruption.calls_at_once,
    ),
    Law("outcome", "run returns an Outcome, whatever the model replies and the tools do", endings.always_an_outcome),
    Law("provider error", "a provider error ends the run without an answer", interruption.provider_error),
    Law("context overflow", "a permanent context overflow ends the run with stop context_overflow", interruption.context_overflow),
    Law("conversation", "a system message comes first only, and each native call is followed by its result", contract.conversation),
    Law(
        "prompts",
        "changed instructions and demonstrations reach the requests of their own predictor, nothing else changes, and a predictor "
        "that the loop does not have is refused",
        prompts.prompts,
    ),
)

UNDISTURBED = LAWS[0].name
"""The law that looks at a run without any trouble: what hangs there hangs everywhere."""
NOT_CHECKED = "not checked: a loop that blocks or hangs would take minutes; fix that first"
MAX_HUNG = 2
"""Laws that are given up before the others are not checked, if they are others than `UNDISTURBED`."""
LAW_LIMIT_S = 60.0
"""Seconds that the check of a law may take; of a built-in loop it takes less than one."""
FOREIGN_LAW_LIMIT_S = 900.0
"""The same for a foreign loop, of which each run may take two minutes."""


def check_loop(
    loop: Loop, on_finding: Callable[[Finding], None] | None = None, *, limit_s: float | None = None
) -> tuple[Finding, ...]:
    """Check every law on a loop, in the order of LAWS, within seconds and without a network.

    `on_finding` gets each finding as soon as its law is checked. `limit_s`: seconds for one law; 60, and 900 for a foreign loop, if
    left out. On Linux each law has a process of its own, so that a loop that blocks its thread is given up, too.
    """
    limit = limit_s or (FOREIGN_LAW_LIMIT_S if isinstance(loop, ForeignLoop) else LAW_LIMIT_S)
    findings: list[Finding] = []
    for law in LAWS:
        findings.append(Finding(law.name, "not applicable", NOT_CHECKED) if _is_enough(findings) else _finding(loop, law, limit))
        if on_finding is not None:
            on_finding(findings[-1])
    return tuple(findings)


def _is_enough(findings: Sequence[Finding]) -> bool:
    """Return whether the loop blocks the event loop, or hangs in so many laws that the others would only take minutes."""
    blocks = any(finding.detail.startswith(interruption.STOOD_STILL) for finding in findings)
    hanging = [finding.law for finding in findings if HUNG in finding.detail]
    return blocks or UNDISTURBED in hanging or len(hanging) >= MAX_HUNG


def _finding(loop: Loop, law: Law, limit_s: float) -> Finding:
    """Check a law. A foreign loop is checked in this process: its steps are taken in another, which serves all laws."""
    if can_be_apart() and not isinstance(loop, ForeignLoop):
        return finding_apart(law.name, lambda report: run_blocking(_report(loop, law, limit_s, report)), limit_s)
    return run_blocking(_judged(loop, law, limit_s))


async def _report(loop: Loop, law: Law, limit_s: float, report: Callable[[Finding], None]) -> None:
    """Judge, and report before the event loop waits for the threads that the loop has left behind."""
    try:
        with watched_for_hangs(law.name, limit_s, report):
            report(await _judged(loop, law, None))
    except BaseException as error:  # a SystemExit of the loop's attributes, say
        report(Finding(law.name, "failed", f"the loop raised {error_summary(error)}"))


async def _judged(loop: Loop, law: Law, limit_s: float | None) -> Finding:
    """Return the finding of a law. `limit_s`: after which it is given up, if the loop lets the event loop go on."""
    try:
        async with asyncio.timeout(limit_s) as clock:
            await law.check(loop)
    except NotApplicable as reason:
        return Finding(law.name, "not applicable", str(reason))
    except Broken as broken:
        return Finding(law.name, "failed", str(broken))
    except Exception as error:  # the boundary to the design under check: its attributes may raise anything
        if clock.expired() and limit_s is not None:
            return hung(law.name, limit_s)
        return Finding(law.name, "failed", f"the loop raised {error_summary(error)}")
    return Finding(law.name, "ok")
