"""One measurement, one line of JSON."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable


def measured(name: str, trials: int, latency_ms: float, in_flight: int, run: Callable[[], tuple[int, int]]) -> None:
    """Run once and print what it took. `run` gives the number of right answers and of model calls."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    right, calls = run()
    wall_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ideal_s = calls * latency_ms / 1000 / in_flight
    line = {
        "name": name,
        "trials": trials,
        "right": right,
        "calls_per_trial": calls / trials,
        "trials_per_s": trials / wall_s,
        "cpu_ms_per_trial": 1000 * cpu_s / trials,
        "cpu_ms_per_call": 1000 * cpu_s / calls,
        "share_of_ideal": ideal_s / wall_s if latency_ms else None,
        "peak_mb": after.ru_maxrss / 1024,
    }
    print(json.dumps(line), flush=True)
