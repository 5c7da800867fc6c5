"""`whichloop.import_results`: files, frames and rows give the run of the command; why agents of tables lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import whichloop
from tests.docs.pages import output_of
from whichloop.api.carry_out import WhichloopWarning
from whichloop.reports.dataframes import Loaded
from whichloop.reports.why_shown import ShownWhy
from whichloop.runs.store.files import RunError
from whichloop.text.doc import Lines

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


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda frame: ASK.import_results(3), "^files: give a path, a DataFrame, .*; got 3$"),
        (lambda frame: ASK.import_results([{"q": 1}, 3]), "^rows: row 2: give a dict .*; got 3$"),
        (lambda frame: ASK.import_results(frame.rename(columns={"q": 1})), "^DataFrame: a column is called 1"),
        (
            lambda frame: ASK.import_results(frame, map={"taks": "q"}),
            r"^--map 'taks': no such meaning; the meanings are arm, task, ",
        ),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="right", replace=True), "^--replace: say which run, --name NAME$"),
        (
            lambda frame: ASK.import_results(frame),
            r"no column of the task.* no column of the score.*: --map task=COLUMN,score=COLUMN$",
        ),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="rihgt"), "^DataFrame: --scorer: no column 'rihgt'"),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="cost"), r"row 10: the score 1.125 .*--scale WORST,BEST$"),
        (lambda frame: ASK.import_results(frame, mpa=MAP), "^mpa: Unexpected keyword argument"),
        (lambda frame: imported(frame, margin=3), "^--margin is not between 0 and 1: 3$"),
        (lambda frame: ASK.load(frame), "^run: give a text or a path, .*whichloop.import_results reads"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_run(frame: pd.DataFrame, ask: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((ValueError, OSError), match=said) as caught:
        ask(frame)
    assert "\n" not in str(caught.value)
    assert not Path("runs").exists()


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


ENDS = ("ToolError: db down", "", "", "max_steps", "finished")
"""How the trials of agent x were lost, by task: an error's text, nothing, or a stop."""


def table_rows(*, tells_ends: bool = True) -> list[dict[str, object]]:
    lost = [(end if tells_ends else "") for end in ENDS]
    made: list[dict[str, object]] = [
        {"agent": "x", "task": f"t{place}", "score": 0, "error": end if ":" in end else "", "stop": "" if ":" in end else end}
        for place, end in enumerate(lost)
    ]
    made += [{"agent": "x", "task": f"t{place}", "score": None, "error": "429", "stop": ""} for place in (5, 6)]
    return made + [
        {"agent": "y", "task": f"t{place}", "score": int(place > 0), "error": "", "stop": "finished"} for place in range(7)
    ]


def imported_table(table: list[dict[str, object]]) -> Loaded:
    with pytest.warns(WhichloopWarning, match="left out: 2 of 14 trials"):
        return whichloop.import_results(table)


@pytest.fixture
def of_table() -> Loaded:
    return imported_table(table_rows())


def test_lost_trials_are_counted_by_how_they_ended_and_errored_ones_by_their_reason(of_table: Loaded) -> None:
    x, y = of_table.why().arms
    assert dict(x.ended) == {"ToolError: db down": 1, "": 2, "max_steps": 1, "finished": 1}
    assert sum(x.ended.values()) == x.lost == 5
    assert (dict(x.errored), dict(y.errored), dict(y.ended)) == ({"429": 2}, {}, {"finished": 1})
    told = json.loads(json.dumps(x.to_json()))
    assert (told["ended"], told["errored"]) == (dict(x.ended), {"429": 2})


def lines_of(said: ShownWhy) -> dict[str, list[str]]:
    """Return the texts of the answer's lines by their labels."""
    lines: dict[str, list[str]] = {}
    for block in said.doc.blocks:
        for label, text in block.items if isinstance(block, Lines) else ():
            lines.setdefault(label, []).append(text)
    return lines


def test_what_no_trace_shows_is_said_to_be_unknown(of_table: Loaded) -> None:
    said = lines_of(of_table.why())
    assert said["Untraced"] == ["6 lost trials: the step is not known"]
    assert said["Ended"] == ["x: 2 × –; 1 × ToolError: db down; 1 × finished; 1 × max_steps", "y: 1 × finished"]
    assert said["Errored"] == ["x: 2 (2 × 429)"]
    assert said["Import"]
    kinds = dict(of_table.why().tasks.groupby("task")["kinds"].first())
    assert kinds == {"t0": "unsolved"} | dict.fromkeys(("t1", "t2", "t3", "t4"), "solved by one arm")
    assert "unsolved (expected answer?)" in repr(of_table.why())
