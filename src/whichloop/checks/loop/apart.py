"""The check of one law in a process of its own, which can be given up.

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
from collections.abc import Callable, Iterator
from typing import NoReturn

from whichloop.protocol.own_code import running_at, waiting_at
from whichloop.runs.silent_end import die_with, go_on_here, leave

from .law import HANGS, Finding, hung

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
