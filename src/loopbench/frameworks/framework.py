"""What all frameworks have in common as arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from loopbench.programs.loop import ProgramLoop
from loopbench.programs.worker import Solver

from .environments import Environment, find_environment

WIRING = Path(__file__).with_name("wiring")


@dataclass(frozen=True, slots=True)
class Framework(ProgramLoop):
    """A framework in an environment of its own; subclasses name its packages and add its options."""

    venv: str = ""
    """Folder of the environment that has the framework; default: what `loopbench frameworks install` made."""

    packages: ClassVar[tuple[str, ...]]
    """Names of the packages that the wiring imports, the framework's own first."""

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @property
    def environment(self) -> Environment:
        """The environment. Raises ValueError if there is none or if it lacks a package."""
        return find_environment(self.name, self.packages, self.venv)

    @property
    def version(self) -> str:
        """The framework's version in its environment. Raises ValueError as `environment` does."""
        return self.environment.versions[self.packages[0]]

    def solver(self) -> Solver:
        """Return the wiring and the interpreter that runs it. Raises ValueError as `environment` does."""
        return Solver(self.environment.python, f"{WIRING / self.name}.py:solve")

    def options(self) -> Mapping[str, Any]:
        shared = {item.name for item in fields(Framework)}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in shared}
