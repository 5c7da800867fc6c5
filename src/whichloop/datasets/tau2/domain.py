"""What the importer asks of a domain: its data, its tools, and what tasks may call to set it up or to judge it; and a
database that all trials share beside the records that one trial has changed."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool

from whichloop.datasets.importing.json_files import JsonRow, checked, json_file
from whichloop.datasets.task import Toolset
from whichloop.protocol import Plan, Tool, ToolArgumentError, plan_to_json

Side = Literal["assistant", "user"]
Database = dict[str, Any]
"""The state of a domain, plain JSON."""


class NotFound(ValueError):
    """An id that the database does not have."""


class RefusedCall(ValueError):
    """A call that the state of the domain does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain of tau2-bench: what its tasks are made of."""

    name: str
    table: str = ""
    """A table that no other domain's `db.json` has; empty: the data stands in other files."""
    tables: type[JsonRow] = JsonRow
    """The shape of `db.json`."""
    policies: Sequence[str] = ("policy.md",)
    """Files of the policy; the first one that is there is read."""
    tools: Toolset[Any]
    """The agent's; in a domain whose user has tools they are the agent's too, tau2's solo mode."""
    reads: Collection[str]
    """Tools that change nothing."""
    customer: bool = False
    """Whether an agent serves a customer, who answers by a script. All trials then share the database; see `TrialTables`."""
    user_tools: Collection[str] = ()
    """Tools that are the user's in a conversation."""
    setup: Mapping[Side, Mapping[str, Callable[..., Any]]] = field(default_factory=dict)
    """What a task may call before it begins, beside the tools."""
    assertions: Mapping[Side, Mapping[str, Callable[..., bool]]] = field(default_factory=dict)
    """What may be asserted of the end state; each may raise NotFound."""
    merge: Callable[[Database, Mapping[str, Any], Mapping[str, Any]], Database] = lambda db, agent, user: db
    """Merges the agent's and the user's initial data into a copy of the database. Raises ValueError."""
    settle: Callable[[Any], None] = lambda db: None
    """Brings the two sides into agreement after each call."""


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


class TrialTables:
    """Tables as one trial sees them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._changed: dict[str, dict[str, Record]] = {table: {} for table in tables}

    def get(self, table: str, key: str) -> Record:
        """Return a record to read. Raises NotFound."""
        if isinstance(key, str):
            for records in (self._changed[table], self._tables[table]):
                if key in records:
                    return records[key]
        raise NotFound(f"There is no {table.removesuffix('s')} {key!r}")

    def edit(self, table: str, key: str) -> Record:
        """Return a record to change, the trial's own copy. Raises NotFound."""
        changed = self._changed[table]
        if key not in changed:
            changed[key] = copy.deepcopy(self.get(table, key))
        return changed[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Add a record."""
        self._changed[table][key] = record

    def each(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, those that were added last."""
        changed, shared = self._changed[table], self._tables[table]
        yield from (changed.get(key, record) for key, record in shared.items())
        yield from (record for key, record in changed.items() if key not in shared)

    def changes(self) -> dict[str, dict[str, Record]]:
        """Return a copy of the records that are not as they were in the beginning, by table and id; both sorted."""
        by_table = {
            table: {key: copy.deepcopy(changed[key]) for key in sorted(changed) if changed[key] != self._tables[table].get(key)}
            for table, changed in sorted(self._changed.items())
        }
        return {table: records for table, records in by_table.items() if records}


def calculate(db: TrialTables, expression: str) -> str:
    """Calculate a sum, rounded to cents.

    Args:
        expression: Numbers with + - * / and parentheses, such as '19.99 * 2 + 5'.
    """
    return calculated(expression)


def transfer_to_human_agents(db: TrialTables, summary: str) -> str:
    """Hand the customer over to a human; only where they ask for one, or policy and tools leave no way to help.

    Args:
        summary: The customer's issue in short.
    """
    return "Transfer successful"


MAX_TASK_ID_CHARS = 400
"""Published ids, which list all that is wrong, have up to 215."""

Basis = Literal["DB", "ENV_ASSERTION", "NL_ASSERTION", "ACTION", "COMMUNICATE"]


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
            "ENV_ASSERTION": bool(self.env_assertions),
            "ACTION": bool(self.actions),
            "COMMUNICATE": bool(self.communicate_info),
        }
        return sorted(name for name in set(self.reward_basis) if there.get(name))


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("an id is one line of printable characters")
    return text


class TaskRow(JsonRow):
    id: Annotated[str, Field(min_length=1, max_length=MAX_TASK_ID_CHARS), AfterValidator(_printable)]
    ticket: str | None = None
    user_scenario: Any = None
    initial_state: InitialState | None = None
    evaluation_criteria: Criteria | None = None

    @property
    def criteria(self) -> Criteria:
        """What the task is scored by; nothing where the row does not say."""
        return self.evaluation_criteria or Criteria()


class _Splits(JsonRow):
    splits: dict[str, list[str]]


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
        if row.id in seen:
            raise ValueError(f"{where}: the id is a duplicate, first used at task {seen[row.id]}")
        seen[row.id] = number
        yield row


def read_splits(folder: Path) -> Mapping[str, Sequence[str]]:
    """Read task ids by split; empty if the folder does not say."""
    path = folder / "split_tasks.json"
    return checked(_Splits, {"splits": json_file(path)}, str(path)).splits if path.is_file() else {}


def split_names(splits: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return the split of each task that stands in one: train, dev or test."""
    return {task_id: name for name in ("train", "dev", "test") for task_id in splits.get(name, ())}


def chosen_rows(rows: Sequence[TaskRow], splits: Mapping[str, Sequence[str]], split: str | None) -> Sequence[TaskRow]:
    if split is None:
        return rows
    if split not in splits:
        raise ValueError(f"tau2: split is {split!r}; split_tasks.json has {', '.join(map(repr, splits)) or 'none'}")
    return [row for row in rows if row.id in set(splits[split])]
