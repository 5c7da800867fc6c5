"""Ctrl-C during a run: what is under way may end, a second one does not wait for it, and the run goes on as if it had not been."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from loopbench.api.carry_out import apart
from loopbench.experiments.compare.reopen import reopen
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.runs.engine import interruption
from loopbench.runs.engine.interruption import SAME_WISH_S, Interruption, press_everywhere
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.silent_end import ORDERLY_ENDS

ENGINES: dict[str, dict[str, Any]] = {"one process": {"concurrency": 4}, "workers": {"workers": 2, "concurrency": 4}}

SAID = " first; Ctrl-C again ends the run at once"


def at(number: int, action: Any) -> Any:
    """Do something at the end of the trial of that number."""
    return lambda count: action() if count == number else None


def interrupted(ran: Any, told: Any, **changes: Any) -> Any:
    """Run until Ctrl-C ends it, and return the run directory."""
    with pytest.raises(KeyboardInterrupt):
        ran(told, **changes)
    return next(changes["runs"].iterdir())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_ctrl_c_lets_trials_under_way_end(ran, told, tmp_path, engine):
    pressed = told(each=at(5, lambda: signal.raise_signal(signal.SIGINT)))
    folder = interrupted(ran, pressed, suite="arithmetic(size=60)", runs=tmp_path / "cut", **ENGINES[engine])
    (note,) = pressed.notes
    assert note.endswith(SAID)
    kept = results(folder)
    assert 5 <= len(kept.records) == len(pressed.records) <= 5 + 4 + 2 * 4
    assert not kept.is_complete
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_goes_on_as_if_it_had_not_been_interrupted(ran, undisturbed, told, tmp_path):
    folder = interrupted(ran, told(each=at(5, lambda: signal.raise_signal(signal.SIGINT))), runs=tmp_path / "cut", concurrency=3)
    assert 5 <= len(results(folder).records) < 12
    assert run(reopen(folder), Unwatched()) == ""
    assert results(folder).digest == undisturbed().digest


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_ctrl_c_does_not_wait(nasty, ran, told, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(interruption, "SAME_WISH_S", 0.0)

    def press() -> Any:
        signal.raise_signal(signal.SIGINT)

    pressed = told(each=at(2, press))
    pressed.noted = lambda text: [pressed.notes.append(text), press()]
    changes = {"loops": ("bare", "nasty:Waits(seconds=600)"), "suite": "arithmetic(size=2)", "profiles": ("clean",)}
    folder = interrupted(ran, pressed, runs=tmp_path / "cut", **changes, **ENGINES[engine])
    assert pressed.notes == [f"2 trials that are under way end{SAID}"]
    assert {record.arm for record in results(folder).records} == {"bare/clean"}


def test_a_signal_to_end_does_not_wait_either(nasty, ran, told, tmp_path):
    pressed = told(each=at(2, lambda: [end() for end in ORDERLY_ENDS]))
    changes = {"loops": ("bare", "nasty:Waits(seconds=600)"), "suite": "arithmetic(size=2)", "profiles": ("clean",)}
    folder = interrupted(ran, pressed, runs=tmp_path / "cut", **changes)
    assert pressed.notes == []
    assert len(results(folder).records) == 2


def test_a_run_that_has_nothing_left_when_it_is_interrupted_is_complete(ran, told):
    found = ran(told(each=at(12, lambda: signal.raise_signal(signal.SIGINT))), concurrency=1)
    assert found.is_whole


def test_ctrl_c_that_reaches_another_thread_only_ends_the_run_of_a_notebook(ran, told, tmp_path):
    pressed = told(each=at(3, press_everywhere))

    async def in_a_cell() -> None:
        apart(lambda: ran(pressed, suite="arithmetic(size=60)", runs=tmp_path / "cut", concurrency=2))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(in_a_cell())
    (note,) = pressed.notes
    assert note.endswith(SAID)
    assert not press_everywhere()
    assert ORDERLY_ENDS == []


def test_a_program_keeps_its_own_use_of_ctrl_c():
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Interruption().listening():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_signals_that_come_together_are_one_wish(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asked = Interruption()
    with pytest.raises(KeyboardInterrupt):
        asked.press()
    asked.press()
    now += SAME_WISH_S
    with pytest.raises(KeyboardInterrupt):
        asked.press()
