"""The list of laws, and the check that holds all of them against a loop."""

from __future__ import annotations

from collections.abc import Callable

from loopbench.protocol import Loop, run_sync

from . import codecs, contract, endings, interruption, prompts
from .law import Broken, Finding, Law, NotApplicable
from .scene import shown_error

LAWS: tuple[Law, ...] = (
    Law("contract", "name, stops, Outcome; the configuration never changes", contract.contract),
    Law("waiting", "the event loop never stands still while a run waits", interruption.never_blocks),
    Law("step limit", "with_step_limit(n) grants n tool steps and no more, and the run ends by itself", contract.step_limit),
    Law("budget", "BudgetExceeded leaves run, and no further model call is made", interruption.budget),
    Law("no state", "a run leaves nothing behind for the next or the one beside it", contract.no_state),
    Law("tool errors", "what a tool's exception says reaches the model", contract.tool_errors),
    Law("finishing", "a clean run is right, stops as finished, and calls nothing after the answer", contract.finishing),
    Law("once", "each call that the model decides on is made once", contract.once),
    Law("cancellation", "CancelledError leaves run at once, and nothing is left running", interruption.cancellation),
    Law("gold", "the expected answer is in no request", contract.gold),
    Law("codecs", "what a codec says it reads back, and any reply is a move or a WireError", codecs.codecs),
    Law("stops", "every declared stop is reached, and no other occurs", endings.stops),
    Law("order", "the order of concurrent replies changes nothing, and scopes in flight differ", interruption.shuffled),
    Law("outcome", "whatever the model says and the tools do, run returns an Outcome", endings.always_an_outcome),
    Law("provider error", "a provider's error ends the run without an answer", interruption.provider_error),
    Law("context overflow", "an overflow for good ends the run as context_overflow", interruption.context_overflow),
    Law("conversation", "system first, and each native call with its result next to it", contract.conversation),
    Law(
        "prompts",
        "changed instructions and demonstrations reach the predictor that they are of, and nothing else changes",
        prompts.prompts,
    ),
)

NOT_CHECKED = "not checked: a loop that blocks would take minutes; mend that first"


def check_loop(loop: Loop, heard: Callable[[Finding], None] | None = None) -> tuple[Finding, ...]:
    """Hold every law against a loop, in the order of LAWS; needs no network, and takes seconds. `heard`: told of each finding."""
    found: list[Finding] = []
    blocks = False
    for law in LAWS:
        found.append(Finding(law.name, "not applicable", NOT_CHECKED) if blocks else _held_against(loop, law))
        blocks = blocks or found[-1].detail.startswith(interruption.STOOD_STILL)
        if heard is not None:
            heard(found[-1])
    return tuple(found)


def _held_against(loop: Loop, law: Law) -> Finding:
    try:
        run_sync(_checked(loop, law))
    except NotApplicable as reason:
        return Finding(law.name, "not applicable", str(reason))
    except Broken as broken:
        return Finding(law.name, "failed", str(broken))
    except Exception as error:  # the boundary to the design under check: its attributes may raise anything
        return Finding(law.name, "failed", f"the loop raised {shown_error(error)}")
    return Finding(law.name, "ok")


async def _checked(loop: Loop, law: Law) -> None:
    await law.check(loop)
