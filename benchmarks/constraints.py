"""The versions that `whichloop install` gives, written from environments that work.

python benchmarks/constraints.py NAME… | --all

The environments are those under WHICHLOOP_HOME. To move a framework to new versions: make an environment there with uv or pip, run
`pytest tests/frameworks`, and then this.
"""

from __future__ import annotations

import argparse

from whichloop.frameworks.installing import CONSTRAINTS, constraints_text, framework_class
from whichloop.frameworks.table import find_environment, known_frameworks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", dest="all_of_them")
    given = parser.parse_args()
    CONSTRAINTS.mkdir(exist_ok=True)
    for name in known_frameworks() if given.all_of_them else given.names:
        folder = find_environment(name, framework_class(name).requires).folder
        (CONSTRAINTS / f"{name}.txt").write_text(constraints_text(name, folder), encoding="utf-8")


if __name__ == "__main__":
    main()
