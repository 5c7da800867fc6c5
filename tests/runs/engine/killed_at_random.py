"""One run that is killed over and over: `python -m tests.runs.engine.killed_at_random FOLDER KILLS [--ray]`.

Each sitting is a process of its own, split off one that has imported everything, and goes on with the run directory by the next
engine. It, or a worker of it, is killed by SIGKILL at a random moment. What is left after so many kills is run undisturbed. Prints
what was killed how often, as JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import run
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions

Victims = Callable[[int], list[int]]
"""From a sitting to the processes that run its trials."""
Round = tuple[str, Mapping[str, Any], Victims, int]
RAY = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # stays at 127.0.0.1
}
WORKER = "whichloop.runs.engine.worker"
ACTOR = "ray::RemoteWorker"
MAX_BEFORE_A_KILL_S = 0.6


def sit(folder: Path, settings: Mapping[str, Any]) -> int:
    """Go on with the run in a child process; gives its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        allowed = Permissions()
        run(reopen(folder, allowed, settings), Unwatched())
        code = 0
    except BaseException:  # told here: nobody waits for more than the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


def below(process: int, called: str) -> list[int]:
    """The processes that a process has started, and theirs, whose command line holds this."""
    found: list[int] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in map(int, file.read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [*([child] if called in command else []), *below(child, called)]
    return found


def ended(child: int) -> bool:
    """Whether the sitting came to its end by itself."""
    found, status = os.waitpid(child, os.WNOHANG)
    if not found:
        return False
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"a sitting failed: {os.waitstatus_to_exitcode(status)}")
    return True


def disturbed(folder: Path, settings: Mapping[str, Any], victims: Victims, most: int) -> tuple[int, int]:
    """One sitting, of which up to so many workers are killed and then, unless it has ended before, itself: workers, sittings."""
    child, workers = sit(folder, settings), 0
    while True:
        time.sleep(random.uniform(0, MAX_BEFORE_A_KILL_S))
        if ended(child):
            return workers, 0
        found = victims(child) if workers < most else []
        if workers < most and not found:
            continue
        if not found:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return workers, 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(random.choice(found), signal.SIGKILL)
            workers += 1


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """Address and process of a Ray cluster of several nodes."""
    os.environ |= RAY | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, str(Path(__file__).with_name("ray_nodes.py"))]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True) as nodes:
        assert nodes.stdout is not None
        yield str(json.loads(nodes.stdout.readline())["address"]), nodes.pid
        nodes.communicate()


def kill_often(folder: Path, kills: int, with_ray: bool) -> Counter[str]:
    """Until it was done so often, or the run has come to its end; what was killed how often."""
    killed = Counter[str]()
    if with_ray:
        with cluster() as (address, process):
            settings: Mapping[str, Any] = {"engine": "ray", "address": address, "workers": 2}
            killed["ray"], killed["ray, the run itself"] = disturbed(folder, settings, lambda child: below(process, ACTOR), 4)
    in_process: Round = ("in process", {}, lambda child: [], 0)
    rounds = [in_process] * 6 + [("workers", {"workers": 2}, lambda child: below(child, WORKER), 3)]
    for engine, settings, victims, most in itertools.cycle(rounds):
        if killed.total() >= kills:
            break
        workers, sittings = disturbed(folder, settings, victims, most)
        killed[engine] += workers
        killed[f"{engine}, the run itself"] += sittings
        if not sittings:
            break
    return killed


def main(folder: Path, kills: int, with_ray: bool) -> None:
    random.seed(0)
    killed = kill_often(folder, kills, with_ray)
    _, status = os.waitpid(sit(folder, {"engine": "local", "concurrency": 64}), 0)
    print(json.dumps({"killed": +killed, "exit": os.waitstatus_to_exitcode(status)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["--ray"])
