"""How a run ends early: its cancellation token, the first failure of concurrent work, and nothing left running.

Rows such as S1-10 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from whichloop.protocol import Chunk, Model, Reply, Request, WrappedModel
from whichloop.protocol.cancellation import ended_before, stop_tasks

T = TypeVar("T")

TOKEN_SET = "the cancellation token is set"  # noqa: S105  (no password)


def checkpoint(token: asyncio.Event | None) -> None:
    """Raise CancelledError once the token is set: it is looked at before all calls, before each and after each (row S1-10)."""
    if token is not None and token.is_set():
        raise asyncio.CancelledError(TOKEN_SET)


async def unless_set(token: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; once the token is set, cancel it and raise CancelledError."""
    if token is None:
        return await work
    finished = await ended_before(token, work)
    if finished is None:
        raise asyncio.CancelledError(TOKEN_SET)
    return finished.result()


async def finish_together(
    work: Mapping[asyncio.Task[None], Callable[[], bool]], token: asyncio.Event | None, grace_s: float
) -> None:
    """Wait for concurrent tasks; the first that fails, or the token, ends all of them before this raises.

    `work`: task → whether it is in a thread now, which can only be waited for: at most `grace_s` seconds once the token is set.
    Raises what the first to fail raised, or CancelledError. A cancellation from outside grants no grace.
    """
    watchers = [] if token is None else [asyncio.create_task(token.wait())]
    try:
        while running := [task for task in work if not task.done()]:
            await asyncio.wait([*running, *watchers], return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                if task.done():
                    task.result()
            if any(watcher.done() for watcher in watchers):
                watchers[0].result()  # as in `ended_before`
                in_threads = [task for task in running if not task.done() and work[task]()]
                await stop_tasks(task for task in running if task not in in_threads)
                await _wait_at_most(grace_s, in_threads)
                raise asyncio.CancelledError(TOKEN_SET)
    finally:
        await stop_tasks([*work, *watchers])


async def _wait_at_most(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


@dataclass(slots=True)
class RunEnd:
    """The end of a run: its token is set, or something has failed in concurrent work."""

    token: asyncio.Event | None = None
    cause: BaseException | None = None

    def end(self, cause: BaseException) -> None:
        """End the run; the first cause stays."""
        self.cause = self.cause or cause

    def checkpoint(self) -> None:
        """Raise CancelledError or the cause once the run is over."""
        checkpoint(self.token)
        if isinstance(self.cause, asyncio.CancelledError):
            raise asyncio.CancelledError(*self.cause.args)
        if self.cause is not None:
            raise self.cause


class StoppableModel(WrappedModel):
    """A model that takes no further request once the run is over: no task makes one more call while its neighbours end."""

    def __init__(self, model: Model, ending: RunEnd) -> None:
        super().__init__(model)
        self._ending = ending

    async def complete(self, request: Request) -> Reply:
        """Raises as the model does; CancelledError once the token is set."""

        async def ask() -> Reply:
            self._ending.checkpoint()  # here: a neighbour may end the run after this task is made and before it starts
            return await self.model.complete(request)

        try:
            return await unless_set(self._ending.token, ask())
        except BaseException as error:
            self._ending.end(error)
            raise

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Raises as the model does; CancelledError once the token is set."""
        self._ending.checkpoint()
        pieces: asyncio.Queue[Chunk | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(self.model.stream(request), pieces))
        try:
            while (chunk := await unless_set(self._ending.token, pieces.get())) is not None:
                yield chunk
            await reading
        except GeneratorExit:  # whoever reads wants no more, which ends nothing else
            raise
        except BaseException as error:
            self._ending.end(error)
            raise
        finally:
            await stop_tasks((reading,))


async def _read(chunks: AsyncIterator[Chunk], pieces: asyncio.Queue[Chunk | None]) -> None:
    """Queue a stream's pieces, then None. In one task from end to end: a time limit inside the stream belongs to its task."""
    try:
        async for chunk in chunks:
            pieces.put_nowait(chunk)
    finally:
        pieces.put_nowait(None)
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
