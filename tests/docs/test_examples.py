"""The examples: a product per design, offline, short, importing nothing but a loop and a model; optimizing; the smallest suite."""

from __future__ import annotations

import ast
import os
import re
import runpy
from pathlib import Path

import pytest

from tests.designs import DESIGNS
from tests.docs.pages import ROOT
from tests.prepared import said_by

EXAMPLES = ROOT / "examples"
OFFLINE = """\
import os, runpy, sys
sys.addaudithook(lambda event, _: os._exit(9) if event in ("socket.connect", "socket.getaddrinfo") else None)
runpy.run_path({file!r}, run_name="__main__")
"""
FILES = sorted(EXAMPLES.glob("adopt_*.py"))
LONGEST = {"canal": 450, "compare": 40, "optimize_prompts": 40, "refunds": 80}
"""The other examples, all of which are run here or by test_contributing.py → their most lines."""


def offline(name: str, folder: Path) -> str:
    """What an example prints, which may reach no network and says nothing else."""
    (folder / "no_network.py").write_text(OFFLINE.format(file=str(EXAMPLES / f"{name}.py")), "utf-8")
    return said_by(folder, {"PATH": os.environ["PATH"]}, "no_network.py", quiet=True)


def test_every_design_has_an_example_and_all_are_short() -> None:
    assert {file.stem for file in FILES} == {f"adopt_{name}" for name in DESIGNS}, "a built-in loop also needs a short example"
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*LONGEST, *(file.stem for file in FILES)}
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text("utf-8").splitlines()) < LONGEST.get(file.stem, 40)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_needs_loops_and_a_model_only_and_prints_offline_what_it_says(file: Path, tmp_path: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    reached = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    reached |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in reached if name.startswith("whichloop")}
    assert {"whichloop.loops"} <= ours <= {"whichloop.loops", "whichloop.models.fake"}
    promised = re.findall(r"^.*\(.*\)  # prints (.*)$", file.read_text("utf-8"), re.MULTILINE)
    assert promised, f"{file.name} has to say beside a call what it prints, as in `print(outcome.answer)  # prints 42`"
    said = offline(file.stem, tmp_path)
    assert [text for text in promised if text not in said] == []


@pytest.mark.slow
def test_prompts_are_optimized_and_used_and_loops_compared_offline(tmp_path: Path) -> None:
    """The pages do so by samples of their own."""
    said = offline("optimize_prompts", tmp_path)
    assert re.search(r"^Adopt +bare, new prompts: better", said, re.MULTILINE)
    assert "never scaled" in said
    said = offline("compare", tmp_path)
    assert re.search(r"^(Adopt|Undecided) .*finish\(max_steps=12\)", said, re.MULTILINE)
    assert re.search(r"^parse( +\d+ \(\d+ %\)){3}$", said, re.MULTILINE)


def test_a_refund_waits_for_a_person_and_the_run_is_taken_up(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "refunds.py"), run_name="__main__")
    said = capsys.readouterr().out
    waiting = "refund {'order': 'A7', 'cents': '4200'} waits for a person."
    assert f"{waiting}\nAnn has approved it.\n4000 cents are on their way" in said
    assert said.endswith("Closing(order='A7', cents=4000)\n")
