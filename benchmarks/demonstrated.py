"""Prints `--loop NAME@FILE` for each design of the latest optimization in a folder, so that it runs with the prompts found for it.

python benchmarks/demonstrated.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from loopbench.runs.folders import run_folder
from loopbench.runs.store.files import RunError


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER, which holds a run of loopbench optimize")
    try:
        print(" ".join(f"--loop {name}@{file}" for name, file in programs(Path(sys.argv[1]))))
    except RunError as error:
        sys.exit(f"error: {error}")


def programs(folder: Path) -> list[tuple[str, Path]]:
    """Return loop and program of each design, in their order. Raises RunError if there is none."""
    latest = run_folder(Path("latest"), folder)
    found = sorted(latest.glob("designs/*/optimized.json"))
    if not found:
        raise RunError(f"{latest}: no design was optimized")
    return [(file.parent.name.partition("-")[2], file) for file in found]


if __name__ == "__main__":
    main()
