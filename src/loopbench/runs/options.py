"""The options of a loop, a suite or an optimizer, read from its fields or parameters with their documentation."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Unpack, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a loop or suite."""

    name: str
    type: Any
    default: Any
    doc: str


def options_of(target: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of a loop's class or a suite's loader, with the line of documentation under each field."""
    return dict(_options_of_class(target) if inspect.isclass(target) else _read(target))  # type: ignore[arg-type]  # classes hash


@cache
def _options_of_class(target: type[Any]) -> Mapping[str, Option]:
    """Return a class's options: a run asks for those of each arm's design several times."""
    return _read(target)


def _read(target: Callable[..., Any]) -> dict[str, Option]:
    hints = _type_hints(target)
    docs = _field_docs(target) if inspect.isclass(target) else _argument_docs(target)  # type: ignore[arg-type]  # classes hash
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
    docs = _field_docs(fields)  # type: ignore[arg-type]  # classes hash
    return {name: Option(name, kind, None, docs.get(name, "")) for name, kind in get_type_hints(fields).items()}


def _type_hints(target: Callable[..., Any]) -> dict[str, Any]:
    for source in (target.__init__, target) if inspect.isclass(target) else (target,):
        try:
            return get_type_hints(source)
        except (NameError, TypeError):  # names that only a type checker sees; a class knows those of its bases' modules
            continue
    return {}


@cache
def _field_docs(target: type[Any]) -> Mapping[str, str]:
    """Return the first line of the string under each field of a class and its bases; every cell of an ablation asks."""
    return {name: doc for base in reversed(target.__mro__) for name, doc in _own_field_docs(base).items()}


def _own_field_docs(target: type[Any]) -> Mapping[str, str]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(target))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    docs, field = {}, ""
    for node in getattr(body, "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            field = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            if field:
                docs[field] = node.value.value.strip().splitlines()[0]
            field = ""
    return docs


def _argument_docs(target: Callable[..., Any]) -> dict[str, str]:
    """Return what a function's docstring says of each argument: the first sentence after its name in backticks and a colon."""
    text = " ".join((inspect.getdoc(target) or "").split())
    return {name: said for names, said in _ARGUMENT_DOC.findall(text) for name in re.findall(r"\w+", names)}


_ARGUMENT_DOC = re.compile(r"((?:`\w+`, )*`\w+`): (.+?)(?=; `|\. |\.?$)")
