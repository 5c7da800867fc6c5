"""The list of laws, and the check of all of them on a loop.

A loop may block its thread for ever: each law is checked on a thread that can be given up.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from whichloop.checks.loop import codecs, contract, endings, honesty, interruption, prompts
from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.json_text import load_json
from whichloop.protocol.names import own_folder, parse_spec
from whichloop.protocol.own_code import running_at, waiting_at
from whichloop.runs.registry import make_loop
from whichloop.runs.trial.leftovers import DaemonThreads

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
HOLDING_S = 10.0
"""Seconds beyond that after which this process ends with its stack: the loop lets no thread run, as a long call in C."""
FOREIGN_LAW_LIMIT_S = 900.0
"""The same for a foreign loop, of which each run may take two minutes."""


def check_loop(
    loop: Loop, on_finding: Callable[[Finding], None] | None = None, *, limit_s: float | None = None
) -> tuple[Finding, ...]:
    """Check every law on a loop, in the order of LAWS, within seconds and without a network.

    `on_finding` gets each finding as soon as its law is checked. `limit_s`: seconds for one law; 60, and 900 for a foreign loop, if
    left out. A loop that lets no thread run for longer, in C, ends this process with exit code 1 and its stack on stderr.
    """
    limit = limit_s or (FOREIGN_LAW_LIMIT_S if isinstance(loop, ForeignLoop) else LAW_LIMIT_S)
    findings: list[Finding] = []
    for law in LAWS:
        findings.append(Finding(law.name, "not applicable", NOT_CHECKED) if _is_enough(findings) else _finding(loop, law, limit))
        if on_finding is not None:
            on_finding(findings[-1])
    return tuple(findings)


CHEAP_LAWS = ("contract", "finishing", "once", "own words")
"""What a comparison checks of each loop of the user's own: all four take less than a tenth of a second."""


def broken_laws(loop: Loop, limit_s: float = 5.0) -> tuple[str, ...]:
    """Return which of `CHEAP_LAWS` a loop breaks. `limit_s`: seconds for each."""
    return tuple(law.name for law in LAWS if law.name in CHEAP_LAWS and _finding(loop, law, limit_s).status == "failed")


_ALONE = "import sys; sys.path[:] = sys.argv[2:]; from whichloop.checks.loop.check import _tell; _tell(int(sys.argv[1]))"
"""What the process of `broken_laws_apart` runs."""


def broken_laws_apart(loops: Sequence[str], limit_s: float = 60.0) -> dict[str, tuple[str, ...]]:
    """Return the same by loop, from a process of its own: nothing that code of the user's own does there reaches this one.

    A loop that ends that process, or takes too long, breaks no law that is known, nor do those behind it.
    """
    with tempfile.TemporaryFile("w+") as told:
        command = [sys.executable, "-P", "-c", _ALONE, str(told.fileno()), *sys.path, *own_folder()]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603
                command, input=json.dumps(loops), text=True, pass_fds=[told.fileno()], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=limit_s, check=False, start_new_session=True,
            )  # fmt: skip
        told.seek(0)
        return {loop: tuple(laws) for loop, laws in map(load_json, told)}


def _tell(descriptor: int, encoded: Callable[[object], str] = json.dumps) -> None:
    """Write a line about each loop that stdin names. `encoded`: bound before a loop may replace it in its module."""
    for loop in load_json(sys.stdin.read()):
        os.write(descriptor, f"{encoded([loop, broken_laws(make_loop(parse_spec(loop)))])}\n".encode())


def _is_enough(findings: Sequence[Finding]) -> bool:
    """Return whether the loop blocks the event loop, or hangs in so many laws that the others would only take minutes."""
    blocks = any(finding.detail.startswith(interruption.STOOD_STILL) for finding in findings)
    hanging = [finding.law for finding in findings if HUNG in finding.detail]
    return blocks or UNDISTURBED in hanging or len(hanging) >= MAX_HUNG


def _finding(loop: Loop, law: Law, limit_s: float) -> Finding:
    """Check a law on a thread of its own; give it up after its time, and say where it hangs."""
    event_loop, found = asyncio.new_event_loop(), queue.SimpleQueue[Finding]()
    event_loop.set_default_executor(DaemonThreads())

    async def judge() -> None:
        found.put(await _judged(loop, law))

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: event_loop) as runner:
                runner.run(judge())
        except BaseException as error:  # a SystemExit of the loop's attributes, say
            found.put(Finding(law.name, "failed", f"the loop raised {error_summary(error)}"))

    thread = threading.Thread(target=work, name=f"law {law.name}", daemon=True)
    thread.start()
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # what crashes in C says where
        faulthandler.dump_traceback_later(limit_s + HOLDING_S, exit=True, file=sys.__stderr__)
    try:
        return found.get(timeout=limit_s)
    except queue.Empty:
        running = running_at(sys._current_frames().get(thread.ident or 0))
        waiting = [waiting_at(task) for task in asyncio.all_tasks(event_loop)]
        # Else a loop that computes without end would take its time from whatever is checked next.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        if running:
            return hung(law.name, limit_s, f"the loop blocks its thread at {running}")
        at = next(filter(None, waiting), "")
        return hung(law.name, limit_s, f"the loop waits for what never comes at {at}") if at else hung(law.name, limit_s)
    finally:
        faulthandler.cancel_dump_traceback_later()


async def _judged(loop: Loop, law: Law) -> Finding:
    try:
        await law.check(loop)
    except NotApplicable as reason:
        return Finding(law.name, "not applicable", str(reason))
    except Broken as broken:
        return Finding(law.name, "failed", str(broken))
    except Exception as error:  # the boundary to the design under check: its attributes may raise anything
        return Finding(law.name, "failed", f"the loop raised {error_summary(error)}")
    return Finding(law.name, "ok")
