"""benchmarks/published_gaps.py, on files that were made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .benchmarks import load_benchmark

ABLE = {"Able (FC)": (100, 100, 100), "Able (Prompt)": (50, 50, 90)}
BRISK = {"Brisk-FC (FC)": (60, 60, 80), "brisk (Prompt)": (90, 90, 80)}
CALM = {"Calm (FC)": (80, 90, 5), "Calm (Prompt)": (80, 90, 5)}
LIVE = ABLE | BRISK | CALM | {"Alone (FC)": (70, 70, 70)}
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


def test_a_profile_has_what_the_file_says(gaps: ModuleType, tmp_path: Path) -> None:
    pairs = gaps.read_pairs(tmp_path, "data_live.csv")
    assert list(pairs) == ["able", "brisk", "calm"]
    native, rates = (gaps.fitted("calm", form, cells).rates for form, cells in pairs["calm"].items())
    assert gaps.UNSEEN not in native
    assert sum(rates.values()) == pytest.approx(1), "calls where none fits are cut to what is left"
    wrong = 1 - (258 * 0.8 + 1053 * 0.9) / 1311
    assert rates["wire.malformed"] == pytest.approx(wrong / 9, abs=1e-3), "0.007 of 0.063, as the median model"


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
    written(tmp_path, "data_multi_turn.csv", "Base", right)
    gaps.main(["score", str(tmp_path), "--prediction", str(file)])
    assert "| the scripted model | 1.000 [1.000, 1.000] | 0.000 [0.000, 0.000] | -" in capsys.readouterr().out, (
        "a perfect prediction"
    )
    written(tmp_path, "data_multi_turn.csv", "Base", dict.fromkeys(right, ("N/A",)))
    with pytest.raises(SystemExit, match="0 of the predicted models have published scores"):
        gaps.main(["score", str(tmp_path), "--prediction", str(file)])
    file.write_text(file.read_text("utf-8").replace(f'"native": {found["able"]["native"]}', '"native": 0.5'), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"checksum"):
        gaps.main(["score", str(tmp_path), "--prediction", str(file)])


def test_every_cell_of_the_tables_is_right(gaps: ModuleType) -> None:
    models, published = dict[str, Any](), dict[str, Any]()
    for name, single, predicted, native in zip("abc", (0.8, 0.9, 1), (0.3, 0.7, 0.5), (20, 40, 60), strict=True):
        models[name] = {"native": {"single turn": single}, "text": {"single turn": 0.7}}
        models[name] |= {"predicted": {"native": predicted, "text": 0.4}}
        published[name] = {form: {"Model": name, "Base": f"{base}%"} for form, base in (("native", native), ("text", 30))}
    lines = [line.split(" | ") for line in gaps.tables({"models": models}, published)]
    cells = {first: [cell.partition(" [")[0] for cell in rest] for first, *rest in lines}
    assert cells["| the scripted model"] == ["0.500", "0.133", "-0.067", "3 of 3 |"], "errors 0, .2, .2; the constant's .3, 0, .3"
    assert cells["| the single-turn gap itself"] == ["1.000", "0.100", "-0.100", "2 of 3 |"]
    assert cells["| `c`"] == ["+0.100", "+0.300 |"]
