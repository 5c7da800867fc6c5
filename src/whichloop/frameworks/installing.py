"""Making the environment of a framework, under the versions that ship with whichloop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from whichloop.programs.worker import RUNNER, framework_environment
from whichloop.protocol.names import nearest

from .table import FRAMEWORKS, Framework, environment_folder, is_release, known_frameworks, packages_in, plain_name

CONSTRAINTS = Path(__file__).with_name("constraints")
MAX_SHOWN_LINES = 5
"""Lines of an installer's output that an error repeats, from its end."""

TRUSTING = {"UV_SYSTEM_CERTS": "1"}
"""uv trusts whom the machine trusts, as pip does: behind a proxy that signs anew it would reach no package otherwise."""

MAX_IMPORT_S = 300
"""Seconds that the first import of a wiring may take, which compiles the framework."""


class InstallError(ValueError):
    """An environment could not be made."""


def framework_class(name: str) -> type[Framework]:
    """Return the class of a framework. Raises InstallError for an unknown name."""
    if name not in known_frameworks():
        raise InstallError(f"unknown framework {name!r}; {nearest(name, known_frameworks())}")
    return FRAMEWORKS[name]


def constraints_of(name: str) -> Path:
    """Return the file that pins the versions of a framework and of all that it needs. Raises InstallError for an unknown name."""
    framework_class(name)
    return CONSTRAINTS / f"{name}.txt"


def pinned_version(name: str) -> str:
    """Return the version of a framework that `install` gives. Raises InstallError for an unknown name."""
    package_name = plain_name(framework_class(name).requires[0])
    lines = constraints_of(name).read_text(encoding="utf-8").splitlines()
    return next(version for package, _, version in (line.partition("==") for line in lines) if package == package_name)


def constraints_text(name: str, folder: Path) -> str:
    """Return the constraints that an environment of a framework amounts to: versions only, no address and no path."""
    versions = dict(packages_in(folder))
    python = ".".join(versions.pop("python").split(".")[:2])
    lines = [f"{package}=={version}" for package, version in versions.items() if package != "pip"]
    head = f"# {name} and all that it needs, as tested on Python {python}; made by: python benchmarks/constraints.py {name}"
    return "\n".join([head, *lines, ""])


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
        return environment_folder(self.label)

    @property
    def requirements(self) -> list[str]:
        """What is installed, as pip takes it."""
        first, *others = framework_class(self.name).requires
        return [first, *others] if self.is_pinned else [f"{first}=={self.version}", *others]


def read_release(text: str) -> Release:
    """Read NAME, which is the tested version, or NAME@VERSION. Raises InstallError."""
    name, at, version = text.partition("@")
    if not at:
        return Release(name, pinned_version(name), True)
    framework_class(name)
    if not is_release(text):
        raise InstallError(f"{text}: {version!r} is no version; write {name}@{pinned_version(name)}, for example")
    return Release(name, version, False)


def install(release: Release, say: Callable[[str], None], *, again: bool = False) -> Path:
    """Make the environment of a framework, with uv where it is found, else with pip; return its folder.

    The tested version comes with the tested versions of all that it needs, another one with what the index has today. A finished
    environment is kept, unless `again`. `say` gets each line of what the installer prints. Raises InstallError; then nothing half
    made is left behind, and an older environment stays as it is.
    """
    name, folder = release.name, release.folder
    if folder.exists() and not again:
        return folder
    making = folder.with_name(f".{release.label}.{os.getpid()}")
    try:
        making.parent.mkdir(parents=True, exist_ok=True)
        for command in _commands(making, release):
            _run(command, say)
        _check_wiring(making, name)
        with _aside(folder):
            making.rename(folder)
    except OSError as error:
        raise InstallError(f"{name}: {error.filename or making}: {error.strerror}") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _commands(folder: Path, release: Release) -> Iterator[list[str]]:
    python, uv = str(folder / "bin" / "python"), shutil.which("uv")
    what = ["--constraint", str(constraints_of(release.name))] if release.is_pinned else []
    what += release.requirements
    if uv is not None:
        yield [uv, "venv", "--relocatable", "--python", sys.executable, str(folder)]
        yield [uv, "pip", "install", "--python", python, *what]
    else:
        yield [sys.executable, "-m", "venv", str(folder)]
        yield [python, "-m", "pip", "install", "--disable-pip-version-check", *what]


def _run(command: Sequence[str], say: Callable[[str], None]) -> None:
    """Run a command to its end. Raises InstallError with the end of what it said."""
    last: deque[str] = deque(maxlen=MAX_SHOWN_LINES)
    try:
        with subprocess.Popen(  # noqa: S603  # our own words, and names of packages from our own files
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=TRUSTING | os.environ
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if line.strip():
                        last.append(line.strip())
                        say(line.strip())
            except BaseException:  # Ctrl-C ends the installer, too
                process.kill()
                raise
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    if process.returncode:
        raise InstallError(f"{' '.join(command[:3])} … ended with exit code {process.returncode}: {' '.join(last)}")


def _check_wiring(folder: Path, name: str) -> None:
    """Import the wiring in a new environment. Raises InstallError if that fails."""
    command = [str(folder / "bin" / "python"), str(RUNNER), f"{framework_class(name)().wiring}:solve"]
    try:
        process = subprocess.run(  # noqa: S603  # our own runner
            command, capture_output=True, text=True, check=False, input="", env=framework_environment(), timeout=MAX_IMPORT_S
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"{name}: its wiring was not imported within {MAX_IMPORT_S} s") from None
    if process.returncode:
        raise InstallError(f"{name}: its wiring cannot be imported: {' '.join(process.stderr.strip().splitlines()[-1:])}")


@contextmanager
def _aside(folder: Path) -> Iterator[None]:
    """Make room for a new folder; the old one comes back if the new one does not come."""
    old = folder.with_name(f"{folder.name}.old.{os.getpid()}")
    if not folder.exists() and not folder.is_symlink():
        yield
        return
    folder.rename(old)
    try:
        yield
    except BaseException:
        old.rename(folder)
        raise
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old, ignore_errors=True)
