"""The packages that only some parts of whichloop need, the extra of each, and how to install it where it is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

EXTRA_OF: Mapping[str, str] = {
    "datasets": "huggingface",
    "dspy": "dspy",
    "httpx2": "mcp",
    "litellm": "dspy",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "mlflow": "mlflow",
    "opentelemetry": "spans",
    "optuna": "optimize",
    "pandas": "analysis",
    "psycopg": "postgresql",
    "pyarrow": "analysis",
    "ray": "ray",
    "xllamacpp": "local",
}
"""Package that is imported → the extra that installs it; the core needs none of them."""


class MissingExtra(ValueError, ModuleNotFoundError):
    """What was asked for needs a package that is not installed; the message says how to install it."""


def missing(what: str, package: str, *, extra: str | None = None) -> MissingExtra:
    """Return the error that says what needs the package. `what`: the beginning of the sentence, such as "loop stateless".

    `extra`: another extra that has the package, where it has more that is needed.
    """
    return MissingExtra(f"{what} needs {package}, which is not installed: {how_to_install(package, extra)}")


@contextmanager
def needed_by(what: str, *, is_module: bool = False) -> Iterator[None]:
    """Let a failed import of such a package within the block raise MissingExtra. `what`: as for `missing`.

    `is_module`: `what` is the module that imports it; a block around its import says instead what the module was imported for.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        explained = missing(what, package)
        explained.name = package if is_module else None
        raise explained from None


def is_installed(package: str) -> bool:
    """Say whether a top-level package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def how_to_install(package: str, extra: str | None = None) -> str:
    """Return the command that installs a package's extra, or another that has it."""
    return f"pip install 'whichloop[{extra or EXTRA_OF[package]}]'"
