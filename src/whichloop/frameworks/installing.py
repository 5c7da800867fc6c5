"""Making the environment of a framework, under the versions that ship with whichloop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from whichloop.programs.program import look_at
from whichloop.programs.worker import Solver
from whichloop.protocol.names import nearest

from .table import FRAMEWORKS, environments, is_release, plain_name

CONSTRAINTS = Path(__file__).with_name("constraints")
"""A file for each framework, which pins its version and those of all that it needs."""
TRUSTING = {"UV_SYSTEM_CERTS": "1"}
"""uv trusts whom the machine trusts, as pip does: behind a proxy that signs anew it would reach no package otherwise."""
MAX_SHOWN_LINES = 5
"""Lines of an installer's output that an error repeats."""


class Release(NamedTuple):
    """A framework in one version."""

    name: str
    version: str
    is_pinned: bool
    """It is the version that was tested, and so are those of all that it needs."""

    @property
    def label(self) -> str:
        """NAME or NAME@VERSION, as one types it."""
        return self.name if self.is_pinned else f"{self.name}@{self.version}"

    @property
    def folder(self) -> Path:
        """Where its environment is, or will be."""
        return environments() / self.label


def pinned_version(name: str) -> str:
    """Return the version of a framework that `install` gives."""
    lines = (CONSTRAINTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)[plain_name(FRAMEWORKS[name].requires[0])]


def read_release(text: str) -> Release:
    """Read NAME, which is the tested version, or NAME@VERSION. Raises ValueError."""
    name, at, version = text.partition("@")
    if name not in FRAMEWORKS:
        raise ValueError(f"unknown framework {name!r}; {nearest(name, FRAMEWORKS)}")
    pinned = pinned_version(name)
    if at and not is_release(text):
        raise ValueError(f"{text}: {version!r} is no version; write {name}@{pinned}, for example")
    return Release(name, version if at else pinned, not at)


def install(release: Release, say: Callable[[str], None]) -> None:
    """Make the environment of a framework, with uv where it is found, else with pip.

    The tested version comes with the tested versions of all that it needs, another one with what the index has today. `say` gets
    each line of what the installer prints. Raises ValueError; then nothing half made is left, and an older environment stays.
    """
    name, folder = release.name, release.folder
    making = folder.with_name(f".{release.label}.{os.getpid()}")
    python, uv = str(making / "bin" / "python"), shutil.which("uv")
    make = [uv, "venv", "--relocatable", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    fill = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install", "--disable-pip-version-check"]
    first, *others = FRAMEWORKS[name].requires
    what = ["--constraint", str(CONSTRAINTS / f"{name}.txt"), first] if release.is_pinned else [f"{first}=={release.version}"]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([*make, str(making)], say)
        _run([*fill, *what, *others], say)
        look_at(Solver(python, f"{FRAMEWORKS[name]().wiring}:solve"))  # it is the first import, which compiles the framework
        if folder.exists():
            folder.rename(making / "before")
        making.rename(folder)
        shutil.rmtree(folder / "before", ignore_errors=True)
    except OSError as error:
        raise ValueError(f"{name}: {error.filename or making}: {error.strerror}") from None
    finally:
        if not folder.exists() and (making / "before").exists():
            (making / "before").rename(folder)
        shutil.rmtree(making, ignore_errors=True)


def _run(command: Sequence[str], say: Callable[[str], None]) -> None:
    """Run a command to its end. Raises ValueError with the end of what it said."""
    last: deque[str] = deque(maxlen=MAX_SHOWN_LINES)
    with subprocess.Popen(  # noqa: S603  # our own words, and names of packages from our own files
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=TRUSTING | os.environ
    ) as process:
        for line in filter(None, map(str.strip, process.stdout or ())):
            last.append(line)
            say(line)
    if process.returncode:
        raise ValueError(f"{' '.join(command[:3])} … ended with exit code {process.returncode}: {' '.join(last)}")
