"""Loops that never come to an end, each in another way."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from typing import Any, NoReturn

from whichloop.checks.loop.template_loop import TemplateLoop


class InThread(TemplateLoop):
    """It waits for a thread that never ends, and that a process would wait for as well."""

    async def run(self, *given: Any) -> NoReturn:
        await asyncio.to_thread(threading.Event().wait)
        raise AssertionError


class Locked(TemplateLoop):
    async def run(self, *given: Any) -> NoReturn:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
        raise AssertionError


class Waiting(TemplateLoop):
    async def run(self, *given: Any) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


class Uninterruptible(TemplateLoop):
    """It hangs in C, where no exception reaches it."""

    async def run(self, *given: Any) -> NoReturn:
        ctypes.CDLL(None).sleep(10**6)
        raise AssertionError


class Littering(TemplateLoop):
    """Its runs are right, and each leaves a thread behind that never ends."""

    async def run(self, *given: Any) -> Any:
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        return await super().run(*given)


class HangsWhenCancelled(TemplateLoop):
    """All is well but for a cancellation, after which it blocks its thread."""

    async def run(self, *given: Any) -> Any:
        try:
            return await super().run(*given)
        except asyncio.CancelledError:
            threading.Event().wait()
            raise
