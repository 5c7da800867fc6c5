"""What the importer asks of a domain: its data, its tools, and what tasks may call to set it up or to judge it; and a
database that all trials share beside the records that one trial has changed."""

from __future__ import annotations

import ast
import copy
import inspect
import operator
import re
import tomllib
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, create_model

from whichloop.datasets.importing.json_files import JsonRow, TaskId, checked, json_file
from whichloop.datasets.task import Toolset
from whichloop.protocol import Plan, Tool, ToolArgumentError, plan_to_json

Side = Literal["assistant", "user"]
Database = dict[str, Any]
"""The state of a domain, plain JSON."""


class NotFound(ValueError):
    """An id that the database does not have."""


class RefusedCall(ValueError):
    """A call that the state of the domain does not allow."""


Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A domain of tau2-bench: what its tasks are made of."""

    name: str
    table: str = ""
    """A table that no other domain's `db.json` has; empty: the data stands in other files."""
    tables: type[BaseModel] = JsonRow
    """The shape of `db.json`."""
    tools: Sequence[Callable[..., Any]]
    """The agent's; in a domain whose user has tools they are the agent's too, tau2's solo mode. What `wording.toml`
    says of their arguments becomes a part of their docstrings, as does what stands there behind `Returns:`."""
    writes: Sequence[Callable[..., Any]]
    """Those that may change something."""
    customer: bool = False
    """Whether an agent serves a customer, who answers by a script. All trials then share the database; see `TrialTables`."""
    user_tools: Collection[str] = ()
    """Tools that are the user's in a conversation."""
    setup: Mapping[Side, Functions] = field(default_factory=dict)
    """What a task may call before it begins, beside the tools."""
    assertions: Mapping[Side, Functions] = field(default_factory=dict)
    """What may be asserted of the end state; each gives a bool, or raises NotFound."""
    merge: Callable[[Database, Mapping[str, Any], Mapping[str, Any]], Database] = lambda db, agent, user: db
    """Merges the agent's and the user's initial data into a copy of the database. Raises ValueError."""
    settle: Callable[[Any], None] = lambda db: None
    """Brings the two sides into agreement after each call."""

    @cached_property
    def toolset(self) -> Toolset[Any]:
        words = tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))[self.name]
        for tool in self.tools:
            _complete_docstring(tool, {**words, **words.get(tool.__name__, {})})
        return Toolset(*self.tools, writes=self.writes)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the tools that change nothing."""
        writes = {tool.__name__ for tool in self.writes}
        return frozenset(tool.__name__ for tool in self.tools) - writes


def _complete_docstring(tool: Callable[..., Any], words: Mapping[str, str]) -> None:
    text, _, result = re.sub(r"\s+Returns: ", "\0", inspect.getdoc(tool) or "").partition("\0")
    names = Tool.from_function(partial(tool, None), name=tool.__name__).parameters["properties"]
    if "\n\nArgs:" in text:  # two domains share the tool
        return
    for title, lines in (("Args", [f"{name}: {words[name]}" for name in names]), ("Returns", [result] if result else [])):
        if lines:
            text = "\n    ".join((f"{text}\n\n{title}:", *lines))
    tool.__doc__ = text


def merged(old: Any, new: Any) -> Any:
    """Merge objects at any depth; of everything else, return the new value."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


MAX_CHARS = 200
"""Longest expression."""
LIMIT = 10**15
"""Largest magnitude of a result on the way."""
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculated(expression: str) -> str:
    """Return the value of an expression of decimal numbers, `+ - * /` and parentheses, rounded to two decimals.

    Raises RefusedCall for anything else, for a division by 0, and for numbers beyond LIMIT.
    """
    if len(expression) > MAX_CHARS or not set(expression) <= set("0123456789+-*/(). "):
        raise RefusedCall(f"The expression is not plain arithmetic of at most {MAX_CHARS} characters")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RefusedCall("The expression is not plain arithmetic") from None
    except ZeroDivisionError:
        raise RefusedCall("The expression divides by 0") from None
    return str(round(float(value), 2))


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            value = Fraction(str(number))
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            value = _value(inner)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = -_value(inner)
        case ast.BinOp(left=left, op=between, right=right) if type(between) in _OPERATORS:
            value = _OPERATORS[type(between)](_value(left), _value(right))
        case _:
            raise ValueError("not arithmetic")
    if abs(value) > LIMIT:
        raise ValueError("too large")
    return value


Record = dict[str, Any]
Tables = Mapping[str, Mapping[str, Record]]
"""Table → id → record, plain JSON. Nobody changes it."""


def first(records: Iterable[Record], fits: Callable[[Record], object], lacking: str) -> Record:
    """Return the first record that fits. Raises NotFound, which says what is lacking."""
    for record in records:
        if fits(record):
            return record
    raise NotFound(lacking)


def found(records: Mapping[str, Record], key: str, lacking: str) -> Record:
    """Return the record of a key. Raises NotFound, which says what is lacking, also for a key that is no text."""
    if isinstance(key, str) and key in records:
        return records[key]
    raise NotFound(lacking)


def payment_method(user: Record, key: str) -> Record:
    """Return a customer's payment method. Raises NotFound."""
    return found(user["payment_methods"], key, f"Customer {user['user_id']} has no payment method {key!r}")


class TrialTables:
    """Tables as one trial sees them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._changed: dict[str, dict[str, Record]] = {table: {} for table in tables}

    def get(self, table: str, key: str) -> Record:
        """Return a record to read. Raises NotFound."""
        return found(self._all(table), key, f"There is no {table.removesuffix('s')} {key!r}")

    def edit(self, table: str, key: str) -> Record:
        """Return a record to change, the trial's own copy; one that stays as it was is no change. Raises NotFound."""
        changed = self._changed[table]
        if key not in changed:
            changed[key] = copy.deepcopy(self.get(table, key))
        return changed[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Add a record."""
        self._changed[table][key] = record

    def each(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, those that were added last."""
        yield from self._all(table).values()

    def _all(self, table: str) -> Mapping[str, Record]:
        return ChainMap(self._changed[table], self._tables[table])  # type: ignore[arg-type]  # which only a write would change

    def changes(self) -> dict[str, dict[str, Record]]:
        """Return a copy of the records that are not as they were in the beginning, by table and id; both sorted."""
        by_table = {
            table: {key: copy.deepcopy(changed[key]) for key in sorted(changed) if changed[key] != self._tables[table].get(key)}
            for table, changed in sorted(self._changed.items())
        }
        return {table: records for table, records in by_table.items() if records}


def calculate(db: TrialTables, expression: str) -> str:
    """Calculate a sum, rounded to cents."""
    return calculated(expression)


def transfer_to_human_agents(db: TrialTables, summary: str) -> str:
    """Hand the customer over to a human; only where they ask for one, or policy and tools leave no way to help."""
    return "Transfer successful"


SERVICE = (calculate, transfer_to_human_agents)
"""The tools that serve no table."""


class OpenRow(JsonRow):
    """The shape of a record; fields that it does not name are kept."""

    model_config = ConfigDict(extra="allow")


class ClosedRow(JsonRow):
    """The shape of a record that has no other fields."""

    model_config = ConfigDict(extra="forbid")


def shape(base: type[BaseModel] = OpenRow, /, **fields: Any) -> type[BaseModel]:
    """Return the shape of a record: each field's type, or its type and default."""
    typed: dict[str, Any] = {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in fields.items()}
    made: type[BaseModel] = create_model("Record", __base__=base, **typed)
    return made


def table(base: type[BaseModel] = OpenRow, /, **fields: Any) -> Any:
    """Return the shape of records by their ids."""
    return dict[str, shape(base, **fields)]  # type: ignore[misc]  # a type that is made at run time


def rows(**fields: Any) -> Any:
    """Return the shape of a list of records."""
    return list[shape(**fields)]  # type: ignore[misc]  # a type that is made at run time


Basis = Literal["DB", "ENV_ASSERTION", "NL_ASSERTION", "ACTION", "COMMUNICATE"]


_NONE_IS_EMPTY = BeforeValidator(lambda value: {} if value is None else value)


class Action(JsonRow):
    action_id: str
    requestor: Side = "assistant"
    name: str
    arguments: dict[str, Any]
    compare_args: list[str] | None = None


class FunctionCall(JsonRow):
    env_type: Side
    func_name: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.func_name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


class Assertion(FunctionCall):
    assert_value: StrictBool = True


class InitialData(JsonRow):
    agent_data: dict[str, Any] | None = None
    user_data: dict[str, Any] | None = None


class InitialState(JsonRow):
    initialization_data: InitialData | None = None
    initialization_actions: list[FunctionCall] | None = None
    message_history: list[Any] | None = None


class Criteria(JsonRow):
    actions: list[Action] | None = None
    env_assertions: list[Assertion] | None = None
    communicate_info: list[str] | None = None
    nl_assertions: list[str] | None = None
    reward_basis: tuple[Basis, ...] = ("DB", "COMMUNICATE")

    def scored(self) -> list[str]:
        """The parts of the reward basis that there is something to score of, sorted; DB without actions and assertions is none,
        as in tau2."""
        there = {
            "DB": self.actions is not None or self.env_assertions is not None,
            "ENV_ASSERTION": self.env_assertions,
            "ACTION": self.actions,
            "COMMUNICATE": self.communicate_info,
        }
        return sorted(name for name in set(self.reward_basis) if there.get(name))


class TaskRow(JsonRow):
    id: TaskId
    ticket: str | None = None
    user_scenario: Any = None
    state: Annotated[InitialState, _NONE_IS_EMPTY] = Field(InitialState(), alias="initial_state")
    criteria: Annotated[Criteria, _NONE_IS_EMPTY] = Field(Criteria(), alias="evaluation_criteria")


class Unusable(ValueError):
    """A task that cannot be run, or contradicts itself; the message says why."""


def succeeds(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Make a call. Raises Unusable for arguments that the tool does not take."""
    assert tool.arguments is not None
    try:
        tool.function(**tool.arguments.bind(arguments)[1])
    except ToolArgumentError as error:
        raise Unusable(str(error)) from None
    except (NotFound, RefusedCall):
        return False
    return True


def unplannable(plan: Plan) -> str:
    """Return why a model that follows a plan cannot follow this one; empty if it can."""
    calls = [(call.tool, call.arguments) for call in plan.calls]
    if any(call in calls[:place] for place, call in enumerate(calls)):
        return "two of its actions are the same call, and a model that follows a plan could not tell them apart"
    try:
        plan_to_json(plan)
    except ValueError as error:  # a literal that looks like a reference
        return str(error)
    return ""


def read_rows(path: Path) -> Iterator[TaskRow]:
    value = json_file(path)
    if not isinstance(value, list):
        raise ValueError(f"{path}: {type(value).__name__} where a list of tasks belongs")
    seen: dict[str, int] = {}
    for number, item in enumerate(value, start=1):
        task_id = item.get("id") if isinstance(item, dict) else None
        where = f"{path}, task {number}" + (f" ({task_id!r})" if isinstance(task_id, str) else "")
        row = checked(TaskRow, item, where)
        if seen.setdefault(row.id, number) != number:
            raise ValueError(f"{where}: the id is a duplicate, first used at task {seen[row.id]}")
        yield row
