"""Writes the entries of a checkpoint beside the event loop, on which other conversations go on while a disk takes milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from whichloop.protocol.cancellation import to_its_end
from whichloop.protocol.threads import CallOutcome, begin_in_thread

from .checkpoint_entries import Entry


@dataclass(eq=False, slots=True)
class Batch:
    """Entries that are written together."""

    ended: asyncio.Future[None]
    """Has what writing them raised, if anything."""
    entries: list[Entry] = field(default_factory=list)
    is_written: bool = False
    """Set by the writing function, as soon as they are on the disk."""


class EntryWriter:
    """Has entries written on a thread, in the order in which they come: those that come while some are written follow together."""

    def __init__(self, write: Callable[[Batch], None]) -> None:
        self._write = write
        self._under_way: Batch | None = None
        self._next: Batch | None = None

    @property
    def unwritten(self) -> list[Entry]:
        """The entries that are not on the disk yet, in order."""
        batches = [batch for batch in (self._under_way, self._next) if batch is not None and not batch.is_written]
        return [entry for batch in batches for entry in batch.entries]

    async def write(self, entry: Entry) -> None:
        """Return once an entry is written, and all before it. Raises what the writing of it raises.

        A cancellation is raised, too, once the entry is written: nobody may take the run up while something of it is on its way.
        """
        if self._next is None:
            self._next = Batch(asyncio.get_running_loop().create_future())
        batch = self._next
        batch.entries.append(entry)
        if self._under_way is None:
            self._begin()
        await to_its_end(batch.ended)

    async def finish(self) -> None:
        """Return once all entries that have come are written. Raises as `write` does."""
        last = self._next or self._under_way
        if last is not None:
            await to_its_end(last.ended)

    def _begin(self) -> None:
        batch, self._next = self._next, None
        self._under_way = batch
        if batch is not None:
            begin_in_thread(self._write, batch).add_done_callback(self._go_on)

    def _go_on(self, done: asyncio.Future[CallOutcome]) -> None:
        batch = self._under_way
        assert batch is not None
        error = done.result().error
        if error is None:
            batch.ended.set_result(None)
        else:
            batch.ended.set_exception(error)
        self._begin()
