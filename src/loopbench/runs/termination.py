"""SIGTERM, and SIGHUP of a terminal that closes, as requests to end runs in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from .silent_end import ORDERLY_ENDS


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a terminal that closes, end a run at once but in order within the block: it can be resumed.

    What is not a run they end as Ctrl-C does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup leaves SIGHUP
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    ends = [*ORDERLY_ENDS]
    for end in ends:
        end()
    if ends:
        return
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # as a shell starts what it runs in the background
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)
