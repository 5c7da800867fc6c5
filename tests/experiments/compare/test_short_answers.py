"""What an answer keeps on a terminal: the three sentences that it must have, and which faults the loops met, before all others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from whichloop.cli.render_answer import MAX_LINES, answer_lines
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run as carry_out
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

COMMAND = ("whichloop", "compare", "--loop", "first", "--loop", "second", "--suite", "arithmetic(size=1000)", "--seed", "1")


def shown(comparison, folder: Path, width: int) -> list[str]:
    """Return the lines of a comparison's answer, every undecided pair of which has a command that would decide it."""
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=60), settings=SimpleNamespace(repeats=1))
    found = Results(folder, manifest, (), comparison)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "answer", answer(comparison))
        patch.setattr(Results, "title", "arithmetic 2: 60 tasks × 1, seed 0")
        patch.setattr("whichloop.cli.render_answer.deciding_command", lambda manifest, run: COMMAND)
        return [line.plain for line in answer_lines(found, width)]


OFTEN = [(1, 80), (2, 120), (6, 100)]
RARELY = [(profiles, width) for profiles in (1, 2, 4, 6) for width in (80, 100, 120) if (profiles, width) not in OFTEN]


@pytest.mark.parametrize(("profiles", "width"), [*OFTEN, *(pytest.param(*case, marks=pytest.mark.slow) for case in RARELY)])
def test_what_is_undecided_and_what_is_worse_have_room_before_all_others(compared, tmp_path, width, profiles):
    shares = {"first": [0.9] * profiles, "second": [0.84] * profiles, "third": [0.4] * profiles}
    comparison = compared(shares, {"second": 60}, n=60, profiles=[f"flaky-{at}" for at in range(profiles)])
    must_have = [each for each in answer(comparison).answer_sentences if each.has_precedence]
    assert [each.text.split(" ")[0] for each in must_have] == ["Undecided", "Worse:"]
    lines = shown(comparison, tmp_path, width)
    assert len(lines) <= MAX_LINES
    flowing = " ".join(lines)
    assert all((each.brief or each.text) in flowing or each.text in flowing for each in must_have)


@pytest.fixture(scope="module")
def of_both_forms(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of loops that write calls in text and of one that makes native calls, each of which meets a profile of its own."""
    loops, runs = ("bare", "stateless", "finish"), tmp_path_factory.mktemp("runs")
    config = CompareConfig(loops=loops, profiles=("measured-2024", "flaky-tools"), tasks=28, runs=runs, mlflow=False)
    experiment = prepare(config)
    carry_out(experiment, Unwatched())
    return results(experiment.folder)


@pytest.mark.parametrize("width", [80, 120])
def test_that_loops_met_different_faults_stands_before_the_verdict(of_both_forms, width):
    found = of_both_forms
    lines = [line.plain for line in answer_lines(found, width)]
    met = lines.index("bare and stateless met text-2024, finish met native-2024.")
    verdict = next(number for number, line in enumerate(lines) if line.startswith(("Adopt", "Nothing", "No loop")))
    assert met < verdict
    whole = next(each for each in found.answer.answer_sentences if each.brief == lines[met].removesuffix("."))
    assert whole.is_basis
    assert "bare and stateless met text-2024 (calls in text), finish met native-2024 (native calls)" in whole.text


def test_the_loops_to_adopt_have_their_rows_however_many_are_more_accurate(compared, tmp_path):
    """Of loops that are not told apart the cheapest is named, which may be the last by its mean."""
    shares = {f"loop{n}": [0.9 - 0.01 * n] * 2 for n in range(8)}
    comparison = compared(shares, {"loop7": 40}, n=60, profiles=["flaky-0", "flaky-1"])
    adopted = {loop for each in answer(comparison).answer_sentences for loop in each.loops}
    assert "loop7" in adopted
    lines = shown(comparison, tmp_path, 80)
    assert len(lines) <= MAX_LINES
    assert all(any(line.startswith(f"{loop} ") for line in lines) for loop in adopted)
