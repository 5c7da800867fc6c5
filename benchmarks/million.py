"""A run directory of a million trials: how long its commands take, and how much memory.

python benchmarks/million.py FOLDER [--tasks 1000] [--repeats 1000] [--profile clean] [--write]

The records are true ones: one repeat of every task is run, and its trials are written again under the other repeats' numbers by the
journal that writes every run. FOLDER keeps the run, so that a second call only measures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pages import write_block
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.run_state import read_records
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store.journal import Journal
from whichloop.runs.store.traces import Traces

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
PROBE = """
import json, resource, sys, time
begin = time.process_time()
{code}
took = time.process_time() - begin
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]), file=sys.stderr)
"""
"""Runs code and says to standard error how many seconds of CPU it took, and its peak of memory in MB."""


def experiment(folder: Path, tasks: int, repeats: int, profile: str) -> Experiment:
    """Prepare a run of `bare` over sums."""
    settings = CompareConfig(
        loops=("bare",), suite=f"sums:load(size={tasks})", profiles=(profile,), repeats=repeats, mlflow=False, runs=folder
    )
    return prepare(settings)


def repeated(folder: Path, tasks: int, repeats: int, profile: str) -> Path:
    """Make the run, and return its directory."""
    once = experiment(folder / "once", tasks, 1, profile)
    run(once, Unwatched())
    trials = [(record, Traces(once.folder).read(record)) for record in read_records(once.folder)]
    whole = experiment(folder / "whole", tasks, repeats, profile)
    with Journal(whole.folder) as journal:
        for record, trace in _under_other_numbers(trials, repeats):
            journal.append(record, trace)
    return whole.folder


def _under_other_numbers(trials: Sequence[tuple[Record, Trace]], repeats: int) -> Iterator[tuple[Record, bytes]]:
    texts = [json.dumps(trace.to_json(), separators=(",", ":")).encode() + b"\n" for _, trace in trials]
    for repeat in range(repeats):
        number = b'"repeat":%d,' % repeat
        for place, ((record, _), text) in enumerate(zip(trials, texts, strict=True)):
            seed, start = record.seed + repeat, record.started_at + repeat * len(trials) * record.wall_s
            own = replace(record, repeat=repeat, seed=seed, started_at=start + place * record.wall_s, trace_at=None)
            yield own, text.replace(b'"repeat":0,', number, 1)


def measured(code: str) -> tuple[float, float]:
    """Return the seconds of CPU and the peak of memory in MB of code in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", PROBE.format(code=code)], capture_output=True, text=True, check=False)
    took, peak = json.loads(ended.stderr.splitlines()[-1])
    return took, peak


def codes(folder: Path) -> dict[str, str]:
    """Return what is measured, as Python."""

    def command(*words: str) -> str:
        return f"from whichloop.cli.main import app\ntry: app({list(words)!r})\nexcept SystemExit: pass"

    import_state = "from pathlib import Path\nfrom whichloop.runs.run_state import read_state\n"
    return {
        "`read_state`, which `resume` reads": f"{import_state}read_state(Path({str(folder)!r}))",
        "`show` of one trial": command("show", str(folder), "bare/clean/sum-000007/3"),
        "`report --no-html`": command("report", str(folder), "--no-html"),
        "`report`": command("report", str(folder)),
        "DataFrame of the trials": f"import whichloop\nwhichloop.load({str(folder)!r}).trials",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--profile", default="clean")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    found = [path.parent for path in (given.folder / "whole").glob(f"*/{MANIFEST}")]
    begin = time.perf_counter()
    folder = found[0] if found else repeated(given.folder, given.tasks, given.repeats, given.profile)
    made = f"{given.tasks * given.repeats:,} trials of `bare`, profile {given.profile}"
    print(f"{made}; made in {time.perf_counter() - begin:.1f} s", flush=True)
    lines = ["| what | CPU, s | peak memory, MB |", "| --- | --- | --- |"]
    for label, code in codes(folder).items():
        took, peak = measured(code)
        lines.append(f"| {label} | {took:.1f} | {peak:.0f} |")
        print(lines[-1], flush=True)
    size = ", ".join(
        f"{path.name} {path.stat().st_size / 2**20:,.0f} MB" for path in sorted(folder.iterdir()) if path.stat().st_size
    )
    if given.write:
        table = "\n".join([*lines, "", f"- {made}; {size}"])
        write_block(PAGE, "million", table)


if __name__ == "__main__":
    main()
