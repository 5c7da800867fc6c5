"""Which tests cost the most: CPU seconds of each test with its share, its fixtures and the processes that it started.

python benchmarks/slow_tests.py [--most N] [arguments of pytest]

CPU and not wall time, which depends on what else the machine does. Shared fixtures count for the test that needs them first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "LOOPBENCH_SLOW_TESTS"
"""The environment variable that tells pytest's processes where to write."""


def cpu_s() -> float:
    """Return the CPU seconds of this process, and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write a line for each test: this module is a plugin of the pytest that `main` starts."""
    cpu, wall = cpu_s(), time.monotonic()
    result = yield
    line = json.dumps([item.nodeid, cpu_s() - cpu, time.monotonic() - wall])
    with Path(os.environ[FOLDER], f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return result


def table(title: str, costs: Mapping[str, tuple[float, float]], most: int) -> Iterator[str]:
    """Yield the rows of those that cost the most; costs: CPU and wall seconds by name."""
    whole = sum(cpu for cpu, _ in costs.values())
    yield f"\n{title}: {len(costs)}, {whole:.0f} s of CPU\n    CPU s   share   wall s"
    for name, (cpu, wall) in sorted(costs.items(), key=lambda cost: -cost[1][0])[:most]:
        yield f"{cpu:9.2f} {cpu / whole:7.1%} {wall:8.2f}  {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="how many tests to list, and as many files")
    given, arguments = parser.parse_known_args()
    tests: dict[str, tuple[float, float]] = {}
    files: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "benchmarks.slow_tests", "-q", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | {FOLDER: folder, "PYTHONPATH": str(ROOT)}, check=False)
        for path in Path(folder).iterdir():
            for name, cpu, wall in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                tests[name] = cpu, wall
                file = name.partition("::")[0]
                files[file] = files[file][0] + cpu, files[file][1] + wall
    print(*table("files", files, given.most), *table("tests", tests, given.most), sep="\n")
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
