"""A fork makes a text while this process goes on; where it cannot, the caller hears that it has to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from whichloop.runs.forking import text_beside

SCRIPT = """
import json, os
from whichloop.runs.forking import text_beside

os.sched_getaffinity = lambda pid: {0, 1}
here = os.getpid()

def told(write, wanted=True):
    with text_beside(write, wanted=wanted) as text:
        return text()

def fails():
    raise ValueError("nobody hears of it")

lines = [told(lambda: "é\\ud800" * 50_000 + str(os.getpid() != here)), told(fails), told(lambda: os._exit(0) or "")]
lines += [told(lambda: "x", wanted=False)]
with text_beside(lambda: "not waited for", wanted=True):
    pass
os.sched_getaffinity = lambda pid: {0}
lines.append(told(lambda: "x"))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print(json.dumps(lines))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forking is safe on Linux only")
def test_a_fork_gives_its_whole_text_or_none_and_is_not_left_behind() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    whole, *others = json.loads(ended.stdout)
    assert whole == "é\ud800" * 50_000 + "True"
    assert others == [None] * 4
    assert ended.stderr == ""


def test_beside_another_thread_the_caller_makes_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("this process was forked"))
    with text_beside(lambda: "x", wanted=True) as text:
        assert text() is None
