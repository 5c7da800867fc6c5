"""A blocked event loop is noticed, with the line that blocks it, and its time is kept from the others' limits."""

from __future__ import annotations

import asyncio
import faulthandler
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from whichloop.runs.trial.watchdog import Blocked, beating, hangs_at


@pytest.mark.thorough
def test_time_that_another_trial_took_is_not_counted(nasty, ran):
    loops = ("nasty:Waits(seconds=0.9)", "nasty:HoldsUp(seconds=1.5)")
    found = ran(loops=loops, suite="arithmetic(size=1)", profiles=("clean",), trial_timeout_s=2)
    assert [record.stop for record in found.records] == ["finished"] * 2


def test_the_time_for_which_nothing_turned_is_kept():
    beats: list[float] = []

    async def go() -> None:
        with beating(lambda: beats.append(Blocked.seconds)):
            await asyncio.sleep(0.3)
            time.sleep(1.0)
            await asyncio.sleep(0.3)

    before = Blocked.seconds
    asyncio.run(go())
    assert beats[-1] - before > 0.8
    assert 3 <= len(beats) <= 8


def test_a_dump_says_where_a_thread_is():
    over, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    with tempfile.TemporaryFile(buffering=0) as file, tempfile.TemporaryFile(buffering=0) as of_no_thread:
        file.write(f"{thread.ident:016x}\n".encode())
        of_no_thread.write(b"0\n")
        assert hangs_at(file.fileno()) is None
        faulthandler.dump_traceback(file, all_threads=True)
        faulthandler.dump_traceback(of_no_thread, all_threads=True)
        over.set()
        line = wait.__code__.co_firstlineno + 2
        assert hangs_at(file.fileno()) == f"tests/runs/trial/test_watchdog.py:{line}"
        assert hangs_at(of_no_thread.fileno()) == ""


@pytest.mark.parametrize(("status", "ended"), [(1, 1), (0, 4)])
def test_a_watchdog_ends_the_process_of_code_of_a_users_own_but_never_as_a_success(status, ended):
    """As pytest-timeout does: an exception in its thread would be no end."""
    code = (
        "import os, threading, time\n"
        "from whichloop.runs.trial.watchdog import told_of_exit\n"
        "with told_of_exit():\n"
        f"    threading.Timer(0.1, os._exit, ({status},)).start()\n"
        "    time.sleep(30)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == ended
