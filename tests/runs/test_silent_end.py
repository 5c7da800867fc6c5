"""SIGTERM and SIGHUP within a block that takes them as Ctrl-C, and what becomes of the handlers that were there."""

from __future__ import annotations

import signal

import pytest

from whichloop.runs.silent_end import terminated_as_interrupted

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def as_before():
    """The handlers of this process stay as they were."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, print])
def test_a_handler_is_there_again_after_the_block_and_an_ignored_signal_stays_ignored(number, handler):
    signal.signal(number, handler)
    with terminated_as_interrupted():
        assert (signal.getsignal(number) is handler) is (handler is signal.SIG_IGN)
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_within_the_block_interrupts(number):
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        signal.raise_signal(number)


def test_a_handler_that_was_set_from_c_stays(monkeypatch):
    """Python tells of such a one as None, and could not set it again."""
    told, ours = signal.getsignal, []
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else told(number))
    monkeypatch.setattr(signal, "signal", lambda number, handler: ours.append(number))
    with terminated_as_interrupted():
        pass
    assert ours == [signal.SIGHUP, signal.SIGHUP]
