"""The configuration of a comparison: one validated model, filled from a TOML file and from what was typed.

The docstring of a field is what `whichloop list settings` says of it; a text in its annotation says what None means.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from whichloop import protocol
from whichloop.metrics.record import MAX_COUNT, MAX_SEED
from whichloop.protocol.files import read_settings
from whichloop.protocol.names import SCRIPTED, is_local_model, nearest
from whichloop.protocol.redact import redact
from whichloop.protocol.tools import DEFAULT_TIME_LIMIT_S
from whichloop.protocol.values import shown_short

Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Limit = Annotated[float, Field(gt=0, le=MAX_COUNT, allow_inf_nan=False)]
MIN_TRIAL_S = 0.25
"""Seconds that a trial has at least: whether one that lets nothing else run is over its limit is looked at so often, no oftener."""
Seed = Annotated[int, Field(ge=-MAX_SEED, le=MAX_SEED)]
MAX_REPEATS = 10_000
Repeats = Annotated[int, Field(ge=1, le=MAX_REPEATS)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
ONE_OR_MORE = BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
Names = Annotated[tuple[str, ...], ONE_OR_MORE]
Capability = Literal["tool_choice", "response_schema", "streaming"]
CassetteModeName = Literal["record", "replay", "replay-or-record", "refresh"]
Engine = Literal["local", "ray"]
IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS, IN_FLIGHT_LOCAL = 32, 8, 2
"""Trials in flight by default: with real models, without waiting, and with a model that this machine computes."""
_CONCURRENCY = f"{IN_FLIGHT}, {IN_FLIGHT_WITHOUT_WAITS} if no trial has to wait, {IN_FLIGHT_LOCAL} with a local model"
MAX_NAME = 200
"""Characters of a run's name."""
SERVERS, DATABASES = ("http", "https"), ("sqlite", "postgresql", "mysql", "mssql")
"""Schemes of addresses that MLflow logs to."""


def scheme_of(uri: str) -> str:
    """Return the scheme of an address, such as `sqlite` or `http`, without a driver's name."""
    return uri.partition(":")[0].partition("+")[0].lower()


_LIMIT = re.compile(r"(\$?)\s*(\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?)\s*([a-z]*)", re.ASCII)
_UNITS = {
    **dict.fromkeys(("", "call", "calls"), "calls"),
    **dict.fromkeys(("token", "tokens"), "tokens"),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "dollars"),
    **dict.fromkeys(("s", "seconds"), "seconds"),
}
_FORM = "write calls, tokens, dollars or seconds, such as 2000, 2000calls, 1.5e6tokens, 2.5usd or 60s, several with commas between"
_WRITTEN = {"calls": "{}calls", "tokens": "{}tokens", "dollars": "${!r}", "seconds": "{:.12g}s"}


def typed_limits(value: object) -> dict[str, float]:
    """Return the limits of a budget by name, from a text or a number of calls. Raises ValueError for what is neither."""
    limits: dict[str, float] = {}
    for part in str(value).lower().split(","):
        match = _LIMIT.fullmatch(part.strip())
        unit = _UNITS.get(match[1] + match[3]) if match else None
        if match is None or unit is None or unit in limits:
            raise ValueError(f"{str(value)[:60]!r} is not a budget; {_FORM}")
        limits[unit] = float(match[2])
    return limits


class BudgetConfig(BaseModel):
    """Limits on what may be spent. None means no limit.

    A number of calls, or a text such as `5000tokens`, stands for a table of limits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    calls: Positive | None = None
    """Model calls at most."""
    tokens: Positive | None = None
    """Tokens at most, input and output."""
    dollars: Limit | None = None
    """US dollars at most, as far as prices are known."""
    seconds: Limit | None = None
    """Seconds at most."""

    @model_validator(mode="before")
    @classmethod
    def _as_typed(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | BudgetConfig) else typed_limits(value)


def budget_text(budget: BudgetConfig) -> str:
    """Return a budget as it is typed, or `no limit`."""
    return ",".join(_WRITTEN[name].format(limit) for name, limit in budget.model_dump(exclude_none=True).items()) or "no limit"


class ProviderConfig(BaseModel):
    """How requests are sent to real models."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    call_timeout_s: Limit = 60.0
    """Seconds for one attempt at a reply; never more than half of a trial's time."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Attempts at one reply at most, for failures that may pass."""
    requests_per_minute: Positive | None = None
    """Requests per minute to each real model at most."""
    tokens_per_minute: Positive | None = None
    """Tokens per minute, input and output, of each real model at most."""
    prices: Path | None = None
    """TOML file of prices, US dollars per million tokens; they override DSPy's."""
    without: Annotated[tuple[Capability, ...], ONE_OR_MORE] = ()
    """Capability that the real model lacks: `tool_choice`, `response_schema` or `streaming`."""
    context_tokens: Positive | None = None
    """Estimated tokens of a request at most; a larger one is not sent."""
    probe: bool = False
    """Test what the model can do before the run."""
    constrain: bool = False
    """Hold a local model's replies to the JSON schema that the loop reads."""
    temperature: Annotated[float | None, "the provider's own", Field(ge=0, le=10, allow_inf_nan=False)] = None
    """Sampling temperature; a loop that sets one overrides it."""
    top_p: Annotated[float | None, "the provider's own", Field(gt=0, le=1)] = None
    """Mass for nucleus sampling; a loop that sets one overrides it."""
    max_tokens: Annotated[Positive | None, "the provider's own"] = None
    """Tokens of a reply at most."""
    seed: Annotated[Seed | None, "none is sent"] = None
    """Sampling seed that is sent."""


STRESS_PROFILES = ("flaky-format", "flaky-tools")
"""What a comparison with the scripted model disturbs unless told otherwise: without faults most loops solve the same."""


class CompareConfig(BaseModel):
    """A comparison: loops × models × profiles, each an arm, over the tasks of one suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    loops: Annotated[Names, Field(min_length=1)] = (
        "bare",
        "finish",
        "phased",
        "react_extract",
        "stateless",
    )
    """Loops: `name`, `name(option=value)` or `package.module:Name`."""
    suite: str = "arithmetic"
    """Suite of tasks, `name` or `name(option=value)`."""
    data: Path | None = None
    """File that the suite reads its tasks from."""
    tools: str | None = None
    """Tools of your own: `my.module`, `my.module:NAME`, `mcp:COMMAND` or `mcp:URL`."""
    profiles: Annotated[Names, Field(min_length=1), "flaky-format and flaky-tools; with a real model clean"] = ("clean",)
    """Fault profiles or TOML files; of a real model, their faults of tools and providers."""
    models: Annotated[Names, Field(min_length=1)] = (SCRIPTED,)
    """Models: `scripted`, a real one such as openai/gpt-4o-mini, `local` or `local:FILE`."""
    user: Annotated[str | None, "the suite's script"] = None
    """Real model that plays the suite's users."""
    base_url: Annotated[str | None, "the provider's own"] = None
    """Address of a server for the real models, in their provider's protocol."""
    provider: ProviderConfig = Field(default_factory=ProviderConfig)
    """How requests are sent to real models."""
    price: Annotated[str | None, "it costs nothing"] = None
    """Price of the scripted model: INPUT/OUTPUT[/CACHED], US dollars per million tokens, or a model that has it."""
    cassette: Path | None = None
    """Folder of recorded replies."""
    cassette_mode: Annotated[CassetteModeName | None, "replay"] = None
    """How it is used: `record`, `replay`, `replay-or-record` or `refresh`."""
    quarantine: Path | None = None
    """TOML or JSON file: ids of bad tasks to reasons; they are excluded."""
    split: Annotated[str | None, "all"] = None
    """Split of the suite: train, dev, test or another."""
    tasks: Annotated[Positive | None, "all"] = None
    """Tasks at most, the first ones."""
    skip_unplanned: bool = False
    """Exclude tasks without a plan instead of refusing to run."""
    repeats: Repeats = 1
    """Trials of each arm and task."""
    seed: Seed = 0
    """Seed of every random draw."""
    max_tool_steps: Annotated[Positive | None, "the suite's own limit"] = None
    """Tool steps of each trial at most."""
    concurrency: Annotated[Positive | None, _CONCURRENCY] = None
    """Trials in flight at once."""
    engine: Engine = "local"
    """Where trials run: `local`, this machine, or `ray`, a cluster."""
    address: Annotated[str | None, "a cluster is started on this machine"] = None
    """Address of a running Ray cluster."""
    workers: Annotated[Positive | None, "none; one for your own code; one per processor for many trials, and with Ray"] = None
    """Processes that run trials."""
    trial_timeout_s: Annotated[Limit, Field(ge=MIN_TRIAL_S)] = 60.0
    """Seconds for one trial; with the scripted model, without a request or a call."""
    tool_timeout_s: Limit = DEFAULT_TIME_LIMIT_S
    """Seconds for one call of a tool that sets no limit."""
    traces: Annotated[str, Field(pattern=r"^(all|failures|none|sample=[1-9][0-9]*)$")] = "all"
    """Traces that are kept: `all`, `failures`, `sample=N` (the same N trials of each arm) or `none`."""
    real_time: bool = False
    """Sleep through simulated delays."""
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    """Limits of the whole run, over all its sessions."""
    trial_budget: BudgetConfig = Field(default_factory=BudgetConfig)
    """Limits of each trial; one that exceeds them is not solved."""
    alpha: Fraction = 0.05
    """Significance level; intervals have a confidence of 1 - alpha."""
    margin: Fraction = 0.02
    """Difference in accuracy below which two arms are equivalent."""
    name: Annotated[str | None, "what was compared"] = None
    """Name of the run, on its page and in MLflow."""
    runs: Path = Path("runs")
    """Folder of the run directories."""
    mlflow: Annotated[bool | None, "where MLFLOW_TRACKING_URI or tracking_uri is set"] = None
    """Log the results to MLflow."""
    tracking_uri: Annotated[str | None, "MLFLOW_TRACKING_URI, else SQLite in the runs folder"] = None
    """Address of MLflow's server or store."""
    experiment: str = "whichloop"
    """Name of the MLflow experiment."""
    otlp: Annotated[str | None, Field(exclude=True)] = None
    """Address of an OTLP endpoint that gets the spans of each trial."""

    @field_validator("loops", "profiles", "models")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
        return names

    @field_validator("name")
    @classmethod
    def _one_line(cls, text: str | None) -> str | None:
        if text is not None and (not text.strip() or not text.isprintable() or len(text) > MAX_NAME):
            raise ValueError(f"it must be one line of 1 to {MAX_NAME} characters")
        if text is not None and redact(text) != text:
            raise ValueError("it holds what looks like a secret, or the value of one in the environment")
        return text

    @property
    def is_logged(self) -> bool:
        return bool(self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")) if self.mlflow is None else self.mlflow

    @property
    def real_models(self) -> tuple[str, ...]:
        """The models other than the scripted one."""
        return tuple(name for name in self.models if name != SCRIPTED)

    @property
    def opened_models(self) -> tuple[str, ...]:
        """The real models of agents and users."""
        return tuple(dict.fromkeys([*self.real_models, *([] if self.user is None else [self.user])]))

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for problem in (*self._model_problems(), *self._engine_problems()):
            raise ValueError(problem)
        return self

    def _model_problems(self) -> Iterator[str]:
        real, prices, user = self.real_models, self.provider.prices, self.user
        if user is not None and SCRIPTED in (user, *self.models):
            why = "it is the scripted user that answers" if user != SCRIPTED else "leave it out for the scripted user"
            yield f"user is for runs whose models are all real; where the model is scripted, {why}"
        if real and self.price is not None:
            yield f"price is for runs of the scripted model alone; provider.prices says what {real[0]} costs"
        allowed = ProviderConfig() if self.price is None else ProviderConfig(prices=prices)
        if not real and (self.base_url is not None or self.provider != allowed):
            what = "base_url" if self.base_url is not None else "provider"
            instead = "" if prices is None else "; with the scripted one, price=NAME takes the price of a model of that file"
            yield f"{what} is for real models; name one, such as openai/gpt-4o-mini{instead}"
        if real and self.base_url is not None and all(map(is_local_model, self.opened_models)):
            yield f"base_url is for models that a server answers for; {real[0]} runs in this process"
        if self.provider.constrain and (others := [name for name in self.opened_models if not is_local_model(name)]):
            yield f"constrain is for local models; {others[0]} is not one"

    def _engine_problems(self) -> Iterator[str]:
        if self.address is not None and self.engine != "ray":
            yield 'address is the address of a Ray cluster; it needs engine = "ray"'
        if self.is_spread and self.cassette is not None and not self.replays:
            yield "only one process may record: leave workers out, or replay, which may use several"
        for what, limit in (("concurrency", self.concurrency), ("requests_per_minute", self.provider.requests_per_minute)):
            if self.workers is not None and limit is not None and self.workers > limit:
                yield f"{self.workers} workers cannot share {what} {limit}; take {limit} workers at most"
        if self.cassette is None and self.cassette_mode is not None:
            yield f"cassette_mode {self.cassette_mode!r} needs cassette, the folder of a recording"
        if self.cassette is not None and not self.opened_models:
            yield "cassette is for real models, whose replies it records; the scripted model needs none"

    @property
    def in_flight(self) -> int:
        if self.concurrency is not None:
            return self.concurrency
        if any(map(is_local_model, self.opened_models)):
            return IN_FLIGHT_LOCAL
        waits = self.real_models or self.real_time
        return IN_FLIGHT if waits else IN_FLIGHT_WITHOUT_WAITS

    @property
    def is_spread(self) -> bool:
        """Whether trials run in processes other than this one."""
        return self.engine != "local" or self.workers is not None

    @property
    def replays(self) -> bool:
        """Whether every reply comes from a recording, so that no model is called."""
        return self.cassette is not None and self.cassette_mode in (None, "replay")

    def public(self) -> dict[str, Any]:
        """Return the configuration as JSON, without users and passwords in addresses, which may be secret."""
        settings = self.model_dump(mode="json")
        for name in ("base_url", "tracking_uri", "address"):
            if settings[name]:
                settings[name] = protocol.anonymous_address(settings[name])
        return settings


SECTIONS: Mapping[str, tuple[str, ...]] = {
    "tasks": ("suite", "data", "tools", "quarantine", "split", "tasks", "skip_unplanned", "repeats", "profiles", "loops"),
    "statistics": ("seed", "alpha", "margin"),
    "limits": ("max_tool_steps", "trial_timeout_s", "tool_timeout_s", "budget", "trial_budget"),
    "model": ("models", "user", "base_url", "provider", "price", "cassette", "cassette_mode"),
    "run": ("concurrency", "workers", "engine", "address", "real_time"),
    "kept": ("name", "runs", "traces", "mlflow", "tracking_uri", "experiment", "otlp"),
}
"""Section → its settings; each is in one."""
EVERYDAY: Mapping[str, str] = {
    **{
        name: f"--{name}" for name in ("suite", "data", "tools", "tasks", "repeats", "seed", "price", "budget", "workers", "engine")
    },
    **{"loops": "--loop", "profiles": "--profile", "models": "--model", "max_tool_steps": "--max-tool-steps"},
    **{"trial_budget": "--per-trial", "mlflow": "--mlflow", "runs": "--runs"},
}
"""Setting → its flag of `compare`; others are typed as `-s NAME=VALUE`."""


def typed_words(name: str, value: object) -> list[str]:
    """Return the words of a command that give a setting a value, as a shell takes them once they are quoted."""
    if name == "mlflow" and value is True:
        return ["--mlflow"]
    if name in EVERYDAY and name != "mlflow":
        return [EVERYDAY[name], budget_text(value) if isinstance(value, BudgetConfig) else str(value)]
    return ["-s", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]


class SettingError(ValueError):
    """A mistake in a setting. The command line prints the setting as it is typed there, Python by its name."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting, self.problem = setting, problem


def read_toml(file: Path | None) -> dict[str, Any]:
    """Read a configuration file, or return no settings without a file. Raises ValueError in one line, or OSError."""
    if file is None:
        return {}
    try:
        return tomllib.loads(read_settings(file).decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, a number or nesting beyond what Python reads
        raise ValueError(f"{file}: not valid TOML: {error}") from None


def load_config(file: Path | None, typed: Mapping[str, Any]) -> CompareConfig:
    """Read a TOML file; what was typed overrides it. Where neither names a profile, scripted models meet `STRESS_PROFILES`.

    Raises SettingError for what was typed, ValueError in one line for what stands in the file, or OSError.
    """
    config = config_from(merged(read_toml(file), typed), "" if file is None else str(file), typed=typed)
    if "profiles" in config.model_fields_set or config.real_models:
        return config
    return config.model_copy(update={"profiles": STRESS_PROFILES})


def merged(data: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file with what was typed in their place; of a section only what was typed of it."""
    both = {name: value for name, value in typed.items() if value is not None and value != ()}
    tables = [name for name, value in both.items() if isinstance(value, dict) and isinstance(data.get(name), dict)]
    return {**data, **both, **{name: {**data[name], **both[name]} for name in tables}}


def config_from(data: Mapping[str, Any], source: str = "", *, typed: Mapping[str, Any] | None = None) -> CompareConfig:
    """Validate a configuration. `source`: the file of the settings that are not `typed`; without one all were typed.

    Raises SettingError for a mistake in what was typed, and ValueError in one line that names file and setting for others.
    """
    try:
        return CompareConfig.model_validate(data)
    except ValidationError as error:
        raise setting_error(error, source, typed) from None


def setting_error(
    error: ValidationError, source: str = "", typed: Mapping[str, Any] | None = None, model: type[BaseModel] = CompareConfig
) -> ValueError:
    """Return pydantic's first complaint in one line that names the setting, and its file where it was not typed.

    `model`: whose settings they are.
    """
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"] if not isinstance(part, int)]
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        hint = f"; {nearest(path[-1], model.model_fields)}" if len(path) == 1 else ""
        problem = f"there is no such setting{hint}"
    if first["type"] not in ("extra_forbidden", "value_error") and not first["type"].startswith("missing"):
        problem += f", got {shown_short(first['input'])}"
    if not path:
        return ValueError(f"{source}: {problem}" if source and not typed else problem)
    section = (typed or {}).get(path[0])
    if not source or (section is not None and (not isinstance(section, Mapping) or len(path) == 1 or path[1] in section)):
        return SettingError(".".join(path), problem)
    return ValueError(f"{source}: {'.'.join(path)}: {problem}")
