"""What `docs/optimize.md` says: the teleprompter on it works, its programs are read, its lists are whole."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import dspy
import pytest

from tests.designs import DESIGNS
from tests.loops.helpers import Script
from tests.prepared import said_by
from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram
from whichloop.experiments.optimize.optimizer import BUILT_IN, optimizers
from whichloop.loops import Finish
from whichloop.protocol import NativeCall, Optimizable, Reply
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "optimize.md").read_text("utf-8")
SMALL = ["--suite", "arithmetic(size=60)", "--train", "6", "--dev", "6", "--tasks", "12", "--repeats", "1", "--quiet"]


def block(holding: str, kind: str = "python") -> str:
    (found,) = (text for text in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) if holding in text)
    return str(found)


def ran(folder: Path, *arguments: str) -> str:
    return said_by(folder, {"PATH": os.defpath, "HOME": str(folder)}, *arguments)


@pytest.mark.thorough
def test_the_teleprompter_on_the_page_helps_and_what_it_found_is_used(tmp_path: Path) -> None:
    (tmp_path / "tips.py").write_text(block("class Tips"), "utf-8")
    _, *words = shlex.split(block("tips:Tips", "sh"))
    said = ran(tmp_path, "-m", "whichloop", *words, "--loop", "finish", *SMALL)
    assert re.findall("^Adopt +(.*)$", said, re.MULTILINE) == ["bare, new prompts: better", "finish, new prompts: better"]
    for name, holding in (("1-bare", "with_program(Bare()"), ("2-finish", "LoopProgram(Finish(")):
        (found,) = tmp_path.glob(f"runs/*/designs/{name}/optimized.json")
        (tmp_path / "optimized.json").write_bytes(found.read_bytes())
        (tmp_path / "product.py").write_text(block(holding), "utf-8")
        said = ran(tmp_path, "product.py")
        assert ("never scaled" in said) == (name == "2-finish")


def test_the_program_on_the_page_calls_its_tool_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A design whose default is a single turn would end at the first call, without an answer."""
    monkeypatch.chdir(tmp_path)
    LoopProgram(Finish()).save("optimized.json")
    made: dict[str, Any] = {}
    exec(block("LoopProgram(Finish("), made)
    calls = [NativeCall("1", "search", '{"query": "leave"}'), NativeCall("2", "__finish__", '{"answer": "Nothing."}')]
    with dspy.context(lm=lm_of(Script(*(Reply("", (call,)) for call in calls)))):
        said = made["program"](query="How much leave do I have?")
    assert (said.answer, said.stop) == ("Nothing.", "finished")


@pytest.mark.slow
def test_the_metric_on_the_page_steers_a_search(tmp_path: Path) -> None:
    small = "budget='150calls', train=8, dev=6, tasks=12, repeats=1, mlflow=False, progress=False"
    script = block("def short_and_right").replace('profile="teachable")', f'profile="teachable", {small})')
    (tmp_path / "metric.py").write_text(f"{script}\nprint(found)\n", "utf-8")
    said = ran(tmp_path, "metric.py")
    assert re.search(r"^(Adopt|Keep) +finish, (new|old) prompts: ", said, re.MULTILINE)


@pytest.mark.thorough
def test_the_metric_of_five_arguments_on_the_page_is_one_that_gepa_takes() -> None:
    (signature,) = re.findall(r"takes five arguments: `def short_and_right(\(.*?\))`", PAGE)
    metric = eval(f"lambda {signature[1:-1]}: 1.0")  # of our own page
    assert dspy.GEPA(metric=metric, reflection_lm=dspy.LM("openai/none"), max_metric_calls=1).metric_fn is metric


def rows(head: str) -> dict[str, list[str]]:
    """The table below a row of headings: first cell → the others."""
    _, _, below = PAGE.partition(f"\n| {head} |")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in below.split("\n\n")[0].splitlines()[2:]]
    return {cells[0]: cells[1:] for cells in lines}


def test_every_optimizer_has_its_row_with_options_that_it_has() -> None:
    found = {re.findall(r"`(\w+)`", name)[0]: cells for name, cells in rows("name | changes | proposes | main options").items()}
    assert [*found] == [*BUILT_IN]
    for optimizer in optimizers():
        *_, options = found[optimizer.name]
        assert set(re.findall(r"`(\w+)`", options)) <= optimizer.described.keys()


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


def test_what_makes_a_loop_optimizable_stands_in_the_one_that_is_written_for_a_start() -> None:
    template = {line.strip() for line in (ROOT / "src/whichloop/checks/loop/template_loop.py").read_text("utf-8").splitlines()}
    own = [line.strip() for line in block("class MyLoop").splitlines() if line.strip()]
    assert [line for line in own if line not in template] == ["class MyLoop(TakesProgram):", own[1], "..."]
