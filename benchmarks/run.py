"""Speed side by side: `make bench`, or `make bench-peers` with the peers installed. Markdown to stdout.

python benchmarks/run.py [--section NAME …] [--rounds N] [--large N] [--quick] [--peers PYTHON] [--write]

Each number comes from a process of its own; rounds are interleaved, medians and ratios are shown. What is not installed is left
out, and said so on stderr. --write renews docs/speed.md, --quick makes everything small: the numbers then mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pages import write_block

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "speed.md"
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """One that solves the task, over and over."""

    name: str
    arguments: tuple[str, ...]
    """Of `python -m`, in this folder."""
    trials: int
    """Without latency."""
    needs: tuple[str, ...] = ()
    """Distributions."""
    is_peer: bool = False
    """Runs in the peers' environment."""


HAND = Program("hand-written asyncio loop", ("hand",), 20_000)
OURS = tuple(Program(f"`{name}`", ("ours", name), 2_000) for name in ("bare", "finish", "phased", "react_extract", "stateless"))
DSPY = Program("dspy.ReAct, dspy.Evaluate", ("dspy_react",), 200, ("dspy",))
RIVALS = (
    Program("LangGraph create_agent", ("peers.langgraph",), 300, ("langgraph", "langchain"), is_peer=True),
    Program("pydantic-ai, pydantic-evals", ("peers.pydantic_evals",), 300, ("pydantic-ai-slim", "pydantic-evals"), is_peer=True),
    Program("Inspect AI, mock model", ("peers.inspect_ai",), 100, ("inspect-ai",), is_peer=True),
)
BARE, REACT = OURS[0], OURS[3]
READING = Program("`bare`, the others' model", ("reading",), 2_000)
ALL = (HAND, *OURS, READING, DSPY, *RIVALS)
LENGTHS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Sizes:
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
    tasks: int = 1_000
    repeats: int = 100
    burning: int = 200
    """Trials of the loop that keeps its processor busy."""
    chained: int = 3_200
    """Calls of tools in all."""
    ours: tuple[Program, ...] = OURS


QUICK = Sizes(
    rounds=1,
    part=0.01,
    latency_ms=10,
    flights=(4, 8),
    waves=2,
    waves_of_dspy=1,
    tasks=10,
    repeats=3,
    burning=4,
    chained=128,
    ours=(BARE, REACT),
)


@dataclass(frozen=True)
class Bench:
    """What to measure with."""

    sizes: Sizes
    peers: Path
    """Their Python."""
    versions: Callable[[Program], dict[str, str] | None]
    """Of what a program needs; None where that is not installed."""

    def programs(self, *, with_peers: bool) -> list[Program]:
        """Those that are measured side by side, as far as they are installed."""
        rivals = RIVALS if with_peers else ()
        return [program for program in (HAND, *self.sizes.ours, READING, DSPY, *rivals) if self.versions(program) is not None]

    def once(self, program: Program, *arguments: int) -> Numbers:
        """One process; leaves with an error where it fails, or where not every answer was right."""
        python = str(self.peers) if program.is_peer else sys.executable
        command = [python, "-m", *program.arguments, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
        if done.returncode:
            sys.exit(f"{program.name} failed:\n{done.stderr}")
        line: Numbers = json.loads(done.stdout.splitlines()[-1])
        if line.get("right", line.get("trials")) != line.get("trials"):
            sys.exit(f"{program.name}: {line['right']} of {line['trials']} right; a benchmark of wrong answers measures nothing")
        print(f"{program.name} {' '.join(map(str, arguments))}", file=sys.stderr, flush=True)
        return line

    def medians(self, todo: Sequence[tuple[Program, tuple[int, ...]]]) -> list[Numbers]:
        """Of each program with its arguments; rounds are interleaved."""
        rounds = [[self.once(program, *arguments) for program, arguments in todo] for _ in range(self.sizes.rounds)]
        return [{key: statistics.median(line[key] for line in lines) for key in lines[0]} for lines in zip(*rounds, strict=True)]


@dataclass(frozen=True)
class Table:
    """What a section gives."""

    rows: list[list[str]]
    ratios: list[str]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    head: tuple[str, ...]
    labels: tuple[str, ...]
    """First cells of its rows, where everything is installed."""
    measure: Callable[[Bench], Table]


# --- what is measured ---


def cost(bench: Bench) -> Table:
    programs = bench.programs(with_peers=True)
    trials = [max(2, int(program.trials * bench.sizes.part)) for program in programs]
    found = dict(
        zip(programs, bench.medians([(program, (n, 0, 1)) for program, n in zip(programs, trials, strict=True)]), strict=True)
    )
    rows = [
        [
            program.name,
            f"{line['trials_per_s']:,.0f}",
            f"{line['cpu_ms_per_trial']:.2f}",
            f"{line['cpu_ms_per_call']:.3f}",
            f"{line['peak_mb']:.0f}",
            _ratio(found[DSPY]["cpu_ms_per_trial"], line["cpu_ms_per_trial"]),
        ]
        for program, line in found.items()
    ]
    others = [program for program in found if program is DSPY or program.is_peer]
    fastest = max(others, key=lambda program: found[program]["trials_per_s"])
    share = 1 - found[READING]["cpu_ms_per_trial"] / found[BARE]["cpu_ms_per_trial"]
    leanest = min(others, key=lambda program: found[program]["cpu_ms_per_trial"])
    return Table(
        rows,
        [
            f"`bare` makes {_ratio(found[BARE]['trials_per_s'], found[fastest]['trials_per_s'])} times the trials per second of "
            f"the fastest of the others, {fastest.name}.",
            f"Before the others' model it makes {_ratio(found[READING]['trials_per_s'], found[fastest]['trials_per_s'])} times as "
            f"many: the tunnel's own takes {share:.0%} of the CPU.",
            f"The one that takes least CPU, {leanest.name}, takes "
            f"{_ratio(found[leanest]['cpu_ms_per_trial'], found[BARE]['cpu_ms_per_trial'])} times that of `bare`.",
            f"dspy.ReAct takes {_ratio(found[DSPY]['cpu_ms_per_trial'], found[REACT]['cpu_ms_per_trial'])} times the CPU of "
            f"`react_extract`, the same design with the same prompts.",
        ],
    )


def waiting_at(place: int, bench: Bench) -> Table:
    """Return the table of one of the numbers of trials in flight, by its place among them."""
    return waiting(bench, bench.sizes.flights[place])


def waiting(bench: Bench, flight: int) -> Table:
    programs, sizes = bench.programs(with_peers=False), bench.sizes
    trials = [flight * (sizes.waves_of_dspy if program is DSPY else sizes.waves) for program in programs]
    found = bench.medians([(program, (n, sizes.latency_ms, flight)) for program, n in zip(programs, trials, strict=True)])
    limit = found[0]["share_of_ideal"]
    rows = [
        [
            program.name,
            f"{line['share_of_ideal']:.3f}",
            f"{line['share_of_ideal'] / limit:.1%}",
            f"{line['cpu_ms_per_trial']:.2f}",
        ]
        for program, line in zip(programs, found, strict=True)
    ]
    busy_ms = 4 * sizes.latency_ms / flight
    return Table(rows, [f"One processor has {busy_ms:.2f} ms for a trial of four calls: what takes more cannot keep up."])


def scale(bench: Bench) -> Table:
    sizes, program = bench.sizes, Program("bare by size", ("scale",), 0)
    (small,) = bench.medians([(program, (sizes.tasks, 1))])
    large = bench.once(program, sizes.tasks, sizes.repeats)
    more = large["trials"] - small["trials"]
    rows = [
        [SCALED[0], *(f"{line['trials']:,.0f}" for line in (small, large))],
        [SCALED[1], *(f"{1000 * line['run_s'] / line['trials']:.3f} ms" for line in (small, large))],
        [SCALED[2], *(f"{1000 * line['run_cpu_s'] / line['trials']:.3f} ms" for line in (small, large))],
        [SCALED[3], *(f"{line['run_mb']:.1f} MB" for line in (small, large))],
        [SCALED[4], *(f"{1024 * line['folder_mb'] / line['trials']:.2f} KB" for line in (small, large))],
        [SCALED[5], *(f"{line['read_s']:.2f} s" for line in (small, large))],
        [SCALED[6], *(f"{line['read_mb']:.0f} MB" for line in (small, large))],
        [SCALED[7], *(f"{line['log_s']:.2f} s" for line in (small, large))],
        [SCALED[8], *(f"{line['log_mb']:.0f} MB" for line in (small, large))],
    ]
    kept = 2**20 * (large["run_mb"] - small["run_mb"]) / more
    slower = (large["run_s"] / large["trials"]) / (small["run_s"] / small["trials"])
    return Table(
        rows,
        [
            f"A trial of the large run takes {slower:.2f} times the time of one of the small run.",
            f"While trials run, memory grows by {kept:.0f} bytes for each that has ended.",
            "On Linux, and without other threads (`--model local` starts some), "
            "the process that runs the trials does not even import MLflow.",
        ],
    )


def processes(bench: Bench) -> Table:
    plans = [(Program(what, ("workers", what), 0), count) for what in ("burning", "plain") for count in (1, 2)]
    found = bench.medians([(program, (count, bench.sizes.burning)) for program, count in plans])
    speeds = [line["trials_per_s"] for line in found]
    rows = [
        [name, f"{one:.2f}", f"{two:.2f}", f"{two / one:.2f}"]
        for name, one, two in zip(BUSY, speeds[::2], speeds[1::2], strict=True)
    ]
    share = (speeds[1] / speeds[0]) / (speeds[3] / speeds[2])
    return Table(rows, [f"Two workers gain {share:.0%} of what two plain processes gain."])


def growth(bench: Bench) -> Table:
    plans = [(program, length) for program in bench.sizes.ours for length in LENGTHS]
    todo = [
        (replace(program, arguments=(*program.arguments, str(length))), (bench.sizes.chained // length, 0, 1))
        for program, length in plans
    ]
    costs = [f"{line['cpu_ms_per_call']:.3f}" for line in bench.medians(todo)]
    width = len(LENGTHS)
    return Table([[program.name, *costs[i * width : (i + 1) * width]] for i, program in enumerate(bench.sizes.ours)], [])


def _ratio(one: float, other: float) -> str:
    ratio = one / other
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}"


SCALED = (
    "trials",
    "running: time per trial",
    "running: CPU time per trial",
    "running: memory",
    "run directory: size per trial",
    "reading and comparing: time",
    "reading and comparing: memory",
    "logging to MLflow, SQLite: time",
    "logging to MLflow, SQLite: memory",
)
BUSY = ("`bare` that hashes 32 MB at each step", "as much hashing in plain processes")
LOOP = "loop"

SECTIONS = (
    Section(
        "cost",
        "What a trial costs",
        (LOOP, "trials/s", "CPU ms per trial", "CPU ms per model call", "peak MB", "CPU of dspy.ReAct over this"),
        tuple(program.name for program in ALL),
        cost,
    ),
    *(
        Section(
            f"flight-{flight}",
            f"{flight} in flight, {Sizes.latency_ms} ms per model call",
            (LOOP, "share of ideal", "of the hand-written loop's", "CPU ms per trial"),
            tuple(program.name for program in (HAND, *OURS, READING, DSPY)),
            partial(waiting_at, place),
        )
        for place, flight in enumerate(Sizes.flights)
    ),
    Section("scale", "A large run beside a small one", ("`bare`", "small", "large"), SCALED, scale),
    Section("workers", "One worker process and two", ("", "trials/s of one", "trials/s of two", "ratio"), BUSY, processes),
    Section(
        "growth",
        "CPU ms per model call by tool calls per task",
        (LOOP, *map(str, LENGTHS)),
        tuple(program.name for program in OURS),
        growth,
    ),
)
"""All that the page shows."""


# --- what is printed ---


def markdown(section: Section, table: Table) -> str:
    lines = [section.head, ["---"] * len(section.head), *table.rows]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    said = "\n".join(f"- {line}" for line in table.ratios)
    return "\n\n".join(filter(None, [f"## {section.title}", body, said]))


def conditions(bench: Bench) -> str:
    """Machine, versions and rounds, in a line each."""
    versions: dict[str, str] = {}
    for program in ALL:
        versions |= bench.versions(program) or {}
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    system = f"{platform.system()}, Python {platform.python_version()}"
    return "\n".join(
        [
            f"- {os.cpu_count()} processors, {_processor()}; {system}",
            f"- {said}",
            f"- medians of {bench.sizes.rounds} interleaved rounds; of the large run there is one",
        ]
    )


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)$", known.read_text(), re.MULTILINE) if known.exists() else None
    return found[1] if found else platform.machine()


# --- which is there ---

VERSIONS = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
print(json.dumps({name: of(name) for name in sys.argv[1:]}))
"""


def installed(peers: Path) -> Callable[[Program], dict[str, str] | None]:
    """Looks versions up, of the peers in their own environment, each environment asked once."""
    found: dict[str, str | None] = {}
    for python, is_peer in ((Path(sys.executable), False), (peers, True)):
        needs = [name for program in ALL if program.is_peer == is_peer for name in program.needs]
        if python.exists():
            command = [str(python), "-c", VERSIONS, *needs]
            found |= json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def versions(program: Program) -> dict[str, str] | None:
        made = {name: version for name in program.needs if (version := found.get(name)) is not None}
        return made if len(made) == len(program.needs) else None

    return versions


def tables(sections: Sequence[Section], bench: Bench) -> Iterator[str]:
    for section in sections:
        yield markdown(section, section.measure(bench))


def write(text: str) -> None:
    write_block(PAGE, "speed", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", action="append", choices=[section.name for section in SECTIONS])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--large", type=int, help="trials of the large run, a multiple of 1,000 [default: 100,000]")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of the peers' environment")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    sizes = QUICK if given.quick else Sizes()
    sizes = replace(sizes, rounds=given.rounds or sizes.rounds)
    if given.large:
        sizes = replace(sizes, repeats=given.large // sizes.tasks)
    bench = Bench(sizes, given.peers, installed(given.peers))
    for program in ALL:
        if bench.versions(program) is None:
            print(f"skipped: {program.name} is not installed (make bench-peers)", file=sys.stderr)
    made = [conditions(bench)]
    print(made[0], flush=True)
    for text in tables([section for section in SECTIONS if not given.section or section.name in given.section], bench):
        made.append(text)
        print(f"\n{text}", flush=True)
    if given.write:
        write("\n\n".join(made))


if __name__ == "__main__":
    main()
