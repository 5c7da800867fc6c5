"""The names and options of what is built in, found without importing any: a shell that completes a name waits for them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from whichloop.protocol.modules import names_in

PACKAGES = {
    "loop": ("whichloop.loops", "LOOP"),
    "framework": ("whichloop.frameworks.wiring", "solve"),
    "program": ("whichloop.programs", "LOOP"),
    "suite": ("whichloop.datasets", "SUITE"),
}
FOREIGN = ("framework", "program")
"""Kinds of loops that start what is no part of whichloop."""


def builtin_names(kind: str) -> list[str]:
    """Return the names of the built-in loops, frameworks or suites, one module each, sorted."""
    package, attribute = PACKAGES[kind]
    return list(_names_with(attribute, names_in(package), _folders(kind)))


def loop_names() -> list[str]:
    """Return the names of the designs, the frameworks and what starts programs."""
    return [name for kind in ("loop", *FOREIGN) for name in builtin_names(kind)]


def _folders(kind: str) -> tuple[str, ...]:
    """Return where the modules of a kind lie."""
    package, _ = PACKAGES[kind]
    return tuple(importlib.import_module(package).__path__)


@lru_cache(maxsize=64)  # a run asks for each name that it holds, and its answer is in hundreds of files
def _names_with(attribute: str, names: tuple[str, ...], folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of those modules in these folders that define the attribute."""
    return tuple(name for name in names if re.search(rf"^(async def )?{attribute}\b", _source_of(name, folders), re.MULTILINE))


def _source_of(name: str, folders: tuple[str, ...]) -> str:
    """Return a module's text without importing it, so that looking up one name does not load all modules."""
    for folder in folders:
        for file in (Path(folder) / f"{name}.py", Path(folder) / name / "__init__.py"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    return ""


def summary_of(kind: str, name: str) -> str:
    """Return the first line of a built-in thing's docstring, without importing it."""
    text = ast.get_docstring(ast.parse(_source_of(name, _folders(kind)))) or ""
    return text.partition("\n")[0]


def has_option(loop: str, option: str) -> bool:
    """Whether the one module of a built-in loop defines an option of this name.

    False for any other loop, for options that a loop inherits, and for a loop that is a package, whose options stand elsewhere.
    """
    return option in _options_of(loop)


def _options_of(loop: str) -> Mapping[str, ast.AnnAssign]:
    """Return the options that the module of a built-in loop defines, without importing it; none for any other loop."""
    return options_in(_source_of(loop, _folders("loop"))) if loop in builtin_names("loop") else {}


@lru_cache(maxsize=16)
def options_in(source: str) -> Mapping[str, ast.AnnAssign]:
    """Return the annotated fields of the class that a loop's module offers as `LOOP`; none where its class stands elsewhere."""
    body = ast.parse(source).body
    offered = {
        statement.value.id
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id == "LOOP"
    }
    return {
        field.target.id: field
        for statement in body
        if isinstance(statement, ast.ClassDef) and statement.name in offered
        for field in statement.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _choices(annotation: ast.expr) -> list[object]:
    """Return the values that an annotation `Literal["one", "another"]` lists; none of any other annotation."""
    if not (isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name) and annotation.value.id == "Literal"):
        return []
    listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return [value.value for value in listed if isinstance(value, ast.Constant)]


_WITHOUT_OPTIONS = ("builtins", "pydantic.main", "typing")
"""Modules of base classes, whose own fields are no options: long ones, which take a while to read."""


@cache
def field_docs(target: type[Any]) -> Mapping[str, str]:
    """Return the string under each field of a class and its bases; every cell of an ablation asks.

    Fields whose source cannot be read have none.
    """
    return {name: doc for base in reversed(target.__mro__) for name, doc in _own_docs(base).items()}


def _own_docs(target: type[Any]) -> Mapping[str, str]:
    module = sys.modules.get(target.__module__)
    return {} if module is None or target.__module__ in _WITHOUT_OPTIONS else _docs_in(module).get(target.__qualname__, {})


@cache
def _docs_in(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Return the qualified name of each class in a module → its documented fields; nothing of a module without source."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return {}
    docs: dict[str, Mapping[str, str]] = {}
    for name, body in _classes(tree.body, ""):
        docs.setdefault(name, _docs(body))
    return docs


def _classes(body: list[ast.stmt], within: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the qualified name and the body of each class, those in functions and under conditions included."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{within}{node.name}", node.body
            yield from _classes(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node.body, f"{within}{node.name}.<locals>.")
        else:
            for part in ("body", "orelse", "handlers", "finalbody"):
                yield from _classes(getattr(node, part, []), within)


def _docs(body: list[ast.stmt]) -> dict[str, str]:
    docs, field = {}, ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            field = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            if field:
                docs[field] = inspect.cleandoc(node.value.value)
            field = ""
        else:
            field = ""
    return docs


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
    docs = _first_sentences(target) if inspect.isclass(target) else _argument_docs(target)
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
    docs = _first_sentences(fields)
    return {name: Option(name, kind, None, docs.get(name, "")) for name, kind in get_type_hints(fields).items()}


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


def _argument_docs(target: Callable[..., Any]) -> dict[str, str]:
    """Return what a function's docstring says of each argument: the first sentence after its name in backticks and a colon."""
    text = " ".join((inspect.getdoc(target) or "").split())
    return {name: doc for names, doc in _ARGUMENT_DOC.findall(text) for name in re.findall(r"\w+", names)}


_ARGUMENT_DOC = re.compile(r"((?:`\w+`, )*`\w+`): (.+?)(?=; `|\. |\.?$)")
