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

from whichloop.checks.loop import contract, endings, interruption, prompts
from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.json_text import load_json
from whichloop.protocol.names import own_folder, parse_spec
from whichloop.protocol.own_code import running_at, waiting_at
from whichloop.runs.registry import make_loop
from whichloop.runs.trial.watchdog import DaemonThreads

from ..shared.law import Finding, Law, error_summary, judged
from .scene import HUNG

LAWS: tuple[Law, ...] = (
    contract.contract, interruption.never_blocks, contract.step_limit, interruption.budget, contract.no_state,
    contract.tool_errors, contract.finishing, endings.typed_answers, contract.once, interruption.cancellation, contract.gold,
    endings.codecs, contract.results, contract.own_words, endings.stops, interruption.shuffled, interruption.calls_at_once,
    endings.always_an_outcome, interruption.provider_error, interruption.context_overflow, contract.conversation, prompts.prompts,
)  # fmt: skip

LAW_LIMIT_S, FOREIGN_LAW_LIMIT_S = 60.0, 900.0
"""Seconds that the check of a law may take; of a built-in loop it takes less than one, but a foreign run may take two minutes."""
CHEAP_LAWS = ("contract", "finishing", "once", "own words")
"""What a comparison checks of each loop of the user's own: all four take less than a tenth of a second."""


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
        ends = [finding.law for finding in findings if finding.ends]
        is_over = len(ends) > 1 or ends in (["contract"], ["waiting"])
        why_not = f"{ends[-1]} does not hold; fix that first" if is_over else ""
        findings.append(Finding(law.name, "not run", why_not) if is_over else _finding(loop, law, limit))
        if on_finding is not None:
            on_finding(findings[-1])
    return tuple(findings)


def broken_laws(loop: Loop, limit_s: float = 5.0) -> tuple[str, ...]:
    """Return which of `CHEAP_LAWS` a loop breaks. `limit_s`: seconds for each."""
    return tuple(law.name for law in LAWS if law.name in CHEAP_LAWS and _finding(loop, law, limit_s).status == "failed")


def broken_laws_apart(loops: Sequence[str], limit_s: float = 60.0) -> dict[str, tuple[str, ...]]:
    """Return the same by loop, from a process of its own: nothing that code of the user's own does there reaches this one.

    A loop that ends that process, or takes too long, breaks no law that is known, nor do those behind it.
    """
    alone = "import sys; sys.path[:] = sys.argv[2:]; from whichloop.checks.loop.check import _tell; _tell(int(sys.argv[1]))"
    with tempfile.TemporaryFile("w+") as told:
        command = [sys.executable, "-P", "-c", alone, str(told.fileno()), *sys.path, *own_folder()]
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


def _finding(loop: Loop, law: Law, limit_s: float) -> Finding:
    """Check a law on a thread of its own; give it up after its time, and say where it hangs."""
    event_loop, found = asyncio.new_event_loop(), queue.SimpleQueue[Finding]()
    event_loop.set_default_executor(DaemonThreads())

    async def judge() -> None:
        found.put(await judged(law, loop, "loop"))

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
        faulthandler.dump_traceback_later(limit_s + 10, exit=True, file=sys.__stderr__)
    try:
        return found.get(timeout=limit_s)
    except queue.Empty:
        ident = thread.ident or 0
        how, at = "blocks its thread", running_at(sys._current_frames().get(ident))
        if not at:
            at = next(filter(None, map(waiting_at, asyncio.all_tasks(event_loop))), "")
            how = "waits for what never comes" if at else "blocks its thread, or waits for what never comes"
        # Else a loop that computes without end would take its time from whatever is checked next.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))
        return Finding(law.name, "failed", f"its check {HUNG} {limit_s:g} s: the loop {how}{f' at {at}' if at else ''}", ends=True)
    finally:
        faulthandler.cancel_dump_traceback_later()
