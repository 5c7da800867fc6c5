"""The tables of real models in docs/validity.md, and the command that adds a row to them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages import block, write_block
from tests.benchmarks import load_benchmark
from whichloop.experiments.validate.prediction import prediction_digest
from whichloop.runs.store.files import read_document, write_document

ROOT = Path(__file__).parents[2]
REAL = load_benchmark("real_models")
DIGEST = "ab12" * 16
FOUND: dict[str, Any] = {
    "verdict": "Weak",
    "prediction": DIGEST,
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
}
PREDICTED: dict[str, Any] = {"loops": {}, "fitted": [*"abcd"], "held_out": [*"efg"], "profile": "", "digest": DIGEST}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two loops whose replies no model gave, and what a validation might have found of it."""
    made: Path = load_benchmark("comparing").folder_of_run(["bare", "finish"], "arithmetic(size=4)", ["clean"], tmp_path)
    return made


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own, with no rows."""
    page = tmp_path / "docs" / "validity.md"
    page.parent.mkdir()
    page.write_text("<!-- real models: how -->\n<!-- /real models -->\n")
    monkeypatch.setattr(REAL, "PAGE", page)
    return page


def test_a_prediction_is_registered_before_its_tasks_are_run_and_keeps_its_row(folder, page, capsys):
    with pytest.raises(FileNotFoundError, match="prediction"):
        REAL.main([str(folder), "--register"])
    (folder / "validity").mkdir()
    write_document(folder / "validity" / "prediction.json", PREDICTED)
    earlier = "| `scripted` | s | few | [`000000000000`](predictions/000000000000.json) | Poor |"
    write_block(page, REAL.BLOCK, REAL.with_rows("", ([earlier], ["| `scripted` | `bare` |"])))
    REAL.main([str(folder), "--register"])
    copy = page.parent / "predictions" / "ab12ab12ab12.json"
    assert capsys.readouterr().out == f"{copy}\n"
    assert copy.read_bytes() == (folder / "validity" / "prediction.json").read_bytes()
    row = "| `scripted` | arithmetic 2, 4 fitted and 3 held out | few | [`ab12ab12ab12`](predictions/ab12ab12ab12.json) | "
    assert f"{row}not held against a run yet | – |" in page.read_text()
    write_document(folder / "validity" / "validity.json", FOUND)
    REAL.main([str(folder), "--write"])
    written = page.read_text()
    assert f"{row}Weak | 1 of 10 |" in written
    assert earlier in written
    assert written.count("(predictions/ab12") == 1, "the row of the same prediction is replaced"
    assert written.count("| `bare` |") == 1, "the rows of the same model are replaced"
    REAL.main([str(folder), "--register"])
    assert page.read_text() == written, "registering it again takes nothing back"


def test_every_prediction_is_the_one_that_its_digest_names():
    text = REAL.PAGE.read_text("utf-8")
    named = re.findall(r"\[`([0-9a-f]{12})`\]\(predictions/\1\.json\)", text)
    kept_files = {file.stem: file for file in (ROOT / "docs" / "predictions").iterdir()}
    assert sorted(kept_files) == sorted(named), "every prediction is linked once, and every link has a file"
    assert set(re.findall(r"--prediction docs/predictions/([0-9a-f]{12})\.json", text)) <= set(named)
    for name, file in kept_files.items():
        kept = read_document(file)
        assert kept["digest"].startswith(name)
        assert kept["digest"] == prediction_digest(kept)


def test_the_page_has_the_model_in_the_box_with_every_design_on_a_suite_that_is_sound():
    text = block(REAL.PAGE, REAL.BLOCK)
    assert "\n| `local` (SmolLM2-135M" in text
    assert all(f" | `{loop}` | " in text for loop in ("bare", "finish", "phased", "react_extract", "stateless"))
    lookups = load_benchmark("lookups")
    suite = lookups.load()
    assert len({task.query.text for task in suite.tasks}) == len(suite.tasks) == lookups.SIZE
    answers = [json.dumps(task.expected) for task in suite.tasks]
    assert max(map(answers.count, answers)) <= 2


def test_make_real_registers_a_prediction_before_its_tasks_are_run():
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nreal: $(READY_LOCAL)\n")[2].partition("\n\n")[0]
    steps = ["--tasks 8", "--ahead 10", "--register) && ", "$(REAL_RUN) --runs runs/real/whole && ", "--prediction $$", "--write"]
    places = [recipe.index(step) for step in steps]
    assert places == sorted(places)
