"""The check of one law in a process of its own, which can be given up.

A loop may block its thread for ever, or leave behind a thread that never ends; a process waits for both.
"""

from __future__ import annotations

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
from collections.abc import Callable
from typing import NoReturn

from whichloop.runs.silent_end import die_with, go_on_here, leave

from .law import Finding, hung

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
        how = _end(child)
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


def _end(child: int) -> str:
    """End a process with all that it has started; say how it ended if it did so by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"
