"""The table of trial runs by which a suite for a small real model was searched, one row for each run.

python benchmarks/real_search.py RUN … [--write]

Markdown to stdout; --write puts it into docs/validity.md, in place of the rows there. A run may have been interrupted: its row has
the trials that were scored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from real_models import guessing

from pages import write_block
from whichloop.experiments.compare.results import Results, results
from whichloop.runs.store.files import RunError

PAGE = Path(__file__).parents[1] / "docs" / "validity.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="directory of a run")
    parser.add_argument("--write", action="store_true", help="put the table into docs/validity.md")
    options = parser.parse_args(arguments)
    try:
        text = "\n".join(table(options.runs))
    except (RunError, OSError) as error:
        sys.exit(f"error: {error}")
    print(text)
    if options.write:
        write_block(PAGE, "search", text)


def table(runs: Sequence[Path]) -> Iterator[str]:
    """Return the table, line by line. Raises RunError, OSError."""
    heads = ("suite", "tasks", "temperature", "most tokens", "demonstrations", "guessing solves", *(f"`{loop}`" for loop in LOOPS))
    yield f"| {' | '.join(heads)} | minutes |"
    yield f"|---|---|---:|---:|---|---|{'---|' * len(LOOPS)}---:|"
    yield from map(row, map(results, runs))


def row(run: Results) -> str:
    """Return a run's row: its settings, and of each loop how many trials it solved, of each template."""
    manifest = run.manifest
    provider = manifest.config.get("provider", {})
    cells = (
        f"`{manifest.config['suite']}`",
        f"{manifest.suite.tasks} of {manifest.config.get('split') or 'all'}",
        *("–" if provider.get(name) is None else str(provider[name]) for name in ("temperature", "max_tokens")),
        "optimized" if any(arm.program for arm in manifest.arms) else "none",
        guessing(manifest),
        *(_solved(run, loop) for loop in LOOPS),
        f"{sum(record.seconds for record in run.records) / 60:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _solved(run: Results, loop: str) -> str:
    """Return how many trials a loop solved, of each template; – for a loop that the run does not have."""
    arms = {arm.arm for arm in run.manifest.arms if arm.loop.partition("@")[0] == loop}
    by_template: dict[str, list[float]] = {}
    for record in run.records:
        if record.arm in arms and record.status == "scored":
            by_template.setdefault(record.template, []).append(record.accuracy)
    told = (f"{name} {sum(solved):g} of {len(solved)}" for name, solved in sorted(by_template.items()))
    return ", ".join(told) or "–"


if __name__ == "__main__":
    main()
