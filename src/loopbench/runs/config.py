"""The configuration of a comparison: one validated model, filled from a TOML file and from flags."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from loopbench.protocol.names import nearest
from loopbench.protocol.redact import USERINFO, public_address
from loopbench.protocol.tools import DEFAULT_TIME_LIMIT_S

Positive = Annotated[int, Field(ge=1)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Capability = Literal["tool_choice", "response_schema", "streaming"]
CassetteModeName = Literal["record", "replay", "replay-or-record", "refresh"]
Engine = Literal["local", "ray"]
COMMAND_LINE = "command line"
FLAGS: Mapping[str, str] = {"loops": "loop", "profiles": "profile", "models": "model"}
"""Fields whose flags have other names."""
IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS = 32, 8
MAX_LOOKS = 20
MAX_SHOWN = 80
"""Characters of a bad value that an error shows."""


class BudgetConfig(BaseModel):
    """What may be spent; a limit left out is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: Positive | None = None
    tokens: Positive | None = None
    dollars: Limit | None = None
    seconds: Limit | None = None


class ProviderConfig(BaseModel):
    """How real models are asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    call_timeout_s: Limit = 60.0
    """Seconds for one attempt at a reply; never more than half of a trial's time."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Attempts at one reply, where a provider's failure may pass."""
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    prices: Path | None = None
    """TOML file of prices, over those that DSPy ships: US dollars per million tokens."""
    without: tuple[Capability, ...] = ()
    """What the model cannot do, whatever its provider says."""
    context_tokens: Positive | None = None
    """Longest request in tokens, estimated; a longer one is not sent."""
    probe: bool = False
    """Find out what the model can do by asking it, before the run."""
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None = None
    """Sampling; left out: the provider's own. What a loop asks for wins."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Positive | None = None
    seed: int | None = None


class CompareConfig(BaseModel):
    """A comparison: loops × models × profiles, each an arm, over the tasks of one suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    loops: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "bare",
        "finish",
        "phased",
        "react_extract",
        "stateless",
    )
    """Loop designs, `name` or `name(option=value)`."""
    suite: str = "arithmetic"
    """Task suite, `name` or `name(option=value)`."""
    data: Path | None = None
    """File of a suite that imports one."""
    tools: str | None = None
    """Tools of the user's own for a suite that brings none, `my.module` or `my.module:NAME`."""
    profiles: Annotated[tuple[str, ...], Field(min_length=1)] = ("clean",)
    """Fault profiles: built-in names or paths to TOML files."""
    models: Annotated[tuple[str, ...], Field(min_length=1)] = ("scripted",)
    """`scripted`, or a real model such as openai/gpt-4o-mini."""
    base_url: str | None = None
    """OpenAI-compatible server of a real model."""
    provider: ProviderConfig = ProviderConfig()
    """How real models are asked."""
    cassette: Path | None = None
    """Folder of a recording."""
    cassette_mode: CassetteModeName | None = None
    """What is done with it: record, replay (where left out), replay-or-record or refresh."""
    quarantine: Path | None = None
    """TOML or JSON file of tasks known to be bad, id and reason: they leave the denominator, visibly."""
    split: str | None = None
    """Only tasks of one split, such as train, dev or test."""
    tasks: Positive | None = None
    """Only the first so many tasks."""
    skip_unplanned: bool = False
    """Leave tasks without a plan out under the scripted model, visibly; else a run that has some is refused."""
    repeats: Positive = 1
    """Trials per arm and task."""
    looks: Annotated[int, Field(ge=2, le=MAX_LOOKS)] | None = None
    """Look at the verdicts so many times on the way, after equal shares of the tasks, and end once every pair is decided."""
    seed: int = 0
    """Of all draws of faults."""
    max_tool_steps: Positive | None = None
    """Step limit of every arm, in tool steps; left out: the suite's own."""
    concurrency: Positive | None = None
    """Trials in flight at once; left out: 32, or 8 where nothing is waited for and more would only slow each other down."""
    engine: Engine = "local"
    """Where trials run: `local`, on this machine, or `ray`, on the machines of a Ray cluster."""
    address: str | None = None
    """Of a Ray cluster that is running; left out: one is started on this machine for the run."""
    workers: Positive | None = None
    """Processes that trials run in; left out: this process, or under Ray one per processor of the cluster."""
    trial_timeout_s: Limit = 60.0
    """Seconds of wall time for one trial."""
    tool_timeout_s: Limit = DEFAULT_TIME_LIMIT_S
    """Seconds for one call of a tool that sets itself no limit."""
    traces: str = "all"
    """Which traces are kept: `all`, `failures`, `sample=N` (of N trials per arm, the same for all arms) or `none`."""
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

    @field_validator("loops", "profiles", "models")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is a duplicate")
        return names

    @field_validator("traces")
    @classmethod
    def _known_traces(cls, text: str) -> str:
        if not re.fullmatch(r"all|failures|none|sample=[1-9][0-9]*", text, re.ASCII):
            raise ValueError("it must be all, failures, none or sample=N, such as sample=100")
        return text

    @property
    def real_models(self) -> tuple[str, ...]:
        """All but the scripted one."""
        return tuple(name for name in self.models if name != "scripted")

    @model_validator(mode="after")
    def _models_fit(self) -> Self:
        real = self.real_models
        if real and self.profiles != ("clean",):
            raise ValueError(f"fault profiles need the scripted model; {real[0]} runs under 'clean' only")
        if not real and (self.base_url is not None or self.provider != ProviderConfig()):
            what = "base_url" if self.base_url is not None else "provider"
            raise ValueError(f"{what} is for real models; name one, such as openai/gpt-4o-mini")
        return self

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        if self.address is not None and self.engine != "ray":
            raise ValueError('address is that of a Ray cluster; it needs engine = "ray"')
        if self.is_spread and self.cassette is not None and not self.replays:
            raise ValueError("a recording has one writer: record without workers, in one process; replaying may use several")
        for what, limit in (("concurrency", self.concurrency), ("requests_per_minute", self.provider.requests_per_minute)):
            if self.workers is not None and limit is not None and self.workers > limit:
                raise ValueError(f"{self.workers} workers cannot share {what} {limit}; take {limit} workers at most")
        return self

    @model_validator(mode="after")
    def _looks_at_pairs(self) -> Self:
        if self.looks is not None and len(self.loops) * len(self.models) < 2:
            raise ValueError("looks end a run once every pair is decided, and one loop makes no pair")
        return self

    @model_validator(mode="after")
    def _cassette_is_there(self) -> Self:
        if self.cassette is None and self.cassette_mode is not None:
            raise ValueError(f"cassette_mode {self.cassette_mode!r} needs a folder: cassette")
        return self

    @property
    def in_flight(self) -> int:
        """Trials in flight at once."""
        if self.concurrency is not None:
            return self.concurrency
        waits = self.real_models or self.real_time
        return IN_FLIGHT if waits else IN_FLIGHT_WITHOUT_WAITS

    @property
    def is_spread(self) -> bool:
        """Trials run in other processes than this one."""
        return self.engine != "local" or self.workers is not None

    @property
    def replays(self) -> bool:
        """Nothing is asked: all comes from a recording."""
        return self.cassette is not None and self.cassette_mode in (None, "replay")

    def public(self) -> dict[str, Any]:
        """Return the configuration as JSON, without what may be secret: user and password of an address."""
        made = self.model_dump(mode="json")
        for name in ("base_url", "tracking_uri", "address"):
            if made[name]:
                made[name] = public_address(USERINFO.sub("", made[name]))
        return made


def load_config(file: Path | None, flags: dict[str, Any]) -> CompareConfig:
    """Read a TOML file, flags over it. Raises ValueError in one line that names file and field, or OSError."""
    data: dict[str, Any] = {}
    if file is not None:
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, a number or nesting beyond what Python reads
            raise ValueError(f"{file}: no valid TOML: {error}") from None
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    typed = dict(given)
    for name in ("budget", "trial_budget", "provider"):
        if name in given and isinstance(data.get(name), dict):
            given[name] = data[name] | given[name]
    return config_from(data | given, COMMAND_LINE if file is None else str(file), typed=typed)


def config_from(
    data: dict[str, Any], source: str, *, typed: Mapping[str, Any] | None = None, flags: Mapping[str, str] = FLAGS
) -> CompareConfig:
    """Read a configuration. Raises ValueError in one line that names source and field, with the nearest name for an unknown one.

    `typed`: what of it comes from the command line, whatever the source of the rest: a mistake there is told by its flag's name.
    `flags`: names of flags that are not those of their fields.
    """
    typed = typed or {}
    try:
        return CompareConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            model = _SECTIONS.get(path[0], CompareConfig) if len(path) > 1 else CompareConfig
            raise ValueError(f"{source}: unknown field {'.'.join(path)!r}; {nearest(path[-1], model.model_fields)}") from None
        message = first["msg"].removeprefix("Value error, ")
        if not path:
            where = source if source == COMMAND_LINE or not typed else f"{source} and the {COMMAND_LINE}"
            raise ValueError(f"{where}: {message}") from None
        where = flag_of(path, flags) if _is_typed(path, typed) else f"{source}: {'.'.join(path)}"
        raise ValueError(f"{where}: {message}, got {_short(first['input'])}") from None


def _is_typed(path: Sequence[str], typed: Mapping[str, Any]) -> bool:
    """Say whether a field was given by a flag; in a section each field counts for itself."""
    value = typed.get(path[0])
    return value is not None and (len(path) == 1 or not isinstance(value, dict) or value.get(path[1]) is not None)


def flag_of(path: Sequence[str], flags: Mapping[str, str] = FLAGS) -> str:
    """Return a field's flag: `--loop` for `loops.0`, `--budget-calls`, `--trial-timeout`, `--attempts` for `provider.attempts`."""
    names = [name for name in path if not name.isdigit() and name != "provider"]
    return f"--{flags.get(names[0]) or '-'.join(names).removesuffix('_s').replace('_', '-')}"


_SECTIONS: dict[str, type[BaseModel]] = {"budget": BudgetConfig, "trial_budget": BudgetConfig, "provider": ProviderConfig}


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
