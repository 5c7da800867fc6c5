"""Every optimizer on every design, end to end and offline: it ends with a program that loads, and teaches what it can teach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.pages import cells
from whichloop.dspy_seam.program import LoopProgram
from whichloop.experiments.optimize.optimizer import BUILT_IN
from whichloop.protocol import program_digest, with_program
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

pytestmark = pytest.mark.thorough

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
USUAL = ("COPRO", "BootstrapFewShot")


def chosen() -> Iterator[Any]:
    """Each optimizer on one design, in turn; two at once, the others slowly."""
    for place, optimizer in enumerate(BUILT_IN):
        yield pytest.param(optimizer, LOOPS[(place + 1) % 5], marks=() if optimizer in USUAL else pytest.mark.slow)


@pytest.fixture(scope="module")
def matrix(optimizers_benchmark: ModuleType) -> ModuleType:
    return optimizers_benchmark


@pytest.mark.parametrize(("optimizer", "loop"), [*chosen()])
def test_each_optimizer_ends_on_each_design_with_a_program_that_loads_and_gains_as_the_page_says(
    matrix: ModuleType, tmp_path: Path, optimizer: str, loop: str
) -> None:
    taught = next(taught for taught in matrix.TAUGHT if parse_spec(taught.optimizer).name == optimizer)
    found = matrix.cell(taught, loop, tmp_path)
    assert found.ended is not None
    assert (found.ended.status, found.ended.reason, found.ended.warnings) == ("finished", "", ())
    assert found.program is not None
    own = make_loop(parse_spec(loop))
    loaded = LoopProgram(own)
    loaded.load(str(found.program))
    programs = (
        with_program(own, found.program).predictors,  # type: ignore[type-var, attr-defined]  # all five are
        make_loop(parse_spec(f"{loop}@{found.program}")).predictors,  # type: ignore[attr-defined]
        loaded.program,
    )
    assert {program_digest(program) for program in programs} == {found.ended.digest}
    row = next(row for row in cells(matrix.PAGE, "optimizers") if f"`{taught.optimizer}`" in row[0])
    assert row[1 + LOOPS.index(loop)] == matrix.cell_text(found)
    gain = found.gain
    assert gain is not None
    assert gain.before is not None
    assert gain.after is not None
    assert gain.test is not None
    # stateless shows itself the start of a result only: what worked beyond it is no example that its prompts could hold
    least, gained = (0.7, 0.0) if loop == "stateless" else (0.95, 0.2)
    assert gain.before.value < 0.6
    assert gain.after.value > least
    assert gain.test.difference.low > gained
    assert gain.test.verdict.word == "better"


def test_all_optimizers_and_designs_are_in_the_benchmark(matrix: ModuleType) -> None:
    assert sorted(parse_spec(taught.optimizer).name for taught in matrix.TAUGHT) == sorted(BUILT_IN)
    assert matrix.DESIGNS == LOOPS
