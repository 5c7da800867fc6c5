"""Fuzzes the reader of one kind of artefact for a time: `python -m tests.fuzzing KIND SECONDS`.

A reading that takes more than 10 s of a processor ends it. It prints the number of examples, and the most memory of a batch in MB.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.hostile_artefacts import check_mutations, make_artefacts

MAX_READING_S = 10
MAX_MB = 512
BATCH = 50
"""Examples that hypothesis draws before the time is looked at."""


def main(name: str, folder: Path, seconds: float) -> None:
    """Read batches until the time is over, each in a process of its own: what fuzzing itself holds on to does not count."""
    artefacts, until, drawn, peak = make_artefacts(folder), time.monotonic() + seconds, 0, 0
    for number in count():
        child = os.fork()
        if not child:
            fuzzed(artefacts, folder / "mutated", name, number)
            os._exit(0)
        _, status, used = os.wait4(child, 0)
        if status:
            sys.exit(f"batch {number} ended with {os.waitstatus_to_exitcode(status)}")
        drawn, peak = drawn + BATCH, max(peak, used.ru_maxrss // 1024)
        if time.monotonic() >= until:
            break
    print(drawn, peak)


def fuzzed(artefacts: Path, folder: Path, name: str, number: int) -> None:
    """Read a batch of changed artefacts. `number` is the seed."""

    @seed(number)
    @settings(max_examples=BATCH, derandomize=False, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + 1 + MAX_READING_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        check_mutations(artefacts, folder, name, data.draw)

    check()


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(sys.argv[1], Path(scratch), float(sys.argv[2]))
