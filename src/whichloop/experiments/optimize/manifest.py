"""The manifest of an optimization: its designs, their optimizer, and the splits, of which test is opened once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

from whichloop.protocol.names import without_process
from whichloop.runs.config import BudgetConfig, Positive, Repeats, Seed
from whichloop.runs.folders import RUNS, is_optimization
from whichloop.runs.manifest import Count, ManifestPart, fitting
from whichloop.runs.store.files import RunError

SplitName = Literal["train", "dev", "test"]


class SearchedSuite(ManifestPart):
    """The suite that is split."""

    name: str
    version: str
    digest: str
    max_tool_steps: Count | None = None
    code: str = ""
    """The digest of user code that creates, solves or scores tasks."""


class OptimizerEntry(ManifestPart):
    """The optimizer and its options."""

    spec: str
    name: str
    options: dict[str, Any]

    @property
    def title(self) -> str:
        """The optimizer with its options, as its user knows it."""
        return without_process(self.spec)


class DesignEntry(ManifestPart):
    """A design and its digests."""

    design: str
    folder: str
    loop: str
    options: dict[str, Any]
    """The options as typed."""
    configuration: str = ""
    code: str = ""
    """The digest of the loop's code."""
    program: str
    """The digest of its initial program."""


class SplitOpening(ManifestPart):
    """The moment at which the test split was opened."""

    at: str = ""
    programs: dict[str, str]
    """Design → digest of the tested program."""
    rollouts: dict[str, dict[str, Any]]
    """Design → the state of its rollout log at that time."""


class SplitEntry(ManifestPart):
    """A split of the suite."""

    tasks: Count
    digest: str
    opened: SplitOpening | None = None
    """The opening of the test split; None before it."""


class SearchSettings(BaseModel):
    """The settings of a search that its results are read with."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    budget: BudgetConfig
    amortize: Positive
    proposer: str | None = None


class CompareSettings(BaseModel):
    """The settings of the comparisons that their results are read with."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str | None = None
    suite: str = ""
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    tasks: Positive | None = None
    repeats: Repeats
    runs: str = str(RUNS)


class OptimizationSettings(BaseModel):
    """The settings of an optimization that its results are read with."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    compare: CompareSettings
    search: SearchSettings


class OptimizationManifest(ManifestPart):
    """Everything that determines the results of an optimization, and where it ran."""

    kind: Literal["optimization"] = "optimization"
    created: str = ""
    config: Annotated[dict[str, Any], fitting(OptimizationSettings)]
    """The initial configuration, without secrets."""
    seed: Seed
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
        """The part of the configuration that the results are read with."""
        return OptimizationSettings.model_validate(self.config)


def read_optimization_manifest(folder: Path) -> OptimizationManifest:
    """Read the manifest of an optimization. Raises RunError, which names the file and the field."""
    if not is_optimization(folder):
        raise RunError(f"{folder}: not an optimization")
    return OptimizationManifest.read(folder)
