"""Every optimizer on every design, end to end and offline: it ends with a program that loads, and teaches what it can teach."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whichloop.dspy_seam.program import LoopProgram
from whichloop.experiments.optimize.optimizer import BUILT_IN
from whichloop.experiments.optimize.result import DesignResult
from whichloop.protocol import program_digest, read_program
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

pytestmark = pytest.mark.thorough

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
UNTAUGHT = {("LabeledFewShot", "stateless")}
"""An example has the fields `query` and `answer`. A loop in DSPy's format shows what its signatures have of them, and none of this
loop's has either: DSPy leaves such examples out, and every request stays as it was."""

Cell = tuple[Any, DesignResult]


USUAL = ("finish", "react_extract")
"""A loop in its own format, and one in DSPy's."""


def cells() -> Iterator[Any]:
    """Every optimizer on every design; all but the usual designs are slow."""
    for optimizer in BUILT_IN:
        for loop in LOOPS:
            yield pytest.param(optimizer, loop, marks=() if loop in USUAL else pytest.mark.slow)


@pytest.fixture(scope="module")
def matrix(optimizers_benchmark: ModuleType) -> ModuleType:
    return optimizers_benchmark


@pytest.fixture(scope="module")
def cell_of(matrix: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Cell]:
    """One design by one optimizer; run once."""
    made: dict[tuple[str, str], Cell] = {}

    def cell(optimizer: str, loop: str) -> Cell:
        if (optimizer, loop) not in made:
            taught = next(taught for taught in matrix.TAUGHT if parse_spec(taught.optimizer).name == optimizer)
            made[optimizer, loop] = (taught, matrix.cell(taught, loop, tmp_path_factory.mktemp("cell")))
        return made[optimizer, loop]

    return cell


def state(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in data.items() if name not in ("whichloop", "metadata")}


@pytest.mark.parametrize(("optimizer", "loop"), [*cells()])
class TestEachOptimizerOnEachDesign:
    def test_it_ends_with_a_program_that_can_be_loaded(
        self, cell_of: Callable[[str, str], Cell], optimizer: str, loop: str
    ) -> None:
        _, found = cell_of(optimizer, loop)
        assert found.ended is not None
        assert (found.ended.status, found.ended.reason, found.ended.warnings) == ("finished", "", ())
        assert found.program is not None
        own = make_loop(parse_spec(loop))
        assert program_digest(read_program(found.program).on(own)) == found.ended.digest  # type: ignore[arg-type]  # all five are

        loaded = make_loop(parse_spec(f"{loop}@{found.program}"))
        assert program_digest(loaded.predictors) == found.ended.digest  # type: ignore[attr-defined]
        student = LoopProgram(own)
        student.load(str(found.program))
        assert program_digest(student.program) == found.ended.digest
        student = LoopProgram(own)
        student.load_state(state(found.program))
        assert program_digest(student.program) == found.ended.digest

    def test_on_tasks_that_it_has_not_seen_the_gain_excludes_0(
        self, cell_of: Callable[[str, str], Cell], optimizer: str, loop: str
    ) -> None:
        _, found = cell_of(optimizer, loop)
        assert found.gain is not None
        assert found.gain.before is not None
        assert found.gain.after is not None
        assert found.gain.test is not None
        difference = found.gain.test.difference
        if (optimizer, loop) in UNTAUGHT:
            assert difference.value == 0
            assert found.gain.test.verdict.word == "undecided"
            return
        assert found.gain.before.value < 0.6
        # stateless shows itself the start of a result only: what worked beyond it is no example that its prompts could hold
        least, gained = (0.7, 0.0) if loop == "stateless" else (0.95, 0.2)
        assert found.gain.after.value > least
        assert difference.low > gained
        assert found.gain.test.verdict.word == "better"

    def test_the_page_says_so(self, matrix: ModuleType, cell_of: Callable[[str, str], Cell], optimizer: str, loop: str) -> None:
        taught, found = cell_of(optimizer, loop)
        cells = next(line for line in matrix.shown("optimizers") if f"`{taught.optimizer}`" in line).split(" | ")
        assert cells[1 + LOOPS.index(loop)].removesuffix(" |") == matrix.cell_text(found)


def test_all_optimizers_and_designs_are_in_the_benchmark(matrix: ModuleType) -> None:
    assert sorted(parse_spec(taught.optimizer).name for taught in matrix.TAUGHT) == sorted(BUILT_IN)
    assert matrix.LOOPS == LOOPS
