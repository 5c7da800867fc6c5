"""An environment with the packages of the core alone: links to those that are installed here, without a package index."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def distributions(requirements: list[str]) -> dict[str, Distribution]:
    """Return what the requirements need, and what that needs, by normal name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        needed = waiting.pop()
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        if name in found or (needed.marker is not None and not needed.marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(needed.name)
        waiting += [Requirement(line) for line in found[name].requires or ()]
    return found


def make(folder: Path, requirements: list[str]) -> None:
    """Link the files of the distributions into a folder, as an installer would have put them there."""
    for dist in distributions(requirements).values():
        for first in {file.parts[0] for file in dist.files or () if file.parts[0] not in ("..", "__pycache__")}:
            target = folder / first
            if not target.exists():
                target.symlink_to(str(dist.locate_file(first)))


def run(packages: Path, source: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with these packages, the source and nothing else."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(cwd),
        "COLUMNS": "100",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{source}{os.pathsep}{packages}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-S", "-W", "error", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
