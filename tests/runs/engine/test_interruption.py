"""Ctrl-C during a run: what is under way may end, a second one does not wait for it, and the run goes on as if it had not been."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import nullcontext
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.api.carry_out import apart
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.runs.engine import interruption
from whichloop.runs.engine.interruption import SAME_WISH_S, Interruption, press_everywhere
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.silent_end import ORDERLY_ENDS

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
    folder = interrupted(ran, pressed, suite="arithmetic(size=16)", runs=tmp_path / "cut", **ENGINES[engine])
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


def test_a_signal_to_end_right_after_a_gentle_ctrl_c_ends_the_run_at_once(nasty, ran, told, tmp_path):
    """The trial that is left would wait for 600 s, and the time limit of the test ends it before that."""

    def press_and_end() -> None:
        signal.raise_signal(signal.SIGINT)
        for end in ORDERLY_ENDS:
            end()

    pressed = told(each=at(1, press_and_end))
    changes = {"loops": ("bare", "nasty:Waits(seconds=600)"), "suite": "arithmetic(size=1)", "profiles": ("clean",)}
    folder = interrupted(ran, pressed, runs=tmp_path / "cut", **changes)
    assert {record.arm for record in results(folder).records} == {"bare/clean"}


Wish = Literal["press", "end"]


@given(first=st.sampled_from(["press", "end"]), second=st.sampled_from(["press", "end"]), after_s=st.floats(0, 3 * SAME_WISH_S))
def test_only_a_wish_that_asks_for_no_more_is_taken_for_the_one_before(first: Wish, second: Wish, after_s: float):
    asked, wishes, now = Interruption(), {"press": Interruption.press, "end": Interruption.end}, [100.0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now[0])
        with pytest.raises(KeyboardInterrupt):
            wishes[first](asked)
        now[0] += after_s
        is_same = now[0] < 100.0 + SAME_WISH_S and (first, second) != ("press", "end")
        with nullcontext() if is_same else pytest.raises(KeyboardInterrupt):
            wishes[second](asked)
