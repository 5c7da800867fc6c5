"""An event loop whose clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings

from tests.cases import cases

T = TypeVar("T")
EACH = settings(deadline=None, max_examples=cases(30))


class Jump(selectors.SelectSelector):
    """Waits for nothing: what it would have waited is added up."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits for nothing: a wakeup was lost")
        self.now += timeout
        return super().select(0)


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self.jump = Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        return self.jump.now


def virtually(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()
