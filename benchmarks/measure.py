"""One measurement, one line of JSON. Imports nothing that the measured program does not need."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path


def peak_mb() -> float:
    """Most memory that this process has held at once.

    Linux's own count of it: getrusage hands the parent's peak on to the child.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _cpu_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(trials: int, latency_ms: float, in_flight: int, run: Callable[[], tuple[int, int]]) -> None:
    """Run once and print what it took. `run` gives the number of right answers and of model calls."""
    cpu, started = _cpu_s(), time.perf_counter()
    right, calls = run()
    wall, used = time.perf_counter() - started, _cpu_s() - cpu
    line = {
        "trials": trials,
        "right": right,
        "calls_per_trial": calls / trials,
        "trials_per_s": trials / wall,
        "cpu_ms_per_trial": 1000 * used / trials,
        "cpu_ms_per_call": 1000 * used / calls,
        "share_of_ideal": calls * latency_ms / 1000 / in_flight / wall,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(line), flush=True)


def typed() -> tuple[int, float, int]:
    """TRIALS LATENCY_MS IN_FLIGHT, the last three of the command line."""
    trials, latency_ms, in_flight = sys.argv[-3:]
    return int(trials), float(latency_ms), int(in_flight)
