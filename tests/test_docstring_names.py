"""Docstrings and comments of the source name what exists: a name in backticks is resolved wherever what it stands for is sure."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.syntax import nodes_of, parsed

IN_ONE_FORK = "the syntax trees of the source"

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "whichloop"
MODULES = sorted(SOURCE.rglob("*.py"))
DATA = sorted(path for ending in ("toml", "json", "html", "js", "pyi") for path in SOURCE.rglob(f"*.{ending}"))
USES = sorted({*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").glob("*.md")} - {Path(__file__).resolve()})
"""Pages and tests, which name what other programs call their things."""
ELSEWHERE = frozenset(
    {"PROVIDER_BASE_URL", "value_to_float", "register_prompt", "whichloop.digest", "plan_first", "stroke_width", "Runner.run"}
)
"""Names of something outside the code of whichloop, such as a function of Inspect's or a tag of MLflow's, or of a pattern."""
WORD = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(\(\))?`(?!`)")
COMMENTED = re.compile(r"#.*`")
POINTED_AT = re.compile(r"\b(?:for|see) `([a-z]+)`")
"""A reader is sent to this name, which has to stand in the module that sends him, or to be a module or a type of Python's."""


def prose_constants(tree: ast.AST) -> set[int]:
    """Return the ids of the constants that document something: texts that stand as a statement."""
    return {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}


def prose_of(code: str, tree: ast.AST) -> str:
    """Return the docstrings and the comments of a module."""
    prose = prose_constants(tree)
    texts = [node.value for node in nodes_of(tree) if isinstance(node, ast.Constant) and id(node) in prose]
    if not COMMENTED.search(code):  # as in most modules; to look for the comments takes longer than all the rest
        return "\n".join(text for text in texts if isinstance(text, str))
    comments = [token.string for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type == tokenize.COMMENT]
    return "\n".join([*(text for text in texts if isinstance(text, str)), *comments])


@cache
def words_of(tree: ast.AST) -> frozenset[str]:
    """Return the words of a module's code: its identifiers, and the words of texts that are no documentation."""
    prose, found = prose_constants(tree), set[str]()
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in prose:
                found.update(WORD.findall(node.value))
            continue
        for value in vars(node).values():
            if isinstance(value, str):
                found.update(value.split("."))
            elif isinstance(value, list):
                found.update(word for part in value if isinstance(part, str) for word in part.split("."))
    return frozenset(found)


@cache
def all_words() -> frozenset[str]:
    """Return the words of all code of the source, of its files' names, of the data beside them, and of `USES`."""
    words = {word for path in MODULES for word in words_of(parsed(path))}
    words.update(part.removesuffix(".py") for path in MODULES for part in path.relative_to(SOURCE).parts)
    words.update(word for path in (*DATA, *USES) for word in WORD.findall(path.read_text("utf-8")))
    return frozenset(words)


@cache
def stems() -> frozenset[str]:
    return frozenset(path.stem for path in MODULES)


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for path in MODULES:
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def has_attribute(name: str, attribute: str) -> bool:
    """Say whether a class of ours may have an attribute: it or a base names it, or a base is not ours, so that nobody can tell."""
    for node in classes()[name]:
        bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        if attribute in words_of(node):
            return True
        for base in bases:
            if base not in ("Protocol", "ABC", "NamedTuple", "Generic") and (
                base not in classes() or has_attribute(base, attribute)
            ):
                return True
    return False


def resolves(dotted: str) -> bool:
    """Say whether a name that begins with `whichloop.` stands for a module, or for what a module's code names."""
    place, parts = SOURCE, dotted.split(".")[1:]
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place = place / f"{parts.pop(0)}.py"
    homes = [place] if place.is_file() else [place / "__init__.py", place / "__init__.pyi"]
    known = {word for home in homes if home.is_file() for word in words_of(parsed(home))}
    return not parts or parts[0] in known


def unresolved(code: str, tree: ast.AST | None = None) -> Iterator[str]:
    """Yield the names in the documentation of a module's code that stand for nothing. `tree`: its syntax tree, if there is one."""
    tree = ast.parse(code) if tree is None else tree
    prose = prose_of(code, tree)
    own = words_of(tree)
    for name, called in QUOTED.findall(prose):
        head, _, rest = name.partition(".")
        if head == "whichloop" and rest:
            is_known = resolves(name)
        elif rest:
            is_known = head not in classes() or head not in own or "." in rest or has_attribute(head, rest)
        else:
            is_known = not (called or "_" in name.strip("_")) or name in all_words()
        if not is_known and name not in ELSEWHERE:
            yield name
    yield from (name for name in POINTED_AT.findall(prose) if name not in own | stems() | vars(builtins).keys())


@pytest.mark.parametrize(
    "prose",
    [
        "whichloop.experiments.compare.run.allowed_config",
        "as_junit",
        "no_such_name",
        "evaporate_now()",
        "whichloop.nothing",
    ],
)
def test_a_name_of_nothing_is_found(prose: str) -> None:
    name = prose.removesuffix("()")
    assert list(unresolved(f'"""See about `{prose}`."""')) == [name]
    assert list(unresolved(f"# About `{prose}`.\n")) == [name]


def test_an_attribute_that_a_class_has_not_is_found() -> None:
    imported = "from .contract import Wire\n"
    assert list(unresolved(f"{imported}# See `Wire.kept`.\n")) == ["Wire.kept"]
    assert not list(unresolved(f"{imported}# See `Wire.read`, `Wire.remembered`.\n"))


def test_a_reader_is_sent_to_a_name_of_the_module_only() -> None:
    assert list(unresolved('def f():\n    """Return all, for `note`."""\n')) == ["note"]
    assert not list(unresolved('def note():\n    """Return all, for `note`."""\n'))


@pytest.mark.parametrize(
    "prose",
    ["whichloop.runs.permissions.allowed_config", "whichloop.runs", "Wire.read", "to_junit", "os.path", "x"],
)
def test_a_name_of_something_is_not(prose: str) -> None:
    assert not list(unresolved(f'"""About `{prose}`."""'))


def test_docstrings_and_comments_name_what_exists() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for path in MODULES
        if (names := list(unresolved(path.read_text(encoding="utf-8"), parsed(path))))
    }
    assert not found
