"""The entries of a checkpoint as JSON: what a reply, a failure and a result are written as, and the check of a stored one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from whichloop.loops.shared.received_arguments import same_json
from whichloop.protocol import ContextOverflow, ModelError, NativeCall, Observation, ProviderError, Reply, Usage, render_value
from whichloop.protocol.digest import canonical_json, short_digest
from whichloop.protocol.threads import is_async_function, is_generator_function
from whichloop.protocol.values import error_text

Entry = dict[str, Any]
"""One line of a checkpoint, as JSON."""

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "asked": {"scope": str, "request": str, "input_tokens": int},
    "reply": {"scope": str, "request": str, "reply": dict},
    "failure": {"scope": str, "request": str, "failure": dict},
    "result": {"call": str, "result": dict},
    "pending": {"call": str, "tool": str, "arguments": dict},
    "decision": {"call": str, "approved": bool, "reason": str},
    "begun": {"call": str},
    "run": {"id": str},
    "resumed": {},
}
"""The kinds of entries, with their fields; `resumed` takes back the failures right before it, of which the run had ended.

`asked` comes before each request of a run with a budget: one whose reply nobody has kept is spent all the same.
`run` comes before the first call of a tool, and says the id of which the idempotency keys of the run's calls are made.
"""
_TEXTS = ("by", "problem", "version", "like")
"""Fields that an entry may have."""
_FAILURES: Mapping[str, type[ModelError]] = {
    "ProviderError": ProviderError,
    "ContextOverflow": ContextOverflow,
    "ModelError": ModelError,
}


def received_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return what a run has received, in order: replies, failures that it overcame, results."""
    received: list[Entry] = []
    for entry in entries:
        if entry["kind"] in ("reply", "failure", "result"):
            received.append(entry)
        while entry["kind"] == "resumed" and received and received[-1]["kind"] == "failure":
            received.pop()
    return received


def holding(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries but for the decisions about something else than what waits: each is bound to what a person was shown.

    Two checkpoints that a database keeps may not know of each other's entries, so that a decision can follow a newer asking. One
    of an earlier version, which does not say what was shown, holds.
    """
    versions: dict[str, Any] = {}
    for entry in entries:
        if entry["kind"] == "pending":
            versions[entry["call"]] = entry.get("version")
        elif entry["kind"] == "decision":
            waits, decided = versions.get(entry["call"]), entry.get("version")
            if waits is not None and decided is not None and waits != decided:
                continue
        yield entry


def version_of(entry: Entry, run_id: str, times_asked: int) -> str:
    """Return a short text for what a person is shown of a waiting call. `times_asked`: how often that was, this time included."""
    shown_parts = [entry.get("received", entry["arguments"]), entry.get("edited")]
    return short_digest(json_numbers([run_id, entry["call"], shown_parts, entry.get("problem", ""), times_asked]))


def json_numbers(value: Any) -> Any:
    """Return a JSON value whose whole numbers are written as such, for a store may write 5.0 as 5. Raises as JSON does."""
    return json.loads(canonical_json(value), parse_float=_number)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def check_entry(entry: Any, place: int) -> None:
    """Raise ValueError for what is no entry of a checkpoint, as a file that somebody has changed may hold."""
    try:
        fields = _FIELDS[entry["kind"]]
        is_sound = all(isinstance(entry[name], kind) for name, kind in fields.items())
        is_sound = is_sound and all(isinstance(entry.get(name, ""), str) for name in _TEXTS)
        if entry["kind"] == "reply":
            reply_of(entry["reply"])
        elif entry["kind"] == "failure":
            failure_of(entry["failure"])
        elif entry["kind"] in ("decision", "begun"):
            is_sound = is_sound and isinstance(entry.get("arguments", {}), dict)
        elif entry["kind"] == "pending":
            is_sound = is_sound and all(isinstance(entry.get(name, {}), dict) for name in ("received", "edited"))
        elif entry["kind"] == "result":
            Observation(**entry["result"], call_id="")
    except (KeyError, TypeError, AttributeError):
        is_sound = False
    if not is_sound:
        raise ValueError(f"entries[{place}] is no entry of a checkpoint: {render_value(entry)[:80]}")


def reply_entry(reply: Reply) -> Entry:
    return {
        "text": reply.text,
        "calls": [asdict(call) for call in reply.calls],
        "usage": None if reply.usage is None else asdict(reply.usage),
        "finish_reason": reply.finish_reason,
        "attempts": list(reply.failed_attempts),
    }


def reply_of(entry: Entry) -> Reply:
    usage = None if entry["usage"] is None else Usage(**entry["usage"])
    calls = tuple(NativeCall(**call) for call in entry["calls"])
    return Reply(entry["text"], calls, usage, entry["finish_reason"], tuple(entry["attempts"]))


def failure_entry(error: ModelError) -> Entry:
    kind = next(name for name, failure_class in _FAILURES.items() if isinstance(error, failure_class))
    entry: Entry = {"type": kind, "message": error_text(error)}
    if isinstance(error, ProviderError):
        entry["kind"], entry["attempts"] = error.kind, list(error.failed_attempts)
    return entry


def failure_of(entry: Entry) -> ModelError:
    failure_class = _FAILURES[entry["type"]]
    if failure_class is ProviderError:
        return ProviderError(entry["message"], entry["kind"], failed_attempts=tuple(entry["attempts"]))
    return failure_class(entry["message"])


def json_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in arguments.items()}


def json_value(value: Any) -> Any:
    """Return a value that JSON gives back as it is; any other becomes the text that a model reads of it."""
    try:
        if same_json(json.loads(canonical_json(value)), value):
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return render_value(value)


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
