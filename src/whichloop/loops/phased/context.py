"""Where results are kept: the context manager for whole runs, the scratchpad for one task of the agent layout."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop.protocol import render_value
from whichloop.protocol.digest import sha256
from whichloop.protocol.values import cap

_POINTER = re.compile(r"[0-9a-f]{16}/[0-9]{6}")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A kept result."""

    pointer: str
    tool: str
    args: Mapping[str, Any]
    result: str
    """The whole result as text, whatever a prompt shows of it."""
    task_id: str
    query_id: str


class ToolContextManager:
    """Keeps results and gives pointers to them: in memory, or one JSON file each under `directory`, where other instances find
    them again."""

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = None if directory is None else Path(directory)
        self._contexts: dict[str, dict[str, ToolContext]] = {}

    def save(self, tool_name: str, args: Mapping[str, Any], result: Any, task_id: str, query_id: str) -> str:
        """Keep a result and return its pointer; what JSON cannot say is kept as text.

        Raises OSError if the directory cannot be written.
        """
        group = sha256(query_id)[:16]
        number = len(self._pointers(group)) + 1
        while True:
            pointer = f"{group}/{number:06d}"
            context = ToolContext(pointer, tool_name, _through_json(args), render_value(result), task_id, query_id)
            if self._put(group, context):
                return pointer
            number += 1

    def load(self, pointers: Iterable[str]) -> list[ToolContext]:
        """Return results in the order of their pointers. Raises KeyError for an unknown pointer."""
        return [self._get(pointer) for pointer in pointers]

    def pointers_for(self, query_id: str) -> list[str]:
        """Return all pointers of a query, oldest first."""
        return self._pointers(sha256(query_id)[:16])

    def _pointers(self, group: str) -> list[str]:
        if self._directory is None:
            return list(self._contexts.get(group, ()))
        return sorted(f"{group}/{file.stem}" for file in (self._directory / group).glob("*.json"))

    def _put(self, group: str, context: ToolContext) -> bool:
        """Keep a context. Return False if another instance has just taken the pointer."""
        if self._directory is None:
            self._contexts.setdefault(group, {})[context.pointer] = context
            return True
        folder = self._directory / group
        folder.mkdir(parents=True, exist_ok=True)
        data = {name: getattr(context, name) for name in _FIELDS}
        with tempfile.TemporaryDirectory(dir=folder) as safe:
            whole = Path(safe) / "context"
            whole.write_text(json.dumps(data), encoding="ascii")
            try:  # a link appears at once and whole, and never replaces what is there
                self._file(context.pointer).hardlink_to(whole)
            except FileExistsError:
                return False
        return True

    def _get(self, pointer: str) -> ToolContext:
        if not _POINTER.fullmatch(pointer):
            raise KeyError(pointer)
        if self._directory is None:
            return self._contexts.get(pointer.partition("/")[0], {})[pointer]
        try:
            data = json.loads(self._file(pointer).read_text(encoding="ascii"))
        except FileNotFoundError:
            raise KeyError(pointer) from None
        return ToolContext(pointer, **{name: data[name] for name in _FIELDS})

    def _file(self, pointer: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{pointer}.json"


_JSON = json.JSONEncoder(default=render_value)
_FIELDS = ("tool", "args", "result", "task_id", "query_id")


def _through_json(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON gives them back, so that memory and directory keep the same."""
    try:
        arguments: dict[str, Any] = json.loads(_JSON.encode(dict(args)))
    except (TypeError, ValueError, RecursionError):
        return {"arguments": render_value(args)}
    return arguments


@dataclass(frozen=True, slots=True)
class ScratchpadEntry:
    """A tool call of the agent layout: its result and summary, or its error."""

    tool: str
    args: Mapping[str, Any]
    result: Any = None
    summary: str = ""
    error: str | None = None
    max_chars: int | None = None
    """Characters of a longer result that prompts show; None for all of it."""


@dataclass(slots=True)
class Scratchpad:
    """The results of one task's tool calls, in order."""

    entries: list[ScratchpadEntry] = field(default_factory=list)

    def add_tool_result(
        self, tool_name: str, tool_args: Mapping[str, Any], result: Any, summary: str, *, max_chars: int | None = None
    ) -> None:
        self.entries.append(ScratchpadEntry(tool_name, tool_args, result, summary, max_chars=max_chars))

    def add_tool_error(self, tool_name: str, tool_args: Mapping[str, Any], error: str) -> None:
        self.entries.append(ScratchpadEntry(tool_name, tool_args, error=error))

    @property
    def text(self) -> str:
        """The text that the model sees."""
        return "\n".join(_entry_text(entry) for entry in self.entries)


def _entry_text(entry: ScratchpadEntry) -> str:
    call = f"{entry.tool}({render_value(entry.args)})"
    if entry.error is not None:
        return f"{call} failed: {entry.error}"
    return f"{call}: {entry.summary or cap(render_value(entry.result), entry.max_chars)}"
