"""Which tests cost the most: CPU seconds of each test with its share, its fixtures and the processes that it started.

python benchmarks/slow_tests.py [--most N] [--write] [arguments of pytest]

CPU and not wall time, which depends on what else the machine does. A fixture that test functions share counts for each of them in
equal parts, as leaving out one of them would spare nothing.
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
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "WHICHLOOP_SLOW_TESTS"
"""The environment variable that tells pytest's processes where to write."""
COSTLY = ROOT / "tests" / "costly.txt"
"""The test functions that `make fast` leaves out for their cost, one a line, by which tests/conftest.py marks them as thorough."""
COSTLY_S = 0.1
"""CPU seconds of all cases of a function from which on it is costly."""


def cpu_s() -> float:
    """Return the CPU seconds of this process, and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


class Cost(NamedTuple):
    """What a test cost, as a process that runs tests writes it in a line of JSON."""

    test: str
    """Its node id."""
    cpu_s: float
    """Without the fixtures that it set up and shares with others."""
    wall_s: float
    shares: list[str]
    """The fixtures that it shares with others: where they were defined, and their names."""
    set_up: dict[str, float]
    """Those of them that it was the first to need, and their CPU seconds."""

    @property
    def function(self) -> str:
        return self.test.partition("[")[0]


_SET_UP: dict[str, float] = {}
"""The shared fixtures that were set up for the test that runs in this process."""


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
    """Write a line for each test."""
    _SET_UP.clear()
    cpu, wall = cpu_s(), time.monotonic()
    result = yield
    defined = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009  # pytest's own, which its types do not tell
    shares = [_place(several[-1]) for several in defined if several[-1].scope != "function"]
    set_up = {place: cost for place, cost in _SET_UP.items() if place in shares}
    cost = Cost(item.nodeid, cpu_s() - cpu - sum(set_up.values()), time.monotonic() - wall, shares, set_up)
    with Path(os.environ[FOLDER], f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(cost)}\n")
    return result


def shared_out(costs: Sequence[Cost]) -> dict[str, tuple[float, float]]:
    """Return CPU and wall seconds of each test, with its part of what fixtures cost.

    Each test function that needs a fixture has the same part, and so has each of its cases.
    """
    fixtures: defaultdict[str, float] = defaultdict(float)
    users: defaultdict[str, set[str]] = defaultdict(set)
    cases = Counter(cost.function for cost in costs)
    for cost in costs:
        for place, cpu in cost.set_up.items():
            fixtures[place] += cpu
        for place in cost.shares:
            users[place].add(cost.function)
    parts = {place: cpu / len(users[place]) for place, cpu in fixtures.items()}
    return {
        cost.test: (cost.cpu_s + sum(parts.get(place, 0.0) for place in cost.shares) / cases[cost.function], cost.wall_s)
        for cost in costs
    }


def table(title: str, costs: Mapping[str, tuple[float, float]], most: int) -> Iterator[str]:
    """Yield the rows of those that cost the most; costs: CPU and wall seconds by name."""
    whole = sum(cpu for cpu, _ in costs.values())
    yield f"\n{title}: {len(costs)}, {whole:.0f} s of CPU\n    CPU s   share   wall s"
    for name, (cpu, wall) in sorted(costs.items(), key=lambda cost: -cost[1][0])[:most]:
        yield f"{cpu:9.2f} {cpu / whole:7.1%} {wall:8.2f}  {name}"


def costly(before: Iterable[str], tests: Mapping[str, float]) -> list[str]:
    """Return the functions that are costly: by what their cases cost, and of those that were not run the ones from before.

    tests: CPU seconds of each case that was run, by its node id.
    """
    functions: defaultdict[str, float] = defaultdict(float)
    for name, cpu in tests.items():
        functions[name.partition("[")[0]] += cpu
    kept = [name for name in before if name not in functions and is_there(name)]
    return sorted([*kept, *(name for name, cpu in functions.items() if cpu >= COSTLY_S)])


def is_there(name: str) -> bool:
    """Whether the file of a test defines its function, or the class that it belongs to."""
    file, first, *_ = name.split("::")
    defines = re.compile(rf"^\s*(def|async def|class) {first}\b|^{first} = ", re.MULTILINE)
    return (ROOT / file).is_file() and bool(defines.search(_text(ROOT / file)))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="how many tests to list, and as many files")
    parser.add_argument("--write", action="store_true", help=f"choose anew which tests `make fast` leaves out: {COSTLY.name}")
    given, arguments = parser.parse_known_args()
    costs: list[Cost] = []
    files: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        # not by -m, which would be part of the command's own name in what it prints
        command = [str(Path(sys.executable).with_name("pytest")), "-p", "benchmarks.slow_tests", "-q", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | {FOLDER: folder, "PYTHONPATH": str(ROOT)}, check=False)
        for path in Path(folder).iterdir():
            costs += [Cost(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    tests = shared_out(costs)
    for name, (cpu, wall) in tests.items():
        file = name.partition("::")[0]
        files[file] = files[file][0] + cpu, files[file][1] + wall
    if given.write and ended.returncode == 0:
        names = costly(COSTLY.read_text(encoding="utf-8").splitlines(), {name: cpu for name, (cpu, _) in tests.items()})
        COSTLY.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(*table("files", files, given.most), *table("tests", tests, given.most), sep="\n")
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
