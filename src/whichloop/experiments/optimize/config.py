"""The configuration of an optimization: the comparison of these loops, and the search for their prompts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whichloop._extras import EXTRA_OF, is_installed, missing
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.runs.config import (
    BudgetConfig,
    CompareConfig,
    IfAbsent,
    Positive,
    SettingError,
    config_from,
    merged,
    read_toml,
    setting_error,
)

BESIDE_DSPY: Mapping[str, str] = {"miprov2": "optuna"}
"""Built-in optimizer, in small letters → the package that it needs beside DSPy, whose extra has both."""


def packages_of(optimizer: str) -> tuple[str, ...]:
    """Return the packages that an optimizer needs; the extra of the last has all. `optimizer`: its name, without options."""
    beside = BESIDE_DSPY.get(optimizer.lower())
    return ("dspy",) if beside is None else ("dspy", beside)


def check_packages(optimizer: str) -> None:
    """Raise MissingExtra, which names one extra for all of them, where an optimizer needs a package that is not installed."""
    packages = packages_of(optimizer)
    for package in packages:
        if not is_installed(package):
            raise missing(f"optimizer {optimizer}", package, extra=EXTRA_OF[packages[-1]])


REPEATS = 3
"""Trials per task of the test split, before and after."""


class SearchConfig(BaseModel):
    """The settings of the search for prompts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    optimizer: str = "BootstrapFewShot"
    """Optimizer (teleprompter), `name` or `name(option=value)`."""
    budget: BudgetConfig = BudgetConfig(calls=2000)
    """Limits on what the rollouts of each design may spend."""
    proposer_budget: BudgetConfig | None = None
    """Limits on what the optimizer's own requests for each design may spend; if absent, the same as `budget`."""
    proposer: Annotated[str | None, IfAbsent("the model of the loops")] = None
    """Model that proposes prompts: a real one, or `scripted`."""
    train: Positive = 40
    """Maximum number of tasks of the train split."""
    dev: Positive = 40
    """Maximum number of tasks of the dev split."""
    threads: Annotated[Positive | None, IfAbsent("1 with the scripted model, 8 with a real one")] = None
    """Number of rollouts in flight at once; one at a time makes a search repeatable."""


class OptimizeConfig(BaseModel):
    """An optimization: loops × one model × one profile over a suite whose tasks are split."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    compare: CompareConfig
    """The comparison on the test split; its `tasks` is the maximum number of test tasks."""
    search: SearchConfig = Field(default_factory=SearchConfig)

    @model_validator(mode="after")
    def _one_model_and_profile(self) -> Self:
        compare = self.compare
        same = "designs are optimized and compared under the same conditions"
        for field, names in (("models", compare.models), ("profiles", compare.profiles)):
            if len(names) != 1:
                raise ValueError(f"{field}: give one, not {len(names)}: {same}")
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
        """Name of the model that proposes prompts."""
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


_REFUSED = ("split", "user", "cassette", "cassette_mode", "looks")
"""Fields of `CompareConfig` that an optimization does not take."""
SETTINGS: tuple[str, ...] = tuple(
    dict.fromkeys([*SearchConfig.model_fields, *(name for name in CompareConfig.model_fields if name not in _REFUSED)])
)
"""The settings of an optimization by field, those of the search first."""


def load_optimize_config(file: Path | None, typed: Mapping[str, Any]) -> OptimizeConfig:
    """Read a TOML file; what was typed overrides it. Its table `search` configures the search, the rest the comparison.

    `typed`: values by field of `CompareConfig` or `SearchConfig`. Raises SettingError for what was typed, ValueError in one line
    that names file and setting, MissingExtra where what the optimizer needs is not installed, or OSError.
    """
    data = read_toml(file)
    of_search = {name: value for name, value in typed.items() if name in SearchConfig.model_fields}
    of_compare = {name: value for name, value in typed.items() if name not in SearchConfig.model_fields}
    searched = data.pop("search", {})
    source = "" if file is None else str(file)
    compare = config_from({"repeats": REPEATS, **merged(data, of_compare)}, source, typed=of_compare)
    search = merged(searched, of_search) if isinstance(searched, dict) else searched
    config = optimize_config_from({"compare": compare, "search": search}, source, of_search)
    check_packages(parse_spec(config.search.optimizer).name)
    return config


def optimize_config_from(data: Mapping[str, Any], source: str, typed: Mapping[str, Any] | None = None) -> OptimizeConfig:
    """Validate a configuration; `typed`: what was typed of the search. Raises SettingError for that, and ValueError in one line."""
    try:
        return OptimizeConfig.model_validate(dict(data))
    except ValidationError as error:
        told = setting_error(error, source, None if typed is None else {"search": typed})
        raise SettingError(told.setting.removeprefix("search."), told.problem) if isinstance(told, SettingError) else told from None
