"""What the trials of one event loop leave behind: calls that never return, and tasks that swallow their cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .watchdog import stop

CALL = "call-"
"""Prefix of the names of threads for calls, before the function's name; see `whichloop.protocol.threads`."""
LEFTOVER_GRACE_S = 1.0
"""Seconds that tasks which remain at the end have to finish."""


class Leftovers:
    """What the trials of one event loop leave behind."""

    def __init__(self) -> None:
        """Start to count, inside the event loop, before the first trial."""
        self._threads = frozenset(threading.enumerate())
        self._tasks = frozenset(asyncio.all_tasks())
        asyncio.get_running_loop().set_default_executor(DaemonThreads())

    async def end(self) -> Counter[str]:
        """End what trials started and did not wait for; return what does not end, by name: `call of sleep`, `task`."""
        tasks = asyncio.all_tasks() - self._tasks - {asyncio.current_task()}
        ended = await asyncio.gather(*(stop(task, LEFTOVER_GRACE_S) for task in tasks))
        threads = (thread.name for thread in threading.enumerate() if thread not in self._threads)
        calls = Counter(f"call of {name.removeprefix(CALL)}" for name in threads if name.startswith(CALL))
        return calls + Counter({"task": ended.count(False)})


def left_behind(left: Mapping[str, int]) -> list[str]:
    """Return in one line what did not end; nothing if there is nothing."""
    return [f"left behind, without an end: {', '.join(f'{n} × {name}' for name, n in left.items())}"] if left else []


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's default executor that gives each call a thread of its own, which nobody waits for in the end."""

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

        called = getattr(function, "args", ()) or (function,)  # `asyncio.to_thread` wraps it in a context's `run`
        threading.Thread(target=work, name=f"{CALL}{getattr(called[0], '__name__', 'call')}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there is nothing to wait for."""
