"""Why agents lost whose results are a table: how trials ended, which were left out, and that no step is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import whichloop
from whichloop.api.carry_out import WhichloopWarning
from whichloop.reports.dataframes import Loaded

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


def test_what_no_trace_shows_is_said_to_be_unknown(run: Loaded) -> None:
    said = run.why().lines
    assert "x lost 5 of 5: 1 × ToolError: db down; 1 × finished; 1 × max_steps; of 2 nothing says how they ended" in said
    unknown = "6 lost trials have no trace: the steps that lost them are not known, nor how 2 of them ended. "
    assert f"{unknown}A table may tell how a trial ended, in columns error and stop; for the step, import traces." in said
    assert "Errored and left out, neither lost nor solved: x 2 (2 × 429)." in said
    assert "  no arm solved (is the expected answer right?): 1: t0" in said
    assert "  only one arm solved: 4: t1, t2, t3, t4" in said
    assert (
        "  without a trace: 1 × ToolError: db down; 1 × finished; 1 × max_steps; of 2 nothing says how they ended"
        in run.why("x").lines
    )


def test_a_table_that_tells_no_end_has_none_in_its_lines() -> None:
    silent = [{name: row[name] for name in ("agent", "task", "score")} for row in rows(tells_ends=False)]
    said = imported(silent).why().lines
    assert "x lost 5 of 5" in said
    unknown = "6 lost trials have no trace: the steps that lost them are not known, nor how they ended."
    assert any(line.startswith(unknown) for line in said)
    assert any(line.endswith(": x 2 (2 × the score is blank).") for line in said)


def test_where_scores_are_grades_lost_is_said_to_be_below_the_full_score() -> None:
    grades = [{"agent": agent, "task": f"t{n}", "score": n / 8} for agent in "xy" for n in range(9)]
    found = whichloop.import_results(grades).why()
    assert [(arm.lost, arm.partly) for arm in found.arms] == [(8, 7), (8, 7)]
    assert "Lost is any trial below the full score; scores are grades here, and 14 of the 16 have a part of it." in found.lines
    whole = whichloop.import_results([row | {"score": int(row["task"] in ("t1", "t2"))} for row in grades]).why()
    assert not any("full score" in line for line in whole.lines)
