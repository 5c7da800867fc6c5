"""One line of Python per question: the answer is that of the command, and it prints as its verdict."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest

import whichloop
from tests.docs.pages import output_of
from tests.prepared import said_by
from whichloop.datasets import arithmetic
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.gate import bless, write_baseline
from whichloop.loops import Bare, Finish
from whichloop.reports.dataframes import Loaded
from whichloop.reports.tracking import default_uri
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.text.doc import TEXT_WIDTH


@pytest.fixture
def quiet(tmp_path: Path) -> dict[str, Any]:
    """Settings of a small run that logs nowhere."""
    return {"runs": tmp_path / "runs", "mlflow": False, "tasks": 6}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    runs = tmp_path_factory.mktemp("runs")
    return whichloop.compare(["bare", Finish(parse_retries=0)], profiles=["flaky-format"], tasks=12, mlflow=False, runs=runs)


def test_names_and_objects_give_the_digest_of_the_command(pair: Loaded, tmp_path: Path) -> None:
    loops = ("bare", "finish(parse_retries=0)")
    config = CompareConfig(loops=loops, profiles=("flaky-format",), tasks=12, mlflow=False, runs=tmp_path)
    experiment = prepare(config)
    run(experiment, Unwatched())
    assert pair.results.digest == results(experiment.folder).digest
    assert (pair.results.folder / "report.html").is_file()


def test_a_comparison_prints_as_its_document(pair: Loaded, capsys: pytest.CaptureFixture[str]) -> None:
    assert repr(pair) == str(pair.doc)
    assert pair.verdict.decision is not None
    assert pair.verdict.decision.outcome in pair.doc.facts
    assert {row[0] for row in pair.doc.tables[0].texts} == {"bare", "finish(parse_retries=0)"}
    accuracy_pair = pair.pairs.iloc[0]
    assert (accuracy_pair["loop_a"], accuracy_pair["loop_b"], accuracy_pair["profile"]) == (
        "bare",
        "finish(parse_retries=0)",
        "flaky-format",
    )
    for fact in pair.doc.facts["Basis"]:
        assert fact in pair._repr_html_()


@pytest.mark.parametrize("names", [[], ["bare", "finish(parse_retries=0)"]])
def test_why_prints_in_python_as_the_command_prints_it(pair: Loaded, names: list[str]) -> None:
    arms = [word for name in names for word in ("--arm", name)]
    printed = output_of([["report", "--why", str(pair.results.folder), *arms]], pair.results.folder, TEXT_WIDTH)
    said = repr(pair.why(*names))
    assert said == repr(whichloop.why(pair, *names)) == printed.rstrip()
    assert printed.splitlines()[0] in pair.why(*names)._repr_html_()


def test_why_and_size_read_a_run(pair: Loaded) -> None:
    why = whichloop.why(pair, "bare", "finish(parse_retries=0)")
    assert repr(whichloop.why(pair.results.folder)) == repr(pair.why())
    assert why.finding.pairs == why.pairs
    causes, (only,) = why.causes, why.pairs
    assert list(causes.columns) == ["arm", "against", "cause", "trials", "lost", "solved_with", "solved", "p", "doubtful"]
    told = {arm: sum(by_cause.values()) for arm, by_cause in only.causes.items() if by_cause}
    assert causes[causes["against"].notna()].groupby("arm")["trials"].sum().to_dict() == told
    assert list(why.divergences["task"]) == [each.task for each in only.divergences]
    assert len(why.divergences) == sum(told.values()) > 0
    assert len(repr(only)) < 400
    lost = {arm.arm: sum(arm.causes.values()) for arm in why.arms if arm.causes}
    assert causes[causes["against"].isna()].groupby("arm")["trials"].sum().to_dict() == lost
    assert "Solved trials of two arms" in why._repr_html_()
    assert pair.why(task="arithmetic-0001").pairs[0].tasks <= 1
    size = whichloop.size(pair, purpose="compare")
    assert "compare ± 0.020" in repr(size)
    assert "Compare" in size.doc.facts
    assert "<table" in size._repr_html_()


def test_the_gate_judges_a_run_and_runs_again(pair: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert whichloop.bless(pair, path) == path
    again_path = whichloop.bless(pair.results.folder, str(tmp_path / "again.json"))
    first, second = (json.loads(each.read_text("utf-8")) for each in (path, again_path))
    of_its_time = {"created"}  # the seconds may have gone on
    assert {key: first[key] for key in first.keys() - of_its_time} == {key: second[key] for key in second.keys() - of_its_time}
    assert whichloop.gate(path, pair).finding.outcome == "pass"
    again = whichloop.gate(path, runs=tmp_path / "again")
    assert again.finding.outcome == "pass"
    assert repr(again).splitlines()[0] == "pass: identical"
    with pytest.raises(ValueError, match=r"seed, .* are for a new run"):
        whichloop.gate(path, pair, seed=3)
    path.write_text("{}", "utf-8")
    with pytest.raises(ValueError, match="not a baseline"):
        whichloop.bless(pair, path)
    assert path.read_text("utf-8") == "{}"


def test_a_run_is_found_by_its_name_in_the_folder_that_is_named(
    pair: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    b = whichloop.bless(pair, tmp_path / "b.json")
    by_name: dict[str, Callable[..., Any]] = {
        "why": whichloop.why,
        "load": whichloop.load,
        "size": whichloop.size,
        "gate": lambda name, **runs: whichloop.gate(b, name, **runs),
        "bless": lambda name, **runs: whichloop.bless(name, b, **runs),
        "resume": whichloop.resume,
    }
    name, runs = pair.results.folder.name, pair.results.folder.parent
    for question in by_name.values():
        assert question(name, runs=runs)
        with pytest.raises(ValueError, match=rf"^no run '{name}' in runs; known: none$"):
            question(name)
    with pytest.raises(ValueError, match=rf"^no run 'nosuch' in {runs}; known: {name}, latest$"):
        whichloop.size("nosuch", runs=runs)


def test_an_ablation_prints_the_effect_of_each_factor(quiet: dict[str, Any]) -> None:
    factors = {"parse_retries": [0, 2]}
    found = whichloop.compare([Finish()], profiles=["flaky-format"], vary=factors, **quiet)
    assert repr(found) == str(found.doc)
    assert "parse_retries: 0 → 2" in set(found.effects["term"])
    assert "Use" in found.doc.facts


def test_an_optimization_is_logged_as_by_the_command(quiet: dict[str, Any]) -> None:
    settings = quiet | {"tasks": 2, "train": 2, "dev": 2, "repeats": 1, "budget": {"calls": 60}, "mlflow": True}
    found = whichloop.optimize(["bare"], "LabeledFewShot(k=2)", profile="teachable", experiment="from-python", **settings)
    store = mlflow.MlflowClient(default_uri(quiet["runs"]))
    experiment = store.get_experiment_by_name("from-python")
    logged = store.search_runs([experiment.experiment_id])
    assert found.finding.folder.name in {run.data.tags["whichloop.run"] for run in logged}
    assert (found.finding.folder / "report.html").is_file()
    assert repr(found) == str(found.doc)
    assert [row[:2] for row in found.doc.tables[0].texts] == [["bare", each] for each in ("old", "again", "new")]


SCRIPT = """
import whichloop
from whichloop.experiments.gate import bless, write_baseline
from whichloop.loops import Bare, RepeatGuard

class Mine(Bare):
    pass

print(repr(whichloop.compare([Mine(max_steps=9)], tasks=3, profiles=["clean"], mlflow=False, runs={runs!r})).splitlines()[2])
for loop in (Mine, RepeatGuard(Mine())):
    try:
        whichloop.compare([loop], tasks=3, profiles=["clean"], mlflow=False, workers=2, runs={runs!r})
    except ValueError as error:
        print(error)
print(len(whichloop.resume("latest", runs={runs!r}, budget="9000calls").trials))
"""


@pytest.fixture(scope="module")
def of_script(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder `runs` of the script, and the lines that it prints."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT.format(runs=str(folder / "runs")))
    return folder / "runs", said_by(folder, {"PATH": os.defpath}, "script.py", quiet=True).splitlines()


def test_a_class_of_a_script_runs_and_goes_on_in_it_and_is_refused_by_workers(of_script: tuple[Path, list[str]]) -> None:
    first, second, third, trials = of_script[1]
    assert trials == "3"
    assert first.startswith("__main__:Mine(max_steps=9)  1.00 [")
    assert second.startswith("loops: Mine lives in this process alone, where worker processes cannot import it")
    assert third == second


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook's cell shows, one state after the other."""
    states: list[str] = []

    class Handle:
        def update(self, what: str) -> None:
            states.append(what)

    def display(what: Any, display_id: bool) -> Handle:
        assert display_id
        return Handle()

    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display, HTML=str)))
    return states


def test_a_notebook_shows_a_bar_that_ends_where_the_run_does(quiet: dict[str, Any], shown: list[str]) -> None:
    whichloop.compare(["bare"], profiles=["clean"], **quiet)
    assert "6/6" in shown[-1]
    assert shown[-1].startswith("<pre")
    shown.clear()
    whichloop.compare(["bare"], progress=False, profiles=["clean"], **quiet)
    assert not shown


class _Plain(Bare):
    def __init__(self, steps: int = 9) -> None:
        super().__init__(max_steps=steps)

    def with_step_limit(self, tool_steps: int) -> _Plain:
        return self


def test_an_object_is_the_same_arm_in_every_run(quiet: dict[str, Any], tmp_path: Path) -> None:
    loop, suite, quiet = _Plain(), arithmetic.load(6), quiet
    first, second = (whichloop.compare(["bare", loop], suite=suite, profiles=["clean"], **quiet) for _ in range(2))
    assert list(first.arms["arm"]) == list(second.arms["arm"])
    write_baseline(tmp_path / "baseline.json", bless(first.results))
    assert whichloop.gate(tmp_path / "baseline.json", second).finding.outcome == "pass"
    reasons = whichloop.why(first, Bare(), loop)
    assert [(one.a, one.b) for one in reasons.pairs] == [("bare/clean", first.arms["arm"][1])]


def test_profiles_and_optimizers_may_be_objects(quiet: dict[str, Any]) -> None:
    mine = whichloop.load_profile("flaky-format").model_copy(update={"name": "mine"})
    run = whichloop.compare(["bare"], profiles=[mine, whichloop.load_profile("clean")], **quiet)
    assert list(run.arms["profile"]) == ["mine", "clean"]

    class Nothing:
        def compile(self, student: Any, trainset: Any) -> Any:
            return student

    settings = quiet | {"tasks": 2, "train": 2, "dev": 2, "repeats": 1}
    found = whichloop.optimize(["bare"], Nothing, profile=whichloop.load_profile("teachable"), **settings)
    assert [design.design for design in found.finding.designs] == ["bare"]


def test_a_run_of_a_script_says_that_its_loop_cannot_be_loaded_again(of_script: tuple[Path, list[str]]) -> None:
    folder = next(of_script[0].glob("*/manifest.json")).parent
    for allowed in ((), ("__main__:Mine",)):
        with pytest.raises(ValueError, match="uses Mine, which was made in a session that has ended") as raised:
            reopen(folder, Permissions(allowed))
        assert "--allow" not in str(raised.value)
        assert "put it in a module" in str(raised.value)
