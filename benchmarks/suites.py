"""What a generated suite costs: CPU time and memory per task at 2,000 and 100,000 tasks, each in a process of its own.

python benchmarks/suites.py [--suite NAME …] [--write]

--write renews the table in docs/suites.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from pages import write_block
from whichloop.runs.registry import generated_suites

PAGE = Path(__file__).parents[1] / "docs" / "suites.md"
SIZES = (2_000, 100_000)

ONCE = """
import json, resource, sys, time
from whichloop.runs.registry import generated_suites
source, size = generated_suites()[sys.argv[1]], int(sys.argv[2])
first = source.suite(100, 1)
first.open(first.tasks[0]).close()
def peak_kb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before_kb, before_s = peak_kb(), time.process_time()
suite = source.suite(size, 0)
made_s = time.process_time() - before_s
print(json.dumps({"ms": 1000 * made_s / size, "kb": (peak_kb() - before_kb) / size, "tasks": len(suite.tasks)}))
"""
"""Peak memory grows with what is kept, and nothing was there before."""


def once(name: str, size: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", ONCE, name, str(size)], capture_output=True, text=True, check=True)
    line: dict[str, float] = json.loads(done.stdout)
    return line


def row(name: str) -> str:
    found = [once(name, size) for size in SIZES]
    cells = [f"{line['ms']:.2f} ms, {line['kb']:.1f} KB" for line in found]
    print(name, *cells, file=sys.stderr)
    all_s, all_gb = found[-1]["ms"] * SIZES[-1] / 1e3, found[-1]["kb"] * SIZES[-1] / 1e6
    return f"| `{name}` | {' | '.join(cells)} | {all_s:.0f} s, {all_gb:.1f} GB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heads = ["| suite | a task of 2,000 | a task of 100,000 | all 100,000 |", "|---|---|---|---|"]
    table = "\n".join([*heads, *(row(name) for name in given.suite or sorted(generated_suites()))])
    if given.write:
        write_block(PAGE, "sizes", table)
    else:
        print(table)


if __name__ == "__main__":
    main()
