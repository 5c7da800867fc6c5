"""From a row to a task: what the user said of the columns, applied to one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema
from pydantic import BaseModel, ConfigDict, Field

from whichloop.protocol import Query
from whichloop.protocol.names import nearest

from ..task import Task
from .columns import (
    MAX_EXACT_DIGITS,
    NAMES,
    CellError,
    Cells,
    RowOptions,
    RowTable,
    between_commas,
    column_named,
    json_cell,
    kind,
    quoted,
    read_value,
    with_point,
)  # fmt: skip
from .json_files import checked, json_value
from .own_tools import ALLOWED, OwnTools
from .plan_model import read_plan

MAX_ID_CHARS = 200
UNPLANNED = "the file gives none"
_NONE_GIVEN = "\0 the plan gives no answer"
"""What no row holds: the answer of a plan that gives none."""


class _Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WholeQuery(_Whole):
    text: str = Field(pattern=r"\S")
    context: str = ""
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class WholeTask(_Whole):
    """A task as `Task.as_dict` writes it."""

    id: str
    query: _WholeQuery
    expected: Any
    scorer: str = "exact"
    plan: dict[str, Any] | list[Any] | str | None = None
    no_plan: str = ""
    quarantined: str = ""
    labels: dict[str, Any] = {}
    world: dict[str, Any] = {}
    end_state: Any = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A row, read by what its columns mean. What is wrong with a cell is a CellError."""

    table: RowTable
    column_of: Mapping[str, str]
    """Meaning → name of its column; meanings without a column are left out."""
    cells: Cells

    def wrong(self, meaning: str, problem: str) -> CellError:
        return CellError(self.column_of.get(meaning, ""), problem)

    def of_column(self, column: str | None) -> Any:
        """Return a cell as JSON; None if it is missing or blank."""
        value = None if column is None else self.cells.get(column)
        if self.table.cells == "python":
            try:
                value = json_cell(value)
            except ValueError as error:
                raise CellError(column or "", str(error)) from None
        return None if value is None or (isinstance(value, str) and not value.strip()) else value

    def cell(self, meaning: str) -> Any:
        return self.of_column(self.column_of.get(meaning))

    def text(self, meaning: str) -> str:
        value = self.cell(meaning)
        if value is not None and not isinstance(value, str):
            raise self.wrong(meaning, f"{kind(value)} where text belongs")
        return value or ""

    def json(self, meaning: str) -> Any:
        """Read a cell that holds JSON, as text or as it is."""
        value = self.cell(meaning)
        try:
            return json_value(value) if isinstance(value, str) else value
        except ValueError as error:
            raise self.wrong(meaning, str(error)) from None

    def object(self, meaning: str) -> dict[str, Any] | None:
        value = self.json(meaning)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(meaning, f"{kind(value)} where a JSON object belongs")
        return value

    def plan(self) -> Any:
        """Return a plan, as JSON, or as text or a list of its lines; None if there is none."""
        value = self.cell("plan")
        return self.json("plan") if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value

    def id(self, index: int) -> str:
        if "id" not in self.column_of:
            return f"{self.table.name}-{index + 1:04d}"
        value = self.cell("id")
        if isinstance(value, float) and value.is_integer():  # a column of whole numbers with gaps, as pandas reads it
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.wrong("id", f"{kind(value)} is not an id")
        return _checked_id(self.column_of["id"], str(value).strip())

    def world(self) -> dict[str, Any]:
        world, names = self.object("world") or {}, self.cell("tools")
        if names is None:
            return world
        if isinstance(names, str):
            names = self.json("tools") if names.strip().startswith("[") else between_commas(names)
        if not _are_names(names):
            raise self.wrong("tools", "neither names with commas between them nor a list of names")
        return {**world, ALLOWED: names}


class RowReader:
    """A reader of one table's rows as tasks."""

    def __init__(self, table: RowTable, options: RowOptions, importer: str, tools: OwnTools) -> None:
        """`importer`: its name, for messages. Raises ValueError for a column that is not there."""
        self.table, self.importer, self.tools = table, importer, tools
        self._named = dict(options.get("columns") or {})
        if unknown := [meaning for meaning in self._named if meaning not in NAMES]:
            raise ValueError(f"columns: no column is meant as {unknown[0]!r}; {nearest(unknown[0], NAMES)}")
        own = {"question": options.get("question"), "answer": options.get("answer")}
        self._named |= {meaning: name for meaning, name in own.items() if name is not None}
        self.scorer = options.get("scorer") or ""
        labels = options.get("labels") or ()
        self.labels = tuple(between_commas(labels) if isinstance(labels, str) else filter(None, labels))
        self._columns_of: dict[tuple[str, ...], Mapping[str, str]] = {}
        if table.columns is not None:
            try:
                for name in filter(None, (*self._named.values(), *self.labels)):
                    if column_named(name, table.columns) is None:
                        raise ValueError(f"no column {name!r}; its columns: {quoted(table.columns)}")
                if "answer" not in self._find(dict.fromkeys(table.columns)) and ":" not in self.scorer:
                    raise ValueError(self._no_answer(table.columns))
            except ValueError as error:
                raise ValueError(f"{table.source}: {error}") from None

    def rows(self) -> Iterable[tuple[int, Cells]]:
        """Give number and cells of each row, of the columns that something is read from."""
        return self.table.rows(None if self.table.columns is None else self._used(self.table.columns))

    def _find(self, cells: Cells) -> Mapping[str, str]:
        """Find what the row's columns mean. Raises ValueError, which lists them, if there is none for the question."""
        columns = self.table.columns or tuple(cells)
        if columns not in self._columns_of:
            folded = {name.strip().casefold(): name for name in reversed(columns)}
            found = {}
            for meaning, names in NAMES.items():
                named = self._named.get(meaning)
                column = next((folded[name] for name in names if name in folded), None) if named is None else None
                column = column_named(named, columns) if named else column
                if column is not None:
                    found[meaning] = column
                elif meaning == "question":
                    lacking = f"no column {named!r}" if named else f"no column for the question ({', '.join(names)})"
                    name_it = f"name it: {self.importer}(question=NAME)"
                    raise ValueError(f"{lacking}; its columns: {quoted(columns)}; {name_it}")
            self._columns_of[columns] = found
        return self._columns_of[columns]

    def _used(self, columns: tuple[str, ...]) -> set[str]:
        """Return the columns of a row that something is read from."""
        return {*self._columns_of[columns].values(), *filter(None, (column_named(label, columns) for label in self.labels))}

    def unused(self) -> str:
        """Return in words which columns of the rows so far nothing is read from; empty if there are none."""
        used = {name for columns in self._columns_of for name in self._used(columns)}
        unused = dict.fromkeys(name for columns in self._columns_of for name in columns if name not in used)
        return f"columns not used: {quoted(unused)}" if unused else ""

    def _no_answer(self, columns: Iterable[str]) -> str:
        name_it = f'{self.importer}(answer=NAME), or a scorer of your own: {self.importer}(scorer="my.module:scorer")'
        return f"no column holds the answer; its columns: {quoted(columns)}; name it: {name_it}"

    def task(self, index: int, cells: Cells, *, is_checked: bool = True) -> Task:
        """Return the task of a row; `index`: 0-based, among the rows. Raises ValueError that names the column.

        `is_checked`: its tools and its scorer have to be there.
        """
        try:
            task = whole_task(cells) if self._is_whole(cells) else self._task_of(self._row(cells), index)
            if is_checked:
                # a scorer that only a row names is refused: code is imported for names that the user typed
                name = task.scorer.partition("(")[0].strip()
                if ":" in name and name != self.scorer.partition("(")[0].strip():
                    raise ValueError(f'scorer {name!r} is code of your own; type its name: {self.importer}(scorer="{name}")')
                self._check_tools(task)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        return task

    def answers_itself(self, cells: Cells) -> bool:
        """Return whether the plan of a row that can be read gives an answer of its own, in place of the row's."""
        plan = cells.get("plan") if self._is_whole(cells) else self._row(cells).plan()
        return plan is not None and read_plan("plan", plan, _NONE_GIVEN).answer != _NONE_GIVEN

    def _is_whole(self, cells: Cells) -> bool:
        return self.table.columns is None and isinstance(cells.get("query"), Mapping)

    def _row(self, cells: Cells) -> _Row:
        return _Row(self.table, self._find(cells), cells)

    def _task_of(self, row: _Row, index: int) -> Task:
        text = row.text("question")
        if not text:
            raise row.wrong("question", "the question is empty")
        schema = row.object("schema")
        if schema is not None:
            _check_schema(row.column_of["schema"], schema)
        scorer = row.text("scorer").strip() or self.scorer
        expected = self._answer(row, scorer)
        plan = row.plan()
        return Task(
            id=row.id(index),
            query=Query(text, row.text("context"), schema),
            expected=expected,
            scorer=scorer or default_scorer(expected, schema),
            plan=None if plan is None else read_plan(row.column_of["plan"], plan, expected),
            no_plan=UNPLANNED if plan is None else "",
            labels=self._labels(row),
            world=row.world(),
            end_state=row.json("end_state"),
        )

    def _answer(self, row: _Row, scorer: str) -> Any:
        value = row.cell("answer")
        if isinstance(value, str) and self.table.cells == "text":
            return read_value(with_point(value) if self.table.decimal_comma else value)
        if value is not None or ":" in scorer:
            return value
        if "answer" not in row.column_of:
            raise ValueError(self._no_answer(self.table.columns or tuple(row.cells)))
        way_out = f'name a scorer of your own: {self.importer}(scorer="my.module:scorer")'
        raise row.wrong("answer", f"the answer is missing; fill it in, or {way_out}")

    def _labels(self, row: _Row) -> dict[str, Any]:
        by_name = {}
        for name, column in (
            *((label, column_named(label, row.cells)) for label in self.labels),
            ("split", row.column_of.get("split")),
        ):
            value = row.of_column(column)
            if isinstance(value, Mapping | list):
                raise CellError(column or "", f"{kind(value)} is not a label")
            if value is not None:
                by_name[name] = value
        return by_name

    def _check_tools(self, task: Task) -> None:
        """Raise ValueError for a tool that is not there."""
        names = task.world.get(ALLOWED)
        if names is not None and not _are_names(names):
            raise ValueError(f"world: {ALLOWED!r} is not a list of names")
        if self.tools.opener is not None:
            if names:
                self.tools.open(task).close()
            return
        every = {tool.name for tool in self.tools.fixed}
        there = every if names is None else every.intersection(names)
        for name in (*(names or ()), *(call.tool for call in (task.plan.calls if task.plan else ()))):
            if name not in there:
                raise ValueError(self.tools.lacks(name, sorted(there if name in every else every)))
        if task.end_state is not None:
            raise ValueError(
                "an end state needs tools that have one: a function of the task that gives an environment, --tools MODULE:NAME"
            )


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


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


def whole_task(row: Mapping[str, Any]) -> Task:
    """Read a task as `Task.as_dict` writes it. Raises ValueError that names the field."""
    whole = checked(WholeTask, row)
    if whole.query.schema_ is not None:
        _check_schema("query", whole.query.schema_)
    fields = {name: value for name, value in row.items() if name not in ("query", "plan", "id", "no_plan")}
    return Task(
        id=_checked_id("id", whole.id),
        query=Query(whole.query.text, whole.query.context, whole.query.schema_),
        plan=None if whole.plan is None else read_plan("plan", whole.plan, whole.expected),
        no_plan=whole.no_plan or (UNPLANNED if whole.plan is None else ""),
        **fields,
    )


def _checked_id(column: str, text: str) -> str:
    if not text or len(text) > MAX_ID_CHARS or not text.isprintable():
        raise CellError(column, f"{text[:60]!r} is not an id: one line of 1 to {MAX_ID_CHARS} printable characters")
    return text


def _check_schema(column: str, schema: Mapping[str, Any]) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise CellError(column, f"not a JSON schema ({' '.join(error.message.split())[:200]})") from None
