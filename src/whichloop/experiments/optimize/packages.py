"""The packages that an optimizer needs, and the extra that has all of them.

It imports none of them, so that it is asked before they are imported: the first error names the extra that is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from whichloop._extras import EXTRA_OF, is_installed, missing

DSPY = "dspy"
BESIDE_DSPY: Mapping[str, str] = {"miprov2": "optuna"}
"""Built-in optimizer, in small letters → the package that it needs beside DSPy, whose extra has both."""


def packages_of(optimizer: str) -> tuple[str, ...]:
    """Return the packages that an optimizer needs; the extra of the last has all. `optimizer`: its name, without options."""
    beside = BESIDE_DSPY.get(optimizer.lower())
    return (DSPY,) if beside is None else (DSPY, beside)


def check_packages(optimizer: str) -> None:
    """Raise MissingExtra, which names one extra for all of them, where an optimizer needs a package that is not installed."""
    packages = packages_of(optimizer)
    for package in packages:
        if not is_installed(package):
            raise missing(f"optimizer {optimizer}", package, extra=EXTRA_OF[packages[-1]])
