"""The manifest of a comparison, `manifest.json`: its configuration, suite, arms and machine, what was done to the run later, and
in what two manifests differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from whichloop.metrics.arm_info import TRIAL_LIMITS, ArmInfo
from whichloop.metrics.record import MAX_COUNT, RECORD_VERSION
from whichloop.models.prices import read_tag
from whichloop.runs.config import BudgetConfig, Fraction, Limit, Positive, Repeats, Seed
from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json, write_manifest_json
from whichloop.text.output import plain_line

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Amount = Annotated[float, Field(ge=0, le=MAX_COUNT)]


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent."""

    calls: Count = 0
    tokens: Count = 0
    dollars: Amount = 0.0
    seconds: Amount = 0.0
    """Wall time in which a trial was under way."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def beyond(self, earlier: Spent) -> Spent:
        """Return what is beyond the known, never less than nothing."""
        return Spent(*(max(0, mine - known) for mine, known in zip(astuple(self), astuple(earlier), strict=True)))

    def to_json(self) -> dict[str, float]:
        """Return the amounts by the names of a budget's limits."""
        return {"calls": self.calls, "tokens": self.tokens, "dollars": self.dollars, "seconds": round(self.seconds, 3)}


class ManifestPart(BaseModel):
    """A part of a manifest. It is written in the order of its fields; unknown ones are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """Return the part as it is written: a field that was never set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a run directory. Raises RunError, which names the file and the field."""
        data = read_manifest_json(folder)
        version = versions.get("record") if isinstance(versions := data.get("versions"), dict) else None
        if version not in (None, RECORD_VERSION):
            raise RunError(f"{folder / MANIFEST}: its records have version {version!r}; this whichloop reads {RECORD_VERSION}")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise RunError(f"{folder / MANIFEST}: {first_problem(error)}") from None


def having(*names: str) -> AfterValidator:
    """Return a validator of an object that has at least these keys."""

    def check(part: dict[str, Any]) -> dict[str, Any]:
        if missing := [name for name in names if part.get(name) is None]:
            raise ValueError(f"{missing[0]} is missing")
        return part

    return AfterValidator(check)


class SuiteEntry(ManifestPart):
    """The suite that the run uses."""

    name: str
    version: str
    digest: str
    tasks: Count
    """Number of tasks in the run, which may be fewer than the suite has."""
    by_construction: Count = 0
    """Number of them that a scripted model solves by construction."""
    max_tool_steps: Count | None = None
    """Maximum number of tool steps of a loop; unknown for an imported run."""
    code: str = ""
    """Digest of the user's own code that makes tasks, provides tools and scores answers."""
    files: dict[str, str] = Field(default_factory=dict)
    """File of this code, and of what it imports of the user's project → its short digest."""
    tool_server: Annotated[dict[str, str], having("name", "version", "tools")] | None = None
    """`name`, `version` and the digest of the list of `tools` of the server that gives them, where `--tools mcp:…` names one."""


class ArmEntry(ManifestPart):
    """The parts of an arm."""

    arm: str
    loop: str
    options: dict[str, Any]
    """The options that the user typed."""
    model: str
    profile: str
    configuration: str = ""
    """The loop's whole configuration, without its program."""
    code: str = ""
    """Digest of the loop's code."""
    files: dict[str, str] = Field(default_factory=dict)
    """File of the user's project that the loop is made of, imports included → its short digest; empty for a loop of ours."""
    program: str | None = None
    """Digest of the optimized program that the arm runs, if it runs one."""
    version: str = ""
    """Version of a foreign loop, which its name has, too."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of the packages that a foreign loop is made of, and of its interpreter."""
    environment: str = ""
    """Digest of the versions of all packages beside a foreign loop."""
    calls_in: str = ""
    """How the loop has calls written: `native`, in the API's own form, or `text`; empty where that is mixed, or not known."""
    met: str = ""
    """The profile that the arm met, where `profile` has one for each form of calls; else empty."""
    own_limit: Count | None = None
    """The limit that the loop kept of its author or user, in tool steps, 0 if unknown."""

    def info(self, suite: str) -> ArmInfo:
        return ArmInfo(
            arm=self.arm,
            loop=self.loop,
            options=self.options,
            model=self.model,
            profile=self.profile,
            suite=suite,
            calls_in=self.calls_in,
            met=self.met,
        )


class TaskDigests(ManifestPart):
    """Short digests of a run's tasks, by which a changed suite can be told task by task."""

    shared: str
    """Digest of what all tasks have in common: what a loop is told of their tools, and the data behind these."""
    tasks: dict[str, str]
    """Task → digest of all that it is: question, world, expected answer, scorer, plan and labels."""
    results: dict[str, str] = Field(default_factory=dict)
    """Task → digest of what its plan's calls give, where the tools are the user's own and answer alike."""


class ImportSource(ManifestPart):
    """A file of another tool."""

    file: str
    sha256: str
    format: str
    by: str
    """The tool and its version, if the file says so."""
    arms: tuple[str, ...]
    readings: tuple[str, ...] = ()
    """What was read as what, in sentences."""


class ImportOrigin(ManifestPart):
    """Where an imported run comes from."""

    format: str
    sources: tuple[ImportSource, ...] = Field(alias="from")
    cluster: str | None = None
    errors_as_failures: bool = False
    scorer: str | None = None
    scale: str | None = None


class RunNote(ManifestPart):
    """Something that was done to a run after it began."""

    when: str
    what: str | None = None
    """Which trials were run again."""
    suite: str = ""
    """Digest of the suite that the answers had been judged by before."""
    trials: Count
    """Trials that were run again, whose scores changed, or that the schedule had before it was extended."""
    to: Count | None = None
    """Trials of the extended schedule."""

    @classmethod
    def now(cls, **values: Any) -> RunNote:
        return cls(when=timestamp(), **values)


def _tag(text: str | None) -> str | None:
    """Return a price that is one. Raises ValueError."""
    if text is not None and read_tag(text) is None:
        raise ValueError(f"{text!r} is the name of a model, and a run says its price in numbers")
    return text


class Settings(BaseModel):
    """The settings of a run that its results are read with, and that a resumed run may change."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str | None = None
    """What the user calls the run."""
    suite: str = ""
    """The suite as it was typed."""
    loops: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    repeats: Repeats
    alpha: Fraction
    margin: Fraction
    tasks: Positive | None = None
    """Maximum number of tasks, the first ones; all of them if absent."""
    split: str | None = None
    """Split of the suite whose tasks are used; all of them if absent."""
    cassette: str | None = None
    cassette_mode: str | None = None
    real_time: bool = False
    concurrency: Positive | None = None
    workers: Positive | None = None
    price: Annotated[str | None, AfterValidator(_tag)] = None
    """Price of the scripted model's tokens, as numbers."""
    max_tool_steps: Positive | None = None
    trial_timeout_s: Limit = 60.0
    trial_budget: BudgetConfig = BudgetConfig()
    budget: BudgetConfig = BudgetConfig()
    mlflow: bool | None = None


def fitting(settings: type[BaseModel]) -> AfterValidator:
    """Return a validator of a configuration that has at least these settings; the configuration stays as it is."""

    def check(config: dict[str, Any]) -> dict[str, Any]:
        try:
            settings.model_validate(config)
        except ValidationError as error:
            raise ValueError(first_problem(error)) from None
        return config

    return AfterValidator(check)


def first_problem(error: ValidationError) -> str:
    """Return the first field that does not fit, and why."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))  # in which names of the file itself may stand
    return plain_line(": ".join([*([place] if place else []), first["msg"].removeprefix("Value error, ")]))


class Manifest(ManifestPart):
    """Everything that decides the results of a run, where its trials ran, and what was done to the run since it began."""

    created: str
    imported: ImportOrigin | None = None
    """Where the run comes from, if another tool made it."""
    config: Annotated[dict[str, Any], fitting(Settings)]
    """The configuration that the run began with, without secrets."""
    seed: Seed
    versions: dict[str, int | str | None]
    suite: SuiteEntry
    profiles: dict[str, str]
    """Fault profile → its digest."""
    own_profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Fault profile from a file → what it does: a run carries what it was run with."""
    arms: tuple[ArmEntry, ...]
    packages: dict[str, str | None]
    python: str
    platform: str
    asked: Annotated[dict[str, str | None], having("questions", "plans")] | None = None
    """Digests of `questions`, all that decides what a trial is asked, of `plans`, and of the code of the user's own `tools`."""
    task_digests: TaskDigests | None = None
    """Digests by which the tasks of a changed suite are told apart."""
    models: dict[str, Any] = Field(default_factory=dict)
    """Capabilities of real models, as found when the run began."""
    weights: dict[str, Annotated[dict[str, str], having("file", "sha256", "by")]] = Field(default_factory=dict)
    """Local model → the `file` of its weights, without its folder, their `sha256`, and the package `by` which they are served."""
    suite_problems: tuple[str, ...] = ()
    broken_laws: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Loop of the user's own → the laws of loops that it breaks, of those that a comparison checks once its trials have run."""
    ablation: dict[str, Any] = Field(default_factory=dict)
    """The arms of an ablation and their cells; `experiments/ablate` reads it."""
    cut_short: Annotated[Spent, PlainSerializer(Spent.to_json, return_type=dict[str, Any])] = Spent()
    """Cost of trials that an interruption or a budget cut short, which have no record."""
    retried: tuple[RunNote, ...] = ()
    """Trials that were scored and run again on request."""
    rescored: tuple[RunNote, ...] = ()
    """Answers that were judged again."""
    extended: tuple[RunNote, ...] = ()
    """Arms, tasks or repeats that were added."""
    rows: Count | None = None
    """Rows of `trials.sqlite` when a process last finished writing them: later there may be more."""

    @property
    def settings(self) -> Settings:
        """Return the part of the configuration with which results are read."""
        return Settings.model_validate(self.config)

    @property
    def is_ablation(self) -> bool:
        return "ablation" in self.model_fields_set

    @property
    def step_limits(self) -> dict[str, int]:
        """Arm → the limit of its loop in tool steps, 0 if unknown; none of an imported run."""
        limit = self.suite.max_tool_steps
        return {} if limit is None else {arm.arm: limit if arm.own_limit is None else arm.own_limit for arm in self.arms}

    def arm(self, name: str) -> ArmEntry | None:
        """Return the arm of a name, or None."""
        return next((arm for arm in self.arms if arm.arm == name), None)


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a comparison. Raises RunError, which names the file and the field."""
    return Manifest.read(folder)


def write_manifest(folder: Path, manifest: ManifestPart) -> None:
    write_manifest_json(folder, manifest.to_json())


VERSION_NAMES = {
    "record": "the form of records",
    "policy_and_profiles": "the scripted model",
    TRIAL_LIMITS: "the rule of trial limits",
}
"""Name of a version in a manifest → what has it."""


# --- what has changed since a run began ---

MAX_TOLD = 3
VENV = "venv"
"""The option of a foreign loop that only says where its environment is."""
_OF_SUITE = {
    "name": "name",
    "version": "version",
    "tasks": "number of tasks",
    "max_tool_steps": "step limit",
    "tool_server": "tool server",
    "digest": "tasks, tools or expected answers",
    "code": "code of your own",
}
_OF_ARM = (
    *("version", "packages", "environment", "code", "files", "configuration", "program"),
    *("options", "model", "profile", "met", "loop"),
)


def manifest_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return what two manifests differ in that decides what trials give, a label each; empty if nothing does."""
    found = suite_changes(then, now)
    for name in sorted(then.weights.keys() & now.weights.keys()):  # weights that are not there now are told where they are opened
        before, after = then.weights[name], now.weights[name]
        if before["sha256"] != after["sha256"]:
            found.append(f"the weights of model {name} ({before['file']}, now {after['file']})")
    found += [f"fault profile {name}" for name in _differing(then.profiles, now.profiles)]
    was, arms = ({arm.arm: arm for arm in each.arms} for each in (then, now))
    for name in _differing(was, arms):
        if name not in was or name not in arms:
            found.append(f"arm {name} ({'there was none' if name in arms else 'there is none now'})")
            continue
        parts = [part for part in _OF_ARM if getattr(arms[name], part) != getattr(was[name], part)]
        if "code" in parts and "files" in parts:
            parts.remove("files")  # of which the code is one
        found.append(f"arm {name} (its {' and '.join(parts) or 'entry'})")
    compared = ("versions", "suite", "profiles", "arms")
    return found or [part for part in compared if getattr(then, part) != getattr(now, part)]  # such as their order


def suite_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return the changes in what all arms share: versions and suite."""
    found = [
        f"{VERSION_NAMES.get(name, name)} (version {then.versions.get(name)}, now {now.versions.get(name)})"
        for name in _differing(then.versions, now.versions)
    ]
    parts = [label for part, label in _OF_SUITE.items() if getattr(then.suite, part) != getattr(now.suite, part)]
    return [*found, *([f"suite {now.suite.name} (its {' and '.join(parts)})"] if parts else [])]


def _differing(was: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    return [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]


def summary(differences: Sequence[str]) -> str:
    rest = f" and {len(differences) - MAX_TOLD} more" if len(differences) > MAX_TOLD else ""
    return f"{', '.join(differences[:MAX_TOLD])}{rest}"


def upgrades(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str | None]:
    """Return arm → the only arm of the other side that differs from it in nothing but version and environment; None without one."""

    def differing_in_version(arm: Any, arms: Mapping[str, Any]) -> list[str]:
        return [name for name, other in arms.items() if other.version and _identity(other) == _identity(arm)]

    counterparts: dict[str, str | None] = {}
    for name, arm in was.items():
        found = differing_in_version(arm, now) if arm.version else []
        counterparts[name] = found[0] if len(found) == 1 and differing_in_version(now[found[0]], was) == [name] else None
    return counterparts


def _identity(arm: Any) -> tuple[Any, ...]:
    return (arm.loop, {name: value for name, value in arm.options.items() if name != VENV}, arm.model, arm.profile)
