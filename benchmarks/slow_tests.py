"""Which tests cost the most: CPU seconds of each test with its share, its fixtures and the processes that it started.

python benchmarks/slow_tests.py [--most N] [--write] [arguments of pytest]

CPU and not wall time, which depends on what else the machine does. Shared fixtures count for the test that needs them first.
With --write the tests that `make fast` leaves out for their cost are chosen anew, in the files whose tests were run.
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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "LOOPBENCH_SLOW_TESTS"
"""The environment variable that tells pytest's processes where to write."""
COSTLY = ROOT / "tests" / "costly.txt"
"""The test functions that `make fast` leaves out for their cost, one a line, by which tests/conftest.py marks them as thorough."""
COSTLY_S = 0.2
"""CPU seconds of all cases of a function from which on it is costly. Without those, two processors need a minute."""


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


def costly(before: Iterable[str], tests: Mapping[str, float]) -> list[str]:
    """Return the functions that are costly: of the files that were run by what their cases cost, of the others those from before.

    tests: CPU seconds of each case that was run, by its node id.
    """
    functions: defaultdict[str, float] = defaultdict(float)
    for name, cpu in tests.items():
        functions[name.partition("[")[0]] += cpu
    run = {name.partition("::")[0] for name in functions}
    kept = [name for name in before if name.partition("::")[0] not in run and (ROOT / name.partition("::")[0]).is_file()]
    return sorted([*kept, *(name for name, cpu in functions.items() if cpu >= COSTLY_S)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="how many tests to list, and as many files")
    parser.add_argument("--write", action="store_true", help=f"choose anew which tests `make fast` leaves out: {COSTLY.name}")
    given, arguments = parser.parse_known_args()
    tests: dict[str, tuple[float, float]] = {}
    files: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        # not by -m, which would be part of the command's own name in what it prints
        command = [str(Path(sys.executable).with_name("pytest")), "-p", "benchmarks.slow_tests", "-q", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | {FOLDER: folder, "PYTHONPATH": str(ROOT)}, check=False)
        for path in Path(folder).iterdir():
            for name, cpu, wall in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                tests[name] = cpu, wall
                file = name.partition("::")[0]
                files[file] = files[file][0] + cpu, files[file][1] + wall
    if given.write and ended.returncode == 0:
        names = costly(COSTLY.read_text(encoding="utf-8").splitlines(), {name: cpu for name, (cpu, _) in tests.items()})
        COSTLY.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(*table("files", files, given.most), *table("tests", tests, given.most), sep="\n")
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
