"""The configuration of a comparison: one validated model, filled from a TOML file and from flags."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .registry import nearest

Positive = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


class BudgetConfig(BaseModel):
    """What may be spent; a limit left out is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: Positive | None = None
    tokens: Positive | None = None
    dollars: Annotated[float, Field(gt=0)] | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None


class CompareConfig(BaseModel):
    """A comparison: loops × models × profiles, each an arm, over the tasks of one suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    loops: Annotated[tuple[str, ...], Field(min_length=1)] = ("bare", "react_extract")
    """Loop designs, `name` or `name(option=value)`."""
    suite: str = "arithmetic"
    """Task suite, `name` or `name(option=value)`."""
    data: Path | None = None
    """File of a suite that imports one."""
    profiles: Annotated[tuple[str, ...], Field(min_length=1)] = ("clean",)
    """Fault profiles: built-in names or paths to TOML files."""
    models: Annotated[tuple[str, ...], Field(min_length=1)] = ("scripted",)
    """`scripted`, or a real model such as openai/gpt-4o-mini."""
    base_url: str | None = None
    """OpenAI-compatible server of a real model."""
    tasks: Positive | None = None
    """Only the first so many tasks."""
    repeats: Positive = 1
    """Trials per arm and task."""
    seed: int = 0
    """Of all draws: faults, and sampling where a provider takes a seed."""
    max_tool_steps: Positive | None = None
    """Step limit of every arm, in tool steps; left out: the suite's own."""
    concurrency: Positive = 32
    """Trials in flight at once."""
    trial_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds of wall time for one trial."""
    real_time: bool = False
    """Sleep through simulated delays instead of only counting them."""
    budget: BudgetConfig = BudgetConfig()
    """Of the whole run."""
    trial_budget: BudgetConfig = BudgetConfig()
    """Of each trial."""
    alpha: Fraction = 0.05
    """Level of tests and intervals."""
    margin: Fraction = 0.02
    """Differences in accuracy below this are of no consequence."""
    runs: Path = Path("runs")
    """Folder that run directories are made in."""
    mlflow: bool = True
    """Log to MLflow."""
    tracking_uri: str | None = None
    """MLflow tracking server or store; left out: SQLite under the runs folder."""
    experiment: str = "loopbench"
    """MLflow experiment."""

    @model_validator(mode="after")
    def _real_models_have_no_faults(self) -> Self:
        real = [name for name in self.models if name != "scripted"]
        if real and self.profiles != ("clean",):
            raise ValueError(f"fault profiles need the scripted model; {real[0]} runs under 'clean' only")
        for name in ("loops", "profiles", "models"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name}: {next(v for v in values if values.count(v) > 1)!r} stands twice")
        return self

    def public(self) -> dict[str, Any]:
        """As JSON, without what may be secret: user and password of an address."""
        made = self.model_dump(mode="json")
        for name in ("base_url", "tracking_uri"):
            if made[name]:
                made[name] = _USERINFO.sub("", made[name])
        return made


def load_config(file: Path | None, flags: dict[str, Any]) -> CompareConfig:
    """A TOML file, flags over it. Raises ValueError in one line that names file and field, or OSError."""
    data: dict[str, Any] = {}
    if file is not None:
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: no valid TOML: {error}") from None
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    return config_from(data | given, str(file) if file and not set(given) else "configuration")


def config_from(data: dict[str, Any], source: str) -> CompareConfig:
    """Raises ValueError in one line that names source and field, with the nearest right name for an unknown one."""
    try:
        return CompareConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            model = BudgetConfig if len(path) > 1 else CompareConfig
            raise ValueError(f"{source}: unknown field {'.'.join(path)!r}; {nearest(path[-1], model.model_fields)}") from None
        message = first["msg"].removeprefix("Value error, ")
        where = f"{'.'.join(path)}: " if path else ""
        got = f", got {first['input']!r}" if path else ""
        raise ValueError(f"{source}: {where}{message}{got}") from None
