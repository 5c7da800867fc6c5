"""Speed side by side: `make bench`, or `make bench-peers` with the peers installed. Markdown to stdout.

python benchmarks/run.py [--rounds N] [--quick] [--peers PYTHON] [--write]

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
    arguments: tuple[str, str]
    """Of `python -m`, in this folder."""
    trials: int
    """Without latency."""
    needs: tuple[str, ...] = ()
    """Distributions."""

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the peers' environment."""
        return self.arguments[0] == "peers"


HAND = Program("hand-written asyncio loop", ("programs", "hand"), 20_000)
DSPY = Program("dspy.ReAct, dspy.Evaluate", ("programs", "dspy_react"), 200, ("dspy",))
ALL = (
    HAND,
    *(Program(f"`{name}`", ("programs", name), 2_000) for name in ("bare", "finish", "phased", "react_extract", "stateless")),
    Program("`bare`, the others' model", ("programs", "reader"), 2_000),
    DSPY,
    Program("LangGraph create_agent", ("peers", "langgraph"), 300, ("langgraph", "langchain")),
    Program("pydantic-ai, pydantic-evals", ("peers", "pydantic_evals"), 300, ("pydantic-ai-slim", "pydantic-evals")),
    Program("Inspect AI, mock model", ("peers", "inspect_ai"), 100, ("inspect-ai",)),
)
COST = ("loop", "trials/s", "CPU ms per trial", "CPU ms per model call", "peak MB", "CPU of dspy.ReAct over this")
WAITING = ("loop", "share of ideal", "of the hand-written loop's", "CPU ms per trial")


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int = 3
    part: float = 1.0
    """Of the usual number of trials without latency."""
    latency_ms: int = 200
    flights: tuple[int, int] = (64, 512)
    waves: int = 16
    """Trials per place in flight: every wave is full, so that all of the ideal can be reached."""
    waves_of_dspy: int = 2
    """Of dspy.ReAct, which takes minutes for as many."""


QUICK = Sizes(rounds=1, part=0.01, latency_ms=10, flights=(4, 8), waves=2, waves_of_dspy=1)


def once(python: Path, program: Program, arguments: Sequence[int]) -> Numbers:
    """One process; leaves with an error where it fails, or where not every answer was right."""
    command = [str(python if program.is_peer else sys.executable), "-m", *program.arguments, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode:
        sys.exit(f"{program.name} failed:\n{done.stderr}")
    line: Numbers = json.loads(done.stdout.splitlines()[-1])
    if line["right"] != line["trials"]:
        sys.exit(f"{program.name}: {line['right']} of {line['trials']} right; a benchmark of wrong answers measures nothing")
    print(f"{program.name} {' '.join(map(str, arguments))}", file=sys.stderr, flush=True)
    return line


def medians(python: Path, rounds: int, todo: Sequence[tuple[Program, tuple[int, ...]]]) -> list[Numbers]:
    """Of each program with its arguments; rounds are interleaved."""
    found = [[once(python, program, arguments) for program, arguments in todo] for _ in range(rounds)]
    return [{key: statistics.median(line[key] for line in lines) for key in lines[0]} for lines in zip(*found, strict=True)]


def tables(sizes: Sizes, python: Path, programs: Sequence[Program]) -> Iterator[str]:
    """Yield what the page shows, section by section."""
    found = medians(python, sizes.rounds, [(each, (max(4, int(each.trials * sizes.part)), 0, 1)) for each in programs])
    base = found[programs.index(DSPY)]["cpu_ms_per_trial"]
    rows: list[tuple[str, ...]] = []
    for program, line in zip(programs, found, strict=True):
        trial, ratio = line["cpu_ms_per_trial"], base / line["cpu_ms_per_trial"]
        times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
        shown = (f"{line['trials_per_s']:,.0f}", f"{trial:.2f}", f"{line['cpu_ms_per_call']:.3f}", f"{line['peak_mb']:.0f}", times)
        rows.append((program.name, *shown))
    yield section("What a trial costs", COST, rows)
    here = [program for program in programs if not program.is_peer]
    for flight in sizes.flights:
        trials = [flight * (sizes.waves_of_dspy if program is DSPY else sizes.waves) for program in here]
        todo = [(program, (count, sizes.latency_ms, flight)) for program, count in zip(here, trials, strict=True)]
        rows = []
        found = medians(python, sizes.rounds, todo)
        for program, line in zip(here, found, strict=True):
            share = line["share_of_ideal"]
            of_hand = share / found[0]["share_of_ideal"]
            rows.append((program.name, f"{share:.3f}", f"{of_hand:.1%}", f"{line['cpu_ms_per_trial']:.2f}"))
        yield section(f"{flight} in flight, {sizes.latency_ms} ms per model call", WAITING, rows)


def section(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([f"## {title}", "", *columns([names, *rows])])


VERSIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({each.name: each.version for each in distributions()}))
"""


def versions(python: Path) -> dict[str, str]:
    """What the programs need and have, the peers in their own environment."""
    found: dict[str, str] = {}
    for one, is_peer in ((Path(sys.executable), False), (python, True)):
        needs = {name for program in ALL if program.is_peer == is_peer for name in program.needs}
        if one.exists():
            said = subprocess.run([str(one), "-c", VERSIONS], capture_output=True, text=True, check=True).stdout
            installed = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in json.loads(said).items()}
            found |= {name: installed[name] for name in needs & installed.keys()}
    return found


def conditions(rounds: int, found: dict[str, str]) -> str:
    """Machine, versions and rounds, in a line each."""
    info = Path("/proc/cpuinfo")
    processor = re.search(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else None
    name = processor[1] if processor else platform.machine()
    return "\n".join(
        [
            f"- {os.cpu_count()} processors, {name}; {platform.system()}, Python {platform.python_version()}",
            f"- {', '.join(f'{name} {version}' for name, version in sorted(found.items()))}",
            f"- medians of {rounds} interleaved rounds",
        ]
    )


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of the peers' environment")
    given = parser.parse_args()
    sizes = QUICK if given.quick else Sizes()
    sizes = sizes._replace(rounds=given.rounds or sizes.rounds)
    found = versions(given.peers)
    programs = [program for program in ALL if found.keys() >= set(program.needs)]
    for program in {*ALL} - {*programs}:
        print(f"skipped: {program.name} is not installed (make bench-peers)", file=sys.stderr)
    made = [conditions(sizes.rounds, found)]
    print(made[0], flush=True)
    for text in tables(sizes, given.peers, programs):
        made.append(text)
        print(f"\n{text}", flush=True)
    if given.write:
        write_block(PAGE, "speed", "\n\n".join(made))


if __name__ == "__main__":
    main()
