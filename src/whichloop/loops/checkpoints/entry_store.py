"""What stores the entries of a checkpoint: a plain function, which has stored an entry when it returns.

The run goes on as soon as it returns. A coroutine that nobody has awaited has stored nothing, and a payment that stands in no store
is made again when the run is taken up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from whichloop.protocol.threads import is_async_function, is_generator_function

from .checkpoint_entries import Entry

INSTEAD = (
    "write def, and have the entry stored when it returns: in a file (CheckpointFile), or by your database's synchronous client; "
    "an async one serves by asyncio.run_coroutine_threadsafe(…).result() on an event loop of another thread"
)


def store_of(on_entry: Any) -> Callable[[Entry], Any] | None:
    """Return what stores entries. Raises TypeError for what cannot be called, and for what a call of which stores nothing."""
    if on_entry is None:
        return None
    if not callable(on_entry):
        raise TypeError(f"on_entry: give a function that stores an entry, not {on_entry!r}")
    if is_async_function(on_entry) or is_generator_function(on_entry):
        kind = "async" if is_async_function(on_entry) else "a generator function"
        raise TypeError(f"on_entry is {kind}, and its entries would be lost; {INSTEAD}")
    stores: Callable[[Entry], Any] = on_entry
    return stores


def store(on_entry: Callable[[Entry], Any], entry: Entry) -> None:
    """Have an entry stored. Raises what `on_entry` raises, and TypeError where it has only made what would store the entry."""
    result = on_entry(entry)
    if not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result) or isinstance(result, Future)):
        return
    for name in ("close", "cancel"):  # of a coroutine, of a task: an entry that does not count had better not be stored later
        if callable(end := getattr(result, name, None)):
            end()
            break
    raise TypeError(f"on_entry returned {type(result).__name__}, by which nothing is stored yet; {INSTEAD}")
