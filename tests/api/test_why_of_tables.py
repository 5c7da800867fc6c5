"""Why agents lost whose results are a table: how trials ended, which were left out, and that no step is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import whichloop
from whichloop.api.carry_out import WhichloopWarning
from whichloop.reports.dataframes import Loaded
from whichloop.reports.why_shown import ShownWhy
from whichloop.text.doc import Lines

ENDS = ("ToolError: db down", "", "", "max_steps", "finished")
"""How the trials of agent x were lost, by task: an error's text, nothing, or a stop."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(*, tells_ends: bool = True) -> list[dict[str, object]]:
    lost = [(end if tells_ends else "") for end in ENDS]
    made: list[dict[str, object]] = [
        {
            "agent": "x",
            "task": f"t{place}",
            "score": 0,
            "error": end if ":" in end else "",
            "stop": "" if ":" in end else end,
        }
        for place, end in enumerate(lost)
    ]
    made += [{"agent": "x", "task": f"t{place}", "score": None, "error": "429", "stop": ""} for place in (5, 6)]
    return made + [
        {"agent": "y", "task": f"t{place}", "score": int(place > 0), "error": "", "stop": "finished"} for place in range(7)
    ]


def imported(table: list[dict[str, object]]) -> Loaded:
    with pytest.warns(WhichloopWarning, match="left out: 2 of 14 trials"):
        return whichloop.import_results(table)


@pytest.fixture
def run() -> Loaded:
    return imported(rows())


def test_lost_trials_are_counted_by_how_they_ended_and_errored_ones_by_their_reason(run: Loaded) -> None:
    x, y = run.why().arms
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


def test_what_no_trace_shows_is_said_to_be_unknown(run: Loaded) -> None:
    said = lines_of(run.why())
    assert said["Untraced"] == ["6 lost trials: the step is not known"]
    assert said["Ended"] == ["x: 2 × –; 1 × ToolError: db down; 1 × finished; 1 × max_steps", "y: 1 × finished"]
    assert said["Errored"] == ["x: 2 (2 × 429)"]
    assert said["Import"]
    kinds = dict(run.why().tasks.groupby("task")["kinds"].first())
    assert kinds == {"t0": "unsolved"} | dict.fromkeys(("t1", "t2", "t3", "t4"), "solved by one arm")
    assert "unsolved (expected answer?)" in repr(run.why())


def test_a_table_that_tells_no_end_has_none_in_its_lines() -> None:
    silent = [{name: row[name] for name in ("agent", "task", "score")} for row in rows(tells_ends=False)]
    said = lines_of(imported(silent).why())
    assert said["Ended"] == ["x: 5 × –", "y: 1 × –"]
    assert said["Errored"] == ["x: 2 (2 × the score is blank)"]


def test_where_scores_are_grades_lost_is_said_to_be_below_the_full_score() -> None:
    grades = [{"agent": agent, "task": f"t{n}", "score": n / 8} for agent in "xy" for n in range(9)]
    found = whichloop.import_results(grades).why()
    assert [(arm.lost, arm.partly) for arm in found.arms] == [(8, 7), (8, 7)]
    assert lines_of(found)["Grades"] == ["14 of 16 lost trials have a part of the score"]
    whole = whichloop.import_results([row | {"score": int(row["task"] in ("t1", "t2"))} for row in grades]).why()
    assert "Grades" not in lines_of(whole)
