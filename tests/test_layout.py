"""The layout of the repository: which floor may import which, the doors at the root, and what no file may hold."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.syntax import nodes_of, parsed
from tests.weight import COUNTS, weights
from whichloop.protocol.names import SCRIPTED

IN_ONE_FORK = "the syntax trees of the source"

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "whichloop"
MODULES = sorted(SOURCE.rglob("*.py"))

FLOORS: dict[str, frozenset[str]] = {
    # floor: what it may import of ours besides itself
    "_extras": frozenset(),
    "_lazy": frozenset(),
    "protocol": frozenset(),
    "dspy_seam": frozenset({"protocol"}),
    "datasets": frozenset({"protocol"}),
    "loops": frozenset({"_lazy", "protocol", "dspy_seam"}),
    "models": frozenset({"protocol", "dspy_seam"}),
    "metrics": frozenset({"protocol", "datasets"}),
    "text": frozenset({"protocol", "metrics"}),
    "programs": frozenset({"protocol", "models"}),
    "frameworks": frozenset({"protocol", "programs"}),
    "runs": frozenset({"protocol", "datasets", "models", "metrics", "text"}),
    "checks": frozenset({"loops", "protocol", "datasets", "models", "metrics", "text", "programs", "runs"}),
    "experiments": frozenset({"protocol", "dspy_seam", "datasets", "models", "metrics", "text", "runs", "checks"}),
    "reports": frozenset({"protocol", "metrics", "text", "runs", "experiments"}),
    "cli": frozenset(
        {"protocol", "datasets", "models", "metrics", "text", "programs", "frameworks", "runs", "checks", "experiments", "reports"}
    ),
    "session": frozenset(),
    "tunnel": frozenset({"programs"}),
    "api": frozenset({"session", "protocol", "datasets", "models", "text", "runs", "experiments", "reports"}),
    "__init__": frozenset(
        {"_lazy", "protocol", "dspy_seam", "datasets", "loops", "models", "runs", "reports", "experiments", "api"}
    ),
    "__main__": frozenset({"cli"}),
    "pytest_plugin": frozenset({"checks", "experiments"}),
}
CONFINED: dict[str, tuple[str, frozenset[str]]] = {
    # library: the part of the tree, and the only files and folders there that may import it
    "dspy": ("", frozenset({
        "dspy_seam/", "loops/react_extract", "loops/stateless/", "loops/finish/", "experiments/optimize/",
        "frameworks/wiring/dspy_react.py",
    })),
    "mlflow": ("", frozenset({"reports/mlflow.py"})),
    "pydantic": ("protocol", frozenset({"protocol/schema.py"})),
    "pydantic_core": ("protocol", frozenset({"protocol/schema.py"})),
}  # fmt: skip
RATCHETS: dict[str, int] = {
    # what there is, counted by `measured`; a number here may only fall
    "files of src over 450 lines": 0,
    "files of tests over 450 lines": 0,
    "files of tests over 800 lines": 0,
    "functions over 60 lines": 0,
    "run methods of loops over 45 lines": 0,
    "functions of more than 7 parameters": 0,
    "imports inside functions": 13,
}
SLACK = 0.99
"""Of what is allowed at most: below it, the ratchet is to be tightened."""
SEED_NAMES = frozenset({"ToolCall"})
"""Class names that a design's document fixes, and that its prompts show: `ToolCall` stands in the schema of `stateless`."""
DOORS = ("datasets", "experiments", "loops", "metrics")
MEGABYTE = 1_000_000


@cache
def dotted(path: Path) -> str:
    """The module's name below src."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Every name that an import statement at any depth of `module` reaches for, made absolute."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".") if is_package else module.split(".")[:-1]
            start = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def imports(path: Path) -> list[str]:
    return list(imported(parsed(path), dotted(path), path.name == "__init__.py"))


def floor(name: str) -> str:
    """Which floor of ours a module or imported name belongs to; empty for other people's."""
    package, _, rest = name.partition(".")
    return "" if package != "whichloop" else rest.partition(".")[0] or "__init__"


def tracked() -> list[Path]:
    """Files that git keeps, or would keep at the next `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def below(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_imports_are_found_wherever_they_stand() -> None:
    tree = ast.parse(
        "import a.b\nfrom c import d\n"
        "if TYPE_CHECKING:\n    from .e import f\n"
        "def g():\n    from ..h import i\n    from . import j, k\n    class L:\n        import m\n"
    )
    found = {"a.b", "c.d", "whichloop.x.e.f", "whichloop.h.i", "whichloop.x.j", "whichloop.x.k", "m"}
    assert set(imported(tree, "whichloop.x.y", is_package=False)) == found
    assert "whichloop.x.y.e.f" in set(imported(tree, "whichloop.x.y", is_package=True))


def test_there_is_a_rule_for_every_floor() -> None:
    floors = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert floors == FLOORS.keys()


def test_imports_point_down_only() -> None:
    up = {}
    for path in MODULES:
        own = floor(dotted(path))
        allowed = FLOORS[own] | {own, "", "_extras", "_lazy"}
        if wrong := [name for name in imports(path) if floor(name) not in allowed]:
            up[below(path)] = wrong
    assert not up


def test_no_floor_may_import_what_it_never_does() -> None:
    """`__init__` is left out: it names the homes of public names as text."""
    used: dict[str, set[str]] = {}
    for path in MODULES:
        used.setdefault(floor(dotted(path)), set()).update(map(floor, imports(path)))
    assert not {name: rest for name, allowed in FLOORS.items() if name != "__init__" and (rest := allowed - used[name])}


@pytest.mark.parametrize("library", CONFINED)
def test_libraries_stay_where_they_are_confined(library: str) -> None:
    part, allowed = CONFINED[library]
    users = {below(path) for path in MODULES if library in {name.partition(".")[0] for name in imports(path)}}
    assert not {user for user in users if user.startswith(part) and not user.startswith(tuple(allowed))}


def test_every_module_says_what_it_is() -> None:
    assert not [below(path) for path in MODULES if not ast.get_docstring(parsed(path))]


TRACE_KEYS = frozenset({"event", "same", "failed_attempts", "wire_error", "move"})
"""Fields of a trace that nothing else has."""
OTHERS_KEYS = frozenset({"experiments/import_runs/formats/inspect_log.py", "experiments/import_runs/inspect_transcript.py"})
"""Files that read logs of other tools, which have a field of the same name."""


def keys_read(tree: ast.AST) -> set[object]:
    """Constants by which a mapping is read: `x["key"]`, `x.get("key")`, `x.pop("key")`, `"key" in x`."""
    found = set[object]()
    for node in nodes_of(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args:
            key = node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            key = node.left
        if isinstance(key, ast.Constant):
            found.add(key.value)
    return found


def test_keys_are_seen_however_they_are_read() -> None:
    tree = ast.parse("a['b']; a.get('c'); a.pop('d', 1); 'e' in a; 'f' not in a; a['g'] = 1; get('h'); a[i]")
    assert keys_read(tree) == {"b", "c", "d", "e", "f"}


def test_only_its_own_module_reads_a_trace_by_its_keys() -> None:
    reading = {below(path) for path in MODULES if keys_read(parsed(path)) & TRACE_KEYS}
    assert reading - OTHERS_KEYS == {"metrics/trace.py"}


@pytest.mark.parametrize("name", DOORS)
def test_the_doors_at_the_root_are_links_into_the_source(name: str) -> None:
    door = ROOT / name
    assert door.is_symlink()
    assert not Path(os.readlink(door)).is_absolute()
    assert door.resolve() == SOURCE / name


def test_a_datasets_package_elsewhere_wins_over_the_door(tmp_path: Path) -> None:
    assert not (SOURCE / "datasets" / "__init__.py").exists()
    package = tmp_path / "datasets"
    package.mkdir()
    (package / "__init__.py").write_text("load_dataset = 'elsewhere'\n")
    script = "import datasets, whichloop.datasets.task; print(datasets.load_dataset, whichloop.datasets.task.Task.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("elsewhere Task\n", "")


HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("anaconda", "org"),
        ("conda", "io"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
)


def test_no_file_names_a_package_registry() -> None:
    named = {}
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace").lower()
        if found := [host for host in HOSTS if host in text]:
            named[str(path.relative_to(ROOT))] = found
    assert not named


def test_no_file_is_large() -> None:
    assert not [str(path.relative_to(ROOT)) for path in tracked() if path.stat().st_size > MEGABYTE]


# --- no cycles ---


def edges(of: Callable[[str], str]) -> dict[str, set[str]]:
    """Imports of ours, those for type checkers and those inside functions included, between what `of` makes of module names."""
    known = {dotted(path) for path in MODULES}
    found: dict[str, set[str]] = {}
    for path in MODULES:
        start = of(dotted(path))
        for name in imports(path):
            target = name if name in known else name.rpartition(".")[0]
            if target in known and of(target) != start and start and of(target):
                found.setdefault(start, set()).add(of(target))
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of two nodes or more (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def folder(module: str) -> str:
    """The folder of a module; empty at the root, and for the suites in `datasets/` itself, since importers build on their types."""
    path = next(path for path in MODULES if dotted(path) == module)
    place = below(path.parent)
    return "" if place in (".", "datasets") else place


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert not cycles({"a": {"b", "c"}, "b": {"c"}})


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert not cycles(edges(lambda module: module))


def test_no_folder_imports_itself_by_way_of_others() -> None:
    places = {dotted(path): folder(dotted(path)) for path in MODULES}
    assert not cycles(edges(lambda module: places[module]))


# --- one name, one meaning ---


def test_a_public_class_name_stands_for_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(below(path))
    assert {name: places for name, places in homes.items() if len(places) > 1 and name not in SEED_NAMES} == {}


def test_limits_are_called_by_max_and_min() -> None:
    other = re.compile(r"\b_?(MOST|FEW|FEWEST|LONGEST|SHORTEST|LARGEST|SMALLEST)(_[A-Z_]+)?\b")
    assert not {below(path): found for path in MODULES if (found := other.findall(path.read_text(encoding="utf-8")))}


# --- ratchets: each may only fall ---


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines, decorators included."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return (function.end_lineno or first) - first + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without self and cls; `*args` and `**named` count as one each."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    is_method = bool(named) and named[0].arg in ("self", "cls")
    return len(named) - is_method + (arguments.vararg is not None) + (arguments.kwarg is not None)


def imports_inside(tree: ast.AST) -> int:
    """Import statements inside functions."""
    inner = {
        node.lineno for function in functions(tree) for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return len(inner)


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def measured() -> dict[str, int]:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    # what commands and questions take are settings, and a command imports what it needs itself, so that help is quick
    elsewhere = [path for path in MODULES if not path.is_relative_to(SOURCE / "cli") and path.parent != SOURCE / "api"]
    every = [function for path in elsewhere for function in functions(parsed(path))]
    runs_of_loops = [
        length(function) - len(function.decorator_list)
        for path in MODULES
        if path.is_relative_to(SOURCE / "loops")
        for function in functions(parsed(path))
        if function.name == "run"
    ]
    return {
        "files of src over 450 lines": sum(lines(path) > 450 for path in MODULES),
        "files of tests over 450 lines": sum(lines(path) > 450 for path in tests),
        "files of tests over 800 lines": sum(lines(path) > 800 for path in tests),
        "functions over 60 lines": sum(length(function) > 60 for function in every),
        "run methods of loops over 45 lines": sum(lines_of_run > 45 for lines_of_run in runs_of_loops),
        "functions of more than 7 parameters": sum(parameters(function) > 7 for function in every),
        "imports inside functions": sum(imports_inside(parsed(path)) for path in elsewhere),
    }


@pytest.mark.parametrize("what", RATCHETS)
def test_a_ratchet_only_falls(what: str) -> None:
    now = measured()[what]
    assert now <= RATCHETS[what], f"{what}: {now}, and {RATCHETS[what]} is the most"
    assert now == RATCHETS[what], f"{what}: only {now} are left; write that down in RATCHETS, so that it stays"


@pytest.mark.parametrize("what", COUNTS)
def test_the_project_only_gets_lighter(what: str) -> None:
    now, most = COUNTS[what](), weights()[what].most
    assert now <= most, f"{what}: {now:,}, and {most:,} is the most"
    assert now >= SLACK * most, f"{what}: only {now:,} are left; python -m tests.weight --write keeps it so"


def test_what_ratchets_count() -> None:
    code = "def f(a, *b, c=1, **d):\n    import x\n    def g():\n        from y import z\nclass K:\n    def m(self, a): ...\n"
    tree = ast.parse(code)
    assert [parameters(function) for function in functions(tree)] == [4, 0, 1]
    assert imports_inside(tree) == 2
    assert [length(function) for function in functions(tree)] == [4, 2, 1]


def test_a_manifest_is_read_by_its_type() -> None:
    """Only `runs/store/files.py`, which writes the JSON, and what makes or validates it know a manifest's keys."""
    by_key = re.compile(r"\bmanifest(\[[\"']|\.get\()")
    users = {below(path) for path in MODULES if by_key.search(path.read_text(encoding="utf-8"))}
    assert users <= {"runs/store/files.py"}


def test_no_message_names_a_page_that_an_installed_user_does_not_have() -> None:
    for nodes in (nodes_of(parsed(path)) for path in MODULES):
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = (str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in docs)
        assert not [text for text in texts if re.search(r"docs/[\w-]+\.md", text)]


def test_the_name_of_the_scripted_model_stands_in_one_place() -> None:
    strings = {below(path): [node.value for node in nodes_of(parsed(path)) if isinstance(node, ast.Constant)] for path in MODULES}
    assert [module for module, values in strings.items() if SCRIPTED in values] == ["protocol/names.py"]


def test_what_mypy_is_told_to_ignore_has_a_code_and_a_reason_beside_it() -> None:
    lines_by_module = {below(path): path.read_text(encoding="utf-8").splitlines() for path in MODULES}
    told = [(module, line) for module, lines in lines_by_module.items() for line in lines if "# type: ignore" in line]
    assert [each for each in told if not re.search(r"  # type: ignore\[[a-z-]+\]  # \w", each[1])] == []
