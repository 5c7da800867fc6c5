"""Fault profiles: which disturbances blow through the tunnel, how often, and what clears them. Small TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from whichloop.protocol import Role
from whichloop.protocol.files import read_settings
from whichloop.protocol.json_text import digest
from whichloop.protocol.names import nearest, toml_text

FAULT_KINDS: dict[str, str] = {
    "wire.malformed": "every opening bracket of the reply is lost",
    "wire.truncated": "the reply ends in the middle",
    "wire.fenced": "the reply stands in a code fence with prose round it",
    "wire.empty": "the reply is empty",
    "wire.duplicated": "the reply is there twice",
    "decision.unknown_tool": "a tool that does not exist is called",
    "decision.missing_argument": "a required argument is left out",
    "decision.extra_argument": "an argument that the tool does not have is given",
    "decision.wrong_type": "an argument has the wrong type",
    "decision.wrong_value": "an argument has a wrong value",
    "decision.repeated_call": "a call that was made before is made again",
    "decision.early_finish": "the model answers before its work is done",
    "decision.never_finish": "the model calls a tool again instead of answering",
    "decision.no_tool": "the model answers without having called any tool",
    "provider.rate_limit": "the provider answers 429",
    "provider.server": "the provider answers 500",
    "provider.overloaded": "the provider answers that its model is overloaded",
    "provider.interrupted": "the provider reports an error in the middle of the reply",
    "provider.timeout": "the provider does not answer in time",
    "provider.slow": "the reply comes late",
    "provider.dropped": "the connection breaks before the reply",
    "provider.cut": "the connection breaks in the middle of the reply",
    "provider.garbled": "the provider answers with what is not JSON",
    "tool.raises": "the tool raises",
    "tool.flaky": "the tool raises twice, then works",
    "tool.hangs": "the tool never returns",
    "tool.garbage": "the tool returns noise as if it were its result",
    "tool.huge": "the tool's result is followed by thousands of characters",
    "tool.slow": "the tool takes long",
    "tool.lies": "the tool returns a wrong value that might be right",
    "tool.stale": "the tool returns the value that was right before",
    "tool.empty": "the tool returns nothing as if nothing had been found",
    "tool.partial": "the tool returns a part of its result as if it were all",
    "mcp.error": "the tool's server answers with a JSON-RPC error",
    "mcp.list_changed": "the tool is gone from its server's list, and comes back",
    "mcp.drifted": "the tool's schema requires an argument that it did not have",
    "mcp.cut": "the text of the tool's result ends in the middle",
    "calls.late": "the call ends after those that run beside it",
    "calls.same_ids": "the calls of a reply have one id",
    "calls.too_early": "a call stands in one reply with those whose effect it needs",
    "inject.call": "the tool's result carries an instruction to make a call that nobody asked for",
    "inject.answer": "the tool's result carries an instruction to give an answer that is none",
    "inject.stop": "the tool's result carries an instruction to stop without an answer",
}

WEAKNESS_KINDS: dict[str, str] = {
    "weakness.unit": "a tool is given numbers in the wrong unit, a hundredth of what was meant",
    "weakness.date": "a tool is given dates with the day first",
    "weakness.step": "the last call of a tool is forgotten, and what it would have given made up",
    "weakness.answer": "an answer that is a number is stated in thousands",
}
"""What a record calls the slips that come of weaknesses; a profile has them under `weaknesses`, never under `rates`."""

LAPSE = "decision.forget"
"""What a record calls a result that the model overlooked; a profile has its rate as `forget`."""
TOOL = "tool"
"""What stands for a role at the point of a fault that strikes a call where its tool runs."""
OF_CALLS = frozenset(kind for kind in FAULT_KINDS if kind.partition(".")[0] in ("tool", "mcp", "inject")) | {"calls.late"}
"""Kinds that strike a call where its tool runs, whoever decided on it."""
OUTSIDE = frozenset(kind for kind in FAULT_KINDS if kind.partition(".")[0] in ("tool", "mcp", "provider"))
"""Kinds that strike a real model's trials too: what fails is not the model."""

Rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Clears(_Section):
    """What makes a fault go away. A mistake of the model clears by what the next prompt says of it, an outage by attempts alone."""

    never: Rate = 0.1
    """Share of the faults that never clear."""
    attempts: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.5
    """Mean number of attempts that an outage of a tool or a provider takes, geometrically distributed."""
    nothing: Rate = 0.35
    """Chance that a new attempt mends a mistake of which the prompt says nothing; 0 at temperature 0."""
    failed: Rate = 0.65
    """The same where the prompt says that something failed."""
    words: Rate = 0.9
    """The same where it shows the error's own words."""

    @model_validator(mode="after")
    def _more_helps_more(self) -> Self:
        if not self.nothing <= self.failed <= self.words:
            raise ValueError(f"nothing, failed and words must not fall, not {self.nothing:g}, {self.failed:g}, {self.words:g}")
        return self


class Abilities(_Section):
    """What the simulated model can do; no coin flips, so that no retry cures them."""

    context_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Longest request in estimated tokens."""
    tool_choice: bool = True
    """False: a request that forces a tool is refused."""


class Gullibility(_Section):
    """How far the model obeys an instruction in a tool's result as if it were the user's; see `whichloop.models.instructions`."""

    obeys: Rate = 0.0
    """Chance that the model falls for an instruction that its prompt shows."""
    marked: Rate = 0.0
    """The same where the prompt marks the instruction as data."""
    confirms: Rate = 0.0
    """Chance that the model, asked about a call alone, confirms one that only an instruction asked for."""


class Weakness(_Section):
    """Something that the simulated model does wrong unless its instructions or demonstrations show it how: no fault that a retry
    or an error message cures."""

    kind: Literal["unit", "date", "step", "answer"]
    rate: Rate
    """Share of the trials in which it shows."""
    tool: str | None = None
    """Only calls of this tool; left out, those of all."""


SAYINGS = {"description", "evidence", "sources", "measured_of"}
"""Fields in which a profile speaks of itself."""

Form = Literal["native", "text"]
"""How calls are written: in the API's own form, or in the reply's text."""
FORMS: dict[str, str] = {"native": "native calls", "text": "calls in text"}
"""Form of calls → how it is told."""
_OF_BOTH_FORMS = {"name", "by_form", *SAYINGS}
"""Fields of a profile that has one for each form of calls: all else is in these."""


class Profile(_Section):
    """One fault profile."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    description: str = ""
    evidence: str = ""
    """Whether the rates were measured or are a stress test, in one sentence."""
    measured_of: Form | None = None
    """The form of the calls in the replies that the rates were measured of; None where it is no matter of one form."""
    by_form: dict[Form, Profile] = Field(default_factory=dict)
    """Form of calls → what a loop meets that has its calls written so: a table, or the name of a built-in profile. Empty: all loops
    meet this profile itself."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Fault kind → what its rate is based on."""
    rates: dict[str, Rate] = Field(default_factory=dict)
    """Fault kind → chance per point that a trial reaches, or per call that a tool runs."""
    clears: Clears = Clears()
    forget: Rate = 0.0
    """Chance that a result at the very start of the prompt is treated as unknown; falls to 0 towards its end."""
    notices: Rate = 0.5
    """Share of the tools' implicit failures, wrong results that do not say so, that the model notices: it calls again.
    It believes the others."""
    bluff: Rate = 0.5
    """Chance of a fluent wrong answer, where the honest one is "not determined"."""
    patience: Annotated[int, Field(ge=1, le=100)] = 3
    """Failures that the model sees before it tries another way."""
    latency_s: Seconds = 0.0
    """Simulated seconds that each reply takes."""
    slow_s: Seconds = 20.0
    """Simulated seconds that a slow fault adds."""
    gullible: Gullibility = Gullibility()
    abilities: Abilities = Abilities()
    weaknesses: tuple[Weakness, ...] = ()
    """What can be taught to the model; see `whichloop.models.weaknesses`."""
    faults: tuple[str, ...] | None = None
    """The faults that strike, each KIND@ROLE:CALL, such as `tool.raises@tool:c2`, whatever the rates are. Lapses and weaknesses
    that are listed may strike where they come up. Left out, all strike that are drawn."""

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what does nothing, such as empty weaknesses: a profile keeps the digest that it had before there were any."""
        fields: dict[str, Any] = dump(self)
        if self.by_form:
            fields = {name: value for name, value in fields.items() if name in _OF_BOTH_FORMS}
        nothing = {name for name in ("weaknesses", "evidence", "sources", "measured_of", "by_form") if not fields.get(name)}
        nothing |= {"faults"} if self.faults is None else set()
        nothing |= {"gullible"} if self.gullible == Gullibility() else set()
        return {name: value for name, value in fields.items() if name not in nothing}

    @field_validator("faults")
    @classmethod
    def _are_faults(cls, faults: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in faults or ():
            kind, _, point = text.partition("@")
            role, _, call = point.partition(":")
            if kind not in (known := (*FAULT_KINDS, *WEAKNESS_KINDS, LAPSE)):
                raise ValueError(f"{text!r}: unknown fault kind {kind!r}; {nearest(kind, known)}")
            if role not in {*Role, TOOL} or not call:
                raise ValueError(f"{text!r} is not written KIND@ROLE:CALL, such as tool.raises@tool:c2")
        points = [text.partition("@")[2] for text in faults or () if text.partition("@")[0] in FAULT_KINDS]
        for number, point in enumerate(points):
            if point in points[:number]:
                raise ValueError(f"two faults at {point}; at most 1 fits a point")
        return faults

    @field_validator("by_form", mode="before")
    @classmethod
    def _by_name(cls, profiles: Any) -> Any:
        """Put built-in profiles in the place of their names."""
        if not isinstance(profiles, dict):
            return profiles
        named = {form: name.removesuffix(".toml") for form, name in profiles.items() if isinstance(name, str)}
        return profiles | {form: load_profile(name) for form, name in named.items()}

    @field_validator("rates")
    @classmethod
    def _known_kinds(cls, rates: dict[str, float]) -> dict[str, float]:
        for kind in rates.keys() - FAULT_KINDS.keys():
            allowed = "it belongs under [[weaknesses]]" if kind in WEAKNESS_KINDS else nearest(kind, FAULT_KINDS)
            raise ValueError(f"unknown fault kind {kind!r}; {allowed}")
        if sum(rates.values()) > 1 + 1e-9:
            raise ValueError(f"the rates add up to {sum(rates.values()):g}; at most 1 fault fits a point")
        return rates

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if unrated := [kind for kind in self.sources if kind not in self.rates]:
            raise ValueError(f"sources: {unrated[0]!r} has no rate")
        if self.by_form and (others := sorted(self.model_fields_set - _OF_BOTH_FORMS)):
            raise ValueError(f"by_form: the profile of each form says what it does; leave out {others[0]!r}")
        if self.by_form and (self.by_form.keys() < FORMS.keys() or any(profile.by_form for profile in self.by_form.values())):
            raise ValueError(f"by_form: it takes a profile of one form for each of {', '.join(FORMS)}")
        return self

    @cached_property
    def placed(self) -> dict[str, str]:
        """The listed faults that need no occasion: point, as ROLE:CALL, → kind."""
        listed = (text.partition("@") for text in self.faults or ())
        return {point: kind for kind, _, point in listed if kind in FAULT_KINDS}

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of fault that points can be struck by."""
        return frozenset(self.rates if self.faults is None else self.placed.values())

    @property
    def outside(self) -> Profile:
        """The part of it that strikes a real model's trials: faults of tools, MCP servers and providers."""
        rates = {kind: rate for kind, rate in self.rates.items() if kind in OUTSIDE}
        faults = None if self.faults is None else tuple(text for text in self.faults if text.partition("@")[0] in OUTSIDE)
        return self.model_copy(update={"rates": rates, "sources": {}, "faults": faults})

    @property
    def digest(self) -> str:
        """sha256 of all that the profile does; what it says of itself is left out."""
        return digest(self.effects())

    def effects(self) -> dict[str, Any]:
        """Return all that the profile does; what it says of itself is left out."""
        effects = self.model_dump(mode="json", exclude={*SAYINGS, "by_form"})
        by_form = {form: profile.effects() for form, profile in self.by_form.items()}
        return effects | {"by_form": by_form} if by_form else effects

    def met_by(self, calls_in: str) -> Profile:
        """Return what a loop meets that has its calls written so: `native` or `text`; any other word where that is not known.

        Raises ValueError for a form that is not known, if this profile has one for each form.
        """
        met = {str(form): profile for form, profile in self.by_form.items()} or {calls_in: self}
        if calls_in not in met:
            raise ValueError(f"profile {self.name} is met by the form of a loop's calls, and this one's is not known")
        return met[calls_in]

    def to_toml(self) -> str:
        """Return the text of a file that `load_profile` reads back."""
        plain = self.model_dump(mode="json", exclude_none=True)
        return "".join(f"{name} = {toml_text(value)}\n" for name, value in plain.items())


_FOLDER = resources.files("whichloop.models") / "profiles"


@cache
def built_in_profiles() -> tuple[str, ...]:
    """Return their names, sorted."""
    return tuple(sorted(item.name.removesuffix(".toml") for item in _FOLDER.iterdir() if item.name.endswith(".toml")))


def load_profile(name: str) -> Profile:
    """Load a built-in profile by name, or a file of the user's by path (`.toml`).

    Raises ValueError, in one line that names file and field, or OSError.
    """
    if name.endswith(".toml"):
        own = _parse(read_settings(Path(name)), name)
        check_own_name(own, name)
        return own
    if name not in built_in_profiles():
        known = nearest(name, built_in_profiles())
        raise ValueError(f"unknown profile {name!r}, which is not a .toml file either; {known}")
    return _built_in(name)


def check_own_name(profile: Profile, source: str) -> None:
    """Raise ValueError for a profile of the user's that has the name of a built-in one and says something else."""
    for field, own in {"name": profile, **{f"by_form.{form}.name": each for form, each in profile.by_form.items()}}.items():
        if own.name in built_in_profiles() and own.digest != _built_in(own.name).digest:
            raise ValueError(
                f"{source}: {field}: {own.name!r} is a built-in profile, which says something else; choose another name"
            )


@cache
def _built_in(name: str) -> Profile:
    return _parse((_FOLDER / f"{name}.toml").read_bytes(), f"{name}.toml")


def _parse(raw: bytes, source: str) -> Profile:
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: not valid TOML: {error}") from None
    return make_profile(data, source)


def make_profile(data: dict[str, Any], source: str) -> Profile:
    """Return a profile from plain data. Raises ValueError, in one line that names source and field."""
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "profile"
        raise ValueError(f"{source}: {where}: {first['msg'].removeprefix('Value error, ')}") from None


# --- what the built-in profiles say of their rates ---


def evidence_for(names: Iterable[str]) -> dict[str, str]:
    """Return name → what is known of the rates, for those of the names that are built-in profiles with rates."""
    return {profile.name: profile.evidence for profile in _those_built_in(names) if profile.rates or profile.by_form}


def measured_forms(names: Iterable[str]) -> dict[str, str]:
    """Return name → `native` or `text`, for those of the names that are built-in profiles measured of calls in that form."""
    return {profile.name: profile.measured_of for profile in _those_built_in(names) if profile.measured_of is not None}


def _those_built_in(names: Iterable[str]) -> list[Profile]:
    return [load_profile(name) for name in names if name in built_in_profiles()]


PROFILES_VERSION = 8
"""Raised with any change to a built-in profile, to the policy, or to the way faults are drawn or replies ordered."""
