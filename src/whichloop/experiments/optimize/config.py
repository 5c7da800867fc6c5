"""The configuration of an optimization, and its manifest: designs, optimizer, and the splits, of which test is opened once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whichloop._extras import EXTRA_OF, is_installed, missing
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.runs.config import (
    BudgetConfig,
    CompareConfig,
    Positive,
    Seed,
    SettingError,
    config_from,
    merged,
    read_toml,
    setting_error,
)
from whichloop.runs.folders import is_optimization
from whichloop.runs.manifest import Count, ManifestPart, SuiteEntry, fitting
from whichloop.runs.store.files import RunError

BESIDE_DSPY: Mapping[str, str] = {"miprov2": "optuna"}
"""Built-in optimizer, in small letters → the package that it needs beside DSPy, whose extra has both."""


def check_packages(optimizer: str) -> tuple[str, ...]:
    """Return the packages that an optimizer needs. `optimizer`: its name, without options.

    Raises MissingExtra, which names one extra for all of them, where one is not installed.
    """
    packages = ("dspy", *(beside for name, beside in BESIDE_DSPY.items() if name == optimizer.lower()))
    for package in packages:
        if not is_installed(package):
            raise missing(f"optimizer {optimizer}", package, extra=EXTRA_OF[packages[-1]])
    return packages


REPEATS = 3
"""Trials per task of the test split, before and after."""


class SearchConfig(BaseModel):
    """The settings of the search for prompts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    optimizer: str = "BootstrapFewShot"
    """Optimizer (teleprompter), `name` or `name(option=value)`."""
    budget: BudgetConfig = BudgetConfig(calls=2000)
    """Limits of each design's rollouts."""
    proposer_budget: BudgetConfig | None = None
    """Limits of the optimizer's own requests for each design; if absent, those of `budget`."""
    proposer: Annotated[str | None, "the model of the loops"] = None
    """Model that proposes prompts: a real one, or `scripted`."""
    train: Positive = 40
    """Tasks to learn from at most."""
    dev: Positive = 40
    """Tasks to be scored on at most."""
    threads: Annotated[Positive | None, "1 with the scripted model, 8 with a real one"] = None
    """Rollouts in flight at once; 1 makes a search repeatable."""


class OptimizeConfig(BaseModel):
    """An optimization: loops × one model × one profile over a suite whose tasks are split."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    compare: CompareConfig
    """The comparison on the test split; its `tasks` is the maximum number of test tasks."""
    search: SearchConfig = Field(default_factory=SearchConfig)

    @model_validator(mode="after")
    def _one_model_and_profile(self) -> Self:
        compare = self.compare
        for field, names in (("models", compare.models), ("profiles", compare.profiles)):
            if len(names) != 1:
                raise ValueError(f"{field}: give one, not {len(names)}: designs are optimized under the same conditions")
        for field in _REFUSED:
            if getattr(compare, field) is not None:
                raise ValueError(f"{field} is not a setting of an optimization, which has splits and logs of its own")
        if compare.budget != BudgetConfig():
            raise ValueError("budget: move it to the table `search`, because it limits the search and not the test")
        if self.search.budget.seconds is not None:
            raise ValueError("budget: seconds are not an equal budget for designs; give calls, tokens or dollars")
        return self

    @property
    def model(self) -> str:
        return self.compare.models[0]

    @property
    def proposer(self) -> str:
        return self.search.proposer or self.model

    @property
    def proposer_budget(self) -> BudgetConfig:
        return self.search.proposer_budget or self.search.budget

    @property
    def threads(self) -> int:
        return self.search.threads or (1 if self.model == SCRIPTED else 8)

    def public(self) -> dict[str, Any]:
        """Return the configuration as JSON, without what may be secret."""
        return {"compare": self.compare.public(), "search": self.search.model_dump(mode="json")}


_REFUSED = ("split", "user", "cassette", "cassette_mode")
"""Fields of `CompareConfig` that an optimization does not take."""


def load_optimize_config(file: Path | None, typed: Mapping[str, Any]) -> OptimizeConfig:
    """Read a TOML file; what was typed overrides it. Its table `search` configures the search, the rest the comparison.

    Raises SettingError for what was typed, ValueError in one line that names file and setting, MissingExtra, or OSError.
    """
    data = read_toml(file)
    of_search = {name: value for name, value in typed.items() if name in SearchConfig.model_fields}
    of_compare = {name: value for name, value in typed.items() if name not in SearchConfig.model_fields}
    searched = data.pop("search", {})
    source = "" if file is None else str(file)
    compare = config_from({"repeats": REPEATS, **merged(data, of_compare)}, source, typed=of_compare)
    search = merged(searched, of_search) if isinstance(searched, dict) else searched
    try:
        config = OptimizeConfig(compare=compare, search=search)
    except ValidationError as error:
        told = setting_error(error, source, {"search": of_search})
        raise SettingError(told.setting.removeprefix("search."), told.problem) if isinstance(told, SettingError) else told from None
    check_packages(parse_spec(config.search.optimizer).name)
    return config


AGAIN = "again"
"""Folder of the second run of the old prompts on the locked tasks."""
SplitName = Literal["train", "dev", "test"]


class OptimizerEntry(ManifestPart):
    spec: str
    name: str
    options: dict[str, Any]


class DesignEntry(ManifestPart):
    design: str
    folder: Annotated[str, Field(pattern=r"^designs/\d+-[^/]+$")]
    loop: str
    options: dict[str, Any]
    configuration: str = ""
    code: str = ""
    program: str


class SplitOpening(ManifestPart):
    """The moment at which the test split was opened."""

    at: str = ""
    programs: dict[str, str]
    """Design → digest of the tested program."""
    rollouts: dict[str, dict[str, Any]]
    """Design → the state of its rollout log at that time."""
    before: tuple[str, ...] = ()
    """Earlier runs beside this one that have opened the same tasks."""


class SplitEntry(ManifestPart):
    tasks: Count
    digest: str
    opened: SplitOpening | None = None


class OptimizationManifest(ManifestPart):
    """Everything that determines the results of an optimization, and where it ran."""

    kind: Literal["optimization"] = "optimization"
    created: str = ""
    config: Annotated[dict[str, Any], fitting(OptimizeConfig)]
    """The initial configuration, without secrets."""
    seed: Seed
    versions: dict[str, int | str | None]
    suite: SuiteEntry
    profiles: dict[str, str]
    optimizer: OptimizerEntry
    designs: tuple[DesignEntry, ...]
    splits: dict[SplitName, SplitEntry]
    packages: dict[str, str | None]
    python: str
    platform: str

    @property
    def settings(self) -> OptimizeConfig:
        """The configuration that the run began with."""
        return OptimizeConfig.model_validate(self.config)


def read_optimization_manifest(folder: Path) -> OptimizationManifest:
    """Read the manifest of an optimization. Raises RunError, which names the file and the field."""
    if not is_optimization(folder):
        raise RunError(f"{folder}: not an optimization")
    return OptimizationManifest.read(folder)
