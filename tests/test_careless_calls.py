"""No text is run as code or by a shell, nor read by what would run it, except where a reason is given."""

from __future__ import annotations

import ast

import pytest

from tests.syntax import nodes_of, parsed
from tests.test_layout import MODULES, below, imported

IN_ONE_FORK = "the syntax trees of the source"

RUN_TEXT = frozenset({"eval", "exec", "compile", "__import__"})
"""Built-in functions that make code of a text, or run it."""
CARELESS_FUNCTIONS = frozenset({f"builtins.{name}" for name in RUN_TEXT}) | {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
}
CARELESS_MODULES = frozenset({"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "runpy", "code", "codeop"})


def careless_calls(tree: ast.AST) -> set[str]:
    """Calls that run text as code or by a shell, and imports of what does so, some of it when it reads data."""
    found = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RUN_TEXT:
            found.add(node.func.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"{node.value.id}.{node.attr}"} & CARELESS_FUNCTIONS
        elif isinstance(node, ast.keyword) and node.arg == "shell":
            is_off = isinstance(node.value, ast.Constant) and node.value.value is False
            found |= set() if is_off else {"shell=True"}
    reached = set(imported(tree, "whichloop.x", is_package=False))
    return found | (reached & CARELESS_FUNCTIONS) | ({name.partition(".")[0] for name in reached} & CARELESS_MODULES)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import pickle\nfrom dill import loads", {"pickle", "dill"}),
        ("import marshal, runpy\nfrom code import interact", {"marshal", "runpy", "code"}),
        ("eval('1')\nexec('1')\nmodel.eval()\nshared.exec()", {"eval", "exec"}),
        ("compile(text, file, 'exec')\nre.compile(text)\noptimizer.compile(text)", {"compile"}),
        ("__import__('os')\nbuiltins.__import__('os')", {"__import__", "builtins.__import__"}),
        ("yaml.load(x)\nyaml.safe_load(x)", {"yaml.load"}),
        ("os.system(x)\nos.popen(x)\nos.path.join(x)", {"os.system", "os.popen"}),
        ("from os import system", {"os.system"}),
        ("subprocess.run(x, shell=True)", {"shell=True"}),
        ("subprocess.run(x, shell=is_shell)", {"shell=True"}),
        ("subprocess.run(x, shell=False)\nsubprocess.run(x)", set()),
        ("asyncio.create_subprocess_shell(x)", {"asyncio.create_subprocess_shell"}),
    ],
)
def test_careless_calls_are_found(code: str, found: set[str]) -> None:
    assert careless_calls(ast.parse(code)) == found


CARELESS_WITH_REASON: dict[str, set[str]] = {
    # it writes functions from schemas: every name in their text is checked, and every value is a literal
    # and it finds out whether a user's script is Python before the trials, and runs none of it
    "programs/outside/runner.py": {"compile", "exec"},
    # it reads from the code of a user's file where its functions begin and end, and runs none of it
    "experiments/gate/lines.py": {"compile"},
    # `python -m whichloop.loops.bare` runs the demo, which is a module of ours
    "loops/bare.py": {"runpy"},
}


def test_no_text_is_run_as_code() -> None:
    found = {below(path): calls for path in MODULES if (calls := careless_calls(parsed(path)))}
    assert found == CARELESS_WITH_REASON
