"""Fuzzes the reader of one kind of artefact for a time, in this process: `python -m tests.fuzzing KIND FOLDER SECONDS`.

The process is killed by a reading of more than 10 s of its time. It prints the number of examples and its peak of memory in MB.
"""

from __future__ import annotations

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
    artefacts, until, drawn = make_artefacts(folder), time.monotonic() + seconds, 0
    for number in count():
        drawn += fuzzed(artefacts, folder / "mutated", name, number)
        if time.monotonic() >= until:
            break
    print(drawn, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def fuzzed(artefacts: Path, folder: Path, name: str, number: int) -> int:
    """Read a batch of changed artefacts; return how many. `number` is the seed."""
    drawn = 0

    @seed(number)
    @settings(max_examples=BATCH, derandomize=False, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        nonlocal drawn
        drawn += 1
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + 1 + MAX_READING_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        check_mutations(artefacts, folder, name, data.draw)

    check()
    return drawn


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(sys.argv[1], Path(scratch), float(sys.argv[2]))
