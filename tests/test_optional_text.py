"""Text that is not always there is written as a condition, not as a text times a truth value, which has to be worked out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import nodes_of, parsed

IN_ONE_FORK = "the syntax trees of the source"

SOURCE = Path(__file__).resolve().parents[1] / "src" / "whichloop"


def products(tree: ast.AST) -> Iterator[ast.BinOp]:
    """Yield each product of a text or a list with what is a truth value by its form."""
    for node in nodes_of(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for text, factor in ((node.left, node.right), (node.right, node.left)):
                if _is_text(text) and _is_truth(factor):
                    yield node


def _is_text(node: ast.expr) -> bool:
    """Whether this is a text or a list of texts."""
    return isinstance(node, ast.JoinedStr | ast.List) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_truth(node: ast.expr) -> bool:
    """Whether this is a comparison, a condition, or a name that asks a question."""
    if isinstance(node, ast.Compare | ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("bool", "any", "all", "startswith", "endswith") or name.lstrip("_").startswith(("is_", "has_"))


def test_no_text_is_multiplied_by_a_truth_value() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in products(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "written",
    [
        "'s' * (n > 1)",
        "f', {x}' * bool(x)",
        "['more'] * (a and b)",
        "(not a) * 'x'",
        "'x' * line.is_ratio",
        "f'{f(x) * 2}{y * 1}' * any(x)",
    ],
)
def test_such_a_product_is_found(written: str) -> None:
    assert len([*products(ast.parse(written))]) == 1


@pytest.mark.parametrize("written", ["' ' * width", "[0] * len(names)", "'=' * (-n % 4)", "a * (b > 1)"])
def test_a_text_that_is_repeated_is_not(written: str) -> None:
    assert [*products(ast.parse(written))] == []
