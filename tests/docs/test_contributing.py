"""CONTRIBUTING.md: whoever follows it adds a loop, a suite, a scorer and a measure that work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.prepared import said_by

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
AT_HOME = {"PATH": os.environ["PATH"]}
MEASURE = """
    "repeated_calls": Measure(
        lambda record: record.repeated_calls,
        "Tool calls that repeat an earlier one of the same trial.",
        digits=1,
        label="repeated calls",
        in_trials=True,
    ),
}
"""
SCORER = '''
def brief(words: int = 5) -> Scorer:
    """1 iff the answer is right and has at most so many words."""
    is_right = exact()

    def score(judgement: Judgement) -> float:
        text = judgement.answer if isinstance(judgement.answer, str) else ""
        return is_right(judgement) if len(text.split()) <= words else 0.0

    return score


'''
SCORERS = "SCORERS: Final[Mapping[str, Callable[..., Scorer]]] = {\n"


def said_in(checkout: Path, *command: str) -> str:
    """What a command prints that imports the checkout's package."""
    environment = {**AT_HOME, "PYTHONPATH": str(checkout / "src"), "HOME": str(checkout / "home")}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.(?:py|toml|md))?)`", PAGE)
    roots = (ROOT, ROOT / "src" / "whichloop", ROOT / "src" / "whichloop" / "experiments" / "import_runs")
    new = [path for path in named if "NAME" in path or "yours" in path]
    assert [path for path in named if path not in new and not any((root / path).exists() for root in roots)] == []


def test_the_smallest_suite_passes_every_check_from_outside(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "canal.py", tmp_path)
    said = said_by(tmp_path, AT_HOME, "-m", "whichloop", "check", "suite", "canal:load", "--tasks", "5", "--run-tools")
    assert re.search(r"^Hold +(\d+) of \1 laws$", said, re.MULTILINE)


@pytest.mark.thorough
def test_a_scorer_a_measure_and_a_loop_are_added_and_pass_ruff(tmp_path: Path) -> None:
    """With what Python has compiled, and the times by which it knows that it still holds."""
    shutil.copytree(ROOT / "src/whichloop", tmp_path / "src/whichloop")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests/loops").mkdir(parents=True)
    measures, scorers = (tmp_path / f"src/whichloop/metrics/{name}.py" for name in ("measures", "scorers"))
    measures.write_text(measures.read_text("utf-8").rstrip().removesuffix("}").rstrip() + MEASURE, "utf-8")
    text = scorers.read_text("utf-8")
    assert SCORERS in text
    scorers.write_text(text.replace(SCORERS, f'{SCORER.lstrip()}{SCORERS}    "brief": brief,\n'), "utf-8")
    (command,) = re.findall(r"`whichloop (init [^`]* --loop yours)`", PAGE)
    said_by(tmp_path, AT_HOME, "-m", "whichloop", *command.split())
    table = tmp_path / "src/whichloop/runs/built_in.toml"
    table.write_text(table.read_text("utf-8").replace("\n[framework]", 'yours = "Mine."\n\n[framework]'), "utf-8")
    paths = ["src/whichloop/loops/yours.py", "tests/loops/test_yours.py", "src/whichloop/metrics"]
    said_in(tmp_path, "ruff", "check", "--no-cache", *paths)
    said_in(tmp_path, "ruff", "format", "--no-cache", "--check", *paths)
    tasks = [
        {"id": text, "question": text, "answer": text, "plan": {"calls": [], "answer": text}, "scorer": f"brief(words={most})"}
        for text, most in (("one", 1), ("two words", 1), ("three", 3))
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks), "utf-8")
    run = ["--suite", "jsonl", "--data", "tasks.jsonl", "--loop", "yours", "--profile", "clean"]
    (arm,) = json.loads(said_in(tmp_path, "whichloop", "compare", *run, "--quiet", "--json"))["arms"]
    assert arm["accuracy"]["value"] == pytest.approx(2 / 3)
    assert arm["repeated_calls"]["value"] == 0
