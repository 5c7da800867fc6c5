"""The tables of real models in docs/validity.md, and the command that adds a row to them."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import block, write_block
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.experiments.validate.prediction import prediction_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import RunError, read_document, write_document

ROOT = Path(__file__).parents[2]
FOUND: dict[str, Any] = {
    "verdict": "Weak",
    "prediction": "ab12" * 16,
    "fitted_tasks": 4,
    "held_out_tasks": 3,
    "loops": [
        {
            "arm": f"{loop}/clean",
            "real": {"value": 0.25, "low": 0.01, "high": 0.81, "n": 4},
            "predicted": {"value": predicted, "low": 0.4, "high": 0.9, "n": 4},
        }
        for loop, predicted in (("bare", 0.5), ("finish", 0.75))
    ],
    "differences": [
        {"measure": "accuracy", "difference": {"value": -0.25}, "off": True},
        {"measure": "steps", "difference": {"value": 2.0}, "off": False},
    ],
    "tau": None,
    "pairs": [{"misplaced": True}],
    "pairs_in_all": 10,
    "unknown_errors": {"tool.KeyError": 2},
}
PREDICTED: dict[str, Any] = {
    "loops": {},
    "fitted": ["a", "b", "c", "d"],
    "held_out": ["e", "f", "g"],
    "profile": """name = "local"
[rates]
# "decision.wrong_type": 0 of 20 points, at most 0.4837
"decision.no_tool" = 0.350649  # [0.2867, 0.8485], 9 of 15 points; fewer than 30 points: this says little
""",
    "digest": FOUND["prediction"],
}


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("real_models")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two loops whose replies no model gave, and what a validation might have found of it."""
    config = CompareConfig(loops=["bare", "finish"], suite="arithmetic(size=4)", mlflow=False, runs=tmp_path)
    assert run(prepare(config, tmp_path / "run"), Unwatched()) == ""
    return tmp_path / "run"


def validated(folder: Path) -> Path:
    (folder / "validity").mkdir()
    write_document(folder / "validity" / "validity.json", FOUND)
    write_document(folder / "validity" / "prediction.json", PREDICTED)
    return folder


def test_a_run_gives_a_row_of_its_validation_and_one_for_each_loop(benchmark, folder):
    (row,), scores, predicted, fitted = benchmark.rows(validated(folder))
    assert row.split(" | ") == [
        *(
            "| `scripted`",
            "arithmetic 2, 4 fitted and 3 held out",
            "few",
            "[`ab12ab12ab12`](predictions/ab12ab12ab12.json)",
            "Weak",
        ),
        *("1 of 10", "1", "–", "0.250", "1 of 2", "tool.KeyError |"),
    ]
    assert [line.split(" | ")[1:3] for line in scores] == [["`bare`", "4"], ["`finish`", "4"]]
    for line, loop, share in zip(predicted, ("bare", "finish"), ("0.50", "0.75"), strict=True):
        name, real, tunnel, solved, silent, limited, _ = line.removeprefix("| `scripted` | ").split(" | ")
        assert (name, real, tunnel) == (f"`{loop}`", "0.25 [0.01, 0.81]", f"{share} [0.40, 0.90]")
        by_template = [one.split(" ")[1:] for one in solved.split(", ")]
        assert sum(int(right) for right, _, _ in by_template) == sum(int(of) for _, _, of in by_template) == 4
        assert (silent, limited) == ("0 of 4", "0 of 4")
    assert fitted == ["| `scripted` | `decision.no_tool` | 0.35 [0.2867, 0.8485], 9 of 15 points |"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Any) -> Path:
    """A page of its own, with no rows."""
    page = tmp_path / "docs" / "validity.md"
    page.parent.mkdir()
    page.write_text("<!-- real models: how -->\n<!-- /real models -->\n")
    monkeypatch.setattr(benchmark, "PAGE", page)
    return page


def test_a_written_row_has_its_prediction_beside_the_page_and_earlier_ones_stay(benchmark, folder, page):
    earlier = page.parent / "predictions" / "000000000000.json"
    earlier.parent.mkdir()
    earlier.write_text("{}")
    row = "| `scripted` | s, 1 fitted and 1 held out | few | [`000000000000`](predictions/000000000000.json) | Poor |"
    write_block(page, benchmark.BLOCK, benchmark.with_rows("", ([row], [], [], [])))
    benchmark.main([str(validated(folder))])
    assert list(earlier.parent.iterdir()) == [earlier]
    benchmark.main([str(folder), "--write"])
    assert earlier.exists()
    assert row in page.read_text().splitlines()
    assert (page.parent / "predictions" / "ab12ab12ab12.json").read_bytes() == (
        folder / "validity" / "prediction.json"
    ).read_bytes()
    assert "(predictions/ab12ab12ab12.json)" in page.read_text()


def test_every_prediction_is_the_one_that_its_digest_names(benchmark):
    named = re.findall(r"\[`([0-9a-f]{12})`\]\(predictions/\1\.json\)", benchmark.PAGE.read_text("utf-8"))
    assert named
    kept_files = {file.stem: file for file in (ROOT / "docs" / "predictions").iterdir()}
    assert sorted(kept_files) == sorted(named), "every prediction is linked once, and every link has a file"
    commanded = re.findall(r"--prediction docs/predictions/([0-9a-f]{12})\.json", benchmark.PAGE.read_text("utf-8"))
    assert commanded
    assert set(commanded) <= set(named), "the command that makes the run again names its prediction"
    for name, file in kept_files.items():
        kept = read_document(file)
        assert kept["digest"].startswith(name)
        assert kept["digest"] == prediction_digest(kept)


def test_a_run_that_is_not_validated_is_refused(benchmark, folder):
    with pytest.raises(RunError, match=r"is not validated: whichloop learn profile \S+ --held-out"):
        benchmark.rows(folder)
    with pytest.raises(SystemExit, match="is not validated"):
        benchmark.main([str(folder)])


def test_rows_are_added_and_those_of_the_same_prediction_or_model_replaced(benchmark):
    def row(model: str, prediction: str, verdict: str) -> list[str]:
        return [f"| {model} | suite | few | {prediction} | {verdict} |"]

    first = (row("b", "1", "Poor"), ["| b | `bare` |", "| b | `finish` |"], ["| b | 0.5 |"], ["| b | rate |"])
    one = benchmark.with_rows("Nothing yet.", first)
    two = benchmark.with_rows(one, (row("a", "2", "Good"), ["| a | `bare` |"], ["| a | 0.7 |"], []))
    registered = benchmark.with_rows(two, (row("b", "3", "not yet"), [], [], []))
    again = (row("b", "3", "Weak"), ["| b | `bare` | 4 |"], ["| b | 0.6 |"], ["| b | other rate |"])
    three = benchmark.with_rows(registered, again)
    assert "Nothing yet" not in one
    assert [line for line in three.splitlines() if line.startswith(("| a", "| b"))] == [
        *(*row("a", "2", "Good"), *row("b", "1", "Poor"), *row("b", "3", "Weak")),
        *("| a | `bare` |", "| b | `bare` | 4 |"),
        *("| a | 0.7 |", "| b | 0.6 |"),
        "| b | other rate |",
    ]
    assert benchmark.with_rows(three, again) == three


def test_the_page_has_the_model_in_the_box_with_every_design(benchmark):
    text = block(benchmark.PAGE, benchmark.BLOCK)
    assert "\n| `local` (SmolLM2-135M" in text
    for loop in ("bare", "finish", "phased", "react_extract", "stateless"):
        assert f" | `{loop}" in text


def test_what_guessing_solves_comes_from_the_check_of_the_suite(benchmark, folder):
    manifest = read_manifest(folder)
    said = "guessing: echo (answers with the question) passes 55.6% of 18 tasks [30.8%, 78.5%]: lookups-0002, …"
    told = manifest.model_copy(update={"suite_problems": ("plans: task 't': no call", said)})
    assert (benchmark.guessing(manifest), benchmark.guessing(told)) == ("few", "0.56 (echo)")


def test_the_suite_of_make_real_is_sound():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        lookups = importlib.import_module("lookups")
        suite = lookups.load()
        assert len({task.query.text for task in suite.tasks}) == len(suite.tasks) == lookups.SIZE
        answers = [json.dumps(task.expected) for task in suite.tasks]
        assert max(map(answers.count, answers)) <= 2


def test_a_prediction_is_registered_before_its_tasks_are_run(benchmark, folder, page, capsys):
    with pytest.raises(SystemExit, match=r"has no prediction: whichloop learn profile \S+ --ahead N"):
        benchmark.main([str(folder), "--register"])
    (folder / "validity").mkdir()
    write_document(folder / "validity" / "prediction.json", PREDICTED)
    benchmark.main([str(folder), "--register"])
    copy = page.parent / "predictions" / "ab12ab12ab12.json"
    assert capsys.readouterr().out == f"{copy}\n"
    assert copy.read_bytes() == (folder / "validity" / "prediction.json").read_bytes()
    told = "| `scripted` | arithmetic 2, 4 fitted and 3 held out | few | [`ab12ab12ab12`](predictions/ab12ab12ab12.json) | "
    assert f"{told}not held against a run yet | – |" in page.read_text()
    write_document(folder / "validity" / "validity.json", FOUND)
    benchmark.main([str(folder), "--write"])
    written = page.read_text()
    assert f"{told}Weak | 1 of 10 |" in written
    assert written.count("(predictions/") == 1, "the row of the same prediction is replaced"
    benchmark.main([str(folder), "--register"])
    assert page.read_text() == written, "registering it again takes nothing back"
    capsys.readouterr()
    with pytest.raises(SystemExit):
        benchmark.main([str(folder), "--register", "--write"])
    assert "takes one run, and no --write" in capsys.readouterr().err


STUB = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
{rest}
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("python", "ran"),
    [
        ("exit 1", ["whichloop compare", "whichloop learn", "python benchmarks/real_models.py"]),
        (
            "echo kept.json",
            [
                *("whichloop compare", "whichloop learn", "python benchmarks/real_models.py", "whichloop compare"),
                *("whichloop learn", "python benchmarks/real_models.py", "whichloop learn"),
            ],
        ),
    ],
    ids=["no prediction", "all"],
)
def test_make_real_registers_a_prediction_before_its_tasks_are_run_and_stops_without_one(tmp_path, python, ran):
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    for name, rest in (("whichloop", ""), ("python", python), ("pip", "")):
        (programs / name).write_text(STUB.format(log=log, rest=rest))
        (programs / name).chmod(0o755)
    for name in (".ready", ".ready-local"):
        (tmp_path / name).touch()
    made = subprocess.run(["make", "real", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = log.read_text().splitlines()
    assert [" ".join(line.split()[:2]) for line in lines] == ran, made.stderr
    assert (made.returncode == 0) == (python != "exit 1")
    first, *others = [line for line in lines if line.startswith("whichloop compare")]
    assert "--tasks 8" in first
    assert all("--tasks" not in line for line in others)
    assert [line for line in lines if "--prediction kept.json" in line] == lines[4:5]
