"""The examples: a product per design, offline, short, importing nothing but a loop and a model; optimizing; the smallest suite."""

from __future__ import annotations

import ast
import os
import re
import runpy
from pathlib import Path

import pytest

from loopbench.runs.built_in import builtin_names
from tests.prepared import said_by

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OFFLINE = """\
import os, runpy, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
runpy.run_path({file!r}, run_name="__main__")
"""
FILES = sorted(EXAMPLES.glob("adopt_*.py"))
SAID = {
    "adopt_bare": "Four teas cost 14.0 euro.",
    "adopt_finish": "as a loop:   18.25 euro (finished, 2 steps)",
    "adopt_phased": "Sales grew by 25 %. (finished, 2 tool tasks)",
    "adopt_react_extract": "{'event': 'jazz at the Pit Inn', 'indoors': True} (finished)",
    "adopt_stateless": "'final_response': 'Your 40 euro are on their way.'",
}


def test_every_design_has_an_example() -> None:
    wrappers = {"guarded", "microcompact", "provider_retry", "repeat_guard"}
    assert {file.stem.removeprefix("adopt_") for file in FILES} == set(builtin_names("loop")) - wrappers
    assert SAID.keys() == {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_short_and_needs_loops_and_a_model_only(file: Path) -> None:
    text = file.read_text("utf-8")
    assert len(text.splitlines()) < 40
    nodes = list(ast.walk(ast.parse(text)))
    reached = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    reached |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in reached if name.startswith("loopbench")}
    assert ours <= {"loopbench.loops", "loopbench.models.fake"}
    assert "loopbench.loops" in ours


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_runs_offline(file: Path, tmp_path: Path) -> None:
    assert SAID[file.stem] in offline(file, tmp_path)


def offline(file: Path, folder: Path) -> str:
    """What an example prints, which may reach no network and says nothing else."""
    (folder / "no_network.py").write_text(OFFLINE.format(file=str(file)), "utf-8")
    return said_by(folder, {"PATH": os.environ["PATH"]}, "no_network.py", quiet=True)


@pytest.mark.thorough
def test_prompts_are_optimized_and_used_offline(tmp_path: Path) -> None:
    file = EXAMPLES / "optimize_prompts.py"
    assert len(file.read_text("utf-8").splitlines()) < 40
    said = offline(file, tmp_path)
    assert "Adopt the new prompts of bare: they gain 0." in said
    assert "never scaled" in said
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SAID, file.stem, "compare", "refunds"}


def test_a_refund_waits_for_a_person_and_the_run_is_taken_up(capsys: pytest.CaptureFixture[str]) -> None:
    file = EXAMPLES / "refunds.py"
    assert len(file.read_text("utf-8").splitlines()) < 80
    runpy.run_path(str(file), run_name="__main__")
    said = capsys.readouterr().out
    waiting = "refund {'order': 'A7', 'cents': 4200, 'reason': 'goodwill'} waits for a person."
    assert f"{waiting}\nAnn has approved it.\n4000 cents are on their way" in said
    assert said.endswith("Closing(order='A7', cents=4000)\n")


def test_loops_are_compared_in_one_call_offline(tmp_path: Path) -> None:
    file = EXAMPLES / "compare.py"
    assert len(file.read_text("utf-8").splitlines()) < 40
    said = offline(file, tmp_path)
    assert re.search(r"^(Adopt|Undecided between|Worse:) .*finish\(max_steps=12\)", said, re.MULTILINE)
    assert re.search(r"^__main__:Terse/flaky-format +lost \d+ of 40: parse \d+ \(\w+ \d+.*\)$", said, re.MULTILINE)
