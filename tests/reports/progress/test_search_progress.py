"""The live view of an optimization: what it says of each design, and that it is silent where it should be."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd, Watchers
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.experiments.optimize.prepare import Optimization, prepare
from whichloop.metrics.record import Record
from whichloop.reports.progress import search as optimize_progress
from whichloop.reports.progress.search import SearchDisplay, Searched, watching
from whichloop.runs.config import BudgetConfig

OWN, OTHER = Candidate(0, "0", {}), Candidate(1, "1", {})


@pytest.fixture
def made(tmp_path) -> Optimization:
    flags: dict[str, Any] = {"loops": ("bare", "finish"), "suite": "arithmetic(size=60)", "dev": 2, "tasks": 5, "repeats": 2}
    return prepare(load_optimize_config(None, flags | {"runs": tmp_path, "budget": BudgetConfig(calls=50, tokens=900)}))


def record(**changes: Any) -> Record:
    return Record("bare", "s", "d", "t", 0, 0, "scored", **changes)


def ended(design: str) -> SearchEnd:
    scores = ({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    return SearchEnd(design, "budget", "why", "1", 1, 2, *scores, SearchCost(5, 50, 900), SearchCost(0, 3, 30), SearchCost())


def tell(board: Any) -> None:
    board.began("bare", OWN)
    board.rolled_out("bare", replace(OWN, dev={"a": 0.0}), record(), SearchCost(1, 5, 90))
    board.rolled_out("bare", replace(OWN, dev={"a": 0.0, "b": 1.0}), record(), SearchCost(2, 10, 180))
    board.proposed("bare", SearchCost(0, 3, 30))
    board.tried("bare", OTHER)
    board.rolled_out("bare", replace(OTHER, dev={"a": 1.0}), record(), SearchCost(3, 15, 270))


def test_programs_are_scored_once_they_have_all_dev_tasks(made):
    board = SearchDisplay(made)
    tell(board)
    assert board.searched["bare"].line.startswith(
        "2 programs, best on dev 0.500 (own 0.500), 15 of 50 calls, 270 of 900 tokens, 3 prop"
    )
    board.rolled_out("bare", replace(OTHER, dev={"a": 1.0, "b": 1.0}), record(), SearchCost(4, 20, 360))
    assert "best on dev 1.000 (own 0.500), 20 of 50 calls" in board.searched["bare"].line
    board.ended("bare", ended("bare"), OTHER)
    assert board.searched["bare"].line == (
        "2 programs, best on dev 1.000 (own 0.500), 50 of 50 calls, 900 of 900 tokens, 3 proposals, budget"
    )


def test_a_design_that_an_earlier_sitting_ended_is_known(made):
    board = SearchDisplay(made)
    board.ended("finish", ended("finish"), OTHER)
    assert "best on dev 1.000 (own 0.500)" in board.searched["finish"].line


def test_dollars_and_no_limit():
    assert "$0.5000 of $2" in Searched(2, BudgetConfig(dollars=2.0), search=SearchCost(1, 1, 1, 0.5)).line
    assert Searched(2, BudgetConfig()).line == "0 programs, 0 calls"


def test_the_test_is_counted(made):
    board = SearchDisplay(made)
    assert board.tests == 2 * 2 * 5 * 2
    board.finished(record())
    assert board.tested == 1


def test_without_a_terminal_there_are_plain_lines(made, capsys, monkeypatch):
    monkeypatch.setattr(optimize_progress, "PLAIN_EVERY_S", 0.0)
    with watching(made, quiet=False) as board:
        tell(board)
        board.ended("bare", ended("bare"), OTHER)
        board.finished(record())
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-2:] == [
        "bare: 2 programs, best on dev 1.000 (own 0.500), 50 of 50 calls, 900 of 900 tokens, 3 proposals, budget",
        "test: 1 of 40 trials",
    ]
    assert "\x1b" not in said.err


def test_lines_come_now_and_then(made, capsys):
    with watching(made, quiet=False) as board:
        tell(board)
    assert capsys.readouterr().err == ""


def test_quiet_says_alone_what_an_interrupted_search_waits_for(made, capsys):
    with watching(made, quiet=True) as board:
        tell(board)
        board.ended("bare", ended("bare"), OTHER)
        assert capsys.readouterr() == ("", "")
        board.interrupted("1 rollout under way will end first")
    assert capsys.readouterr() == ("", "note: 1 rollout under way will end first\n")


def test_on_a_terminal_there_is_a_line_for_each_design(made):
    board = optimize_progress.LiveSearch(made)
    tell(board)
    board.finished(record())
    file = io.StringIO()
    Console(file=file, width=200).print(board)
    first, second = (line.split() for line in file.getvalue().splitlines())
    assert first[:3] == ["bare", "2", "programs,"]
    assert second == ["test", "1", "of", "40", "trials"]


def test_several_watchers_are_told_the_same(made):
    one, two = SearchDisplay(made), SearchDisplay(made)
    both = Watchers(one, two)
    tell(both)
    both.ended("bare", ended("bare"), OTHER)
    assert (
        one.searched["bare"].line
        == two.searched["bare"].line
        == ("2 programs, best on dev 1.000 (own 0.500), 50 of 50 calls, 900 of 900 tokens, 3 proposals, budget")
    )
