"""The rows of tau2-bench's task files, and which tasks can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool

from whichloop.protocol import Plan, Tool, ToolArgumentError, plan_to_json

from ..importing.json_files import JsonRow, checked, json_file
from .domain import NotFound, RefusedCall, Side

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
    if not plan.calls:
        return "it lists no actions"
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
