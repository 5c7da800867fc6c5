"""The list of laws, and the check of all of them on a loop."""

from __future__ import annotations

from collections.abc import Callable

from loopbench.protocol import Loop, run_sync

from . import codecs, contract, endings, honesty, interruption, prompts
from .law import Broken, Finding, Law, NotApplicable
from .scene import error_summary

LAWS: tuple[Law, ...] = (
    Law("contract", "name, stops and Outcome are well formed; the configuration never changes", contract.contract),
    Law("waiting", "the event loop never stands still while a run waits", interruption.never_blocks),
    Law("step limit", "with_step_limit(n) allows n tool steps and no more, and the run ends by itself", contract.step_limit),
    Law("budget", "run lets BudgetExceeded through, and makes no further model call", interruption.budget),
    Law("no state", "a run does not affect later or concurrent runs of the same loop", contract.no_state),
    Law("tool errors", "the message of a tool's exception reaches the model", contract.tool_errors),
    Law(
        "finishing",
        "an undisturbed run is right, stops as finished, and calls no tool after its answer",
        contract.finishing,
    ),
    Law("once", "each call that the model decides on is made once", contract.once),
    Law("cancellation", "run lets CancelledError through at once, and leaves no task or tool running", interruption.cancellation),
    Law("gold", "no request contains the expected answer", contract.gold),
    Law("codecs", "a codec parses what it renders, and reads any reply as a move or raises WireError", codecs.codecs),
    Law("formats", "a model could write each format: the words of a move stand in it, once", honesty.formats),
    Law("results", "where a request shows the receipt of a result, it shows the result", honesty.results),
    Law("own words", "the answer is what the model says, also where that is wrong", honesty.own_words),
    Law("stops", "every declared stop can occur, and no other does", endings.stops),
    Law(
        "order",
        "the order of concurrent replies changes nothing; their scopes differ",
        interruption.shuffled,
    ),
    Law("outcome", "run returns an Outcome, whatever the model replies and the tools do", endings.always_an_outcome),
    Law("provider error", "a provider error ends the run without an answer", interruption.provider_error),
    Law("context overflow", "a permanent context overflow ends the run with stop context_overflow", interruption.context_overflow),
    Law("conversation", "a system message comes first only, and each native call is followed by its result", contract.conversation),
    Law(
        "prompts",
        "changed instructions and demonstrations reach the requests of their own predictor, and nothing else changes",
        prompts.prompts,
    ),
)

NOT_CHECKED = "not checked: a loop that blocks would take minutes; fix that first"


def check_loop(loop: Loop, on_finding: Callable[[Finding], None] | None = None) -> tuple[Finding, ...]:
    """Check every law on a loop, in the order of LAWS, within seconds and without a network. `on_finding` gets each finding."""
    findings: list[Finding] = []
    blocks = False
    for law in LAWS:
        findings.append(Finding(law.name, "not applicable", NOT_CHECKED) if blocks else _finding(loop, law))
        blocks = blocks or findings[-1].detail.startswith(interruption.STOOD_STILL)
        if on_finding is not None:
            on_finding(findings[-1])
    return tuple(findings)


def _finding(loop: Loop, law: Law) -> Finding:
    try:
        run_sync(_checked(loop, law))
    except NotApplicable as reason:
        return Finding(law.name, "not applicable", str(reason))
    except Broken as broken:
        return Finding(law.name, "failed", str(broken))
    except Exception as error:  # the boundary to the design under check: its attributes may raise anything
        return Finding(law.name, "failed", f"the loop raised {error_summary(error)}")
    return Finding(law.name, "ok")


async def _checked(loop: Loop, law: Law) -> None:
    await law.check(loop)
