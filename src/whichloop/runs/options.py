"""The options of a loop, a suite or an optimizer, read from its fields or parameters with their documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from .field_docs import field_docs


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a loop or suite."""

    name: str
    type: Any
    default: Any
    doc: str


def options_of(target: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of a loop's class or a suite's loader, with the line of documentation under each field."""
    return dict(_options_of_class(target) if inspect.isclass(target) else _options_in(target))  # type: ignore[arg-type]  # classes hash


@cache
def _options_of_class(target: type[Any]) -> Mapping[str, Option]:
    """Return a class's options: a run asks for those of each arm's design several times."""
    return _options_in(target)


def _options_in(target: Callable[..., Any]) -> dict[str, Option]:
    hints = _type_hints(target)
    docs = _first_lines(target) if inspect.isclass(target) else _argument_docs(target)
    hidden = {name for name, item in getattr(target, "__dataclass_fields__", {}).items() if item.metadata.get("option") is False}
    options: dict[str, Option] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and get_origin(hints.get(name)) is Unpack:
            options |= _shared_options(get_args(hints[name])[0])
        elif name not in hidden and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            options[name] = Option(name, hints.get(name, Any), parameter.default, docs.get(name, ""))
    return options


def _shared_options(fields: type[Any]) -> dict[str, Option]:
    """Return the options that `**options: Unpack[SomeTypedDict]` takes; the default None means that one is left out."""
    docs = _first_lines(fields)
    return {name: Option(name, kind, None, docs.get(name, "")) for name, kind in get_type_hints(fields).items()}


def _type_hints(target: Callable[..., Any]) -> dict[str, Any]:
    for source in (target.__init__, target) if inspect.isclass(target) else (target,):
        try:
            return get_type_hints(source)
        except (NameError, TypeError):  # names that only a type checker sees; a class knows those of its bases' modules
            continue
    return {}


def _first_lines(target: type[Any]) -> dict[str, str]:
    return {name: doc.splitlines()[0] for name, doc in field_docs(target).items() if doc}  # type: ignore[arg-type]  # classes hash


def _argument_docs(target: Callable[..., Any]) -> dict[str, str]:
    """Return what a function's docstring says of each argument: the first sentence after its name in backticks and a colon."""
    text = " ".join((inspect.getdoc(target) or "").split())
    return {name: doc for names, doc in _ARGUMENT_DOC.findall(text) for name in re.findall(r"\w+", names)}


_ARGUMENT_DOC = re.compile(r"((?:`\w+`, )*`\w+`): (.+?)(?=; `|\. |\.?$)")
