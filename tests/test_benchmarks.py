"""Programs of benchmarks/ that other tests do not run: blocks of pages, planted faults, what tests cost, published gaps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pages import block, write_block
from benchmarks.planted_faults import PlantedFault, planted_faults
from benchmarks.slow_tests import COSTLY, ROOT, is_there
from tests.benchmarks import load_benchmark

# --- blocks of pages ---

BLOCKS = st.sampled_from(["speed", "faults, at once", "a.b", "grid of one arm"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40).filter(
    lambda text: "<!--" not in text and text == text.strip("\n")
)


@given(BLOCKS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_what_is_written_is_read_and_nothing_else_moves(tmp_path_factory, name, before, old, new, after) -> None:
    page: Path = tmp_path_factory.getbasetemp() / "page.md"
    page.write_text(f"{before}\n<!-- {name}: how -->\n{old}\n<!-- /{name} -->\n{after}", encoding="utf-8", newline="")
    for _ in range(2):
        write_block(page, name, new)
        assert block(page, name) == f"\n{new}\n\n"
        assert page.read_bytes().decode() == f"{before}\n<!-- {name}: how -->\n\n{new}\n\n<!-- /{name} -->\n{after}"


# --- planted faults ---

FAULTS = planted_faults()


def test_there_are_enough_planted_faults_on_each_floor_and_no_two_are_the_same() -> None:
    floors = Counter(fault.file.partition("/")[0] for fault in FAULTS)
    assert len(set(FAULTS)) == len(FAULTS) >= 60
    assert floors.keys() == {"protocol", "loops", "models", "metrics", "runs"}
    assert min(floors.values()) >= 3


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_changes_one_line_that_is_there(fault: PlantedFault) -> None:
    assert fault.planted().count(fault.becomes) >= 1
    assert fault.becomes != fault.line
    assert (ROOT / fault.tests).is_file()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_fault_is_noticed() -> None:
    ended = subprocess.run([sys.executable, "benchmarks/planted_faults.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


# --- what tests cost: `make fast` leaves out those that cost much ---

NAMES = COSTLY.read_text(encoding="utf-8").splitlines()


def test_the_list_is_as_it_is_written_nearly_all_of_it_is_there_and_it_marks_tests(request: pytest.FixtureRequest) -> None:
    """A test that got another name since is run by `make fast` until the list is written anew, which does no harm for a few."""
    assert sorted(set(NAMES)) == NAMES
    there = [name for name in NAMES if is_there(name)]
    assert len(there) >= 0.9 * len(NAMES) > 0, "renew it: python benchmarks/slow_tests.py --forks auto --write"
    items = request.session.items
    marked = {item.nodeid.partition("[")[0] for item in items if "thorough" in item.keywords}
    assert {item.nodeid.partition("[")[0] for item in items} & set(NAMES) <= marked


# --- published gaps, on files that were made up ---

LIVE = {
    "Able (FC)": (100, 100, 100), "Able (Prompt)": (50, 50, 90), "Brisk-FC (FC)": (60, 60, 80), "brisk (Prompt)": (90, 90, 80),
    "Calm (FC)": (80, 90, 5), "Calm (Prompt)": (80, 90, 5), "Alone (FC)": (70, 70, 70),
}  # fmt: skip
"""Model → right replies to simple and multiple questions, and to those that no function fits; percent."""


def written(folder: Path, file: str, columns: str, rows: Mapping[str, tuple[object, ...]]) -> None:
    path = folder / "2024-12-29" / "score" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (",".join((model, *(f"{cell}%" for cell in cells))) for model, cells in rows.items())
    path.write_text("\n".join((f"Model,{columns}", *lines)), encoding="utf-8")


@pytest.fixture
def gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    benchmark = load_benchmark("published_gaps")
    monkeypatch.setattr(benchmark, "PAGE", tmp_path / "validity.md")
    monkeypatch.setattr(benchmark, "RESAMPLES", 100)
    (tmp_path / "predictions").mkdir()
    written(tmp_path, "data_live.csv", "Python Simple AST,Python Multiple AST,Irrelevance Detection", LIVE)
    return benchmark


def test_a_prediction_comes_without_the_scores_and_is_held_against_them(
    gaps: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps.main(["predict", str(tmp_path), "--size", "6"])
    made: dict[str, Any] = json.loads((file := Path(capsys.readouterr().out.strip())).read_text("utf-8"))
    assert made["digest"].startswith(file.stem)
    found = {name: model["predicted"] for name, model in made["models"].items()}
    assert found["able"]["native"] == 1 > found["able"]["text"]
    named = {key.lower().replace("-fc (", " ("): key for key in LIVE}
    marks = {"native": "fc", "text": "prompt"}
    right = {named[f"{name} ({marks[form]})"]: (100 * share,) for name in found for form, share in found[name].items()}
    score = ["score", str(tmp_path), "--prediction", str(file)]
    written(tmp_path, "data_multi_turn.csv", "Base", right)
    gaps.main(score)
    perfect = "| the scripted model | 1.000 [1.000, 1.000] | 0.000 [0.000, 0.000] | -"
    assert perfect in capsys.readouterr().out
    written(tmp_path, "data_multi_turn.csv", "Base", dict.fromkeys(right, ("N/A",)))
    with pytest.raises(ValueError, match="0 of the predicted models have published scores"):
        gaps.main(score)
    file.write_text(file.read_text("utf-8").replace(f'"native": {found["able"]["native"]}', '"native": 0.5'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"checksum"):
        gaps.main(score)
