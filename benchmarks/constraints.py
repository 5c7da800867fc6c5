"""The versions that `whichloop install` gives, written from environments that work.

python benchmarks/constraints.py [NAME …]

The environments are those under WHICHLOOP_HOME. To move a framework to new versions: make an environment there with uv or pip, run
`pytest tests/frameworks`, and then this.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whichloop.frameworks.installing import CONSTRAINTS
from whichloop.frameworks.table import FRAMEWORKS, packages_in


def constraints_text(name: str, folder: Path) -> str:
    """Return the constraints that an environment of a framework amounts to: versions only, no address and no path."""
    versions = dict(packages_in(folder))
    python = ".".join(versions.pop("python").split(".")[:2])
    lines = [f"{package}=={version}" for package, version in versions.items() if package != "pip"]
    head = f"# {name} and all that it needs, as tested on Python {python}; made by: python benchmarks/constraints.py {name}"
    return "\n".join([head, *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    for name in parser.parse_args().names or FRAMEWORKS:
        folder, _ = FRAMEWORKS[name]().environment
        (CONSTRAINTS / f"{name}.txt").write_text(constraints_text(name, folder), encoding="utf-8")


if __name__ == "__main__":
    main()
