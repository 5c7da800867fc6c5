"""The manifest of an optimization: its designs, their optimizer, and the splits of which the test is opened once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

from loopbench.runs.config import BudgetConfig
from loopbench.runs.folders import is_optimization
from loopbench.runs.manifest import ManifestPart, fitting
from loopbench.runs.store.files import RunError

SplitName = Literal["train", "dev", "test"]


class SearchedSuite(ManifestPart):
    """The suite that the splits are of."""

    name: str
    version: str
    digest: str
    max_tool_steps: int | None = None
    code: str = ""
    """Digest of the user's own code that tasks are made of, solved with and scored by."""


class OptimizerEntry(ManifestPart):
    """The optimizer and its options."""

    spec: str
    name: str
    options: dict[str, Any]


class DesignEntry(ManifestPart):
    """What a design is made of."""

    design: str
    folder: str
    loop: str
    options: dict[str, Any]
    """Those that were typed."""
    configuration: str = ""
    code: str = ""
    """Digest."""
    program: str
    """Digest of the program that it begins with."""


class SplitOpening(ManifestPart):
    """The moment at which the test split was opened."""

    at: str = ""
    programs: dict[str, str]
    """Design → digest of the program that is tested."""
    rollouts: dict[str, dict[str, Any]]
    """Design → the state of the log of what had been asked until then."""


class SplitEntry(ManifestPart):
    """A split of the suite."""

    tasks: int
    digest: str
    opened: SplitOpening | None = None
    """Of the test split, once it was opened."""


class SearchSettings(BaseModel):
    """What of a search its results are read with."""

    model_config = ConfigDict(frozen=True)

    budget: BudgetConfig
    amortize: int
    proposer: str | None = None


class CompareSettings(BaseModel):
    """What of the comparisons their results are read with."""

    model_config = ConfigDict(frozen=True)

    suite: str = ""
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    repeats: int


class OptimizationSettings(BaseModel):
    """The settings of an optimization that its results are read with."""

    model_config = ConfigDict(frozen=True)

    compare: CompareSettings
    search: SearchSettings


class OptimizationManifest(ManifestPart):
    """What decides what an optimization gives, and where it ran."""

    kind: Literal["optimization"] = "optimization"
    created: str = ""
    config: Annotated[dict[str, Any], fitting(OptimizationSettings)]
    """The configuration that it began with, without secrets."""
    seed: int
    versions: dict[str, int | str | None]
    suite: SearchedSuite
    profiles: dict[str, str]
    optimizer: OptimizerEntry
    designs: tuple[DesignEntry, ...]
    splits: dict[SplitName, SplitEntry]
    packages: dict[str, str | None]
    python: str
    platform: str

    @property
    def settings(self) -> OptimizationSettings:
        """What of the configuration the results are read with."""
        return OptimizationSettings.model_validate(self.config)


def read_optimization_manifest(folder: Path) -> OptimizationManifest:
    """Read the manifest of an optimization. Raises RunError, which names the file and the field."""
    if not is_optimization(folder):
        raise RunError(f"{folder}: not an optimization")
    return OptimizationManifest.read(folder)
