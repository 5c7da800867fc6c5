"""From a row to a task: what the user said of the columns, applied to one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema

from whichloop.protocol import Plan, PlannedCall, Query, plan_from_json
from whichloop.protocol.names import nearest
from whichloop.protocol.plan_lines import read_lines

from ..task import Task
from .columns import (
    MAX_EXACT_DIGITS,
    NAMES,
    CellError,
    Cells,
    Columns,
    RowTable,
    between_commas,
    column_named,
    its_columns,
    json_cell,
    kind,
    no_column,
    not_used,
    read_value,
    with_point,
)
from .json_files import json_value
from .own_tools import ALLOWED, OwnTools
from .plan_model import checked_plan, read_json

MAX_KINDS_OF_ROWS = 1_000
"""Largest number of sets of keys in JSON lines that are remembered."""
MAX_ID_CHARS = 200
UNPLANNED = "the file gives none"
_NONE_GIVEN = "\0 the plan gives no answer"
"""What no row holds: the answer of a plan that gives none."""

ColumnOfMeaning = Mapping[str, str]
"""Meaning → name of its column; meanings without a column are left out."""


class RowReader:
    """A reader of one table's rows as tasks."""

    def __init__(self, table: RowTable, columns: Columns, importer: str, tools: OwnTools) -> None:
        """`importer`: its name, for messages. Raises ValueError for a column that is not there."""
        self.table = table
        self.columns = columns
        self.importer = importer
        self.tools = tools
        self._tool_names = frozenset(tool.name for tool in tools.fixed)
        self._columns_by_header: dict[tuple[str, ...], ColumnOfMeaning] = {}
        self._header: ColumnOfMeaning | None = None
        if table.columns is not None:
            try:
                for name in (*map(self.columns.named, NAMES), *self.columns.labels):
                    if name and column_named(name, table.columns) is None:
                        raise ValueError(no_column(name, table.columns))
                self._header = self._columns_by_header[table.columns] = dict(self._pairs(table.columns))
                if "answer" not in self._header and ":" not in columns.scorer:
                    raise ValueError(self._no_answer(table.columns))
            except ValueError as error:
                raise ValueError(f"{table.source}: {error}") from None
            table.keep(self._used(table.columns))

    def _find(self, cells: Cells) -> ColumnOfMeaning:
        """Find what the row's columns mean. Raises ValueError, which lists them, if there is none for the question."""
        if self._header is not None:
            return self._header
        columns = tuple(cells)
        column_of = self._columns_by_header.get(columns)
        if column_of is None:
            column_of = dict(self._pairs(columns))
            if len(self._columns_by_header) < MAX_KINDS_OF_ROWS:
                self._columns_by_header[columns] = column_of
        return column_of

    def _pairs(self, columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        folded = {name.strip().casefold(): name for name in reversed(columns)}
        for meaning, names in NAMES.items():
            named = self.columns.named(meaning)
            if named is None:
                column = next((folded[name] for name in names if name in folded), None)
            else:
                column = column_named(named, columns) if named else None
            if column is not None:
                yield meaning, column
            elif meaning == "question":
                raise ValueError(self._no_question(columns))

    def _used(self, columns: tuple[str, ...]) -> set[str]:
        """Return the columns of a row that something is read from."""
        labels = (column_named(label, columns) for label in self.columns.labels)
        return {*self._columns_by_header[columns].values(), *(label for label in labels if label is not None)}

    def unused(self) -> str:
        """Return in words which columns of the rows so far nothing is read from, and what may be meant; empty if there are none."""
        used = {name for columns in self._columns_by_header for name in self._used(columns)}
        unused: dict[str, list[str]] = {}
        for columns, column_of in self._columns_by_header.items():
            for name in columns:
                if name not in used and name not in unused:
                    unused[name] = [meaning for meaning in NAMES if meaning not in column_of]
        return not_used(unused) if unused else ""

    def _no_answer(self, columns: tuple[str, ...]) -> str:
        name_it = (
            f'{self.importer}(answer=NAME), or a scorer of your own that needs none: {self.importer}(scorer="my.module:scorer")'
        )
        return f"no column holds the answer; {its_columns(columns)}; name it: {name_it}"

    def _no_question(self, columns: tuple[str, ...]) -> str:
        if named := self.columns.named("question"):
            return f"{no_column(named, columns)}; it is to hold the question"
        looks = f"no column for the question ({', '.join(NAMES['question'])}); {its_columns(columns)}"
        return f"{looks}; name it: {self.importer}(question=NAME)"

    def checked(self, index: int, number: int, cells: Cells) -> Task:
        """Return the task of a row, and check its tools and its scorer.

        Raises ValueError that names source, row and column: a RowError, which holds the mistake, unless the row is nested too deep.
        """
        try:
            task = self.task(index, cells)
            # a scorer that only a row names is refused: code is imported for names that the user typed
            name = task.scorer.partition("(")[0].strip()
            if ":" in name and name != self.columns.scorer.partition("(")[0].strip():
                raise ValueError(
                    f'scorer {name!r} is code of your own; type its name to let it be imported: {self.importer}(scorer="{name}")'
                )
            self._check_tools(task)
        except RecursionError:
            raise ValueError(f"{self.at(number)}: it is nested too deep") from None
        except ValueError as error:
            raise RowError(self.at(number), error) from None  # one traceback for who reads it in a notebook
        return task

    def task(self, index: int, cells: Cells) -> Task:
        """Return the task of a row; `index`: 0-based, among the rows. Raises ValueError that names the column."""
        if self.table.columns is None and isinstance(cells.get("query"), Mapping):
            return whole_task(cells)
        return self._task_of(self._find(cells), index, cells)

    def answers_itself(self, cells: Cells) -> bool:
        """Return whether the plan of a row that can be read gives an answer of its own, in place of the row's."""
        whole = self.table.columns is None and isinstance(cells.get("query"), Mapping)
        plan = cells.get("plan") if whole else self._plan(self._find(cells), cells)
        return plan is not None and read_plan("plan", plan, _NONE_GIVEN).answer != _NONE_GIVEN

    def at(self, number: int) -> str:
        """Return a row's place in words."""
        return f"{self.table.source}, {self.table.unit} {number}"

    def _task_of(self, column_of: ColumnOfMeaning, index: int, cells: Cells) -> Task:
        text = self._text(column_of, "question", cells)
        if not text:
            raise CellError(column_of["question"], "the question is empty")
        schema = self._object(column_of, "schema", cells)
        if schema is not None:
            _check_schema(column_of["schema"], schema)
        scorer = self._text(column_of, "scorer", cells).strip() or self.columns.scorer
        expected = self._answer(column_of, cells, scorer)
        plan = self._plan(column_of, cells)
        return Task(
            id=self._id(column_of, index, cells),
            query=Query(text, self._text(column_of, "context", cells), schema),
            expected=expected,
            scorer=scorer or default_scorer(expected, schema),
            plan=None if plan is None else read_plan(column_of["plan"], plan, expected),
            no_plan=UNPLANNED if plan is None else "",
            labels=self._labels(column_of, cells),
            world=self._world(column_of, cells),
            end_state=self._json(column_of, "end_state", cells),
        )

    def _cell(self, column: str | None, cells: Cells) -> Any:
        """Return a cell as JSON; None if it is missing or blank."""
        value = None if column is None else cells.get(column)
        if self.table.cells == "python":
            try:
                value = json_cell(value)
            except ValueError as error:
                raise CellError(column or "", str(error)) from None
        return None if value is None or (isinstance(value, str) and not value.strip()) else value

    def _text(self, column_of: ColumnOfMeaning, meaning: str, cells: Cells) -> str:
        column = column_of.get(meaning)
        value = self._cell(column, cells)
        if value is not None and not isinstance(value, str):
            raise CellError(column or "", f"{kind(value)} where text belongs")
        return value or ""

    def _answer(self, column_of: ColumnOfMeaning, cells: Cells, scorer: str) -> Any:
        column = column_of.get("answer")
        value = self._cell(column, cells)
        if value is not None:
            if not isinstance(value, str):
                return value
            written = with_point(value) if self.table.decimal_comma else value
            return read_value(written) if self.table.cells == "text" else value
        if ":" in scorer:
            return None
        if column is None:
            raise ValueError(self._no_answer(self.table.columns or tuple(cells)))
        raise CellError(
            column,
            "the answer is missing: a task without one cannot be scored; fill it in, or name a scorer of your own: "
            f'{self.importer}(scorer="my.module:scorer")',
        )

    def _id(self, column_of: ColumnOfMeaning, index: int, cells: Cells) -> str:
        column = column_of.get("id")
        if column is None:
            return f"{self.table.name}-{index + 1:04d}"
        value = self._cell(column, cells)
        if isinstance(value, float) and value.is_integer():  # a column of whole numbers with gaps, as pandas reads it
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise CellError(column, f"{kind(value)} is not an id")
        return _checked_id(column, str(value).strip())

    def _json(self, column_of: ColumnOfMeaning, meaning: str, cells: Cells) -> Any:
        """Read a cell that holds JSON, as text or as it is."""
        column = column_of.get(meaning)
        value = self._cell(column, cells)
        if not isinstance(value, str):
            return value
        try:
            return json_value(value)
        except ValueError as error:
            raise CellError(column or "", str(error)) from None

    def _plan(self, column_of: ColumnOfMeaning, cells: Cells) -> Any:
        """Return a plan, as JSON, or as text or a list of its lines; None if there is none."""
        value = self._cell(column_of.get("plan"), cells)
        return self._json(column_of, "plan", cells) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value

    def _object(self, column_of: ColumnOfMeaning, meaning: str, cells: Cells) -> dict[str, Any] | None:
        value = self._json(column_of, meaning, cells)
        if value is not None and not isinstance(value, dict):
            raise CellError(column_of[meaning], f"{kind(value)} where a JSON object belongs")
        return value

    def _labels(self, column_of: ColumnOfMeaning, cells: Cells) -> dict[str, Any]:
        by_name = {}
        labels = ((label, column_named(label, cells)) for label in self.columns.labels)
        for name, column in (*labels, ("split", column_of.get("split"))):
            value = self._cell(column, cells)
            if isinstance(value, Mapping | list):
                raise CellError(column or "", f"{kind(value)} is not a label")
            if value is not None:
                by_name[name] = value
        return by_name

    def _world(self, column_of: ColumnOfMeaning, cells: Cells) -> dict[str, Any]:
        world = self._object(column_of, "world", cells) or {}
        names = self._cell(column_of.get("tools"), cells)
        if names is None:
            return world
        if isinstance(names, str):
            names = self._json(column_of, "tools", cells) if names.strip().startswith("[") else between_commas(names)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CellError(column_of["tools"], "neither names with commas between them nor a list of names")
        return {**world, ALLOWED: names}

    def _check_tools(self, task: Task) -> None:
        """Raise ValueError for a tool that is not there."""
        names = task.world.get(ALLOWED)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError(f"world: {ALLOWED!r} is not a list of names")
        if self.tools.opener is not None:
            if names:
                self.tools.open(task).close()
            return
        tool_names = self._tool_names if names is None else self._tool_names.intersection(names)
        wanted = [*(names or ()), *(call.tool for call in task.plan.calls)] if task.plan else names or ()
        for name in wanted:
            if name not in tool_names:
                raise ValueError(self.tools.lacks(name, sorted(tool_names if name in self._tool_names else self._tool_names)))
        if task.end_state is not None:
            raise ValueError(
                "an end state needs tools that have one: a function of the task that gives an environment, --tools MODULE:NAME"
            )


def default_scorer(expected: Any, schema: Mapping[str, Any] | None) -> str:
    """Return the scorer for an answer of this type, see `whichloop.datasets.importing.columns`."""
    if schema is not None:
        return "schema"
    if isinstance(expected, str | bool):  # True is said as true, True or TRUE
        return "normalized"
    if isinstance(expected, float) and not expected.is_integer():
        return "numeric"
    if isinstance(expected, int | float):
        return "numeric(tolerance=0)" if abs(expected) < 10**MAX_EXACT_DIGITS else "exact"
    return "exact"


_FIELDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "query": (Mapping,),
    "scorer": (str,),
    "plan": (Mapping, str, list, type(None)),
    "no_plan": (str,),
    "quarantined": (str,),
    "labels": (Mapping,),
    "world": (Mapping,),
    "expected": (object,),
    "end_state": (object,),
}


_QUERY_FIELDS: Mapping[str, tuple[type, ...]] = {"text": (str,), "context": (str,), "schema": (Mapping, type(None))}


def whole_task(row: Mapping[str, Any]) -> Task:
    """Read a task as `Task.as_dict` writes it. Raises ValueError that names the field."""
    for fields, known_fields in ((row, _FIELDS), (row["query"], _QUERY_FIELDS)):
        for name, value in fields.items():
            if name not in known_fields:
                raise CellError(name, f"a task (a row with an object in 'query') has no such field; {nearest(name, known_fields)}")
            if not isinstance(value, known_fields[name]):
                raise CellError(name, f"{kind(value)} does not belong here")
    if missing := [name for name in ("id", "expected") if name not in row]:
        raise CellError(missing[0], "a task (a row with an object in 'query') must have it")
    query_fields: dict[str, Any] = {"text": ""} | dict(row["query"])
    query = Query(**query_fields)
    if not query.text.strip():
        raise CellError("query", "the question is empty")
    if query.schema is not None:
        _check_schema("query", query.schema)
    plan = row.get("plan")
    task_fields = {name: value for name, value in row.items() if name not in ("query", "plan", "id")}
    if plan is None and not row.get("no_plan"):
        task_fields["no_plan"] = UNPLANNED
    return Task(
        id=_checked_id("id", row["id"]),
        query=query,
        plan=None if plan is None else read_plan("plan", plan, row["expected"]),
        **task_fields,
    )


def read_plan(column: str, value: Any, expected: Any) -> Plan:
    """Read a plan: in JSON as `plan_to_json` writes it or as its list of calls, or a line per call, as text or a list of lines.

    `expected`: the answer of a plan whose lines, or whose list, give none. Raises ValueError that says what is wrong.
    """
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value)):
        read = read_lines(value, expected)
        if read.mistakes:
            raise BrokenPlan(column, [str(mistake) for mistake in read.mistakes], read.calls.values())
        return Plan(tuple(read.calls.values()), read.answer)
    if isinstance(value, list) and all(isinstance(call, Mapping) for call in value):
        value = {"calls": value, "answer": expected}
    try:
        return plan_from_json(checked_plan(value))
    except (TypeError, ValueError) as error:
        parts = read_json(value)
        raise BrokenPlan(column, [mistake.text for mistake in parts.mistakes] or [str(error)], parts.calls.values()) from None


class RowError(ValueError):
    """A row cannot be read as a task: the text names its place and the mistake."""

    def __init__(self, place: str, mistake: ValueError) -> None:
        super().__init__(f"{place}, {mistake}")
        self.mistake = mistake
        """What is wrong with the row, such as a BrokenPlan."""


class BrokenPlan(CellError):
    """What is wrong with the plan in a cell: the text names the first mistake."""

    def __init__(self, column: str, mistakes: Sequence[str], calls: Iterable[PlannedCall]) -> None:
        """`mistakes`: all of them, in their order. `calls`: those that can be read."""
        texts = [f"not a plan ({mistake.removeprefix('plan: ').removeprefix('plan, ')})" for mistake in mistakes]
        super().__init__(column, texts[0])
        self.each = tuple(CellError(column, text) for text in texts)
        """A mistake each."""
        self.calls = tuple(calls)


def _checked_id(column: str, text: str) -> str:
    if not text or len(text) > MAX_ID_CHARS or not text.isprintable():
        excerpt = f"{text[:60]!r}" + ("…" if len(text) > 60 else "")
        raise CellError(column, f"{excerpt} is not an id: one line of 1 to {MAX_ID_CHARS} printable characters")
    return text


def _check_schema(column: str, schema: Mapping[str, Any]) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise CellError(column, f"not a JSON schema ({' '.join(error.message.split())[:200]})") from None
