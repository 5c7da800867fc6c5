"""Environments of frameworks: where they are, and what they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path

from whichloop.protocol.digest import canonical_json, sha256
from whichloop.protocol.files import home
from whichloop.protocol.modules import names_in

_RELEASE = re.compile(r"[a-z_]+@\d[\w.!+-]*")
_PYTHON = re.compile(r"^version(?:_info)?\s*=\s*([\d.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FrameworkEnvironment:
    """One environment."""

    folder: Path
    python: str
    """Path of its interpreter."""
    versions: Mapping[str, str]
    """Versions of the packages that the wiring needs, by name, and of Python."""
    digest: str
    """Digest of the versions of all packages in it, and of Python's."""


def environments() -> Path:
    """Return the folder of the environments that were installed."""
    return home() / "frameworks"


def known_frameworks() -> list[str]:
    """Return the names of the frameworks that have a wiring, sorted."""
    return list(names_in("whichloop.frameworks.wiring"))


def find_environment(name: str, requires: Sequence[str], venv: str = "") -> FrameworkEnvironment:
    """Return the environment of a framework. `venv`: its folder, or its name among those that were installed.

    Raises ValueError, with the command that makes one, if there is none or if it lacks a package.
    """
    folder = environment_folder(venv or name) if not venv or is_release(venv) else Path(venv).expanduser().absolute()
    python = folder / "bin" / "python"
    if not python.is_file():
        if is_release(venv):
            raise ValueError(f"{venv} is not installed: run whichloop frameworks install {venv}")
        if venv:
            raise ValueError(f"{name}: venv: {venv} is no virtual environment: it has no bin/python")
        raise ValueError(f"{name} is not installed: run whichloop frameworks install {name}, or give {name}(venv=FOLDER)")
    versions = packages_in(folder)
    needed = [plain_name(requirement) for requirement in requires]
    if missing := [package for package in needed if package not in versions]:
        raise ValueError(f"{name}: {folder} lacks {', '.join(missing)}")
    needed_versions = {package: versions[package] for package in (*needed, "python")}
    return FrameworkEnvironment(folder, str(python), needed_versions, sha256(canonical_json(dict(versions))))


def environment_folder(release: str) -> Path:
    """Return where `install` makes the environment of a framework, NAME or NAME@VERSION."""
    return environments() / release


def is_release(text: str) -> bool:
    """Say whether a text is NAME@VERSION of a framework that has a wiring."""
    return _RELEASE.fullmatch(text) is not None and text.partition("@")[0] in known_frameworks()


def packages_in(folder: Path) -> Mapping[str, str]:
    """Return the version of each package in an environment, by its plain name, sorted, and that of Python."""
    places = sorted(folder.glob("lib/python*/site-packages"))
    return _versions(folder, tuple((str(place), place.stat().st_mtime_ns) for place in places))


@lru_cache(maxsize=64)  # reading them takes 50 ms, and each arm asks several times; a folder that changed is read again
def _versions(folder: Path, places: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    paths = [place for place, _ in places]
    versions = {plain_name(item.metadata["Name"]): item.version for item in distributions(path=paths) if item.metadata["Name"]}
    python = _PYTHON.search((folder / "pyvenv.cfg").read_text(encoding="utf-8")) if (folder / "pyvenv.cfg").is_file() else None
    return dict(sorted(versions.items())) | {"python": python[1] if python else "unknown"}


def plain_name(requirement: str) -> str:
    """Return the name of the package in a requirement, without extras, in the spelling that all tools take for the same."""
    return re.sub(r"[-_.]+", "-", requirement.partition("[")[0]).lower()
