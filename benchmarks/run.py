"""Speed side by side: `make bench`, or `make bench-peers` with the peers installed. Markdown to stdout.

python benchmarks/run.py [--quick] [--write]

Each number comes from a process of its own; rounds are interleaved, medians are shown. What is not installed is left out, and
said so on stderr. --write renews docs/speed.md, --quick makes everything small: the numbers then mean nothing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pages import arguments_of, columns, write_block

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "speed.md"
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
Numbers = dict[str, Any]


class Program(NamedTuple):
    """One that solves the task, over and over."""

    name: str
    program: str
    """Its name in benchmarks/programs.py."""
    trials: int
    """Without latency."""
    needs: tuple[str, ...] = ()
    """Distributions."""
    is_peer: bool = False
    """Whether it runs in the peers' environment."""


DSPY = Program("dspy.ReAct, dspy.Evaluate", "dspy_react", 200, ("dspy",))
ALL = (
    Program("hand-written asyncio loop", "hand", 20_000),
    *(Program(f"`{name}`", name, 2_000) for name in ("bare", "finish", "phased", "react_extract", "stateless")),
    Program("`bare`, the others' model", "reader", 2_000),
    DSPY,
    Program("LangGraph create_agent", "langgraph", 300, ("langgraph", "langchain"), is_peer=True),
    Program("pydantic-ai, pydantic-evals", "pydantic_evals", 300, ("pydantic-ai-slim", "pydantic-evals"), is_peer=True),
    Program("Inspect AI, mock model", "inspect_ai", 100, ("inspect-ai",), is_peer=True),
)
COST = ("loop", "trials/s", "CPU ms per trial", "CPU ms per model call", "peak MB", "CPU of dspy.ReAct over this")
WAITING = ("loop", "share of ideal", "of the hand-written loop's", "CPU ms per trial")


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int = 2
    part: float = 1.0
    """Of the usual number of trials without latency."""
    latency_ms: int = 200
    flights: tuple[int, int] = (64, 512)
    waves: int = 16
    """Trials per place in flight: every wave is full, so that all of the ideal can be reached."""
    waves_of_dspy: int = 2
    """Of dspy.ReAct, which takes minutes for as many."""


QUICK = Sizes(rounds=1, part=0.01, latency_ms=10, flights=(4, 8), waves=2, waves_of_dspy=1)


def once(program: Program, arguments: Sequence[int]) -> Numbers:
    """One process; leaves with an error where it fails, or where not every answer was right."""
    command = [PEERS if program.is_peer else sys.executable, "-m", "programs", program.program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode:
        sys.exit(f"{program.name} failed:\n{done.stderr}")
    line: Numbers = json.loads(done.stdout.splitlines()[-1])
    if line["right"] != line["trials"]:
        sys.exit(f"{program.name}: {line['right']} of {line['trials']} right; a benchmark of wrong answers measures nothing")
    print(f"{program.name} {' '.join(map(str, arguments))}", file=sys.stderr, flush=True)
    return line


def medians(rounds: int, todo: Sequence[tuple[Program, tuple[int, ...]]]) -> list[Numbers]:
    """Of each program with its arguments; rounds are interleaved."""
    found = [[once(program, arguments) for program, arguments in todo] for _ in range(rounds)]
    return [{key: statistics.median(line[key] for line in lines) for key in lines[0]} for lines in zip(*found, strict=True)]


def tables(sizes: Sizes, programs: Sequence[Program]) -> Iterator[str]:
    """Yield what the page shows, section by section."""
    found = medians(sizes.rounds, [(each, (max(4, int(each.trials * sizes.part)), 0, 1)) for each in programs])
    base = found[programs.index(DSPY)]["cpu_ms_per_trial"]
    rows = [COST]
    for program, line in zip(programs, found, strict=True):
        trial, ratio = line["cpu_ms_per_trial"], base / line["cpu_ms_per_trial"]
        times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
        rate, call, peak = f"{line['trials_per_s']:,.0f}", f"{line['cpu_ms_per_call']:.3f}", f"{line['peak_mb']:.0f}"
        rows.append((program.name, rate, f"{trial:.2f}", call, peak, times))
    yield "\n".join(["## What a trial costs", "", *columns(rows)])
    here = [program for program in programs if not program.is_peer]
    for flight in sizes.flights:
        waves = [sizes.waves_of_dspy if program is DSPY else sizes.waves for program in here]
        found = medians(sizes.rounds, [(each, (flight * n, sizes.latency_ms, flight)) for each, n in zip(here, waves, strict=True)])
        waited = [WAITING]
        for program, line in zip(here, found, strict=True):
            share = line["share_of_ideal"]
            of_hand = share / found[0]["share_of_ideal"]
            waited.append((program.name, f"{share:.3f}", f"{of_hand:.1%}", f"{line['cpu_ms_per_trial']:.2f}"))
        yield "\n".join([f"## {flight} in flight, {sizes.latency_ms} ms per model call", "", *columns(waited)])


VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""


def versions() -> dict[str, str]:
    """What the programs need and have, the peers in their own environment."""
    found: dict[str, str] = {}
    for python, is_peer in ((sys.executable, False), (str(PEERS), True)):
        needs = [name for program in ALL if program.is_peer == is_peer for name in program.needs]
        if Path(python).exists():
            said = subprocess.run([python, "-c", VERSIONS, *needs], capture_output=True, text=True, check=True).stdout
            for line in said.splitlines():
                name, version = line.split()
                found[name] = version
    return found


def conditions(rounds: int, found: dict[str, str]) -> str:
    """Machine, versions and rounds, in a line each."""
    info = Path("/proc/cpuinfo")
    processor = re.search(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else None
    name = processor[1] if processor else platform.machine()
    machine = f"- {os.cpu_count()} processors, {name}; {platform.system()}, Python {platform.python_version()}"
    packages = f"- {', '.join(f'{name} {version}' for name, version in sorted(found.items()))}"
    return f"{machine}\n{packages}\n- medians of {rounds} interleaved rounds"


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    sizes, found = QUICK if given.quick else Sizes(), versions()
    programs = [program for program in ALL if found.keys() >= set(program.needs)]
    for program in {*ALL} - {*programs}:
        print(f"skipped: {program.name} is not installed (make bench-peers)", file=sys.stderr)
    made = [conditions(sizes.rounds, found)]
    print(made[0], flush=True)
    for text in tables(sizes, programs):
        made.append(text)
        print(f"\n{text}", flush=True)
    if given.write:
        write_block(PAGE, "speed", "\n\n".join(made))


if __name__ == "__main__":
    main()
