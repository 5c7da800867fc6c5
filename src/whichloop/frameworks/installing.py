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

from whichloop.programs.worker import RUNNER, framework_environment
from whichloop.protocol.names import nearest

from .table import FRAMEWORKS, environments, is_release, plain_name

CONSTRAINTS = Path(__file__).with_name("constraints")
"""A file for each framework, which pins its version and those of all that it needs."""
TRUSTING = {"UV_SYSTEM_CERTS": "1"}
"""uv trusts whom the machine trusts, as pip does: behind a proxy that signs anew it would reach no package otherwise."""
MAX_SHOWN_LINES, MAX_IMPORT_S = 5, 300
"""Lines of an installer's output that an error repeats, and seconds of a wiring's first import, which compiles the framework."""


class InstallError(ValueError):
    """An environment could not be made."""


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
    """Read NAME, which is the tested version, or NAME@VERSION. Raises InstallError."""
    name, at, version = text.partition("@")
    if name not in FRAMEWORKS:
        raise InstallError(f"unknown framework {name!r}; {nearest(name, FRAMEWORKS)}")
    pinned = pinned_version(name)
    if at and not is_release(text):
        raise InstallError(f"{text}: {version!r} is no version; write {name}@{pinned}, for example")
    return Release(name, version if at else pinned, not at)


def install(release: Release, say: Callable[[str], None], *, again: bool = False) -> Path:
    """Make the environment of a framework, with uv where it is found, else with pip; return its folder.

    The tested version comes with the tested versions of all that it needs, another one with what the index has today. A finished
    environment is kept, unless `again`. `say` gets each line of what the installer prints. Raises InstallError; then nothing half
    made is left behind, and an older environment stays as it is.
    """
    name, folder = release.name, release.folder
    if folder.exists() and not again:
        return folder
    making, old = (folder.with_name(f".{release.label}.{os.getpid()}{end}") for end in ("", ".old"))
    python, uv = str(making / "bin" / "python"), shutil.which("uv")
    make = [uv, "venv", "--relocatable", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    fill = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install", "--disable-pip-version-check"]
    first, *others = FRAMEWORKS[name].requires
    what = ["--constraint", str(CONSTRAINTS / f"{name}.txt"), first] if release.is_pinned else [f"{first}=={release.version}"]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([*make, str(making)], say)
        _run([*fill, *what, *others], say)
        _check_wiring(python, name)
        if folder.exists():
            folder.rename(old)
        making.rename(folder)
    except OSError as error:
        raise InstallError(f"{name}: {error.filename or making}: {error.strerror}") from None
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        for left in (making, old):
            shutil.rmtree(left, ignore_errors=True)
    return folder


def _run(command: Sequence[str], say: Callable[[str], None]) -> None:
    """Run a command to its end. Raises InstallError with the end of what it said."""
    last: deque[str] = deque(maxlen=MAX_SHOWN_LINES)
    with subprocess.Popen(  # noqa: S603  # our own words, and names of packages from our own files
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=TRUSTING | os.environ
    ) as process:
        try:
            for line in process.stdout or ():
                if line.strip():
                    last.append(line.strip())
                    say(line.strip())
        except BaseException:  # Ctrl-C ends the installer, too
            process.kill()
            raise
    if process.returncode:
        raise InstallError(f"{' '.join(command[:3])} … ended with exit code {process.returncode}: {' '.join(last)}")


def _check_wiring(python: str, name: str) -> None:
    """Import the wiring in a new environment. Raises InstallError if that fails."""
    command = [python, str(RUNNER), f"{FRAMEWORKS[name]().wiring}:solve"]
    try:
        process = subprocess.run(  # noqa: S603  # our own runner
            command, capture_output=True, text=True, check=False, input="", env=framework_environment(), timeout=MAX_IMPORT_S
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"{name}: its wiring was not imported within {MAX_IMPORT_S} s") from None
    if process.returncode:
        raise InstallError(f"{name}: its wiring cannot be imported: {' '.join(process.stderr.strip().splitlines()[-1:])}")
