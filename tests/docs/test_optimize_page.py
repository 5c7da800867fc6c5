"""docs/optimize.md: its lists of optimizers and of predictors are whole."""

from __future__ import annotations

import re
from pathlib import Path

from tests.designs import DESIGNS
from whichloop.experiments.optimize.optimizer import BUILT_IN
from whichloop.protocol import Optimizable
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

PAGE = Path(__file__).parents[2] / "docs" / "optimize.md"


def rows(head: str) -> dict[str, list[str]]:
    """The table below a row of headings: first cell → the others."""
    _, _, below = PAGE.read_text("utf-8").partition(f"\n| {head} |")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in below.split("\n\n")[0].splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}


def test_every_optimizer_has_its_row() -> None:
    assert [re.findall(r"`(\w+)`", name)[0] for name in rows("name | changes | proposes")] == [*BUILT_IN]


def test_every_design_has_its_predictors() -> None:
    found: dict[str, list[str]] = {}
    for names, (predictors,) in rows("loop | predictors").items():
        found |= dict.fromkeys(re.findall(r"\w+", names), re.findall(r"\w+", predictors))
    for name in DESIGNS:
        loop = make_loop(parse_spec(name))
        assert isinstance(loop, Optimizable)
        assert name in found, f"docs/optimize.md: the table `loop | predictors` needs a row for {name}"
        assert found.pop(name) == [*loop.predictors]
    assert not found
