"""What a call from Python may pass: a table of the kinds of values, checked before anything else."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from whichloop._extras import needed_by
from whichloop.experiments.optimize.config import SearchConfig
from whichloop.protocol.names import nearest
from whichloop.protocol.values import shown_short
from whichloop.reports.dataframes import Loaded
from whichloop.runs.config import CompareConfig, SettingError

from .conclusion import Conclusion

Result = TypeVar("Result")
Given = ParamSpec("Given")


# --- kinds of values ---


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: what fits, and what to say of what does not."""

    types: tuple[type, ...]
    wanted: str
    inside: Kind | None = None
    """The kind of the items of a list, or of the values of a mapping."""

    def check(self, setting: str, value: Any) -> None:
        """Raise ValueError, in one line that names the setting, for a value of another kind."""
        if not isinstance(value, self.types) or (isinstance(value, bool) and self.types in ((Real,), (int,))):
            raise ValueError(f"{setting}: give {self.wanted}, got {shown_short(value)}")
        if self.inside is not None and isinstance(value, Mapping):
            for name, item in value.items():
                self.inside.check(f"{setting}.{name}", item)
        elif self.inside is not None and isinstance(value, list | tuple):
            for item in value:
                self.inside.check(setting, item)


SUITE_FROM_ROWS = "whichloop.suite_from_frame makes a suite of a DataFrame, or of a list of dicts, a row each"
"""How to hand over rows of questions and answers."""
TEXT = Kind((str,), "a text")
NUMBER = Kind((Real,), "a number")
COUNT = Kind((int,), "a whole number")
YES_OR_NO = Kind((bool,), "True or False")
FILE = Kind((str, Path), "a path")
ANYTHING = Kind((object,), "anything")  # a name or an object, of which only what looks it up knows whether it fits
RUN = Kind((str, Path, Loaded, Conclusion), "a run: its name, its directory, or what compare, optimize or load returned")
_FIELDS = {**CompareConfig.model_fields, **SearchConfig.model_fields}
KINDS: Mapping[str, Kind] = {
    **{
        name: TEXT
        for name, field in _FIELDS.items()
        if field.annotation in (str, str | None) and name not in ("suite", "optimizer")
    },
    "suite": ANYTHING,
    "optimizer": ANYTHING,
    "loops": Kind((list, tuple), "a list, such as ['bare', Finish(parse_retries=0)]"),
    "profiles": Kind((list, tuple), "a list, such as ['clean', 'flaky-format']"),
    "models": Kind((list, tuple), "a list, such as ['scripted']"),
    "model": TEXT,
    "progress": YES_OR_NO,
    "factors": Kind((Mapping,), "a mapping from options to values, such as {'parse_retries': [0, 2]}"),
    "design": Kind((str,), "'full' or 'fractional'"),
    "max_trials": COUNT,
    "interactions": YES_OR_NO,
    "baseline": Kind((str, Path), "the path of a baseline file"),
    "run": RUN,
    "again": RUN,
    "metrics": Kind((Mapping,), "a mapping from metrics to margins, such as {'accuracy': 0.02}", NUMBER),
    "accept": Kind((list, tuple), "a list of reasons, such as ['undecided']", TEXT),
    "metric": TEXT,
    "margin": NUMBER,
    "alpha": NUMBER,
    "power": NUMBER,
    "purpose": Kind((str,), "'compare' or 'gate'"),
    "task": Kind((str,), "the name of a task"),
    "runs": FILE,
    "data": Kind((str, Path), f"a path; {SUITE_FROM_ROWS}"),
    "tools": Kind((str,), "the name of a module; whichloop.suite_from_frame(frame, [function, …]) makes a suite with functions"),
    "allow": Kind((list, tuple), "a list of names, such as ['my.module:Loop']", TEXT),
    "base_url": Kind((str,), "an address"),
    "cassette": FILE,
}
"""Setting → the kind of its values, which is the same in every call. Other settings are checked as fields of the configuration."""


_OF_A_RUN = frozenset({"run", "again", "task", "metric", "power", "purpose"})
"""Arguments of questions about a run, which no run takes as a setting."""


def check_kinds(values: Mapping[str, Any], optional: Collection[str] = ()) -> None:
    """Raise ValueError for a value of a wrong kind; None is right for `optional` settings."""
    for name, value in values.items():
        if name in KINDS and not (value is None and name in optional):
            KINDS[name].check(name, value)


def check_known(settings: Mapping[str, Any], known_names: Collection[str], elsewhere: Mapping[str, str] | None = None) -> None:
    """Raise ValueError for settings that a call does not take. `elsewhere`: what to say of settings that another one replaces."""
    for name in settings:
        if elsewhere is not None and name in elsewhere:
            raise ValueError(f"{name}: {elsewhere[name]}")
        if name not in known_names:
            raise ValueError(f"unknown setting {name!r}; {nearest(name, known_names)}")


@contextmanager
def naming_files(settings: Mapping[str, Any]) -> Iterator[None]:
    """Let a file or folder that cannot be used raise ValueError, in one line that names the setting."""
    try:
        yield
    except OSError as error:
        named = str(error.filename or "")
        names = [name for name, place in _places(settings) if named == place or named.startswith(f"{place.rstrip('/')}/")]
        where = ": ".join([*names[:1], *([named] if named else [])])
        raise ValueError(f"{where or 'a file'}: {error.strerror or error}") from None


def _places(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield settings that may name a file or a folder, and what they name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", place) for inner, place in _places(value))
        for place in value if isinstance(value, list | tuple) else (value,):
            if isinstance(place, str | Path) and str(place):
                yield name, str(place)


# --- questions ---


def question(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Make a function a question: its arguments are checked first."""
    signature = inspect.signature(function)
    optional = {name for name, parameter in signature.parameters.items() if parameter.default is None}

    @functools.wraps(function)
    def asked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        _check_named(signature, args, kwargs)
        arguments = dict(signature.bind(*args, **kwargs).arguments)
        settings = arguments.pop("settings", {})
        try:
            check_kinds(arguments, optional)
            own = {name: value for name, value in settings.items() if name not in _OF_A_RUN}  # where it is unknown as a setting
            check_kinds(own, [name for name in own if name not in ("profiles", "models")])
            with needed_by(function.__name__):
                return function(*args, **kwargs)
        except SettingError as error:
            raise ValueError(error.in_python) from None

    return asked


def _check_named(signature: inspect.Signature, args: Sequence[object], keywords: Mapping[str, object]) -> None:
    """Raise ValueError for an argument that has to be named, with the name of the first such one, and for a name that the function
    does not know; one that takes settings looks at their names by itself."""
    if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values()):
        check_known(keywords, signature.parameters)
    by_place = [each for each in signature.parameters.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_place):
        named = next(each.name for each in signature.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY)
        own = " and ".join(each.name for each in by_place)
        raise ValueError(f"{shown_short(args[len(by_place)])}: name every argument behind {own}, such as {named}=…")
