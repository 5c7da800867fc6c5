"""How long commands take to their answer and to their exit, and how much CPU; Markdown.

python benchmarks/waits.py [--rounds N] [--write]

Each command is a process of its own in a new folder, after a first round that does not count: it fills Python's caches and makes
MLflow's empty store. The answer is there with the first line that a command prints. `why`, `report` and `show` read the run that
`compare` has left. CPU is that of all processes of a command.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pages import write_block

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
HEAD = ("command", "CPU, s", "to the answer, s", "to the exit, s")
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
COMPARE = (
    "compare",
    *(word for loop in LOOPS for word in ("--loop", loop)),
    "--profile",
    "flaky-format",
    "--profile",
    "flaky-tools",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "`compare`: five designs, two profiles, 120 tasks": COMPARE,
    "the same without MLflow": (*COMPARE, "--no-mlflow"),
    "`compare --loop bare --tasks 1 --no-mlflow`": ("compare", "--loop", "bare", "--tasks", "1", "--no-mlflow"),
    "`report RUN`": ("report", "RUN"),
    "`why RUN`": ("why", "RUN"),
    "`show RUN`": ("show", "RUN"),
    "`list loops`": ("list", "loops"),
    "`list profiles`": ("list", "profiles"),
    "`compare --help`": ("compare", "--help"),
    "`--help`": ("--help",),
}
"""Label → command; RUN stands for the run directory of the first one."""


class Wait(NamedTuple):
    """What a command takes, in seconds."""

    cpu: float
    answer: float
    """From its start to the first line that it prints."""
    exit: float
    """From its start."""


def timed(words: Sequence[str], folder: Path) -> Wait:
    """Return what a command takes. Raises CalledProcessError if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "whichloop", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None  # it is a pipe
        process.stdout.readline()
        answer = time.monotonic() - start
        process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Wait(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, answer, wall)


def measured(rounds: int) -> dict[str, Wait]:
    """Return the medians of each command, rounds interleaved."""
    found: dict[str, list[Wait]] = {label: [] for label in COMMANDS}
    with tempfile.TemporaryDirectory() as name:
        for number in range(rounds + 1):
            folder = Path(name) / str(number)
            folder.mkdir()
            for label, words in COMMANDS.items():
                run = min(
                    (path.parent for path in folder.glob("runs/*/report.html")), default=folder
                )  # the first: names begin with the time
                spent = timed([str(run) if word == "RUN" else word for word in words], folder)
                if number:
                    found[label].append(spent)
    return {label: Wait(*map(median, zip(*spent, strict=True))) for label, spent in found.items()}


def table(rounds: int) -> str:
    load = os.getloadavg()[0]
    lines = [f"| {' | '.join(HEAD)} |", "| --- | --- | --- | --- |"]
    lines += [f"| {label} | {wait.cpu:.2f} | {wait.answer:.2f} | {wait.exit:.2f} |" for label, wait in measured(rounds).items()]
    beside = f"{os.cpu_count()} processors, {load:.1f} processes at work on them at the start"
    return "\n".join([*lines, "", f"- {f'medians of {rounds} interleaved rounds' if rounds > 1 else 'one round'}; {beside}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = table(given.rounds)
    print(made)
    if given.write:
        write_block(PAGE, "waits", made)


if __name__ == "__main__":
    main()
