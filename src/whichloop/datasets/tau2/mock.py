"""tau2-bench's domain `mock`, users and their tasks: its tools, and what may be asserted of its database. Own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..importing.json_files import JsonRow, checked
from .domain import ClosedRow, Database, Domain, Functions, Record, RefusedCall, found, merged, shape, table

Status = Literal["pending", "completed"]


TABLES = shape(
    ClosedRow,
    tasks=table(JsonRow, task_id=str, title=str, description=(str | None, None), status=Status),
    users=table(JsonRow, user_id=str, name=str, tasks=list[str]),
)
"""The shape of `db.json`, tasks by their ids and users by theirs."""


def create_task(db: Database, user_id: str, title: str, description: str | None = None) -> Record:
    """Create a new task for a user; it starts as pending. Returns: The new task with its id."""
    user = _row_of(db, "users", user_id)
    task_id = f"task_{len(db['tasks']) + 1}"
    task = db["tasks"][task_id] = {"task_id": task_id, "title": title, "description": description, "status": "pending"}
    user["tasks"].append(task_id)
    return task


def get_users(db: Database) -> list[Record]:
    """List all users with the ids of their tasks."""
    return list(db["users"].values())


def update_task_status(db: Database, task_id: str, status: Status) -> Record:
    """Set the status of a task. Returns: The task as it is now."""
    task = _row_of(db, "tasks", task_id)
    if status not in ("pending", "completed"):
        raise RefusedCall(f"Status {status!r} is neither 'pending' nor 'completed'")
    task["status"] = status
    return task


def transfer_to_human_agents(db: Database, summary: str) -> str:
    """Hand the user over to a human agent.

    Only where the user asks for one, or where policy and tools leave no way to solve the issue.
    """
    return "Transfer successful"


def _row_of(db: Database, table: str, key: str) -> Record:
    return found(db[table], key, f"{table.removesuffix('s').capitalize()} {key} not found")


def merge(db: Database, agent: Mapping[str, Any], user: Mapping[str, Any]) -> Database:
    """Merge initial data into a copy of the database. Raises ValueError."""
    return checked(TABLES, merged(db, agent), "initialization_data").model_dump()


ASSERTIONS: Functions = {
    "assert_task_status": lambda db, task_id, expected_status: _row_of(db, "tasks", task_id)["status"] == expected_status,
    "assert_number_of_tasks": lambda db, user_id, expected_number: len(_row_of(db, "users", user_id)["tasks"]) == expected_number,
}
DOMAIN = Domain(
    name="mock",
    table="tasks",
    tables=TABLES,
    tools=(create_task, get_users, update_task_status, transfer_to_human_agents),
    writes=(create_task, update_task_status, transfer_to_human_agents),
    assertions={"assistant": ASSERTIONS},
    merge=merge,
)
