"""The packages that only some parts of whichloop need, the extra of each, and how to install it where it is missing."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

EXTRA_OF: Mapping[str, str] = {
    "datasets": "huggingface",
    "dspy": "dspy",
    "httpx2": "mcp",
    "litellm": "dspy",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "mlflow": "mlflow",
    "optuna": "optimize",
    "pandas": "analysis",
    "psycopg": "postgresql",
    "pyarrow": "analysis",
    "ray": "ray",
    "statsmodels": "analysis",
    "xllamacpp": "local",
}
"""Package that is imported → the extra that installs it; the core needs none of them."""


class MissingExtra(ValueError, ModuleNotFoundError):
    """What was asked for needs a package that is not installed; the message says how to install it."""


def missing(what: str, package: str, *, extra: str | None = None, is_import: bool = False) -> MissingExtra:
    """Return the error that says what needs the package. `what`: the beginning of the sentence, such as "loop stateless".

    `extra`: another extra that has the package, where it has more that is needed.
    `is_import`: the error is that of an import, in whose place `needed_by` says what the import was for.
    """
    error = MissingExtra(f"{what} needs {package}, which is not installed: {how_to_install(package, extra)}")
    error.name = package if is_import else None
    return error


@contextmanager
def needed_by(what: str) -> Iterator[None]:
    """Let a failed import of such a package within the block raise MissingExtra. `what`: as for `missing`."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise missing(what, package) from None


def is_installed(package: str) -> bool:
    """Say whether a top-level package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def how_to_install(package: str, extra: str | None = None) -> str:
    """Return the command that installs a package's extra, or another that has it, from where whichloop itself was installed."""
    return f"pip install {_requirement(extra or EXTRA_OF[package], _installed_from())}"


def _installed_from() -> Mapping[str, Any]:
    """Return what pip noted of the installation (PEP 610); empty for a package index, or where there is no note."""
    try:
        noted = json.loads(distribution("whichloop").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return noted if isinstance(noted, dict) and isinstance(noted.get("url"), str) else {}


def _requirement(extra: str, noted: Mapping[str, Any]) -> str:
    """Return the requirement as a shell takes it."""
    if not noted:
        return shlex.quote(f"whichloop[{extra}]")
    url = urlsplit(noted["url"])
    folder = Path(unquote(url.path))
    if "dir_info" in noted and folder.is_dir():
        editable = "-e " if noted["dir_info"].get("editable") else ""
        return f"{editable}{shlex.quote(f'{folder}[{extra}]')}"
    public = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))  # an address may hold a password
    version_control = noted.get("vcs_info", {}).get("vcs")
    return shlex.quote(f"whichloop[{extra}] @ {f'{version_control}+' if version_control else ''}{public}")
