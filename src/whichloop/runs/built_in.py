"""The names and options of what is built in; the names without importing any: a shell that completes a name waits for them."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Unpack, get_args, get_origin, get_type_hints

PACKAGES = {
    "loop": ("whichloop.loops", "LOOP"),
    "framework": ("whichloop.frameworks.wiring", "solve"),
    "program": ("whichloop.programs", "LOOP"),
    "suite": ("whichloop.datasets", "SUITE"),
}
FOREIGN = ("framework", "program")
"""Kinds of loops that start what is no part of whichloop."""


BUILT_IN: Mapping[str, Mapping[str, str]] = tomllib.loads(files(__package__).joinpath("built_in.toml").read_text("utf-8"))
"""Kind → name of a module → what it is."""


def builtin_names(kind: str) -> list[str]:
    """Return the names of the built-in loops, frameworks or suites, one module each, sorted."""
    return list(BUILT_IN[kind])


def is_foreign(loop: str) -> bool:
    """Say whether the loop of a name is a framework or a program."""
    return any(loop in builtin_names(kind) for kind in FOREIGN)


def loop_names() -> list[str]:
    """Return the names of the designs, the frameworks and what starts programs."""
    return [name for kind in ("loop", *FOREIGN) for name in builtin_names(kind)]


@cache
def field_docs(target: type[Any]) -> Mapping[str, str]:
    """Return the string under each field of a class and its bases. Fields whose source cannot be read have none."""
    docs: dict[str, str] = {}
    for base in reversed(target.__mro__):
        if base.__module__ in _WITHOUT_OPTIONS:
            continue
        with contextlib.suppress(OSError, TypeError, SyntaxError):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            for field, text in pairwise(getattr(body, "body", ())):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                    docs[field.target.id] = inspect.cleandoc(str(ast.literal_eval(text.value)))
    made = getattr(target, "__dataclass_fields__", {})  # of classes made from a table
    return docs | {name: str(item.metadata["doc"]) for name, item in made.items() if "doc" in item.metadata}


_WITHOUT_OPTIONS = ("builtins", "pydantic.main", "typing")
"""Modules of base classes, whose own fields are no options: long ones, which take a while to read."""


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
    if inspect.isclass(target):
        docs = _first_sentences(target)
    else:
        said = _ARGUMENT_DOC.findall(" ".join((inspect.getdoc(target) or "").split()))
        docs = {name: doc for names, doc in said for name in re.findall(r"\w+", names)}
    hidden = {name for name, item in getattr(target, "__dataclass_fields__", {}).items() if item.metadata.get("option") is False}
    options: dict[str, Option] = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and get_origin(hints.get(name)) is Unpack:
            shared = get_args(hints[name])[0]  # of a TypedDict; the default None means that one is left out
            said_of = _first_sentences(shared)
            options |= {key: Option(key, kind, None, said_of.get(key, "")) for key, kind in get_type_hints(shared).items()}
        elif name not in hidden and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            options[name] = Option(name, hints.get(name, Any), parameter.default, docs.get(name, ""))
    return options


def _type_hints(target: Callable[..., Any]) -> dict[str, Any]:
    for source in (target.__init__, target) if inspect.isclass(target) else (target,):
        try:
            return get_type_hints(source)
        except (NameError, TypeError):  # names that only a type checker sees; a class knows those of its bases' modules
            continue
    return {}


def _first_sentences(target: type[Any]) -> dict[str, str]:
    docs = field_docs(target)  # type: ignore[arg-type]  # classes hash
    return {name: re.sub(r"(\.) .*", r"\1", " ".join(doc.split())) for name, doc in docs.items() if doc}


_ARGUMENT_DOC = re.compile(r"((?:`\w+`, )*`\w+`): (.+?)(?=; `|\. |\.?$)")
"""What a function's docstring says of an argument: the first sentence after its name in backticks and a colon."""
