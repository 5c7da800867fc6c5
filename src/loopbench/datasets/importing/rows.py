"""What the importers of the user's own tasks share: what columns mean, one pass that checks all rows, tasks read when asked for.

A format is a `RowTable`: it gives rows with the place where each is found again. The pass keeps 8 bytes per row, and 8 more for an
id that stands in the file, so that a file of any size fits; a task is made of its row anew each time it is asked for.

A column is found by its name (`NAMES`, the first one there) or named by an option, in any case. What a cell means:

- `answer`: text as it is, in a CSV file a number or a JSON list or object as that value. Without one a task can be scored by a
  scorer of the user's own only.
- `scorer`: for this row; else the option `scorer`; else by the answer: `schema` where the row has a schema, `numeric` for numbers
  (whole ones exactly), `exact` for lists and objects (as JSON), `normalized` for text.
- `tools`: names of the only tools that the task has, with commas between them or as a JSON list; all where left out.
- `schema`, `plan`, `world`, `end_state`: JSON, as `Task.as_dict` writes it.

A row of JSON lines with an object in `query` is a whole task, as `Task.as_dict` writes it: a learned suite is one.
"""

from __future__ import annotations

import datetime
import decimal
import difflib
import hashlib
import logging
import math
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, overload

from loopbench.protocol import Plan, Query, plan_from_json
from loopbench.protocol.digest import canonical_json, digest
from loopbench.protocol.names import nearest

from ..task import SPARE_TOOL_STEPS, Suite, Task
from .json_files import json_value
from .own_tools import ALLOWED, NO_TOOLS, OwnTools

logger = logging.getLogger(__name__)

NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "prompt", "input", "query"),
    "answer": ("answer", "expected", "gold", "target", "output"),
    **{name: (name,) for name in ("id", "context", "schema", "tools", "scorer", "split", "plan", "end_state", "world")},
}
"""What a column may mean, and the names by which it is found, the first one there."""
MAX_SCORERS = 1_000
"""Different ones in one file."""
MAX_KINDS_OF_ROWS = 1_000
"""Sets of keys in JSON lines that are remembered."""
MAX_ID_CHARS = 200
MAX_EXACT_DIGITS = 15
"""A whole number of so many digits is one float, and no other number is."""
UNPLANNED = "the file gives none"
_DEFAULT_STEPS = 10
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?P<rest>(?:\.\d+)?(?:[eE][-+]?\d+)?)", re.ASCII)

Cells = Mapping[str, Any]
"""A row: the cell under each column; None where a row has none."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What the user says of the columns, and what holds for all rows."""

    question: str | None = None
    """Name of the column; None: found by its name."""
    answer: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """Meaning → name of the column; an empty name: there is none, whatever the columns are called."""
    scorer: str = ""
    """Of rows that name none."""
    labels: tuple[str, ...] = ()
    """Columns that become labels."""

    @classmethod
    def of(
        cls,
        question: str | None = None,
        answer: str | None = None,
        columns: Mapping[str, str] | None = None,
        scorer: str = "",
        labels: str | Sequence[str] = (),
    ) -> Columns:
        """From an importer's options. Raises ValueError for a meaning that there is none of."""
        others = dict(columns or {})
        if unknown := [name for name in others if name not in NAMES]:
            raise ValueError(f"columns: no column is meant as {unknown[0]!r}; {nearest(unknown[0], NAMES)}")
        named = [part.strip() for part in labels.split(",")] if isinstance(labels, str) else list(labels)
        return cls(question, answer, others, scorer, tuple(name for name in named if name))

    def named(self, meaning: str) -> str | None:
        """The column that the user named for a meaning; None where none was, empty where there is to be none."""
        own = {"question": self.question, "answer": self.answer}.get(meaning)
        return self.others.get(meaning) if own is None else own


class RowTable(ABC):
    """Rows of one format. All errors are ValueErrors of one line that name the source and, where there is one, the row."""

    source: str
    """File, or what stands for one, for messages."""
    name: str
    """What the suite is called."""
    unit: Literal["line", "row"] = "row"
    """What a row's number counts, from 1 on."""
    cells: Literal["text", "json", "python"] = "python"
    """What cells are: text, of which numbers and JSON have to be read; JSON; or objects that JSON has yet to be made of."""
    columns: tuple[str, ...] | None = None
    """The same for all rows; None: each row has its own."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """(place, number, cells) of each row."""

    @abstractmethod
    def row(self, place: int) -> Cells:
        """The row at a place. Raises ValueError where the file has changed."""

    def keep(self, columns: Collection[str]) -> None:
        """Only these columns will be looked at."""
        return None


# --- cells ---


class CellError(ValueError):
    """What is wrong with a cell; `column`: its name, empty where the row as a whole is meant."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f"column {column!r}: {problem}" if column else problem)


def plain(value: Any) -> Any:
    """A cell of a typed format as JSON: dates as ISO text, NaN as None. Raises ValueError for what JSON cannot say."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("infinity is no JSON")
        return None if math.isnan(value) else value
    if isinstance(value, decimal.Decimal):
        return plain(int(value) if value == value.to_integral_value() else float(value)) if value.is_finite() else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise ValueError("a key is no text")
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain(value.tolist())
    raise ValueError(f"a {type(value).__name__} is no JSON value")


def read_value(text: str) -> Any:
    """What a text of a format without types stands for: a number, a JSON list or object, else itself."""
    bare = text.strip()
    number = _NUMBER.fullmatch(bare)
    if number is not None:
        if not number["rest"]:
            return int(bare) if len(bare.lstrip("-")) <= MAX_EXACT_DIGITS else text
        return float(bare) if math.isfinite(float(bare)) else text
    if bare[:1] in ("[", "{"):
        try:
            return json_value(bare)
        except ValueError:
            return text
    return text


# --- from a row to a task ---


Found = Mapping[str, str]
"""Meaning → name of the column that has it; meanings that no column has are left out."""


class RowReader:
    """Makes tasks of rows: what the user said of the columns, applied to one table."""

    def __init__(self, table: RowTable, columns: Columns, importer: str, tools: OwnTools) -> None:
        """`importer`: its name, for messages. Raises ValueError where a column is not there."""
        self.table = table
        self.columns = columns
        self.importer = importer
        self.tools = tools
        self._tool_names = frozenset(tool.name for tool in tools.fixed)
        self._found: dict[tuple[str, ...], Found] = {}
        self._header: Found | None = None
        if table.columns is not None:
            try:
                self._check_named(table.columns)
                self._header = self._found[table.columns] = dict(self._pairs(table.columns))
                if "answer" not in self._header and ":" not in columns.scorer:
                    raise ValueError(self._no_answer(table.columns))
            except ValueError as error:
                raise ValueError(f"{table.source}: {error}") from None
            table.keep(self._used(table.columns))

    def _find(self, cells: Cells) -> Found:
        """What the row's columns mean. Raises ValueError, which lists them, where the question is not there."""
        if self._header is not None:
            return self._header
        columns = tuple(cells)
        found = self._found.get(columns)
        if found is None:
            found = dict(self._pairs(columns))
            if len(self._found) < MAX_KINDS_OF_ROWS:
                self._found[columns] = found
        return found

    def _pairs(self, columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        folded = {name.strip().casefold(): name for name in reversed(columns)}
        for meaning, names in NAMES.items():
            named = self.columns.named(meaning)
            if named is None:
                column = next((folded[name] for name in names if name in folded), None)
            else:
                column = _column_named(named, columns) if named else None
            if column is not None:
                yield meaning, column
            elif meaning == "question":
                raise ValueError(self._no_question(columns))

    def _check_named(self, columns: tuple[str, ...]) -> None:
        """Of a table with a header: all columns that the user named must be there."""
        for name in (*map(self.columns.named, NAMES), *self.columns.labels):
            if name and _column_named(name, columns) is None:
                raise ValueError(_no_column(name, columns))

    def _used(self, columns: tuple[str, ...]) -> set[str]:
        """Those of a row's columns that something is read from."""
        labels = (_column_named(label, columns) for label in self.columns.labels)
        return {*self._found[columns].values(), *(label for label in labels if label is not None)}

    def unused(self) -> tuple[str, ...]:
        """Columns of the rows so far that nothing is read from."""
        used = {name for columns in self._found for name in self._used(columns)}
        return tuple(dict.fromkeys(name for columns in self._found for name in columns if name not in used))

    def _no_answer(self, columns: tuple[str, ...]) -> str:
        name_it = (
            f'{self.importer}(answer=NAME), or a scorer of your own that needs none: {self.importer}(scorer="my.module:scorer")'
        )
        return f"no column holds the answer; {_listed(columns)}; name it: {name_it}"

    def _no_question(self, columns: tuple[str, ...]) -> str:
        if named := self.columns.named("question"):
            return f"{_no_column(named, columns)}; it is to hold the question"
        looks = f"no column for the question ({', '.join(NAMES['question'])}); {_listed(columns)}"
        other = next((mark for mark in (";", "\t", "|") if len(columns) == 1 and mark in columns[0]), None)
        if other is not None and self.importer == "csv":
            return f'{looks}; cells may be separated by another sign: csv(delimiter="{other}")'.replace("\t", "\\t")
        return f"{looks}; name it: {self.importer}(question=NAME)"

    def checked(self, index: int, number: int, cells: Cells) -> Task:
        """The task of a row, its tools and its scorer looked at too. Raises ValueError that names source, row and column."""
        try:
            task = self.task(index, cells)
            self._check_scorer(task.scorer)
            self._check_tools(task)
        except RecursionError:
            raise ValueError(f"{self.at(number)}: it is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"{self.at(number)}, {error}") from None
        return task

    def task(self, index: int, cells: Cells) -> Task:
        """The task of a row; `index`: 0-based, among the rows. Raises ValueError that names the column."""
        if self.table.columns is None and isinstance(cells.get("query"), Mapping):
            return whole_task(cells)
        return self._task_of(self._find(cells), index, cells)

    def at(self, number: int) -> str:
        """A row's place in words."""
        return f"{self.table.source}, {self.table.unit} {number}"

    def _task_of(self, found: Found, index: int, cells: Cells) -> Task:
        text = self._text(found, "question", cells)
        if not text:
            raise CellError(found["question"], "the question is empty")
        schema = self._object(found, "schema", cells)
        if schema is not None:
            _check_schema(found["schema"], schema)
        scorer = self._text(found, "scorer", cells).strip() or self.columns.scorer
        expected = self._answer(found, cells, scorer)
        plan = self._json(found, "plan", cells)
        return Task(
            id=self._id(found, index, cells),
            query=Query(text, self._text(found, "context", cells), schema),
            expected=expected,
            scorer=scorer or default_scorer(expected, schema),
            plan=None if plan is None else read_plan(found["plan"], plan),
            no_plan=UNPLANNED if plan is None else "",
            labels=self._labels(found, cells),
            world=self._world(found, cells),
            end_state=self._json(found, "end_state", cells),
        )

    def _cell(self, column: str | None, cells: Cells) -> Any:
        """As JSON; None where it is missing."""
        value = None if column is None else cells.get(column)
        if self.table.cells == "python":
            try:
                value = plain(value)
            except ValueError as error:
                raise CellError(column or "", str(error)) from None
        return None if value is None or (isinstance(value, str) and not value.strip()) else value

    def _text(self, found: Found, meaning: str, cells: Cells) -> str:
        column = found.get(meaning)
        value = self._cell(column, cells)
        if value is not None and not isinstance(value, str):
            raise CellError(column or "", f"{_kind(value)} where text belongs")
        return value or ""

    def _answer(self, found: Found, cells: Cells, scorer: str) -> Any:
        column = found.get("answer")
        value = self._cell(column, cells)
        if value is not None:
            return read_value(value) if self.table.cells == "text" else value
        if ":" in scorer:
            return None
        if column is None:
            raise ValueError(self._no_answer(self.table.columns or tuple(cells)))
        raise CellError(
            column,
            "the answer is missing: a task without one cannot be scored; fill it in, or name a scorer of your own: "
            f'{self.importer}(scorer="my.module:scorer")',
        )

    def _id(self, found: Found, index: int, cells: Cells) -> str:
        column = found.get("id")
        if column is None:
            return f"{self.table.name}-{index + 1:04d}"
        value = self._cell(column, cells)
        if isinstance(value, float) and value.is_integer():  # a column of whole numbers with gaps, as pandas reads it
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise CellError(column, f"{_kind(value)} is no id")
        return _checked_id(column, str(value).strip())

    def _json(self, found: Found, meaning: str, cells: Cells) -> Any:
        """A cell that holds JSON, as text or as it is."""
        column = found.get(meaning)
        value = self._cell(column, cells)
        if not isinstance(value, str):
            return value
        try:
            return json_value(value)
        except ValueError as error:
            raise CellError(column or "", str(error)) from None

    def _object(self, found: Found, meaning: str, cells: Cells) -> dict[str, Any] | None:
        value = self._json(found, meaning, cells)
        if value is not None and not isinstance(value, dict):
            raise CellError(found[meaning], f"{_kind(value)} where a JSON object belongs")
        return value

    def _labels(self, found: Found, cells: Cells) -> dict[str, Any]:
        made = {}
        labels = ((label, _column_named(label, cells)) for label in self.columns.labels)
        for name, column in (*labels, ("split", found.get("split"))):
            value = self._cell(column, cells)
            if isinstance(value, Mapping | list):
                raise CellError(column or "", f"{_kind(value)} is no label")
            if value is not None:
                made[name] = value
        return made

    def _world(self, found: Found, cells: Cells) -> dict[str, Any]:
        world = self._object(found, "world", cells) or {}
        names = self._cell(found.get("tools"), cells)
        if names is None:
            return world
        if isinstance(names, str):
            names = self._json(found, "tools", cells) if names.strip().startswith("[") else _between_commas(names)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CellError(found["tools"], "neither names with commas between them nor a list of names")
        return {**world, ALLOWED: names}

    def _check_scorer(self, scorer: str) -> None:
        """Code is imported for names that the user typed, never because a row names it."""
        name = scorer.partition("(")[0].strip()
        if ":" in name and name != self.columns.scorer.partition("(")[0].strip():
            raise ValueError(
                f'scorer {name!r} is code of your own; type its name to let it be imported: {self.importer}(scorer="{name}")'
            )

    def _check_tools(self, task: Task) -> None:
        """Raises ValueError for a tool that is not there."""
        names = task.world.get(ALLOWED)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError(f"world: {ALLOWED!r} is no list of names")
        if self.tools.opener is not None:
            if names:
                self.tools.open(task).close()
            return
        known = self._tool_names if names is None else self._tool_names.intersection(names)
        wanted = [*(names or ()), *(call.tool for call in task.plan.calls)] if task.plan else names or ()
        for name in wanted:
            if name not in known:
                raise ValueError(self.tools.lacks(name, sorted(known if name in self._tool_names else self._tool_names)))
        if task.end_state is not None:
            raise ValueError(
                "an end state needs tools that have one: a function of the task that gives an environment, --tools MODULE:NAME"
            )


def default_scorer(expected: Any, schema: Mapping[str, Any] | None) -> str:
    """By the answer's type, see above."""
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
    "plan": (Mapping, type(None)),
    "no_plan": (str,),
    "quarantined": (str,),
    "labels": (Mapping,),
    "world": (Mapping,),
    "expected": (object,),
    "end_state": (object,),
}
_QUERY_FIELDS: Mapping[str, tuple[type, ...]] = {"text": (str,), "context": (str,), "schema": (Mapping, type(None))}


def whole_task(row: Mapping[str, Any]) -> Task:
    """A task as `Task.as_dict` writes it. Raises ValueError that names the field."""
    for given, known in ((row, _FIELDS), (row["query"], _QUERY_FIELDS)):
        for name, value in given.items():
            if name not in known:
                raise CellError(name, f"a task (a row with an object in 'query') has no such field; {nearest(name, known)}")
            if not isinstance(value, known[name]):
                raise CellError(name, f"{_kind(value)} does not belong here")
    if missing := [name for name in ("id", "expected") if name not in row]:
        raise CellError(missing[0], "a task (a row with an object in 'query') must have it")
    asked: dict[str, Any] = {"text": ""} | dict(row["query"])
    query = Query(**asked)
    if not query.text.strip():
        raise CellError("query", "the question is empty")
    if query.schema is not None:
        _check_schema("query", query.schema)
    plan = row.get("plan")
    made = {name: value for name, value in row.items() if name not in ("query", "plan", "id")}
    if plan is None and not row.get("no_plan"):
        made["no_plan"] = UNPLANNED
    return Task(id=_checked_id("id", row["id"]), query=query, plan=None if plan is None else read_plan("plan", plan), **made)


def read_plan(column: str, value: Any) -> Plan:
    """A plan as `plan_to_json` writes it. Raises ValueError that says what is wrong."""
    try:
        plan = plan_from_json(value)
        for call in plan.calls:
            for one in (call, *call.alternatives):
                texts = (one.id, one.tool, one.goal, *one.after)
                if not all(isinstance(text, str) for text in texts) or not isinstance(one.arguments, Mapping):
                    raise TypeError("id, tool and goal of a call are text, its arguments an object")
        return plan
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise CellError(column, f"no plan ({said})") from None


def _checked_id(column: str, text: str) -> str:
    if not text or len(text) > MAX_ID_CHARS or not text.isprintable():
        shown = f"{text[:60]!r}" + ("…" if len(text) > 60 else "")
        raise CellError(column, f"{shown} is no id: one line of 1 to {MAX_ID_CHARS} printable characters")
    return text


def _check_schema(column: str, schema: Mapping[str, Any]) -> None:
    import jsonschema  # type: ignore[import-untyped]  # only for files that hold schemas

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise CellError(column, f"no JSON schema ({' '.join(error.message.split())[:200]})") from None


def _between_commas(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _column_named(name: str, columns: Collection[str]) -> str | None:
    """The column that the user means: of this name, else the only one that is called so in another case."""
    if name in columns:
        return name
    alike = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 else None


def _no_column(name: str, columns: Sequence[str]) -> str:
    folded = {column.casefold(): column for column in columns}
    near = difflib.get_close_matches(name.casefold(), folded, 1)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    return f"no column {name!r}; {hint}{_listed(columns)}"


def _listed(columns: Sequence[str]) -> str:
    return f"its columns: {_quoted(columns)}"


def _quoted(columns: Sequence[str]) -> str:
    shown = [repr(name if len(name) <= 40 else f"{name[:40]}…") for name in columns[:30]]
    return (", ".join(shown) or "none") + (", …" if len(columns) > 30 else "")


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", dict: "an object", list: "a list"}
    return "nothing" if value is None else names.get(type(value), f"a {type(value).__name__}")


# --- tasks that are read when they are asked for ---


@dataclass(frozen=True, slots=True)
class Facts:
    """What one pass over all rows finds out, so that none has to be read again for it."""

    places: array[int]
    """Of each row, as its table counts."""
    digest: str
    """sha256 over all tasks."""
    longest_plan: int | None
    """In calls; None where no task has a plan."""
    unplanned: int
    """Tasks that have no plan, and are not quarantined."""
    scorers: Mapping[str, str]
    """Scorer → where it is first named."""


class Rows(Sequence[Task]):
    """The tasks of a table; a slice is another such sequence."""

    def __init__(self, reading: RowReader, facts: Facts, span: range | array[int] | None = None) -> None:
        """`span`: which of the rows, 0-based; all where left out."""
        self._reading = reading
        self._all = facts
        self._span: range | array[int] = range(len(facts.places)) if span is None else span

    def where(self, keep: Callable[[Task], bool]) -> Rows:
        """Those that are to be kept; each is read once to find out."""
        return Rows(self._reading, self._all, array("Q", (at for at, task in zip(self._span, self, strict=True) if keep(task))))

    @property
    def facts(self) -> Facts | None:
        """Known of the whole only, not of a slice."""
        return self._all if len(self._span) == len(self._all.places) else None

    def __len__(self) -> int:
        return len(self._span)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Task | Rows:
        if isinstance(index, slice):
            return Rows(self._reading, self._all, self._span[index])
        at = self._span[index]
        place = self._all.places[at]
        return self._reading.task(at, self._reading.table.row(place))


@dataclass(frozen=True)
class RowSuite(Suite):
    """A suite over `Rows`, which is not read again for what the first pass has found out."""

    tools: OwnTools = NO_TOOLS

    def __post_init__(self) -> None:
        if self._facts is None:
            super().__post_init__()

    @property
    def _facts(self) -> Facts | None:
        return self.tasks.facts if isinstance(self.tasks, Rows) else None

    @cached_property
    def max_tool_steps(self) -> int:
        """The one step limit that every arm of a comparison gets."""
        if self._facts is None or self.step_limit is not None:
            return super().max_tool_steps
        longest = self._facts.longest_plan
        return (_DEFAULT_STEPS if longest is None else longest) + SPARE_TOOL_STEPS

    @cached_property
    def digest(self) -> str:
        """sha256 of tasks, version and tools: two suites of equal digest ask the same."""
        if self._facts is None:
            return super().digest
        everything = replace(self.tasks[0], world={key: item for key, item in self.tasks[0].world.items() if key != ALLOWED})
        environment = self.tools.open(everything)
        try:
            tools = [[tool.name, tool.description, tool.parameters] for tool in environment.tools]
        finally:
            environment.close()
        return digest([self.name, self.version, self.max_tool_steps, tools, self._facts.digest])


def suite_of(table: RowTable, columns: Columns, importer: str, tools: OwnTools | None = None, limit: int | None = None) -> Suite:
    """The suite of a table's tasks, all of them checked. `limit`: only the first so many rows.

    Its version is the beginning of the digest over its tasks. Columns that are not used are logged, as a warning. Raises ValueError
    of one line for the first thing that is wrong.
    """
    if limit is not None and (isinstance(limit, bool) or limit < 1):
        raise ValueError(f"{importer}: limit is {limit!r}, and must be a whole number from 1 on")
    own = tools or NO_TOOLS
    reading = RowReader(table, columns, importer, own)
    facts = _facts(reading, limit)
    if unused := reading.unused():
        logger.warning("%s: columns not used: %s", table.source, _quoted(unused))
    return RowSuite(table.name, facts.digest[:8], Rows(reading, facts), own.open, tools=own)


def _facts(reading: RowReader, limit: int | None) -> Facts:
    places, ids = array("Q"), array("Q")
    sha = hashlib.sha256()
    longest, unplanned = -1, 0
    scorers: dict[str, str] = {}
    for place, number, cells in reading.table.rows():
        task = reading.checked(len(places), number, cells)
        places.append(place)
        ids.append(_hash(task.id))
        sha.update(canonical_json(task.as_dict()).encode("ascii") + b"\n")
        if task.plan is not None:
            longest = max(longest, len(task.plan.calls))
        elif not task.quarantined:
            unplanned += 1
        if task.scorer not in scorers:
            if len(scorers) == MAX_SCORERS:
                raise ValueError(f"{reading.at(number)}: more than {MAX_SCORERS} different scorers")
            scorers[task.scorer] = reading.at(number)
        if len(places) == limit:
            break
    if not places:
        raise ValueError(f"{reading.table.source}: no row")
    _check_ids(reading, ids)
    return Facts(places, sha.hexdigest(), None if longest < 0 else longest, unplanned, scorers)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _check_ids(reading: RowReader, hashes: array[int]) -> None:
    """Raises ValueError that names both rows of an id that stands twice."""
    import numpy  # its sorting takes 8 bytes per row, a set of Python's sixty

    values = numpy.frombuffer(hashes, dtype=numpy.uint64)
    ordered = numpy.sort(values)
    twice = numpy.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return
    suspects = set(numpy.flatnonzero(numpy.isin(values, twice)).tolist())
    first: dict[str, int] = {}
    for index, (_, number, cells) in enumerate(reading.table.rows()):
        if index in suspects:  # equal hashes may still be two ids
            name = reading.task(index, cells).id
            earlier = first.setdefault(name, number)
            if earlier != number:
                raise ValueError(f"{reading.at(number)}: id {name!r} stands in {reading.table.unit} {earlier} already")
