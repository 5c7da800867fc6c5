"""An environment with the packages of the core alone: links to those that are installed here, without a package index."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.prepared import make_what_most_make

ROOT = Path(__file__).parents[1]
Ended = subprocess.CompletedProcess[str]

EACH_IN_A_FORK = f"""
import atexit, contextlib, gc, importlib, json, os, pkgutil, sys
from collections import deque
import jinja2, numpy.ma, numpy.random
import whichloop.checks.suite.check, whichloop.cli, whichloop.datasets.arithmetic, whichloop.metrics.scorers
import whichloop.loops.bare, whichloop.loops.finish, whichloop.loops.phased, whichloop.reports.html
from whichloop.cli.main import main
for package in (whichloop.cli, whichloop.reports.html):
    for module in pkgutil.iter_modules(package.__path__, f"{{package.__name__}}."):
        with contextlib.suppress(ImportError):  # of an extra: the command says so
            importlib.import_module(module.name)
{inspect.getsource(make_what_most_make)}
make_what_most_make()
gc.collect()
gc.freeze()  # else each fork looks through all of it once more
atexit.register(gc.freeze)  # and at its end
for number, (folder, *words) in enumerate(json.loads(sys.argv[1])):
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)
        continue
    os.chdir(folder)
    os.environ["HOME"] = folder
    for handle, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{{sys.argv[2]}}/{{number}}.{{name}}", os.O_CREAT | os.O_WRONLY), handle)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {{"__name__": "__main__"}})
    else:
        sys.argv = ["whichloop", *words]
        main()
    sys.exit()
"""
"""Commands and Python code one after the other, each from its folder, in forks of a process that has imported what most need."""


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
        "OPENBLAS_NUM_THREADS": "1",  # threads that wait for tiny matrices burn a core each
    }
    command = [sys.executable, "-S", "-W", "error", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def run_each(packages: Path, source: Path, commands: Sequence[tuple[Path, tuple[str, ...]]], into: Path) -> list[Ended]:
    """Run commands of whichloop, and `-c` with Python code, each in a folder, with these packages, the source and nothing else."""
    asked = json.dumps([[str(folder), *words] for folder, words in commands])
    done = run(packages, source, "-c", EACH_IN_A_FORK, asked, str(into), cwd=into)
    assert done.returncode == 0, done.stderr
    said = [[(into / f"{number}.{name}").read_text(encoding="utf-8") for name in ("out", "err")] for number in range(len(commands))]
    return [Ended([*words], int(code), *both) for (_, words), code, both in zip(commands, done.stdout.split(), said, strict=True)]
