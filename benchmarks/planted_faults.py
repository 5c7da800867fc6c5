"""Whether the tests notice faults that are planted into the code, one changed line each: how much a cut of the tests has cost.

python benchmarks/planted_faults.py [--only TEXT]

The tests beside its module have to fail with the fault, and to pass without it. One line for each that does otherwise, and how many
faults are noticed; exit code 1 if one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "whichloop"
LIST = Path(__file__).with_suffix(".json")
OPTIONS = ("-x", "-n0", "-pno:cacheprovider", "--timeout=120", "--timeout-method=thread")
"""A fault may make a test hang: after its time, pytest ends with exit code 1."""


@dataclass(frozen=True)
class PlantedFault:
    """One line of the package, changed."""

    file: str
    """Path of the module in the package."""
    line: str
    """The line as it is, which stands there once."""
    becomes: str
    tests: str
    """The tests that notice it: a path in the project."""

    def __str__(self) -> str:
        return f"{self.file}: {self.line.strip()}  →  {self.becomes.strip()}  ({self.tests})"

    def planted(self) -> str:
        """Return the module's text with the fault. Raises ValueError where the line does not stand there once."""
        lines = (PACKAGE / self.file).read_text(encoding="utf-8").split("\n")
        if lines.count(self.line) != 1:
            raise ValueError(f"{self.file}: {self.line!r} stands there {lines.count(self.line)} times, not once")
        return "\n".join(self.becomes if line == self.line else line for line in lines)


def planted_faults() -> list[PlantedFault]:
    """Return the list beside this file."""
    return [PlantedFault(**fault) for fault in json.loads(LIST.read_text(encoding="utf-8"))]


def exit_code(fault: PlantedFault) -> int:
    """Run the tests against a copy of the package that has the fault."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "whichloop"
        shutil.copytree(PACKAGE, copy)  # with what is compiled, and the times by which Python knows that it still holds
        (copy / fault.file).write_text(fault.planted(), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--basetemp={folder}/tests", fault.tests]
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only faults in whose module's path this stands")
    given = parser.parse_args()
    faults = [fault for fault in planted_faults() if given.only in fault.file]
    sound = {fault.tests: replace(fault, becomes=fault.line) for fault in faults}
    noticed, cases = 0, [*sound.values(), *faults]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault, code in zip(cases, pool.map(exit_code, cases), strict=True):
            wanted = int(fault.becomes != fault.line)  # pytest's, if some tests failed; with others than 0 and 1 they did not run
            noticed += code == wanted == 1
            if code != wanted:
                print(f"exit code {code}, not {wanted}: {fault}", flush=True)
    print(f"{noticed} of {len(faults)} planted faults are noticed")
    sys.exit(noticed < len(faults))


if __name__ == "__main__":
    main()
