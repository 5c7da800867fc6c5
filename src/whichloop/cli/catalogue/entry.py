"""A line of a list, and how it is made of a built-in thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from whichloop._extras import MissingExtra, is_installed
from whichloop.protocol.modules import plugins_of
from whichloop.runs.built_in import FOREIGN, summary_of
from whichloop.runs.options import options_of
from whichloop.runs.registry import find

NEEDED = "(needed)"
"""The default of an option that has none."""


@dataclass(frozen=True, slots=True)
class OptionLine:
    """One option as it is typed."""

    name: str
    default: str
    doc: str
    values: tuple[str, ...] = ()
    """The values that it takes, where there are only so many; empty otherwise."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One thing that can be named."""

    name: str
    summary: str
    options: tuple[OptionLine, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CatalogueSuite(CatalogueEntry):
    """A suite, with the facts that are known without options."""

    needs: str = ""
    """What must be given for the suite to have tasks, such as `--data`, so that the other facts are unknown; empty if nothing."""
    version: str = ""
    tasks: int = 0
    digest: str = ""
    """First 12 hex digits of the suite's digest."""
    splits: Mapping[str, int] = field(default_factory=dict)
    """Split → tasks, in the order train, dev, test, others; empty if the tasks name none."""
    median_plan: float = 0.0
    """Number of calls of the median plan."""


@dataclass(frozen=True, slots=True)
class CatalogueFramework(CatalogueEntry):
    """An agent framework, which runs in an environment of its own."""

    version: str = ""
    """The version that `whichloop frameworks install` gives."""
    installed: str | None = None
    """The version in the environment that it made; None if there is none."""


def built_in(kind: str, name: str) -> CatalogueEntry:
    """Return the entry of a built-in loop, framework, program or suite; one that lacks a package says what to install."""
    try:
        target = find("loop" if kind in FOREIGN else kind, name)
    except MissingExtra as error:
        return CatalogueEntry(name, str(error).removeprefix(f"{kind} {name} "))
    return _described(name, summary_of(kind, name), target)


def own_loop(name: str) -> CatalogueEntry:
    """Return the entry of a loop of the user's own, `package.module:Name`, which is imported. Raises ValueError if it is none."""
    design = find("loop", name)
    if inspect.isclass(design) and not callable(getattr(design, "run", None)):
        raise ValueError(f"loop {name}: it lacks run: see whichloop.protocol.Loop")
    text = inspect.getdoc(design) or ""
    if text.startswith(f"{getattr(design, '__name__', '')}("):  # a dataclass without a docstring gets its signature for one
        text = ""
    return _described(name, text.partition("\n")[0], design)


def _described(name: str, summary: str, target: Callable[..., Any]) -> CatalogueEntry:
    """Return the entry of what takes options."""
    options = tuple(
        OptionLine(option.name, shown_default(option.default), option.doc, values_of(option.type))
        for option in options_of(target).values()
    )
    return CatalogueEntry(name, summary, options)


def outline(kind: str, name: str) -> CatalogueEntry:
    """Return the entry without options. Nothing is imported where DSPy is installed, the one package that a design may lack."""
    return CatalogueEntry(name, summary_of(kind, name)) if is_installed("dspy") else replace(built_in(kind, name), options=())


def plugins(kind: str) -> list[CatalogueEntry]:
    """Return what other packages declare; their code is not imported."""
    return [CatalogueEntry(name, "(plug-in)") for name in sorted(point.name for point in plugins_of(f"whichloop.{kind}s"))]


def values_of(kind: Any) -> tuple[str, ...]:
    """Return the values of a type that lists them, `Literal["run", "skip"]` or that or None; of others none."""
    if get_origin(kind) is Literal:
        return tuple(map(shown_default, get_args(kind)))
    parts = [part for part in get_args(kind) if part is not type(None)]
    if len(parts) == 1 and get_origin(kind) in (Union, UnionType) and get_origin(parts[0]) is Literal:
        return (*map(shown_default, get_args(parts[0])), shown_default(None))
    return ()


def shown_default(default: Any) -> str:
    """Return an option's default in one short line."""
    if default is inspect.Parameter.empty:
        return NEEDED
    text = "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
    first, *more = text.splitlines() or [""]
    return f"{first[:40]}…" if more or len(first) > 40 else first
