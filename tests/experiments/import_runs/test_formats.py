"""A format is one file in `formats/`: nothing else has to know of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whichloop.experiments.import_runs import ImportRequest, import_files, known_formats
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.importing import FORMATS_PACKAGE
from whichloop.runs.store.trials import read_records

STARS = """
from whichloop.experiments.import_runs.foreign_trials import ForeignArm, ForeignLog, Format


def recognizes(file):
    return file.suffix == ".stars"


def read(file, reading):
    tasks = file.content().decode().split()
    log = ForeignLog("sky")
    for task in tasks:
        log.tell({}, ForeignArm("me"), task, 1)
    return log


FORMAT = Format("stars", recognizes, read)
"""


@pytest.fixture
def with_stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more file in the folder of formats."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "stars.py").write_text(STARS)
    package = importlib.import_module(FORMATS_PACKAGE)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    sys.modules.pop(f"{FORMATS_PACKAGE}.stars", None)


def test_the_formats_are_the_files_of_the_folder() -> None:
    ours = ["inspect", "pydantic-evals", "csv"]
    assert [name for name in known_formats() if name in ours] == ours


@pytest.mark.usefixtures("with_stars")
@pytest.mark.parametrize(("name", "format_"), [("night.stars", None), ("night.txt", "stars")])
def test_a_new_format_is_one_new_file(tmp_path: Path, name: str, format_: str | None) -> None:
    path = tmp_path / name
    path.write_text("vega deneb")
    folder = import_files([path], ImportRequest(format=format_), tmp_path / "run").folder
    assert [(record.arm, record.task, record.accuracy) for record in read_records(folder)] == [
        ("me", "vega", 1.0),
        ("me", "deneb", 1.0),
    ]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "night.stars"
    path.write_text("vega")
    with pytest.raises(ValueError, match=r"night\.stars: no format 'stars'; say what it is: --format [a-z|-]*inspect"):
        import_files([path], ImportRequest(format="stars"), tmp_path / "run")


MINIMAL = {
    "atif": ("a.json", '{"schema_version": "ATIF-v1.7", "agent": {}, "steps": []}'),
    "inspect": ("a.eval", ""),
    "pydantic-evals": ("a.json", '{"cases": []}'),
    "csv": ("a.csv", ""),
    "tau-bench": ("a.json", '[{"task_id": 1, "reward": 0, "traj": [], "trial": 0}]'),
    "tau2": ("a.json", '{"info": {}, "simulations": []}'),
    "smolagents": ("a.json", '[{"task": "x"}]'),
    "otlp": ("a.jsonl", '{"resourceSpans": []}'),
    "promptfoo": ("a.json", '{"results": {"results": [{"success": true, "provider": {}, "prompt": {}}]}}'),
    "mlflow": ("a.jsonl", '{"info": {}, "data": {}}'),
    "langsmith": ("a.jsonl", '{"id": "1", "run_type": "llm"}'),
    "harbor": ("job/trial/result.json", "{}"),
    "terminal-bench": ("job/trial/results.json", "{}"),
}
"""Format → a file, or a file in a folder, that it recognizes."""


@pytest.mark.parametrize("name", MINIMAL)
def test_each_format_recognizes_its_own_first(tmp_path: Path, name: str) -> None:
    place, text = MINIMAL[name]
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with open_file(tmp_path / Path(place).parts[0]) as file:
        found = [one.name for one in known_formats().values() if one.recognizes(file)]
        assert [one for one in found if one != "csv" or name == "csv"] == [name]


def test_every_format_has_such_a_file() -> None:
    assert set(MINIMAL) == set(known_formats())
