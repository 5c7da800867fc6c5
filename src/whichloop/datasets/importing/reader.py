"""From a row to a task: what the user said of the columns, applied to one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import jsonschema
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from whichloop.protocol import Query
from whichloop.protocol.names import nearest
from whichloop.protocol.values import one_line

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
    quoted,
    read_value,
    with_point,
)  # fmt: skip
from .json_files import Filled, TaskId, checked, json_value
from .own_tools import ALLOWED, OwnTools
from .plan_model import read_plan

UNPLANNED = "the file gives none"
_NONE_GIVEN = "\0 the plan gives no answer"
"""What no row holds: the answer of a plan that gives none."""


def _id_text(value: Any) -> Any:
    if value is None:
        raise ValueError("the id is empty")
    if isinstance(value, float) and value.is_integer():  # a column of whole numbers with gaps, as pandas reads it
        value = int(value)
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else value


def _json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a JSON schema ({one_line(error.message)[:200]})") from None
    return schema


def _names(value: Any) -> Any:
    return between_commas(value) if isinstance(value, str) and not value.strip().startswith("[") else _from_json(value)


def _plan(value: Any) -> Any:
    return _from_json(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def _from_json(value: Any) -> Any:
    return json_value(value) if isinstance(value, str) else value


_Json = BeforeValidator(_from_json)
_Schema = Annotated[dict[str, Any], AfterValidator(_json_schema)]


class _Cells(BaseModel):
    """A row's cells by what they mean; JSON, names and plans may be written as text."""

    model_config = ConfigDict(strict=True)
    question: str = ""
    answer: Any = None
    id: Annotated[TaskId, BeforeValidator(_id_text)] = ""
    context: str = ""
    schema_: Annotated[_Schema, _Json] | None = Field(None, alias="schema")
    tools: Annotated[list[str], BeforeValidator(_names)] | None = None
    scorer: str = ""
    plan: Annotated[Any, BeforeValidator(_plan)] = None
    end_state: Annotated[Any, _Json] = None
    world: Annotated[dict[str, Any], _Json] = {}


class _Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WholeQuery(_Whole):
    text: Filled
    context: str = ""
    schema_: _Schema | None = Field(None, alias="schema")


class WholeTask(_Whole):
    """A task as `Task.as_dict` writes it."""

    id: TaskId
    query: _WholeQuery
    expected: Any
    scorer: str = "exact"
    plan: dict[str, Any] | list[Any] | str | None = None
    no_plan: str = ""
    quarantined: str = ""
    labels: dict[str, Any] = {}
    world: dict[str, Any] = {}
    end_state: Any = None


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
            task = whole_task(cells) if self._is_whole(cells) else self._task_of(cells, index)
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
        plan = cells.get("plan") if self._is_whole(cells) else self._read(cells).plan
        return plan is not None and read_plan("plan", plan, _NONE_GIVEN).answer != _NONE_GIVEN

    def _is_whole(self, cells: Cells) -> bool:
        return self.table.columns is None and isinstance(cells.get("query"), Mapping)

    def _cell(self, column: str | None, cells: Cells) -> Any:
        """Return a cell as JSON; None if it is missing or blank."""
        value = None if column is None else cells.get(column)
        if self.table.cells == "python":
            try:
                value = json_cell(value)
            except ValueError as error:
                raise CellError(column or "", str(error)) from None
        return None if value is None or (isinstance(value, str) and not value.strip()) else value

    def _read(self, cells: Cells) -> _Cells:
        column_of = self._find(cells)
        values = {meaning: self._cell(column, cells) for meaning, column in column_of.items()}
        try:
            return _Cells.model_validate({name: value for name, value in values.items() if value is not None or name == "id"})
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            within = "".join(f", {part}" for part in first["loc"][1:])
            problem = first["msg"].removeprefix("Value error, ")
            raise CellError(column_of[str(first["loc"][0])], problem if not within else f"{within[2:]}: {problem}") from None

    def _task_of(self, cells: Cells, index: int) -> Task:
        column_of, row = self._find(cells), self._read(cells)
        if not row.question:
            raise CellError(column_of["question"], "the question is empty")
        scorer = row.scorer.strip() or self.scorer
        expected = row.answer
        if isinstance(expected, str) and self.table.cells == "text":
            expected = read_value(with_point(expected) if self.table.decimal_comma else expected)
        if expected is None and ":" not in scorer:
            if "answer" not in column_of:
                raise ValueError(self._no_answer(self.table.columns or tuple(cells)))
            way_out = f'name a scorer of your own: {self.importer}(scorer="my.module:scorer")'
            raise CellError(column_of["answer"], f"the answer is missing; fill it in, or {way_out}")
        return Task(
            id=row.id or f"{self.table.name}-{index + 1:04d}",
            query=Query(row.question, row.context, row.schema_),
            expected=expected,
            scorer=scorer or default_scorer(expected, row.schema_),
            plan=None if row.plan is None else read_plan(column_of["plan"], row.plan, expected),
            no_plan=UNPLANNED if row.plan is None else "",
            labels=self._labels(cells),
            world=row.world if row.tools is None else {**row.world, ALLOWED: row.tools},
            end_state=row.end_state,
        )

    def _labels(self, cells: Cells) -> dict[str, Any]:
        columns = [*((label, column_named(label, cells)) for label in self.labels), ("split", self._find(cells).get("split"))]
        by_name = {}
        for name, column in columns:
            value = self._cell(column, cells)
            if isinstance(value, Mapping | list):
                raise CellError(column or "", f"{'a list' if isinstance(value, list) else 'an object'} is not a label")
            if value is not None:
                by_name[name] = value
        return by_name

    def _check_tools(self, task: Task) -> None:
        names = task.world.get(ALLOWED)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError(f"world: {ALLOWED!r} is not a list of names")
        if self.tools.opener is not None:
            if names:
                self.tools.open(task).close()
            return
        every = {tool.name for tool in self.tools.fixed}
        there = every if names is None else every.intersection(names)
        calls = task.plan.calls if task.plan else ()
        places = [("", name) for name in names or ()] + [(f"task {task.id!r}, call {call.id!r}: ", call.tool) for call in calls]
        for place, name in places:
            if name not in there:
                raise ValueError(place + self.tools.lacks(name, sorted(there if name in every else every)))
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


def whole_task(row: Mapping[str, Any]) -> Task:
    """Read a task as `Task.as_dict` writes it. Raises ValueError that names the field."""
    whole = checked(WholeTask, row)
    fields = {name: value for name, value in row.items() if name not in ("query", "plan", "id", "no_plan")}
    return Task(
        id=whole.id,
        query=Query(whole.query.text, whole.query.context, whole.query.schema_),
        plan=None if whole.plan is None else read_plan("plan", whole.plan, whole.expected),
        no_plan=whole.no_plan or (UNPLANNED if whole.plan is None else ""),
        **fields,
    )
