"""benchmarks/published_gaps.py, on files that were made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .benchmarks import load_benchmark

LIVE = {  # model → simple, multiple, irrelevance
    "Able (FC)": (100, 100, 100),
    "Able (Prompt)": (50, 50, 90),
    "Brisk-FC (FC)": (60, 60, 80),
    "brisk (Prompt)": (90, 90, 80),
    "Calm (FC)": (80, 90, 5),
    "Calm (Prompt)": (80, 90, 5),
    "Alone (FC)": (70, 70, 70),
}


def written(folder: Path, file: str, columns: str, rows: Mapping[str, tuple[object, ...]]) -> None:
    path = folder / "2024-12-29" / "score" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join((model, *(f"{cell}%" for cell in cells))) for model, cells in rows.items()]
    path.write_text("\n".join((f"Model,{columns}", *lines)), encoding="utf-8")


@pytest.fixture
def gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    benchmark = load_benchmark("published_gaps")
    monkeypatch.setattr(benchmark, "PAGE", tmp_path / "docs" / "validity.md")
    (tmp_path / "docs" / "predictions").mkdir(parents=True)
    written(tmp_path, "data_live.csv", "Python Simple AST,Python Multiple AST,Irrelevance Detection", LIVE)
    return benchmark


def test_a_profile_has_what_the_file_says(gaps: ModuleType, tmp_path: Path) -> None:
    pairs = gaps.read_pairs(tmp_path, "data_live.csv")
    assert list(pairs) == ["able", "brisk", "calm"]
    assert gaps.fitted("able", "native", pairs["able"]["native"]).rates.keys() >= {"decision.no_tool", "decision.never_finish"}
    rates = gaps.fitted("calm", "text", pairs["calm"]["text"]).rates
    wrong = 1 - (258 * 0.8 + 1053 * 0.9) / 1311
    assert sum(rates.values()) == pytest.approx(1), "calls where none fits are cut to what is left"
    assert rates["decision.never_finish"] == pytest.approx(1 - wrong, abs=1e-3)
    assert rates["wire.malformed"] == pytest.approx(wrong / 9, abs=1e-3), "0.007 of 0.063, as the median model"


def test_a_prediction_comes_without_the_scores_and_is_held_against_them(
    gaps: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gaps.main(["predict", str(tmp_path), "--size", "12"])
    file = Path(capsys.readouterr().out.strip())
    made: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert made["digest"].startswith(file.stem)
    found = {name: model["predicted"] for name, model in made["models"].items()}
    assert found["able"]["native"] == 1 > found["able"]["text"]
    assert found["brisk"]["native"] < found["brisk"]["text"]

    named = {key.lower().replace("-fc (", " ("): key for key in LIVE}
    marks = {"native": "fc", "text": "prompt"}
    right = {named[f"{name} ({marks[form]})"]: (100 * share,) for name in found for form, share in found[name].items()}
    written(tmp_path, "data_multi_turn.csv", "Base", right)
    gaps.main(["score", str(tmp_path), "--prediction", str(file)])
    assert "| the tunnel | 1.000 [1.000, 1.000] | 0.000 [0.000, 0.000] | -" in capsys.readouterr().out, "a perfect prediction"

    written(tmp_path, "data_multi_turn.csv", "Base", dict.fromkeys(right, ("N/A",)))
    with pytest.raises(SystemExit, match="0 of the predicted models have published scores"):
        gaps.main(["score", str(tmp_path), "--prediction", str(file)])
    file.write_text(file.read_text("utf-8").replace(f'"native": {found["able"]["native"]}', '"native": 0.5'), encoding="utf-8")
    with pytest.raises((SystemExit, ValueError), match=r"changed|checksum"):
        gaps.main(["score", str(tmp_path), "--prediction", str(file)])


def test_every_cell_of_the_tables_is_right(gaps: ModuleType) -> None:
    models: dict[str, Any] = {}
    published: dict[str, Any] = {}
    for name, single, predicted, native in zip("abc", (0.8, 0.9, 1), (0.3, 0.7, 0.5), (20, 40, 60), strict=True):
        models[name] = {"native": {"single turn": single}, "text": {"single turn": 0.7}}
        models[name] |= {"predicted": {"native": predicted, "text": 0.4}}
        published[name] = {form: {"Model": name, "Base": f"{base}%"} for form, base in (("native", native), ("text", 30))}
    lines = [line.split(" | ") for line in gaps.tables({"models": models}, published)]
    cells = {first: [cell.partition(" [")[0] for cell in rest] for first, *rest in lines}
    assert cells["| the tunnel"] == ["0.500", "0.133", "-0.067", "3 of 3 |"], "errors 0, .2, .2; the constant's .3, 0, .3"
    assert cells["| the single-turn gap itself"] == ["1.000", "0.100", "-0.100", "2 of 3 |"]
    assert cells["| no gap"][1:3] == ["0.167", "-0.033"]
    assert cells["| `c`"] == ["1.000, 0.700", "0.500, 0.400", "0.600, 0.300", "+0.100", "+0.300 |"]
