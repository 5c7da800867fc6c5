"""`whichloop.import_results`: files, DataFrames and rows give the run that the command makes, and mistakes name the setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import whichloop
from tests.docs.pages import output_of
from whichloop.reports.dataframes import Loaded
from whichloop.runs.store.files import RunError

MAP = {"arm": "who", "task": "q"}
ASK: Any = whichloop
"""The same module, whose arguments no type checker checks."""
ROWS = [{"who": who, "q": f"q{n}", "right": int(n % 3 > skill), "cost": n / 8} for skill, who in enumerate("xy") for n in range(12)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(files: Any, **settings: Any) -> Loaded:
    return whichloop.import_results(files, map=MAP, scorer="right", **settings)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS)


def test_frames_rows_and_the_files_that_pandas_writes_are_one_run(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv("index.csv")
    frame.to_csv("plain.csv", index=False)
    frame.to_json("array.json", orient="records")
    frame.to_json("lines.jsonl", orient="records", lines=True)
    frame.to_parquet("table.parquet")
    first = imported(frame)
    sources = ["index.csv", "plain.csv", Path("array.json"), "lines.jsonl", "table.parquet", ROWS, frame.set_index("q")]
    for source in sources:
        found = imported(source)
        assert found.results.digest == first.results.digest
        assert found.results.manifest.suite.digest == first.results.manifest.suite.digest
    assert whichloop.load(first.results.folder.name).results.digest == first.results.digest
    output_of([["import", "index.csv", "--map", "arm=who,task=q", "--scorer", "right", "--name", "typed"]], tmp_path)
    assert whichloop.load("typed").results.digest == first.results.digest


def test_several_frames_are_several_arms_and_names_are_theirs(frame: pd.DataFrame) -> None:
    parts = [part.drop(columns="who") for _, part in frame.groupby("who")]
    apart = whichloop.import_results(parts, map={"task": "q"}, scorer="right", arm=["x", "y"], name="apart")
    assert apart.results.digest == imported(frame).results.digest
    unnamed = whichloop.import_results(parts, map={"task": "q"}, scorer="right")
    assert list(unnamed.arms["arm"]) == ["DataFrame 1", "DataFrame 2"]
    repeats = whichloop.import_results([parts[0], parts[0]], map={"task": "q"}, scorer="right", arm=["x", "x"])
    assert repeats.results.manifest.settings.repeats == 2


def test_gaps_and_other_types_of_a_frame_are_read_as_the_file_has_them(frame: pd.DataFrame) -> None:
    gaps = frame.assign(right=frame["right"].astype("Int64").mask(frame.index == 3), when=pd.Timestamp("2026-03-01"))
    gaps.to_csv("gaps.csv")
    with pytest.warns(UserWarning, match="left out") as told:
        found = imported(gaps)
    with pytest.warns(UserWarning, match="left out") as of_file:
        assert imported("gaps.csv").results.digest == found.results.digest
    blank = "left out: 1 of 24 trials, errored: the score is blank"
    assert [str(each.message) for each in (*told, *of_file)] == [blank, blank]
    assert {each.filename for each in told} == {__file__}
    assert found.trials["accuracy"].isna().sum() == 1


def test_a_scale_may_be_two_numbers(frame: pd.DataFrame) -> None:
    percent = frame.assign(right=100 * frame["right"])
    assert imported(percent, scale=(0, 100)).arms["accuracy"].equals(imported(frame).arms["accuracy"])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda frame: ASK.import_results(3), "^files: give a path, a DataFrame, .*; got 3$"),
        (lambda frame: ASK.import_results([]), "^files: give a path"),
        (lambda frame: ASK.import_results([frame, 3]), "^files: give a path.*; got 3$"),
        (lambda frame: ASK.import_results([{"q": 1}, 3]), "^rows: row 2: give a dict .*; got 3$"),
        (lambda frame: ASK.import_results(frame.rename(columns={"q": 1})), "^DataFrame: a column is called 1"),
        (lambda frame: ASK.import_results("none.csv"), r"No such file or directory: .none\.csv.$"),
        (
            lambda frame: ASK.import_results(frame, map={"taks": "q"}),
            r"^--map 'taks': no such meaning; the meanings are arm, task, ",
        ),
        (lambda frame: ASK.import_results(frame, map={"agnt": "who"}), r"^--map 'agnt': no such meaning; the meanings are "),
        (
            lambda frame: ASK.import_results(frame, map={"agent": "who", "arm": "q"}),
            r"^--map arm: it is mapped twice, as arm$",
        ),
        (
            lambda frame: ASK.import_results(frame, map=MAP, scorer="right", replace=True),
            "^--replace: say which run, --name NAME$",
        ),
        (lambda frame: ASK.import_results(frame, replace=5), "^replace: Input should be a valid boolean.*, got 5$"),
        (lambda frame: ASK.import_results(frame, map={"task": 3}), "^map.task: Input should be a valid string, got 3$"),
        (
            lambda frame: ASK.import_results(frame),
            r"no column of the task.* no column of the score.*: --map task=COLUMN,score=COLUMN$",
        ),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="rihgt"), "^DataFrame: --scorer: no column 'rihgt'"),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="cost"), r"row 10: the score 1.125 .*--scale WORST,BEST$"),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer=len), "^scorer: Input should be a valid string"),
        (lambda frame: ASK.import_results(frame, scale=5), "^scale.*: Input should be a valid string, got 5"),
        (lambda frame: ASK.import_results(frame, mpa=MAP), "^mpa: Unexpected keyword argument"),
        (lambda frame: ASK.import_results(frame, max_left_out=1), "^max_left_out: Unexpected keyword argument"),
        (lambda frame: imported(frame, margin=3), "^--margin is not between 0 and 1: 3$"),
        (lambda frame: imported([frame, __file__], format="stars"), r"no format 'stars'; say what it is: --format atif\|"),
        (lambda frame: ASK.load(frame), "^run: give a text or a path, .*whichloop.import_results reads"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_run(frame: pd.DataFrame, ask: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((ValueError, OSError), match=said) as caught:
        ask(frame)
    assert "\n" not in str(caught.value)
    assert not Path("runs").exists()


def test_rows_of_a_frame_without_a_task_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"^DataFrame: row 25: the task is empty$"):
        imported(pd.concat([frame, frame.tail(2).assign(q=float("nan"))]))


def test_a_file_that_is_loaded_as_a_run_is_told_apart(frame: pd.DataFrame) -> None:
    frame.to_csv("results.csv")
    with pytest.raises(RunError, match=r"results\.csv is a file, not a run; whichloop\.import_results\('results\.csv'\)"):
        whichloop.load("results.csv")


def test_errors_of_the_agents_own_are_advised_on_in_words(frame: pd.DataFrame) -> None:
    failed = frame.assign(right=frame["right"].astype("Int64").mask(frame.index < 2), error=["timeout"] * 2 + [""] * 22)
    with pytest.warns(whichloop.WhichloopWarning, match="left out: 2 of 24 trials, errored: timeout"):
        run = imported(failed)
    with pytest.raises(RunError, match=r"x: 16\.7% of its trials errored, more than 2% .*; nothing was blessed"):
        whichloop.bless(run, "base.json")
    whichloop.bless(imported(failed, errors_as_failures=True), "base.json")
    with pytest.warns(whichloop.WhichloopWarning, match="left out: 2 of 24 trials, errored: the score is blank"):
        blank = imported(failed.drop(columns="error"), errors_as_failures=True)
    with pytest.raises(RunError, match="of its trials errored"):
        whichloop.bless(blank, "blank.json")
    whole = imported(failed.drop(columns="error").fillna({"right": 0}))
    whichloop.bless(whole, "blank.json")


def test_a_printed_run_says_which_column_was_read_as_what(frame: pd.DataFrame) -> None:
    said = "q → task, right → score, cost → cost_usd"
    found = imported(frame, name="printed")
    assert found.doc.facts["Read"] == [f"DataFrame: who → arm, {said}"]
    assert said in found._repr_html_()
    assert ".loop(name)" not in found._repr_html_()
    assert whichloop.load("printed").doc.facts["Read"] == [f"DataFrame: who → arm, {said}"]
    parts = [part.drop(columns="who") for _, part in frame.groupby("who")]
    apart = whichloop.import_results(parts, map={"task": "q"}, scorer="right")
    assert apart.doc.facts["Read"] == [f"DataFrame 1, DataFrame 2: {said}"]
