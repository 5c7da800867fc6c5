"""The examples: a product per design, offline, short, importing nothing but a loop and a model; optimizing; the smallest suite."""

from __future__ import annotations

import ast
import os
import re
import runpy
from pathlib import Path

import pytest

from tests.designs import DESIGNS
from tests.prepared import said_by

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OFFLINE = """\
import os, runpy, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
runpy.run_path({file!r}, run_name="__main__")
"""
FILES = sorted(EXAMPLES.glob("adopt_*.py"))
PRINTS = re.compile(r"^.*\(.*\)  # prints (.*)$", re.MULTILINE)
"""The comment beside a call in an example that says what the call prints."""


def test_every_design_has_an_example() -> None:
    without = set(DESIGNS) - {file.stem.removeprefix("adopt_") for file in FILES}
    assert not without, f"a built-in loop also needs a short example: {', '.join(f'examples/adopt_{name}.py' for name in without)}"
    assert len(FILES) == len(DESIGNS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_short_and_needs_loops_and_a_model_only(file: Path) -> None:
    text = file.read_text("utf-8")
    assert len(text.splitlines()) < 40
    nodes = list(ast.walk(ast.parse(text)))
    reached = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    reached |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in reached if name.startswith("whichloop")}
    assert ours <= {"whichloop.loops", "whichloop.models.fake"}
    assert "whichloop.loops" in ours


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_runs_offline(file: Path, tmp_path: Path) -> None:
    promised = PRINTS.findall(file.read_text("utf-8"))
    assert promised, f"{file.name} has to say beside a call what it prints, as in `print(outcome.answer)  # prints 42`"
    said = offline(file, tmp_path)
    assert [text for text in promised if text not in said] == []


def offline(file: Path, folder: Path) -> str:
    """What an example prints, which may reach no network and says nothing else."""
    (folder / "no_network.py").write_text(OFFLINE.format(file=str(file)), "utf-8")
    return said_by(folder, {"PATH": os.environ["PATH"]}, "no_network.py", quiet=True)


CANAL, COMPARE, OPTIMIZE, REFUNDS = (EXAMPLES / f"{name}.py" for name in ("canal", "compare", "optimize_prompts", "refunds"))


def test_the_other_examples_are_short_and_tested_here() -> None:
    assert set(EXAMPLES.glob("*.py")) == {*FILES, COMPARE, OPTIMIZE, REFUNDS, CANAL}
    for file, most in ((COMPARE, 40), (OPTIMIZE, 40), (REFUNDS, 80)):
        assert len(file.read_text("utf-8").splitlines()) < most


@pytest.mark.slow
def test_prompts_are_optimized_and_used_offline(tmp_path: Path) -> None:
    """The page on optimizing does so with an optimizer of its own: tests/docs/test_optimize_page.py."""
    said = offline(OPTIMIZE, tmp_path)
    assert "Adopt the new prompts of bare: they gain 0." in said
    assert "never scaled" in said


def test_a_refund_waits_for_a_person_and_the_run_is_taken_up(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(REFUNDS), run_name="__main__")
    said = capsys.readouterr().out
    waiting = "refund {'order': 'A7', 'cents': '4200'} waits for a person."
    assert f"{waiting}\nAnn has approved it.\n4000 cents are on their way" in said
    assert said.endswith("Closing(order='A7', cents=4000)\n")


@pytest.mark.slow
def test_loops_are_compared_in_one_call_offline(tmp_path: Path) -> None:
    """README's comparison in Python is run by tests/docs/test_readme.py."""
    said = offline(COMPARE, tmp_path)
    assert re.search(r"^(Adopt|Undecided) .*finish\(max_steps=12\)", said, re.MULTILINE)
    assert re.search(r"^parse( +\d+ \(\d+ %\)){3}$", said, re.MULTILINE)
