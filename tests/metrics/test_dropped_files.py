"""A scorer and a measure are one file each: dropped into its folder, it is found by its name, and no other file changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import here, whichloop
from tests.prepared import ran_in_fork
from whichloop.datasets.task import Task
from whichloop.metrics import measure, scoring, summary
from whichloop.metrics.judgement import Judgement
from whichloop.metrics.record import Record
from whichloop.metrics.scorers import reads_state, scorer_named, scorer_names
from whichloop.metrics.summary import METRICS, summarize
from whichloop.protocol import Query

__all__ = ["here", "whichloop"]

ANEW = """
import sys

for name in [name for name in sys.modules if name.partition(".")[0] == "whichloop"]:
    del sys.modules[name]
"""
"""The package is imported once more, and not what it imports, which takes longer."""
REPLIES = """
'''Replies of the model.'''

from whichloop.metrics.measure import Measure

MEASURE = Measure(lambda record: sum(record.calls.values()), order=50, label="replies")
"""
GATED = """
import sys
from pathlib import Path

import whichloop.metrics.measures

whichloop.metrics.measures.__path__.append(sys.argv[1])

import whichloop
from whichloop.experiments.gate import bless, read_run, write_baseline

folder = Path(sys.argv[2])
settings = {"tasks": 2, "runs": folder / "runs", "mlflow": False, "progress": False}
run = whichloop.compare(["bare"], **settings)
print(*[name for name in run.results.comparison.arms[0].summary.means if name == "replies"])
write_baseline(folder / "baseline.json", bless(read_run(run.results.folder)))
print(whichloop.gate(folder / "baseline.json", run, metrics={"replies": 0.1}).finding.outcome)
"""

Drop = Callable[[str, str, str], None]

HALF = """
'''Half for any answer.'''

READS_STATE = {reads_state}


def SCORER(value: float = 0.5):
    return lambda judgement: value
"""
REPEATED = """
'''Tool calls that were made before.'''

from whichloop.metrics.measure import Measure

MEASURE = Measure(lambda record: record.repeated_calls, order={order}, digits=1, label="repeated")
"""


@pytest.fixture
def drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drop:
    """Write a module that stands in a package for this test, as if its file lay in the package's folder."""

    def dropped(package: str, name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        found = import_module(package)
        monkeypatch.setattr(found, "__path__", [*found.__path__, str(tmp_path)])
        monkeypatch.setattr(found, name, None, raising=False)  # undone behind the import, which sets it
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
        monkeypatch.setitem(sys.modules, f"{package}.{name}", import_module(f"{package}.{name}"))

    return dropped


@pytest.fixture(autouse=True)
def forget_scorers() -> None:
    scoring._with_options.cache_clear()
    scoring._reads_state.cache_clear()


def judged(spec: str) -> float:
    return scorer_named(spec)(Judgement(Task("t", Query("?"), "x"), "y", "finished"))


def test_a_scorer_is_one_file(drop: Drop) -> None:
    before = scorer_names()
    drop(scoring.SCORERS, "half_right", HALF.format(reads_state=False))
    assert scorer_names() == tuple(sorted([*before, "half_right"]))
    assert judged("half_right") == 0.5
    assert judged("half_right(value=0.25)") == 0.25
    assert not reads_state("half_right")
    with pytest.raises(ValueError, match=r"did you mean 'value'\? known: value"):
        scorer_named("half_right(valeu=1)")
    with pytest.raises(ValueError, match=r"did you mean 'half_right'\? known: bfcl, "):
        scorer_named("half_rigth")


def test_a_file_without_a_scorer_is_named(drop: Drop) -> None:
    drop(scoring.SCORERS, "half_right", "SCORER = 0.5")
    said = r"half_right\.py: SCORER must be a function of the options that returns the scorer; it is of the type float$"
    with pytest.raises(ValueError, match=said):
        scorer_named("half_right")


def test_a_scorer_says_that_it_reads_the_end_state(drop: Drop) -> None:
    drop(scoring.SCORERS, "half_right", HALF.format(reads_state=True))
    assert reads_state("half_right(value=1)")
    assert reads_state("package.module:of_ones_own")
    assert {name for name in scorer_names() if reads_state(name)} == {"bfcl", "half_right"}


@pytest.mark.parametrize("order", [-1, 1.5, 99, 1e6])
def test_a_measure_is_one_file(drop: Drop, monkeypatch: pytest.MonkeyPatch, order: float) -> None:
    drop(measure.MEASURES, "calls_made_before", REPEATED.format(order=order))
    found = measure.measures()
    assert list(found).index("calls_made_before") == sum(each.order < order for each in METRICS.values())
    assert [name for name in found if name != "calls_made_before"] == list(METRICS)
    assert (found["calls_made_before"].label, found["calls_made_before"].digits) == ("repeated", 1)
    monkeypatch.setattr(summary, "METRICS", found)
    known, unknown = (record(repeated_calls=4, unknown=names) for names in ((), ("calls_made_before",)))
    mean = summarize([known]).means["calls_made_before"]
    assert mean is not None
    assert mean.value == 4
    assert summarize([unknown]).means["calls_made_before"] is None


def record(repeated_calls: int, unknown: tuple[str, ...]) -> Record:
    return Record("a", "s", "d", "t1", 0, 0, "scored", repeated_calls=repeated_calls, unknown=unknown)


def test_measures_stand_in_tables_as_ever_and_money_last() -> None:
    ours = ["accuracy", "steps", "lm_calls", "tokens", "cost_usd", "nominal_usd", "seconds"]
    assert [name for name in METRICS if name in ours] == ours
    columns = [found.label for name, found in measure.in_table_order(METRICS).items() if name in ours]
    assert columns == ["accuracy", "steps", "LM calls", "tokens", "seconds", "USD with cache", "USD uncached"]


DROPPED = """
import sys
from importlib import import_module

package, folder, *sys.argv = sys.argv[1:]
found = import_module(package)
found.__path__ = [*found.__path__, folder]

from whichloop.cli.main import main

main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "said", "command"),
    [
        pytest.param(
            "def MEASURE(record): ...", "MEASURE must be a Measure, such as Measure(", ["list", "metrics"], marks=pytest.mark.slow
        ),
        ("MEASURES = ()", "MEASURE is missing; it must be a Measure, such as", ["compare", "--tasks", "2"]),
    ],
)
def test_a_dropped_file_without_a_measure_is_one_line(tmp_path: Path, code: str, said: str, command: list[str]) -> None:
    """Measures are read when the package is imported, which takes a process of its own."""
    (tmp_path / "wrong_file.py").write_text(f"{code}\n")
    python = [sys.executable, "-c", DROPPED, measure.MEASURES, str(tmp_path), "whichloop"]
    ended = subprocess.run([*python, *command], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    check_one_line(ended.returncode, ended.stderr, tmp_path, said)


def check_one_line(code: int, errors: str, folder: Path, said: str) -> None:
    assert errors.startswith("error: ")
    assert f" {folder / 'wrong_file.py'}: {said}" in errors
    assert errors.count("\n") == 1
    assert code == 2


@pytest.mark.parametrize(
    ("package", "code", "said", "command"),
    [
        (
            "whichloop.loops",
            "LOOP = 7",
            "LOOP must be a class, whose fields are the loop's options",
            ["check", "loop", "wrong_file"],
        ),
        ("whichloop.datasets", "SUITE = 7", "SUITE must be a function that returns", ["compare", "--suite", "wrong_file"]),
        ("whichloop.experiments.import_runs.formats", "FORMAT = 7", "FORMAT must be a Format", ["import", "wrong_file.py"]),
    ],
)
def test_a_dropped_file_without_what_its_folder_asks_for_is_one_line(
    here: Path, whichloop: Any, monkeypatch: pytest.MonkeyPatch, package: str, code: str, said: str, command: list[str]
) -> None:
    (here / "wrong_file.py").write_text(f"{code}\n")
    found = import_module(package)
    monkeypatch.setattr(found, "__path__", [*found.__path__, str(here)])
    monkeypatch.setattr(found, "wrong_file", None, raising=False)  # undone behind the import, which sets it
    ended = whichloop(*command)
    check_one_line(ended.code, ended.err, here, said)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(unknown_name)", "2: NameError: name 'unknown_name' is not defined"),
        ("from .nowhere import TOOLS", "2: ModuleNotFoundError: No module named 'whichloop.datasets.nowhere'"),
        ("from whichloop.datasets.generating import nothing_there", "2: ImportError: cannot import name 'nothing_there'"),
    ],
)
def test_a_dropped_file_that_fails_is_one_line_with_its_own_line(
    here: Path, whichloop: Any, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    (here / "wrong_file.py").write_text(f"# a suite\n{code}\nSUITE = load = None\n")
    found = import_module("whichloop.datasets")
    monkeypatch.setattr(found, "__path__", [*found.__path__, str(here)])
    ended = whichloop("compare", "--suite", "wrong_file")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"{here / 'wrong_file.py'}:{said}" in ended.err


@pytest.mark.thorough
def test_a_dropped_measure_is_compared_blessed_and_gated(tmp_path: Path) -> None:
    folder = tmp_path / "measures"
    folder.mkdir()
    (folder / "replies.py").write_text(REPLIES)
    ended = ran_in_fork(f"{ANEW}\n{GATED}", tmp_path, str(folder), str(tmp_path))
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["replies", "identical"]
    assert '"replies": [' in (tmp_path / "baseline.json").read_text()


def test_naming_a_scorer_imports_no_other() -> None:
    code = (
        "import sys; from whichloop.metrics.scorers import scorer_named, scorer_names; scorer_names(); scorer_named('exact'); "
        "print(*sorted(name for name in sys.modules if name.startswith('whichloop.metrics.scorers.')), 'jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "whichloop.metrics.scorers.exact False\n"
