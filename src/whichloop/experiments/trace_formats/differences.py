"""The difference between two JSON values, as JSON: it keeps what one format cannot say of a document in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol.json_text import Json

IS, AT, DROP, MORE, LENGTH = "is", "at", "drop", "more", "length"
"""Keys of a difference: another value; by key or index, what differs inside; keys to drop; items to add; items to keep."""


def difference(old: object, new: object) -> dict[str, Any] | None:
    """Return what makes `new` of `old`; None if they are equal. 1, 1.0 and true differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _of_objects(old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _of_lists(old, new)
    return None if type(old) is type(new) and old == new else {IS: new}


def patched(old: Any, change: Any) -> Any:
    """Return `new` of `difference(old, new)`. Raises ValueError for a change that does not fit `old`."""
    if change is None:
        return old
    try:
        if IS in change:
            return change[IS]
        return _patched_list(old, change) if isinstance(old, list) else _patched_object(old, change)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise ValueError("the difference does not fit") from None


def _of_objects(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, Json] | None:
    dropped = [key for key in old if key not in new]
    changed = {
        key: change
        for key, value in new.items()
        if (change := difference(old[key], value) if key in old else {IS: value}) is not None
    }
    patch: dict[str, Any] = {AT: changed} if changed else {}
    return (patch | {DROP: dropped} if dropped else patch) or None


def _of_lists(old: Sequence[object], new: Sequence[object]) -> dict[str, Json] | None:
    common = min(len(old), len(new))
    pairs = zip(old[:common], new[:common], strict=True)
    changed = {str(place): change for place, (a, b) in enumerate(pairs) if (change := difference(a, b)) is not None}
    patch: dict[str, Any] = {AT: changed} if changed else {}
    if len(new) > common:
        patch[MORE] = list(new[common:])
    if len(old) > common:
        patch[LENGTH] = common
    return patch or None


def _patched_object(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Json]:
    kept_fields = {key: value for key, value in old.items() if key not in change.get(DROP, ())}
    return kept_fields | {key: patched(old.get(key), inner) for key, inner in change.get(AT, {}).items()}


def _patched_list(old: Sequence[Any], change: Mapping[str, Any]) -> list[Any]:
    items = list(old[: change.get(LENGTH, len(old))])
    for place, inner in change.get(AT, {}).items():
        items[int(place)] = patched(items[int(place)], inner)
    return [*items, *change.get(MORE, ())]
