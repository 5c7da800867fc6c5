"""The options of a loop that Python code makes: a wrong one is told in one line, as on the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from whichloop.protocol import Toolbox

Design = TypeVar("Design", bound=type)
Value = TypeVar("Value")


def at_least(least: float, default: Value) -> Value:
    """Return the field of an option whose number has a least value, which `checked_options` checks."""
    return field(default=default, metadata={"least": least})


def no_option(default: Value) -> Value:
    """Return a field that is no option: a hook, say. It is neither shown nor compared, and no ablation varies it."""
    return field(default=default, repr=False, compare=False, metadata={"option": False})


def checked_options(design: Design) -> Design:
    """Let a loop raise ValueError, in one line that names the option, for one of another type."""
    plain_init = design.__init__  # type: ignore[misc]  # of a class itself, not of an instance
    signature = inspect.signature(plain_init)

    @functools.wraps(plain_init)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        given = signature.bind(self, *args, **options).arguments
        for name, hint in _options(design).items():
            if name in given and not _has_plain_type(given[name], hint):
                _check_type(f"{design.__name__}: {name}", hint, given[name])
        for name, least in leasts.items():
            if name in given and given[name] is not None and not given[name] >= least:
                raise ValueError(f"{name} must be at least {least}, not {given[name]}")
        plain_init(self, *args, **options)

    leasts = {item.name: item.metadata["least"] for item in fields(cast(Any, design)) if "least" in item.metadata}
    design.__init__ = checked  # type: ignore[misc]  # as above
    return design


def _check_type(option: str, hint: Any, value: Any) -> None:
    """Raise ValueError for a value of another type than its hint."""
    pydantic = import_module("pydantic")  # loaded only where a value does not plainly fit
    try:
        pydantic.TypeAdapter(hint).validate_python(value, strict=True)
    except pydantic.PydanticUserError:
        return  # its type does not say what fits: a loop or a function
    except pydantic.ValidationError as error:
        or_none = ", or None" if type(None) in get_args(hint) else ""
        raise ValueError(f"{option}: {error.errors(include_url=False)[0]['msg']}{or_none}, got {value!r}") from None


def _has_plain_type(value: Any, hint: Any) -> bool:
    """Return whether a value plainly fits its type: to tell so takes no library, which a loop by itself does without."""
    if get_origin(hint) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return any(_has_plain_type(value, one) for one in get_args(hint))
    return type(value) is hint


@cache
def _options(design: type) -> Mapping[str, Any]:
    """Return the types of the options, without those that hold a loop or a function."""
    hints = get_type_hints(design)
    return {item.name: hints[item.name] for item in fields(design) if item.metadata.get("option") is not False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The options that all designs share. Raises ValueError for a limit that lets nothing through."""

    tool_timeout_s: float | None = None
    """Seconds for one call of a tool that has no limit of its own, where the toolbox allows no less; None: no limit."""
    tool_max_chars: int | None = None
    """Characters that the model reads of one result, under the same rule; hooks and stores have all of it. None: no limit."""
    tool_threads: bool | None = None
    """Run sync functions on threads of their own, or (False) on the caller's; None: as the design does, see docs/product.md."""

    def __post_init__(self) -> None:
        if self.tool_timeout_s is not None and not self.tool_timeout_s > 0:
            raise ValueError(f"tool_timeout_s must be more than 0 s, or None, not {self.tool_timeout_s}")
        if self.tool_max_chars is not None and self.tool_max_chars < 1:
            raise ValueError(f"tool_max_chars must be at least 1, or None, not {self.tool_max_chars}")
        if self.tool_threads is False and self.tool_timeout_s is not None:
            raise ValueError("tool_threads must not be False with a tool_timeout_s: no limit can stop the caller's own thread")

    def configured_tools(self, tools: Toolbox, *, at_once: bool = False) -> Toolbox:
        """Return the same tools under these settings. `at_once`: the design runs several calls at the same time."""
        threads = True if at_once and self.tool_threads is None else self.tool_threads
        if threads is None and self.tool_timeout_s is None and self.tool_max_chars is None:
            return tools
        return tools.limited(self.tool_timeout_s, self.tool_max_chars, threads)
