"""What the harness adds to a framework's CPU, per trial; Markdown.

python benchmarks/overhead.py [--framework NAME …] [--trials N] [--write]

Each framework runs the task of docs/speed.md twice: as an arm, with everything recorded, and alone, before a plain server that
replies from a prepared list (plain_worker.py). What the arm takes beyond that, in the harness and in the framework's process, is
added. Two runs of different length take out what start and imports cost. Frameworks that are not installed are skipped, and named.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sums import TOOLS

from frameworks import PAGE
from pages import write_block
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.frameworks.installing import framework_class
from whichloop.frameworks.table import Framework
from whichloop.programs.environment import framework_environment
from whichloop.programs.trial import described
from whichloop.programs.worker import RUNNER
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

FRAMEWORKS = ("agno", "langchain", "langgraph", "openai_agents", "pydantic_ai")
"""Those whose requests the plain server understands: whole replies, and an answer in text."""
TOGETHER = 16
SHORT = 16
"""Trials of the short run: they start the processes and warm them up."""


class Spent(NamedTuple):
    """CPU of a run, in seconds."""

    harness: float
    framework: float


def spent(name: str, trials: int) -> Spent:
    """Run a framework as an arm."""
    before = _cpu()
    with tempfile.TemporaryDirectory() as folder:
        config = CompareConfig(
            loops=(name,),
            suite=f"sums:load(size={trials})",
            profiles=("clean",),
            concurrency=TOGETHER,
            mlflow=False,
            runs=Path(folder),
        )
        run(prepare(config), Unwatched())
    after = _cpu()
    return Spent(after.harness - before.harness, after.framework - before.framework)


def _cpu() -> Spent:
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Spent(own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime)


def alone(framework: Framework, trials: int) -> float:
    """Return the CPU milliseconds per trial of a framework before the plain server."""
    job: dict[str, Any] = {
        "question": "What is (1 + 2) * 1 + 7? Use the tools.",
        "tools": [described(tool) for tool in TOOLS],
        "options": dict(framework.options()),
        "trials": trials,
        "together": TOGETHER,
    }
    worker = Path(__file__).with_name("plain_worker.py")
    words = [framework.environment.python, str(worker), str(RUNNER), str(framework.wiring)]
    done = subprocess.run(words, input=json.dumps(job), capture_output=True, text=True, check=False, env=framework_environment())
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return float(json.loads(done.stdout)["cpu_ms"])


def row(name: str, trials: int) -> str | None:
    framework = framework_class(name)()
    try:
        arm = f"{name} {framework.version}"
    except ValueError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return None
    spent(name, SHORT)
    short, long = spent(name, SHORT), spent(name, SHORT + trials)
    harness, worker = (1000 * (b - a) / trials for a, b in zip(short, long, strict=True))
    own = alone(framework, trials)
    beside = worker - own
    shares = f"{100 * harness / own:.0f} % | {100 * (harness + beside) / own:.0f} %"
    return f"| {arm} | {own:.1f} | {harness:.1f} | {beside:.1f} | {shares} |"


def table(names: Sequence[str], trials: int) -> str:
    """Return the rows of those frameworks that are installed."""
    head = [
        "| framework | alone, CPU ms per trial | harness adds | its process has more | harness, share | all, share |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *(line for name in names if (line := row(name, trials)) is not None)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = table(given.framework or FRAMEWORKS, given.trials)
    print(made)
    if given.write:
        write_block(PAGE, "overhead", made)


if __name__ == "__main__":
    main()
