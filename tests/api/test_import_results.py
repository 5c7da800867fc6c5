"""`whichloop.import_results`: files, frames and rows give the run of the command, and every answer's numbers are DataFrames."""

from __future__ import annotations

import json
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
    assert "known.cost_usd" in first.arms  # what its source tells, and most do not
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
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="right", replace=True), "^--replace: say which run, --name NAME$"),
        (
            lambda frame: ASK.import_results(frame),
            r"no column of the task.* no column of the score.*: --map task=COLUMN,score=COLUMN$",
        ),
        (lambda frame: ASK.import_results(frame, map=MAP, scorer="cost"), r"row 10: the score 1.125 .*--scale WORST,BEST$"),
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


def test_a_printed_run_says_which_column_was_read_as_what(frame: pd.DataFrame) -> None:
    said = "q → task, right → score, cost → cost_usd"
    found = imported(frame, name="printed")
    assert found.doc.facts["Read"] == [f"DataFrame: who → arm, {said}"]
    assert said in found._repr_html_()
    assert ".loop(name)" not in found._repr_html_()
    assert whichloop.load("printed").doc.facts["Read"] == [f"DataFrame: who → arm, {said}"]


ENDS = ("ToolError: db down", "", "", "max_steps", "finished")
"""How the trials of agent x were lost, by task: an error's text, nothing, or a stop."""


def table_rows() -> list[dict[str, object]]:
    made: list[dict[str, object]] = [
        {"agent": "x", "task": f"t{place}", "score": 0, "error": end if ":" in end else "", "stop": "" if ":" in end else end}
        for place, end in enumerate(ENDS)
    ]
    made += [{"agent": "x", "task": f"t{place}", "score": None, "error": "429", "stop": ""} for place in (5, 6)]
    return made + [
        {"agent": "y", "task": f"t{place}", "score": int(place > 0), "error": "", "stop": "finished"} for place in range(7)
    ]


@pytest.fixture
def of_table() -> Loaded:
    with pytest.warns(whichloop.WhichloopWarning, match="left out: 2 of 14 trials"):
        return whichloop.import_results(table_rows())


def test_lost_trials_are_counted_by_how_they_ended_and_errored_ones_by_their_reason(of_table: Loaded) -> None:
    x, y = of_table.why().arms
    assert dict(x.ended) == {"ToolError: db down": 1, "": 2, "max_steps": 1, "finished": 1}
    assert sum(x.ended.values()) == x.lost == 5
    assert (dict(x.errored), dict(y.errored), dict(y.ended)) == ({"429": 2}, {}, {"finished": 1})
    told = json.loads(json.dumps(x.to_json()))
    assert (told["ended"], told["errored"]) == (dict(x.ended), {"429": 2})


OF_TOPICS = [
    {"arm": arm, "task": f"t{n}", "repeat": repeat, "topic": f"k{n % 6}", "score": int((n * (skill + 3) + repeat) % 5 < 3 + skill)}
    | {"tokens": 100 + 10 * skill + n, "confidence": (n % 10) / 10, "steps": 3 + repeat}
    for skill, arm in enumerate("xy")
    for n in range(24)
    for repeat in range(2)
]
FRAMES = {
    "views": ("fronts", "budgets", "budget_pairs", "per_solved", "confidence", "reliability"),
    "why": ("causes", "divergences", "tasks", "habits"),
    "size": ("sizes", "reaches"),
    "gate": ("lines", "changes"),
}


@pytest.fixture(scope="module")
def of_topics(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return whichloop.import_results(OF_TOPICS, map={"cluster": "topic"}, runs=tmp_path_factory.mktemp("runs"), name="both")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """One arm without repeats, confidence or costs: most tables are empty."""
    rows = [{"task": row["task"], "score": 1} for row in OF_TOPICS[:48:2]]
    return whichloop.import_results(rows, runs=tmp_path_factory.mktemp("runs"), name="alone")


def all_answers(of_topics: Loaded, baseline: Path) -> dict[str, Any]:
    blessed = whichloop.bless(of_topics, baseline)
    return {
        "views": of_topics.views,
        "why": of_topics.why(),
        "size": whichloop.size(of_topics),
        "gate": whichloop.gate(blessed, of_topics),
    }


def test_an_empty_table_has_columns_of_a_full_one(of_topics: Loaded, alone: Loaded, tmp_path: Path) -> None:
    full, empty = all_answers(of_topics, tmp_path / "full.json"), all_answers(alone, tmp_path / "empty.json")
    rows = 0
    for answer, names in FRAMES.items():
        for name in names:
            one, other = getattr(full[answer], name), getattr(empty[answer], name)
            assert isinstance(one, pd.DataFrame)
            assert isinstance(other, pd.DataFrame)
            assert set(other.columns) & set(one.columns) >= {*one.columns[:3]}, name
            assert not [column for column in one if one[column].dtype == object], name
            assert list(one.index) == list(range(len(one)))
            rows += len(one)
    assert rows > 50


def test_views_in_frames_are_the_views(of_topics: Loaded) -> None:
    found, shown = of_topics.results.views, of_topics.views
    assert len(shown.fronts) == sum(len(front.points) for front in found.fronts)
    assert dict(zip(shown.fronts["arm"], shown.fronts["cost"], strict=True)) == pytest.approx(
        {point.arm: point.cost.value for front in found.fronts for point in front.points}
    )
    assert len(shown.budgets) == sum(len(budget.arms) for budget in found.budgets)
    assert list(shown.budget_pairs["verdict"]) == [pair.verdict.word for budget in found.budgets for pair in budget.pairs]
    assert list(shown.reliability["k"]) == [k for one in found.reliability for k in range(1, one.repeats + 1)]
    assert list(shown.reliability["pass_at"]) == [interval.value for one in found.reliability for interval in one.pass_at]
    assert list(shown.confidence["brier"]) == [one.brier.value for one in found.confidence]
    assert repr(shown).splitlines()[0] == ".fronts: 2 rows"
    assert shown.to_json() == found.to_json()


def test_a_gates_lines_and_changes_are_in_frames(of_topics: Loaded, tmp_path: Path) -> None:
    blessed = whichloop.bless(of_topics, tmp_path / "base.json")
    changed = [row | {"score": 0} if row["arm"] == "x" and str(row["task"]) < "t12" else row for row in OF_TOPICS]
    later = whichloop.import_results(changed, map={"cluster": "topic"}, runs=tmp_path, name="later")
    said = whichloop.gate(blessed, later, metrics={"accuracy": 0.02, "tokens": 0.1})
    lines, judged = said.lines, said.finding
    assert list(zip(lines["arm"], lines["metric"], lines["result"], lines["reason"], strict=True)) == [
        (line.arm, line.metric, line.result, line.reason) for line in judged.lines
    ]
    assert list(lines["effect_low"]) == pytest.approx([line.effect.low for line in judged.lines], nan_ok=True)
    assert list(lines["ratio"]) == [False, True, False, True]
    assert list(said.changes["task"]) == [task.task for task in judged.tasks]
    assert set(said.changes["became"]) == {"worse"}
    assert (said.changes["now"] < said.changes["was"]).all()
