"""Environments of frameworks: where they are, what they hold, and how one is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from loopbench.protocol.modules import names_in

CONSTRAINTS = Path(__file__).with_name("constraints")
HOME_VARIABLE = "LOOPBENCH_HOME"
MAX_SHOWN_LINES = 5
"""Lines of an installer's output that an error repeats, from its end."""


class InstallError(Exception):
    """An environment could not be made."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment."""

    folder: Path
    python: str
    """Path of its interpreter."""
    versions: Mapping[str, str]
    """Versions of the packages that the wiring imports."""


def home() -> Path:
    """Return the folder of the environments that were installed."""
    given = os.environ.get(HOME_VARIABLE)
    return (Path(given) if given else Path.home() / ".local" / "share" / "loopbench") / "frameworks"


def known_frameworks() -> list[str]:
    """Return the names of the frameworks that have a wiring, sorted."""
    return names_in("loopbench.frameworks.wiring")


def find_environment(name: str, packages: Sequence[str], venv: str = "") -> Environment:
    """Return the environment of a framework. `venv`: its folder, if it is not the one that was installed.

    Raises ValueError, with the command that makes one, if there is none or if it lacks a package.
    """
    folder = Path(venv).expanduser().absolute() if venv else home() / name
    python = folder / "bin" / "python"
    if not python.is_file():
        if venv:
            raise ValueError(f"{name}: venv: {venv} is no virtual environment: it has no bin/python")
        raise ValueError(f"{name} is not installed: run loopbench frameworks install {name}, or give {name}(venv=FOLDER)")
    versions = _versions(folder)
    if missing := [package for package in packages if _plain(package) not in versions]:
        raise ValueError(f"{name}: {folder} lacks {', '.join(missing)}")
    return Environment(folder, str(python), {package: versions[_plain(package)] for package in packages})


@cache
def _versions(folder: Path) -> Mapping[str, str]:
    paths = [str(path) for path in folder.glob("lib/python*/site-packages")]
    return {_plain(item.metadata["Name"]): item.version for item in distributions(path=paths) if item.metadata["Name"]}


def _plain(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")


# --- making one ---


def constraints_of(name: str) -> Path:
    """Return the file that pins the versions of a framework and of all that it needs. Raises InstallError for an unknown name."""
    path = CONSTRAINTS / f"{name}.txt"
    if not path.is_file():
        raise InstallError(f"no framework {name!r}; there are {', '.join(known_frameworks())}")
    return path


def install(name: str, packages: Sequence[str], *, again: bool = False) -> Path:
    """Make the environment of a framework under pinned versions, with uv where it is found, else with pip; return its folder.

    A finished one is kept, unless `again`. Raises InstallError; nothing half made is left behind.
    """
    constraints, folder = constraints_of(name), home() / name
    if folder.exists() and not again:
        return folder
    making = folder.with_name(f".{name}.{os.getpid()}")
    making.parent.mkdir(parents=True, exist_ok=True)
    try:
        for command in _commands(making, constraints, packages):
            _run(command)
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _commands(folder: Path, constraints: Path, packages: Sequence[str]) -> Iterator[list[str]]:
    python, uv = str(folder / "bin" / "python"), shutil.which("uv")
    if uv is not None:
        yield [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        yield [uv, "pip", "install", "--quiet", "--python", python, "--constraint", str(constraints), *packages]
    else:
        yield [sys.executable, "-m", "venv", str(folder)]
        yield [python, "-m", "pip", "install", "--quiet", "--constraint", str(constraints), *packages]


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).strip().splitlines()[-MAX_SHOWN_LINES:])
        raise InstallError(f"{' '.join(command[:3])} … ended with exit code {done.returncode}: {said}")
