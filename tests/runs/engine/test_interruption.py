"""Ctrl-C during a run: what is under way may end, a second one does not wait for it, and the run goes on as if it had not been."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.api.carry_out import apart
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.trial import watchdog
from whichloop.runs.trial.watchdog import Interruption, press_everywhere, terminated_as_interrupted

ENGINES: dict[str, dict[str, Any]] = {"one process": {"concurrency": 4}, "workers": {"workers": 2, "concurrency": 4}}
SAID = "; they end first; Ctrl-C again ends the run at once"
NUMBERS = (signal.SIGTERM, signal.SIGHUP)
press = partial(signal.raise_signal, signal.SIGINT)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch):
    """The handlers of this process stay as they were, and whoever presses here means each one."""
    monkeypatch.setattr(watchdog, "SAME_WISH_S", 0.0)
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
    pressed = told(each=at(5, press))
    folder = interrupted(ran, pressed, suite="arithmetic(size=16)", runs=tmp_path / "cut", **ENGINES[engine])
    (note,) = pressed.notes
    assert note.endswith(SAID)
    kept = results(folder)
    assert 5 <= len(kept.records) == len(pressed.records) <= 5 + 4 + 2 * 4
    assert not kept.is_complete
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_goes_on_as_if_it_had_not_been_interrupted(ran, undisturbed, told, tmp_path):
    folder = interrupted(ran, told(each=at(5, press)), runs=tmp_path / "cut", concurrency=3)
    assert 5 <= len(results(folder).records) < 12
    assert run(reopen(folder), Unwatched()) == ""
    assert results(folder).digest == undisturbed().digest


@pytest.mark.parametrize("engine", ["workers"])
def test_a_second_ctrl_c_does_not_wait(nasty, ran, told, tmp_path, engine):
    pressed = told(each=at(2, press))
    pressed.noted = lambda text: [pressed.notes.append(text), press()]
    changes = {"loops": ("bare", "nasty:Waits(seconds=600)"), "suite": "arithmetic(size=2)", "profiles": ("clean",)}
    folder = interrupted(ran, pressed, runs=tmp_path / "cut", **changes, **ENGINES[engine])
    assert pressed.notes == [f"trials under way: 2{SAID}"]
    assert {record.arm for record in results(folder).records} == {"bare/clean"}


@pytest.mark.parametrize("is_pressed_before", [False, True])
def test_a_signal_to_end_does_not_wait(nasty, ran, told, tmp_path, is_pressed_before):
    """The trial that is left would wait for 600 s, and the time limit of the test ends it before that."""

    def end() -> None:
        if is_pressed_before:
            press()
        signal.raise_signal(signal.SIGTERM)

    changes = {"loops": ("bare", "nasty:Waits(seconds=600)"), "suite": "arithmetic(size=1)", "profiles": ("clean",)}
    with terminated_as_interrupted():
        folder = interrupted(ran, told(each=at(1, end)), runs=tmp_path / "cut", **changes)
    assert {record.arm for record in results(folder).records} == {"bare/clean"}


def test_ctrl_c_that_reaches_another_thread_only_ends_the_run_of_a_notebook(ran, told, tmp_path):
    pressed = told(each=at(3, press_everywhere))

    async def in_a_cell() -> None:
        apart(lambda: ran(pressed, suite="arithmetic(size=60)", runs=tmp_path / "cut", concurrency=2))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(in_a_cell())
    (note,) = pressed.notes
    assert note.endswith(SAID)
    assert not press_everywhere()


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_each_way_to_end_is_taken_once_the_gentle_one_first(wishes: list[bool]) -> None:
    """`wishes`: whether each asks for an end at once. A wish that finds no way left interrupts the code that runs."""
    taken: list[str] = []
    asked = Interruption()
    asked.wind_down, asked.cancel = lambda: taken.append("gently"), lambda: taken.append("at once")
    for at_once in wishes:
        try:
            asked.press(at_once=at_once)
        except KeyboardInterrupt:
            taken.append("raised")
    expected = ["at once" if wishes[0] else "gently", *(["at once"] * (not wishes[0])), *["raised"] * len(wishes)]
    assert taken == expected[: len(wishes)]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_interrupts_what_is_no_run(number):
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        signal.raise_signal(number)


def test_equal_signals_at_once_are_one_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SAME_WISH_S", 60.0)
    taken: list[str] = []
    asked = Interruption()
    asked.wind_down, asked.cancel = lambda: taken.append("gently"), lambda: taken.append("at once")
    for at_once in (False, False, True, True, False):
        asked.press(at_once=at_once)
    assert taken == ["gently", "at once"]
