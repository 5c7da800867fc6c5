"""An optimization from Python: a metric that raises, its run by name and by object, and its programs in their loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whichloop
from whichloop.api.conclusion import OptimizeAnswer
from whichloop.protocol import program_digest
from whichloop.runs.folders import OPTIMIZED
from whichloop.runs.store.files import RunError

NOT_TESTED = "interrupted; incomplete: 0 of [0-9]+ trials of the test split"

SMALL: dict[str, Any] = {
    "profile": "teachable",
    "suite": "arithmetic(size=60)",
    "budget": "150calls",
    "train": 4,
    "dev": 4,
    "tasks": 4,
    "repeats": 1,
    "mlflow": False,
    "progress": False,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> OptimizeAnswer:
    runs = tmp_path_factory.mktemp("named") / "runs"
    return whichloop.optimize(["finish", "bare"], name="taught", runs=runs, **SMALL)


def optimizer(metric: Any) -> Any:
    import dspy

    return dspy.BootstrapFewShot(metric=metric)


def test_a_metric_that_raises_ends_the_search_with_its_error_and_its_place(tmp_path: Path) -> None:
    asked = []

    def rare(example: Any, prediction: Any, trace: Any = None) -> bool:
        asked.append(example)
        if len(asked) == 2:
            raise KeyError("unit")
        return bool(prediction.score >= 1)

    kept = optimizer(rare)
    with pytest.raises(RunError, match=r"^BootstrapFewShot: in the metric: KeyError: 'unit' at .*test_optimized\.py:\d+; "):
        whichloop.optimize(["finish"], kept, runs=tmp_path, **SMALL)
    assert len(asked) == 2
    assert kept.metric is rare


def test_its_run_is_loaded_by_its_name_and_as_an_object(found: OptimizeAnswer) -> None:
    named = whichloop.load("taught", found.finding.folder.parent)
    assert named.results.folder == whichloop.load(found).results.folder == found.finding.folder / "test"
    assert repr(whichloop.why(found)) == repr(whichloop.why(named))
    with pytest.raises(ValueError, match=r"run: give a text or a path, got 7"):
        whichloop.load(7)


def test_a_loop_of_its_test_has_the_optimized_program(found: OptimizeAnswer) -> None:
    run = whichloop.load(found)
    for design in found.finding.designs:
        assert design.ended is not None
        loop: Any = run.loop(f"{design.design}@{OPTIMIZED}")
        assert program_digest(loop.predictors) == design.ended.digest
        own: Any = run.loop(design.design)
        assert program_digest(own.predictors) == design.initial_digest
        assert type(own) is type(loop)
        assert ("program=<decide: " in repr(loop)) == (not design.is_unchanged)
        assert "program=" not in repr(own)


def test_a_comparison_names_the_file_and_the_call_that_reads_it(found: OptimizeAnswer, tmp_path: Path) -> None:
    file, other = (str(design.program) for design in found.finding.designs)
    run = whichloop.compare(
        [f"finish@{file}"], suite="arithmetic(size=6)", profiles=["clean"], mlflow=False, runs=tmp_path, progress=False
    )
    arm = f"finish@{OPTIMIZED}"
    with pytest.raises(RunError) as refused:
        run.loop(arm)
    call = f"run.loop({arm!r}, program={file!r})"
    assert str(refused.value).endswith(f"{arm}/clean: its prompts come from {file}: {call} reads them")
    loop: Any = eval(call)  # what the message says
    assert program_digest(loop.predictors) == found.finding.designs[0].ended.digest  # type: ignore[union-attr]
    for wrong, said in ((other, "bare"), (str(tmp_path / "missing.json"), "missing.json: no such file")):
        with pytest.raises(RunError, match=said):
            run.loop(arm, program=wrong)
    with pytest.raises(RunError, match="it ran with its own prompts; leave program out"):
        whichloop.load(found).loop("finish", program=file)


def test_an_optimization_that_is_resumed_from_python_ends_as_it_would_have(
    found: OptimizeAnswer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("whichloop.experiments.compare.run.run", lambda experiment, progress: "interrupted")
        with pytest.warns(whichloop.WhichloopWarning, match=rf"^{NOT_TESTED}; go on with whichloop resume "):
            cut = whichloop.optimize(["finish", "bare"], name="cut", runs=tmp_path, **SMALL)
    assert not cut.finding.is_complete
    whole = whichloop.resume("cut", runs=tmp_path, progress=False)
    assert isinstance(whole, OptimizeAnswer)
    assert whole.finding.digest == found.finding.digest
    assert repr(whichloop.resume(cut, progress=False)) == repr(whole)
    assert list(whole.designs.columns) == list(found.designs.columns)
    assert cut.designs["test.difference"].isna().all()


def test_ctrl_c_says_how_the_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("whichloop.experiments.optimize.rollouts.Rollouts._scored", pressed)
        with pytest.raises(KeyboardInterrupt, match=rf"^interrupted; go on with whichloop resume {tmp_path}/\S+$"):
            whichloop.optimize(["bare"], runs=tmp_path, **SMALL)
    whole = whichloop.resume("latest", runs=tmp_path, progress=False)
    assert isinstance(whole, OptimizeAnswer)
    assert whole.finding.is_complete


def test_its_designs_and_programs_are_tables_of_what_json_says(found: OptimizeAnswer) -> None:
    rows = found.finding.to_json()["designs"]
    assert found.designs["design"].tolist() == [row["design"] for row in rows] == ["finish", "bare"]
    assert found.designs["test.difference"].tolist() == [row["test"]["difference"]["value"] for row in rows]
    assert found.designs["cost.search.tokens"].tolist() == [row["cost"]["search"]["tokens"] for row in rows]
    programs = [row for design in rows for row in design["programs"]]
    assert found.programs["program"].tolist() == [row["program"] for row in programs]
    assert found.programs.groupby("design", sort=False)["kept"].sum().tolist() == [1, 1]
    assert (found.programs["dev_scored"] <= found.programs["dev_tasks"]).all()


def test_a_gain_is_the_same_in_the_answer_and_among_the_pairs_of_its_test(found: OptimizeAnswer) -> None:
    pairs = whichloop.load(found).pairs
    for design, row in found.designs.set_index("design").iterrows():
        pair = pairs[(pairs["metric"] == "accuracy") & (pairs["a"] == f"{design}/teachable")]
        (own,) = pair[pair["b"] == f"{design}@{OPTIMIZED}/teachable"].to_dict("records")
        assert (-own["difference_high"], -own["difference_low"]) == (row["test.difference_low"], row["test.difference_high"])


def test_a_comparison_is_resumed_from_python(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tasks": 6, "mlflow": False, "runs": tmp_path, "progress": False}
    with pytest.warns(whichloop.WhichloopWarning, match="trial"):
        cut = whichloop.compare(["bare"], budget={"calls": 3}, name="cut", profiles=["clean"], **settings)
    with pytest.raises(ValueError, match="no run 'cur'"):
        whichloop.resume("cur", runs=tmp_path)
    whole = whichloop.compare(["bare"], profiles=["clean"], **settings)
    assert len(cut.results.records) < len(whole.results.records) == 6
    with pytest.warns(whichloop.WhichloopWarning, match="trial"):  # its budget is used up
        again = whichloop.resume("cut", runs=tmp_path, progress=False)
    assert isinstance(again, whichloop.Loaded)
    assert len(again.results.records) == len(cut.results.records)
