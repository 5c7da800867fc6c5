"""What trials leave behind in one event loop: threads of calls that never returned, tasks that swallow their cancellation."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol.values import counted

from .trial import SWALLOWED, FinishedTrial
from .watchdog import stop

CALL = "call-"
"""Prefix of the names of threads for calls, before the function's name; see `whichloop.protocol.threads`."""
LEFTOVER_GRACE_S = 1.0
"""Seconds that tasks which remain at the end have to finish."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What remained in one process, or in several."""

    threads: Mapping[str, int] = field(default_factory=dict)
    """Number of threads of calls, by the function's name."""
    tasks: int = 0
    """Number of tasks that swallow their cancellation."""

    def __add__(self, other: LeftBehind) -> LeftBehind:
        return LeftBehind(Counter(self.threads) + Counter(other.threads), self.tasks + other.tasks)

    def lines(self) -> list[str]:
        """Return it in words, a line for each kind."""
        lines = [f"{counted(n, 'call')} of {name} never returned: {_threads(n)} left behind" for name, n in self.threads.items()]
        if self.tasks:
            lines.append(f"{counted(self.tasks, 'task')} that loops had started swallowed cancellation and had to be abandoned")
        return lines


class Leftovers:
    """Counts what the trials of one event loop leave behind after this object was made."""

    def __init__(self) -> None:
        """Start to count, inside the event loop, before the first trial."""
        self._threads = frozenset(threading.enumerate())
        self._tasks = frozenset(asyncio.all_tasks())
        asyncio.get_running_loop().set_default_executor(DaemonThreads())

    @property
    def threads(self) -> Counter[str]:
        """Return calls that have not returned, by the function's name; while trials run, these include calls under way."""
        return Counter(
            thread.name.removeprefix(CALL)
            for thread in threading.enumerate()
            if thread.name.startswith(CALL) and thread not in self._threads
        )

    async def end(self) -> LeftBehind:
        """End what trials started and did not wait for; return the rest, for which `asyncio.run` would wait without end."""
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine and task not in self._tasks]
        await asyncio.gather(*(stop(task, LEFTOVER_GRACE_S) for task in tasks))
        await asyncio.sleep(0)  # those that were ended by force notice it now
        immortal = [task for task in tasks if not task.done()]
        for task in immortal:
            asyncio._unregister_task(task)  # documented under "Extending asyncio"
            # Never destroyed: that would close its coroutine, which would go on and on where no event loop makes it wait.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
        return LeftBehind(self.threads, len(immortal))


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's default executor that neither a hung call nor many slow ones can fill up: each has a thread of its own.

    None of them is waited for, in the end either.
    """

    def submit(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> Future[Any]:
        future: Future[object] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # carried to the caller
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name=f"{CALL}{_name_of(function)}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there is nothing to wait for."""


def _name_of(function: Callable[..., object]) -> str:
    """Return the name of the function that `asyncio.to_thread` was given, which wraps it in a context's `run`."""
    inner = getattr(function, "args", ())
    return getattr(inner[0] if inner else function, "__name__", "call")


class Abandoned:
    """Counts the loops that were abandoned while they still ran, by arm."""

    def __init__(self) -> None:
        self.arms = Counter[str]()

    def count(self, finished: FinishedTrial) -> FinishedTrial:
        self.arms[finished.record.arm] += SWALLOWED in finished.record.reason
        return finished

    def lines(self) -> list[str]:
        leaving = {arm: n for arm, n in self.arms.items() if n}
        return [f"{arm}: {counted(n, 'loop')} swallowed cancellation and had to be abandoned" for arm, n in leaving.items()]


def _threads(n: int) -> str:
    return "its thread was" if n == 1 else "their threads were"
