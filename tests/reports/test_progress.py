"""Progress: what it counts is what has ended, it fits any screen, and nothing of a model's reaches the terminal as a control."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.experiments.optimize.candidates import Candidate, SearchCost
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.experiments.optimize.prepare import prepare as prepare_search
from whichloop.metrics.record import Record
from whichloop.reports import progress
from whichloop.reports.progress import MAX_ARMS, BoardRow, SearchBoard, TrialBoard, watching
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.engine.runner import Unwatched

Named = Callable[..., Experiment]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Named:
    """A run of ten tasks whose arms have any names, and of any budget."""
    config = CompareConfig(loops=("bare",), suite="arithmetic", tasks=10, mlflow=False, runs=tmp_path_factory.mktemp("runs"))
    made = prepare(config.model_copy(update={"profiles": ("clean",)}))

    def called(names: Sequence[str], **budget: float) -> Experiment:
        config = made.config.model_copy(update={"budget": BudgetConfig.model_validate(budget)})
        arms = tuple(replace(made.arms[0], name=name) for name in names)
        return replace(made, config=config, arms=arms)

    return called


def record(arm: str, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "task": "t", "repeat": 0, "seed": 0, "status": "scored"}
    return Record(arm=arm, **(values | changes))


RECORDS = st.lists(
    st.builds(
        record,
        st.sampled_from("abc"),
        status=st.sampled_from(["scored", "scored", "errored", "excluded"]),
        reason=st.text(max_size=5) | st.sampled_from(["provider: 500", "provider: slow", "scorer exact: KeyError"]),
        stop=st.sampled_from(["finished", "timeout", "crashed", None]),
        scores=st.sampled_from([{"accuracy": 0.0}, {"accuracy": 1.0}, {"accuracy": 0.3}]),
        errors=st.sampled_from([{}, {"wire": 2, "tool.KeyError": 1}]),
        calls=st.just({"decide": 3, "extract": 1}),
        input_tokens=st.integers(0, 100),
        cost_usd=st.none() | st.floats(0, 1),
    ),
    max_size=30,
)


@given(RECORDS)
def test_what_is_counted_is_what_has_ended(named, records):
    board = TrialBoard(named("abc"))
    for one in records:
        board.finished(one)
    assert board.done == len(records)
    assert board.spent.calls == sum(one.lm_calls + one.user_counts.get("calls", 0) for one in records)
    assert board.spent.tokens == sum(one.tokens + (one.user_tokens or 0) for one in records)
    assert board.spent.dollars == pytest.approx(sum((one.cost_usd or 0) + (one.user_cost_usd or 0) for one in records))
    whole, *rows = board.rows()
    assert (whole.name, whole.done, whole.total) == ("trials", len(records), 30)
    for name, row in zip("abc", rows, strict=True):
        own = [one for one in records if one.arm == name]
        scored = [one for one in own if one.status == "scored"]
        said = dict(re.findall(r"(errored|excluded|wire|timeout|crashed|accuracy) ([\d.]+)", row.text))
        assert (row.name, row.done, row.total) == (name, len(own), 10)
        if scored:
            mean = sum(one.accuracy for one in scored) / len(scored)
            assert said.pop("accuracy") == f"{mean:.3f}"
        counts = {
            "errored": sum(one.status == "errored" for one in own),
            "excluded": sum(one.status == "excluded" for one in own),
            "wire": sum(one.errors.get("wire", 0) for one in scored),
            **{stop: sum(one.stop == stop for one in scored) for stop in ("timeout", "crashed")},
        }
        assert {word: int(count) for word, count in said.items()} == {word: count for word, count in counts.items() if count}


def test_a_run_that_goes_on_counts_the_missing_trials_and_all_that_was_spent(tmp_path, capsys):
    class Stopping(Unwatched):
        left = 6

        def finished(self, record: Record) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    config = CompareConfig(loops=("bare", "finish"), suite="arithmetic", tasks=10, profiles=("clean",), mlflow=False, runs=tmp_path)
    first = prepare(config)
    with contextlib.suppress(KeyboardInterrupt):
        run(first, Stopping())
    again = reopen(first.folder)
    with watching(TrialBoard(again), quiet=False) as board:
        assert board.spent.calls == again.spent.calls > 0
        run(again, board)
    assert board.done == board.total == len(again.missing()) < 20
    assert all(row.done == row.total for row in board.rows())
    began, ended = capsys.readouterr().err.splitlines()
    assert f"| trials 0/{board.total}, " in began
    assert f"| trials {board.total}/{board.total}, {board.spent.calls:,} calls, " in ended
    whole = TrialBoard(reopen(first.folder))
    assert (whole.total, whole.spent.calls) == (0, board.spent.calls)
    with watching(whole, quiet=False):
        pass
    assert capsys.readouterr() == ("", "")  # nothing is to be done


EVIL = st.text(st.sampled_from("ab \x1b[2J\x07\x9b\r\n\t\u202e\x00é漢"), min_size=1, max_size=30)
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def frame(board: Any, width: int) -> list[str]:
    """What a terminal of that width would show, its styles left out."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True, legacy_windows=False)
    bars, draw = progress._bars(board, console)
    draw()
    with console.capture() as shown:
        console.print(bars.get_renderable(), end="")
    return shown.get().splitlines()


@given(st.lists(EVIL, min_size=1, max_size=MAX_ARMS, unique=True), st.integers(20, 200), EVIL)
@example(["[bold]{task.total}[/]"], 120, "[red]{x}")
def test_the_view_fits_any_screen_and_shows_no_control(named, names, width, reason):
    board = TrialBoard(named(names, calls=5, tokens=10**9))
    for name in names:
        board.finished(record(name, status="errored", reason=reason))
    shown = frame(board, width)
    assert len(shown) == 1 + len(names)
    assert not CONTROLS.search("\n".join(shown))
    if width >= 60:
        assert f"{len(names)}/{10 * len(names)}" in shown[0]
    if width >= 120 and not reason.strip("[]ab "):
        assert "errored 1 (" in shown[1]


@given(EVIL, EVIL, EVIL)
def test_a_line_is_one_line_whatever_names_and_reasons_say(named, name, reason, note):
    board, heard = TrialBoard(named([name])), io.StringIO()
    with contextlib.redirect_stderr(heard), watching(board, quiet=False):
        board.finished(record(name, status="errored", reason=reason))
        board.noted(note)
    said = heard.getvalue()
    assert said.count("\n") == 3  # at the start and at the end, and the note
    assert not CONTROLS.search(said)
    assert re.search(r"\nnote: .*\nprogress: 0 s \| trials 1/10 \| .* 1/10, errored 1 \(", said)


def test_quiet_says_alone_what_an_interrupted_run_waits_for(named, capsys):
    with watching(TrialBoard(named("a")), quiet=True) as board:
        board.noted("a worker died")
        board.finished(record("a"))
        assert capsys.readouterr() == ("", "")
        board.interrupted("trials under way: 4; they end first;\nCtrl-C again ends the run at once")
    assert capsys.readouterr() == ("", "note: trials under way: 4; they end first; Ctrl-C again ends the run at once\n")


@pytest.fixture
def board(tmp_path: Path) -> SearchBoard:
    typed: dict[str, Any] = {"loops": ("bare", "finish"), "suite": "arithmetic(size=60)", "dev": 2, "tasks": 5, "repeats": 2}
    budget = BudgetConfig(calls=50, tokens=900)
    return SearchBoard(prepare_search(load_optimize_config(None, typed | {"runs": tmp_path, "budget": budget})))


def test_a_search_shows_its_budget_and_the_best_program_that_has_all_dev_tasks(board):
    own, other = Candidate(0, "0", {}, dev={"a": 0.0, "b": 1.0}), Candidate(1, "1", {}, dev={"a": 1.0})
    board.rolled_out("bare", own, record("bare"), SearchCost(2, 10, 180))
    board.rolled_out("bare", other, record("bare"), SearchCost(3, 15, 270))
    text = "best on dev {}, own 0.500, 2 programs, {} of 50 calls, {} of 900 tokens"
    assert next(board.rows()) == BoardRow("bare", 15, 50, text.format("0.500", 15, 270))
    board.rolled_out("bare", replace(other, dev={"a": 1.0, "b": 1.0}), record("bare"), SearchCost(4, 20, 360))
    assert next(board.rows()).text == text.format("1.000", 20, 360)
    board.finished(record("bare"))
    shown = [line.split()[0] for line in frame(board, 100)]
    assert (shown[0], shown[-1]) == ("bare", "test")
