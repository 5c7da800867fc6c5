"""What all frameworks have in common as arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from whichloop.programs.loop import ProgramLoop
from whichloop.programs.worker import Solver

from .environments import FrameworkEnvironment, find_environment, plain_name

WIRING = Path(__file__).with_name("wiring")


@dataclass(frozen=True, slots=True)
class Framework(ProgramLoop):
    """A framework in an environment of its own; subclasses name its packages and add its options."""

    venv: str = ""
    """Folder of the environment that has the framework, or NAME@VERSION that was installed; default: the tested version."""

    requires: ClassVar[tuple[str, ...]]
    """What is installed, as pip takes it: the packages that the wiring needs, the framework's own first."""

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @property
    def environment(self) -> FrameworkEnvironment:
        """The environment. Raises ValueError if there is none or if it lacks a package."""
        return find_environment(self.name, self.requires, self.venv)

    @property
    def version(self) -> str:
        """The framework's version in its environment. Raises ValueError as `environment` does."""
        return self.packages[plain_name(self.requires[0])]

    @property
    def packages(self) -> Mapping[str, str]:
        """The versions of what the wiring needs, and of Python. Raises ValueError as `environment` does."""
        return self.environment.versions

    @property
    def environment_digest(self) -> str:
        return self.environment.digest

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.wiring, *super(Framework, self).sources)

    @property
    def wiring(self) -> Path:
        """The file that runs in the environment."""
        return WIRING / f"{self.name}.py"

    def solver(self) -> Solver:
        """Return the wiring and the interpreter that runs it. Raises ValueError as `environment` does."""
        return Solver(self.environment.python, f"{self.wiring}:solve")

    def options(self) -> Mapping[str, Any]:
        shared = {item.name for item in fields(Framework)}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in shared}
