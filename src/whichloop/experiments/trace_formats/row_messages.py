"""Chat messages in a row of a table, as OpenAI's clients log them: what happened in the trial that the row is of.

Such messages do not say whether a call failed, but many agents begin the result of one that did with `Error:` or an exception's
name, or put it under `error`. These are read as failed; of all others it is not told.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.experiments.import_runs.foreign_trials import ForeignTrace, ReadingOptions
from whichloop.experiments.import_runs.table_rows import FileRow
from whichloop.experiments.import_runs.values import is_nothing, json_array, located, short_value
from whichloop.metrics.trace import ToolRun
from whichloop.protocol.values import counted
from whichloop.protocol.wire import from_json

from .conversation import CallResult, ConversationItem, SaidToModel, answer_in, events_of, items_of, untold_of, untold_result

MEANING = "messages"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_FAILED = re.compile(r"\s*(?:\w+\.)*(\w*(?:Error|Exception))\s*:|\s*(Traceback) \(most recent call last\)")
"""How the result of a call that failed begins."""
_UNTOLD_ERROR = "Error"
MAX_ODD = 5
"""Rows without readable messages that are told with their reasons."""


@dataclass(frozen=True, slots=True)
class RowMessages:
    """What the messages of a row say."""

    trace: ForeignTrace
    answer: str
    """The last reply, if it calls nothing."""

    @property
    def failed(self) -> int:
        """Number of calls whose results are read as errors."""
        return sum(isinstance(event, ToolRun) and not event.ok for event in self.trace.events)


@dataclass(frozen=True, slots=True)
class MessagesOfRows:
    """What the messages of all rows say."""

    each: Sequence[RowMessages | None]
    """None for a row whose cell is empty or cannot be read."""
    odd: Sequence[tuple[str, str]]
    """Place and reason of each cell that cannot be read."""

    def notes(self, column: str) -> Iterator[str]:
        """Yield which rows have no trace, since their cells are no messages."""
        if self.odd:
            named = "; ".join(f"{place}: {reason}" for place, reason in self.odd[:MAX_ODD])
            more = f"; and {counted(len(self.odd) - MAX_ODD, 'other')}" if len(self.odd) > MAX_ODD else ""
            trials = counted(len(self.odd), "trial has", "trials have")
            yield f"column {short_value(column)} is read as messages, and {trials} no trace: {named}{more}"


def messages_of(rows: Sequence[FileRow]) -> MessagesOfRows:
    """Read the messages of each row, whose cells stand under the meanings of their columns."""
    each, odd = list[RowMessages | None](), list[tuple[str, str]]()
    for row in rows:
        try:
            each.append(read_messages(row.cells.get(MEANING)))
        except ValueError as error:
            each.append(None)
            odd.append((row.place, str(error)))
    return MessagesOfRows(each, odd)


def with_messages(
    names: Sequence[str], rows: Sequence[FileRow], columns: Mapping[str, str], reading: ReadingOptions
) -> dict[str, str]:
    """Return the columns by meaning with that of the messages: the one that the user named, or the first that holds some."""
    if MEANING in reading.columns:
        return dict(columns)
    others = {meaning: name for meaning, name in columns.items() if meaning != MEANING}
    free = (name for name in names if name and name not in others.values())
    column = next((name for name in free if _Cells.of(name, rows).is_of_messages), None)
    return others if column is None else others | {MEANING: column}


def chats_left_out(names: Iterable[str], rows: Sequence[FileRow]) -> Iterator[str]:
    """Yield of each of these columns, which are left out, why it is where some of its cells are chats."""
    for name in names:
        cells = _Cells.of(name, rows)
        if cells.chats:
            place, reason = cells.first_odd
            odd = f"{len(cells.odd):,} of {counted(len(cells.odd) + len(cells.read), 'cell')}"
            sentence = (
                f"column {short_value(name)} holds chats and is left out, since {odd} cannot be read, such as {place}: {reason}"
            )
            yield f"{sentence}; to read all of them or be told what is wrong: --map {shlex.quote(f'{MEANING}={name}')}"


@dataclass(frozen=True, slots=True)
class _Cells:
    """The filled cells of a column, as messages."""

    read: Sequence[Sequence[Any]]
    """Those of messages alone."""
    odd: Sequence[tuple[str, Any]]
    """Place and content of the others."""

    @classmethod
    def of(cls, name: str, rows: Sequence[FileRow]) -> _Cells:
        read, odd = list[Sequence[Any]](), list[tuple[str, Any]]()
        for row in rows:
            cell = row.cells.get(name)
            if not is_nothing(cell):
                items = _items_in(cell)
                is_read = items is not None and all(isinstance(item, Mapping) and item.get("role") in _ROLES for item in items)
                if items is not None and is_read:
                    read.append(items)
                else:
                    odd.append((row.place, cell))
        return cls(read, odd)

    @property
    def is_of_messages(self) -> bool:
        """Whether at least half of the cells can be read, and an agent says something in one of them."""
        replies = any(item["role"] == "assistant" for items in self.read for item in items)  # else it is what was asked
        return replies and len(self.read) >= len(self.odd)

    @property
    def chats(self) -> bool:
        """Whether an agent says something in some cell, be it read or not."""
        each = (*self.read, *(items for _, cell in self.odd if (items := _items_in(cell)) is not None))
        return any(isinstance(item, Mapping) and item.get("role") == "assistant" for items in each for item in items)

    @property
    def first_odd(self) -> tuple[str, str]:
        """Place and reason of the first cell that cannot be read."""
        place, cell = self.odd[0]
        try:
            read_messages(cell)
        except ValueError as error:
            return place, str(error)
        return place, "it holds no chat"


def _items_in(cell: Any) -> Sequence[Any] | None:
    """Return the items of a list, also where it is the text of a JSON array; None for anything else."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            cell = from_json(cell)
        except ValueError:
            return None
    return cell if isinstance(cell, list) else None


def read_messages(cell: Any) -> RowMessages | None:
    """Return what the messages of a cell say, also where they are the text of a JSON array; None for an empty cell.

    Raises ValueError that names the message.
    """
    if is_nothing(cell):
        return None
    messages = _as_list(cell)
    items = tuple(items_of(messages, _result))
    events = events_of(items)
    untold = {"provider", *untold_of(events), *(() if _has_raw_arguments(messages) else ("wire",))}
    return RowMessages(ForeignTrace(events, _asked(items), untold=tuple(sorted(untold))), answer_in(items))


def failed_calls(read: Sequence[RowMessages]) -> Iterator[str]:
    """Yield what the user is told of calls whose results are read as errors; nothing where there are none."""
    failed = sum(one.failed for one in read)
    runs = sum(isinstance(event, ToolRun) for one in read for event in one.trace.events)
    if failed:
        one = "is that of a call that failed, as it names an error"
        are = one if failed == 1 else "are those of calls that failed, as they name errors"
        yield f"{failed:,} of {counted(runs, 'result')} of tools {are}"


def _as_list(cell: Any) -> Sequence[Any]:
    if isinstance(cell, str):
        with located("the cell is a text that is no JSON array"):
            cell = from_json(cell)
    return json_array(cell, "the cell")


def _asked(items: Sequence[ConversationItem]) -> str:
    return next((item.text for item in items if isinstance(item, SaidToModel) and item.role == "user"), "")


def _has_raw_arguments(messages: Sequence[Any]) -> bool:
    """Tell whether the arguments of all calls are texts, as the model wrote them."""
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return all(isinstance((call.get("function") or call).get("arguments"), str) for call in calls)


def _result(message: Mapping[str, Any], text: str) -> CallResult:
    """Read a tool's message, whose text may say that the call failed."""
    result = untold_result(message, text)
    kind = _error_in(message, text)
    return CallResult(text, result.call_id, result.tool, True, kind) if kind else result


def _error_in(message: Mapping[str, Any], text: str) -> str:
    """Return the kind of the error that a result names; empty where it names none."""
    if message.get("is_error") is True or message.get("status") == "error":
        return _UNTOLD_ERROR
    begins = _FAILED.match(text)
    if begins is not None:
        return begins[1] or _UNTOLD_ERROR
    if not text.lstrip().startswith("{"):
        return ""
    try:
        data = from_json(text)
    except ValueError:
        return ""
    return _UNTOLD_ERROR if isinstance(data, Mapping) and data.get("error") else ""
