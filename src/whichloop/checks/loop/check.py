"""The list of laws, and the check of all of them on a loop.

The check of one law in a process of its own, which can be given up.

A loop may block its thread for ever, or leave behind a thread that never ends; a process waits for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from whichloop.checks.loop import codecs, contract, endings, honesty, interruption, prompts
from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.own_code import running_at, waiting_at
from whichloop.protocol.threads import run_blocking
from whichloop.runs.silent_end import die_with, go_on_here, leave

from .law import HANGS, HUNG, Broken, Finding, Law, NotApplicable, hung
from .scene import error_summary

Report = Callable[[Finding], None]
GRACE_S = 1.0
"""Seconds beyond its limit that a law's process has to say itself where it hangs."""
_CHUNK = 1 << 16


def can_be_apart() -> bool:
    """Return whether a check can have a process of its own: forking is safe on Linux only."""
    return sys.platform == "linux"


def finding_apart(law: str, judge: Callable[[Report], None], limit_s: float) -> Finding:
    """Return the finding of a law, judged in a forked process.

    `judge`: it reports the finding as soon as there is one, because what its loop leaves behind may keep it from ending.
    """
    sys.stdout.flush()  # the child would write it, too
    sys.stderr.flush()
    parent = os.getpid()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads may hold locks: then the check is given up
        child = os.fork()
    if child == 0:
        _judge_in_child(parent, write, judge)
    with contextlib.suppress(OSError):  # the child does the same, and one of the two is first
        os.setpgid(child, child)
    os.close(write)
    try:
        line = _line(read, limit_s + GRACE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        how = f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"
        os.close(read)
    if line is None:
        return hung(law, limit_s)
    if not line.endswith(b"\n"):
        return Finding(law, "failed", f"the loop ended or replaced its process ({how}); a run must end in an Outcome")
    return Finding(**json.loads(line))


def _judge_in_child(parent: int, write: int, judge: Callable[[Report], None]) -> NoReturn:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # so that it can be ended with all that it starts, and Ctrl-C is for the command
    die_with(parent)
    go_on_here()
    gc.freeze()  # else a collection would copy every page that it looks at

    is_first = threading.Lock()

    def report(finding: Finding) -> None:
        if is_first.acquire(blocking=False):  # the law may end just when it counts as hanging
            sys.stdout.flush()
            os.write(write, json.dumps(finding.as_dict()).encode("ascii") + b"\n")

    try:
        judge(report)
    finally:
        leave(0)


def _line(read: int, limit_s: float) -> bytes | None:
    """Read a line, or what there is before the end of the process; None if neither comes in time."""
    ends_at, text = time.monotonic() + limit_s, b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([read], [], [], max(0.0, ends_at - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(read, _CHUNK)
        if not chunk:
            break
        text += chunk
    return text


HELD_SHARE = 1 / 6
"""Share of a law's time after which an event loop that has not turned counts as blocked: 10 s, as for a run that only waits."""
MIN_HELD_S = 5.0
"""The least seconds of that, or the law's whole time where it is less: a law's own code computes, too, on a busy machine longer."""
LOOKS = 20
"""How often the thread looks before an event loop counts as blocked. Looks are counted, not seconds: a process may be stopped."""
MAX_MISSED = 3
"""How many looks an event loop may not have turned for without being blocked."""


class _HangWatch:
    """Watches the event loop that runs in this thread."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: seconds for the law."""
        self.limit_s = limit_s
        self.held_s = max(HELD_SHARE * limit_s, min(limit_s, MIN_HELD_S))
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._missed = 0
        """Looks since the event loop last turned."""

    def end(self) -> None:
        self._is_over.set()

    def look(self, law: str, report: Callable[[Finding], None]) -> None:
        """Look until the end, or until the law's check hangs, and report that once."""
        interval_s = self.held_s / LOOKS
        left = round(self.limit_s / interval_s)
        while not self._is_over.wait(interval_s):
            left, self._missed = left - 1, self._missed + 1
            if self._missed >= LOOKS or left <= 0:
                seconds = self.limit_s if left <= 0 else self.held_s
                report(hung(law, seconds, self._blocking() if self._missed > MAX_MISSED else self._waiting()))
                return
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self._missed = 0

    def _blocking(self) -> str:
        """Return in which line of the user's code the loop blocks the event loop, as far as that is known."""
        at = running_at(sys._current_frames().get(self._thread))
        return f"the loop blocks its thread at {at}" if at else HANGS

    def _waiting(self) -> str:
        """Return in which line of the user's code the loop waits, while the event loop goes on, as far as that is known."""
        at = next(filter(None, map(waiting_at, asyncio.all_tasks(self._loop))), "")
        return f"the loop waits for what never comes at {at}" if at else HANGS


@contextlib.contextmanager
def watched_for_hangs(law: str, limit_s: float, report: Callable[[Finding], None]) -> Iterator[None]:
    """Report within this block, from another thread, that the check of a law hangs, and where."""
    watch = _HangWatch(limit_s)
    threading.Thread(target=watch.look, args=(law, report), name="hang-watch", daemon=True).start()
    try:
        yield
    finally:
        watch.end()


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
