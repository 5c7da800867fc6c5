"""How one asks on from what is printed: by commands, where a command printed it, and by calls where Python did."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from whichloop.experiments.why.remedies import ProposedAblation


class WaysToSeeMore(ABC):
    """What a reader types to see more of a run's losses."""

    all_of_a_cause: str
    """To see every example of a cause."""
    more_causes: str
    """To see every cause."""
    more_arms: str
    """To see what every arm lost."""
    tasks: str
    """To see what is notable about the tasks."""
    choices: str
    """To see one arm, or two."""

    @abstractmethod
    def show(self, trial: str) -> str:
        """Return what shows one trial. `trial`: ARM/TASK/REPEAT."""

    @abstractmethod
    def why(self, a: str, b: str) -> str:
        """Return what shows where two arms part."""

    @abstractmethod
    def ablate(self, ablation: ProposedAblation) -> str:
        """Return what runs an ablation."""


@dataclass(frozen=True, slots=True)
class ShellCommands(WaysToSeeMore):
    """The commands about one run directory."""

    folder: Path
    all_of_a_cause = "--all"
    more_causes = "-v"
    more_arms = "-v"
    tasks = "-v"

    @property
    def choices(self) -> str:  # type: ignore[override]  # read only here, and a constant of other classes
        return f"One arm: whichloop why {self._run} ARM; two arms where they part: A B; every pair, and tasks: -v"

    @property
    def _run(self) -> str:
        return shlex.quote(str(self.folder))

    def show(self, trial: str) -> str:
        return f"whichloop show {self._run} {shlex.quote(trial)}"

    def why(self, a: str, b: str) -> str:
        return f"whichloop why {self._run} {shlex.quote(a)} {shlex.quote(b)}"

    def ablate(self, ablation: ProposedAblation) -> str:
        return ablation.command


@dataclass(frozen=True, slots=True)
class PythonCalls(WaysToSeeMore):
    """The calls of a loaded run, which is called `run` as on the pages."""

    all_of_a_cause = "run.why().to_json()"
    more_causes = "run.why().causes"
    more_arms = "run.why().arms"
    tasks = "run.why().tasks"
    choices = (
        "One arm: run.why(ARM); two arms where they part: run.why(A, B); "
        "counts of every pair: run.why().pairs; tasks: run.why().tasks"
    )

    def show(self, trial: str) -> str:
        return f"run.show({trial!r})"

    def why(self, a: str, b: str) -> str:
        return f"run.why({a!r}, {b!r})"

    def ablate(self, ablation: ProposedAblation) -> str:
        return ablation.call
