"""Which tests cost the most: CPU seconds of each test function with its share, its fixtures and the processes that it started.

python benchmarks/slow_tests.py [--most N] [--write] [arguments of pytest]

CPU and not wall time, which depends on what else the machine does. A fixture that functions share counts for each of them in equal
parts, as leaving out one of them would spare nothing.
With --write it is chosen anew which of the tests that were run `make fast` leaves out for their cost.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "WHICHLOOP_SLOW_TESTS"
"""The environment variable that tells pytest's processes where to write."""
COSTLY = ROOT / "tests" / "costly.txt"
"""The test functions that `make fast` leaves out for their cost, one a line, by which tests/conftest.py marks them as thorough."""
COSTLY_S = 0.1
"""CPU seconds of all cases of a function from which on it is costly."""
_SET_UP: dict[str, float] = {}
"""The shared fixtures that were set up for the test that runs in this process, and their CPU seconds."""


def cpu_s() -> float:
    """Return the CPU seconds of this process, and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _place(fixture: pytest.FixtureDef[object]) -> str:
    return f"{fixture.baseid}::{fixture.argname}"


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Measure what a fixture costs that outlives its first test: this module is a plugin of the pytest that `main` starts."""
    cpu, within = cpu_s(), sum(_SET_UP.values())
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            _SET_UP[_place(fixturedef)] = cpu_s() - cpu - (sum(_SET_UP.values()) - within)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write a line for each test: its function, CPU seconds, and those of the fixtures that it shares, 0 where they were there."""
    _SET_UP.clear()
    cpu = cpu_s()
    result = yield
    defined = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009  # pytest's own, which its types do not tell
    shared = {place: _SET_UP.get(place, 0.0) for place in (_place(each[-1]) for each in defined if each[-1].scope != "function")}
    line = json.dumps([item.nodeid.partition("[")[0], cpu_s() - cpu - sum(shared.values()), shared])
    with Path(os.environ[FOLDER], f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return result


def shared_out(lines: Iterable[tuple[str, float, dict[str, float]]]) -> dict[str, float]:
    """Return the CPU seconds of each function, with its part of what fixtures cost."""
    functions, fixtures, users = defaultdict[str, float](float), defaultdict[str, float](float), defaultdict[str, set[str]](set)
    for function, cpu, shared in lines:
        functions[function] += cpu
        for place, seconds in shared.items():
            fixtures[place] += seconds
            users[place].add(function)
    for place, names in users.items():
        for name in names:
            functions[name] += fixtures[place] / len(names)
    return functions


def is_there(name: str) -> bool:
    """Whether the file of a test defines its function, or the class that it belongs to."""
    file, first, *_ = name.split("::")
    return (ROOT / file).is_file() and bool(re.search(rf"\b{first}\b", (ROOT / file).read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="how many to list")
    parser.add_argument("--write", action="store_true", help=f"choose anew which tests `make fast` leaves out: {COSTLY.name}")
    given, arguments = parser.parse_known_args()
    lines: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        # not by -m, which would be part of the command's own name in what it prints
        command = [str(Path(sys.executable).with_name("pytest")), "-p", "benchmarks.slow_tests", "-q", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | {FOLDER: folder, "PYTHONPATH": str(ROOT)}, check=False)
        for path in Path(folder).iterdir():
            lines += map(json.loads, path.read_text(encoding="utf-8").splitlines())
    costs = shared_out(lines)
    if given.write and ended.returncode == 0:
        kept = [name for name in COSTLY.read_text(encoding="utf-8").splitlines() if name not in costs and is_there(name)]
        costly = sorted([*kept, *(name for name, cpu in costs.items() if cpu >= COSTLY_S)])
        COSTLY.write_text("".join(f"{name}\n" for name in costly), encoding="utf-8")
    print(f"\n{len(costs)} functions, {sum(costs.values()):.0f} s of CPU\n    CPU s   share")
    for name, cpu in sorted(costs.items(), key=lambda cost: -cost[1])[: given.most]:
        print(f"{cpu:9.2f} {cpu / sum(costs.values()):7.1%}  {name}")
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
