"""Tools that give what they gave when they were recorded: for tasks of imported traces, whose real tools nobody has here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from whichloop.protocol import Tool, render_value
from whichloop.protocol.digest import canonical_json, whole_numbers_as_int

from ..task import Task

RECORDED = "recorded"
"""Key of `Task.world`: the calls that were recorded, each with `tool`, `arguments`, `result` and `failed`."""
_TYPES: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class NotRecorded(LookupError):
    """A call that no recorded trial made."""


class RecordedTools:
    """The environment of one trial. It has no state: a call gives the same result whenever it is made."""

    def __init__(self, task: Task) -> None:
        calls: Sequence[Mapping[str, Any]] = task.world.get(RECORDED, ())
        names = dict.fromkeys(call["tool"] for call in calls)
        self.tools = tuple(_tool(name, [call for call in calls if call["tool"] == name]) for name in names)

    def state(self) -> Any:
        return None

    def close(self) -> None:
        return None


def _tool(name: str, calls: Sequence[Mapping[str, Any]]) -> Tool:
    return Tool(name, f"{name}, with the results of recorded calls.", _schema(calls), _replaying(name, calls), blocking=False)


def _schema(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a JSON schema of the arguments that were recorded; what every call has is required."""
    every = [call["arguments"] for call in calls]
    names = dict.fromkeys(name for arguments in every for name in arguments)
    types = {name: sorted({_TYPES.get(type(given[name]), "null") for given in every if name in given}) for name in names}
    properties = {name: {"type": kinds[0] if len(kinds) == 1 else kinds} for name, kinds in types.items()}
    required = [name for name in names if all(name in arguments for arguments in every)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _replaying(name: str, calls: Iterable[Mapping[str, Any]]) -> Callable[..., str]:
    results = {_key(call["arguments"]): call for call in calls}

    def replay(**arguments):  # type: ignore[no-untyped-def]  # a type would promise what a recorded text is
        recorded = results.get(_key(arguments))
        if recorded is None:
            call_arguments = ", ".join(f"{key}={render_value(value)}" for key, value in arguments.items())
            raise NotRecorded(f"no result was recorded for {name}({call_arguments})")
        if recorded.get("failed"):
            raise RuntimeError(str(recorded["result"]))
        return recorded["result"]

    return replay


def _key(arguments: Any) -> str:
    return canonical_json(whole_numbers_as_int(arguments))
