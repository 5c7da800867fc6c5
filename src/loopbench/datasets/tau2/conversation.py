"""tau2's domains `retail` and `airline`: tasks with a customer who answers, by a script instead of a simulator.

What the customer says is the task's scenario in the first person: the query is why they write, `ask_user` gives who they are and
all that they want, and `confirm_with_user` agrees to the changes among the task's gold actions and to no other. A trial costs what
it changes: all trials share the tables of `db.json`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from loopbench.protocol import Plan, PlannedCall, Query
from loopbench.protocol.digest import digest

from ..importing.json_files import JsonRow, checked, json_file, text_file
from ..scripted_user import USER_TOOLS, ProposedCall, ScriptedUser, Topic, confirm_with_user
from ..task import Suite, Task
from ..worlds import Toolset, WorldEnvironment
from . import airline, airline_tables, retail, retail_tables
from .customer_words import first_person, opening
from .records import Tables, TrialTables
from .rows import Action, TaskRow, Unusable, chosen_rows, read_rows, read_splits, split_names, succeeds, unplannable

INSTRUCTION = (
    "A customer has written this. Help them with the tools, by the policy: ask them with ask_user, and let them agree to each "
    "change with confirm_with_user before it is made. When it is done, answer with what was done."
)
DONE = "The customer's request is dealt with."
QUESTIONS: Mapping[Topic, str] = {"identity": "Who are you?", "wishes": "What exactly do you want?"}

SIDE_BY_SIDE = ("item_ids", "new_item_ids")
"""Arguments of retail's changes that list items and what replaces each."""


@dataclass(frozen=True, slots=True)
class ServiceDomain:
    """A domain in which an agent serves a customer."""

    name: str
    table: str
    """A table that no other domain's `db.json` has."""
    tools: Toolset[TrialTables]
    reads: Collection[str]
    """Tools that change nothing."""
    tables: type[JsonRow]
    """The shape of `db.json`."""


RETAIL_READS, AIRLINE_READS = ({tool.__name__ for tool in domain.READS} for domain in (retail, airline))
SERVICES = (
    ServiceDomain("retail", "orders", retail.TOOLS, RETAIL_READS, retail_tables.RetailTables),
    ServiceDomain("airline", "reservations", airline.TOOLS, AIRLINE_READS, airline_tables.AirlineTables),
)


class _Instructions(JsonRow):
    reason_for_call: str = ""
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str | None = None


class _Scenario(JsonRow):
    instructions: _Instructions


class _Scripted(JsonRow):
    user_scenario: _Scenario


def service_of(folder: Path) -> tuple[ServiceDomain, Tables] | None:
    """Return the domain of a folder's database, and its tables; None if it is no domain with a customer.

    Raises ValueError and OSError.
    """
    path = folder / "db.json"
    value = json_file(path) if path.is_file() else None
    service = next((one for one in SERVICES if isinstance(value, dict) and one.table in value), None)
    return None if service is None else (service, checked(service.tables, value, str(path)).model_dump())


def conversations(folder: Path, found: tuple[ServiceDomain, Tables], split: str | None, limit: int | None, version: str) -> Suite:
    """Read the tasks of a domain's folder as published; `found`: as `service_of` returns it. Raises ValueError and OSError."""
    service, tables = found
    path = folder / "tasks.json"
    rows = list(read_rows(path))
    policy = text_file(folder / "policy.md").strip()
    splits = read_splits(folder)
    names = split_names(splits)
    known = [tool.name for tool in service.tools.over(TrialTables(tables))]
    made = []
    for row in islice(chosen_rows(rows, splits, split), limit):
        if unknown := sorted({action.name for action in row.criteria.actions or ()} - {*known}):
            raise ValueError(
                f"{path}: task {row.id!r} names {unknown[0]!r}, which the domain {service.name!r} lacks; it has {', '.join(known)}"
            )
        scenario = checked(_Scripted, row.model_dump(), f"{path}, task {row.id!r}").user_scenario.instructions
        made.append(_task(row, scenario, service, tables, policy, names.get(row.id, "")))
    if not made:
        raise ValueError(f"{path}: no task" + ("" if split is None else f" of split {split!r}"))
    used = {call.tool for task in made if task.plan for call in task.plan.calls}
    spare = frozenset(known) - used
    return Suite("tau2", version, tuple(made), partial(_open, service, tables), shared=digest(tables), distractors=spare)


# The world of one trial.


@dataclass(frozen=True, slots=True)
class _Copied:
    """A tool's function whose results nobody can change the tables by."""

    function: Callable[..., Any]

    def __call__(self, /, **arguments: Any) -> Any:
        return copy.deepcopy(self.function(**arguments))


def _open(service: ServiceDomain, tables: Tables, task: Task) -> WorldEnvironment[TrialTables]:
    records = TrialTables(tables)
    says, agrees_to = task.world["says"], [_wanted(*change) for change in task.world["agrees_to"]]
    own = tuple(replace(tool, function=_Copied(tool.function)) for tool in service.tools.over(records))
    return WorldEnvironment(
        (*USER_TOOLS.over(ScriptedUser(says, agrees_to)), *own), records, _state if task.world["judges_db"] else _no_state
    )


def _wanted(action: str, arguments: Mapping[str, Any]) -> ProposedCall:
    return ProposedCall(action, arguments, tuple(name for name in SIDE_BY_SIDE if name in arguments))


def _state(records: TrialTables) -> Any:
    return {"changed": records.changes()}


def _no_state(records: TrialTables) -> None:
    return None


# Tasks.


def _task(row: TaskRow, scenario: _Instructions, service: ServiceDomain, tables: Tables, policy: str, split: str) -> Task:
    criteria = row.criteria
    scored = criteria.scored()
    actions = _without_repeated_reads(criteria.actions or (), service)
    told = {
        "identity": (scenario.known_info, scenario.unknown_info),
        "wishes": (scenario.reason_for_call, scenario.task_instructions),
    }
    words = {topic: "\n".join(filter(None, (first_person(part or "") for part in parts))) for topic, parts in told.items()}
    says = {topic: text for topic, text in words.items() if text}
    changes = [[action.name, action.arguments] for action in actions if action.name not in service.reads]
    labels = {"domain": service.name, "basis": "+".join(scored)} | ({"split": split} if split else {})
    if criteria.nl_assertions or "NL_ASSERTION" in criteria.reward_basis:
        labels["not_scored"] = "NL_ASSERTION"
    task = Task(
        row.id,
        Query(f"{opening(scenario.reason_for_call)}\n\n{INSTRUCTION}".strip(), policy),
        (criteria.communicate_info or []) if "COMMUNICATE" in scored else [],
        "contains",
        labels=labels,
        world={"says": says, "agrees_to": changes, "judges_db": "DB" in scored},
    )
    try:
        _check(row, scored)
        return _with_plan(task, actions, service, tables)
    except Unusable as error:
        return replace(task, no_plan=str(error), quarantined=str(error))


def _check(row: TaskRow, scored: Sequence[str]) -> None:
    """Raise Unusable for a task that this importer cannot run or score."""
    state = row.initial_state
    if state is not None and state.message_history:
        raise Unusable("it continues a conversation with a user (message_history)")
    if state is not None and (state.initialization_data or state.initialization_actions):
        raise Unusable("it starts from a state of its own (initial_state)")
    if any(action.requestor == "user" for action in row.criteria.actions or ()):
        raise Unusable("its user has tools")
    if not scored or not {*scored} <= {"DB", "COMMUNICATE"}:
        raise Unusable(f"its criteria ask for {' and '.join(scored) or 'nothing without a judge'}, not for DB or COMMUNICATE")


def _without_repeated_reads(actions: Sequence[Action], service: ServiceDomain) -> list[Action]:
    """The gold actions; what is looked up once need not be looked up again, and a plan could not tell the two apart."""
    kept: list[Action] = []
    for action in actions:
        same = (other.name == action.name and other.arguments == action.arguments for other in kept)
        if action.name not in service.reads or not any(same):
            kept.append(action)
    return kept


def _with_plan(task: Task, actions: Sequence[Action], service: ServiceDomain, tables: Tables) -> Task:
    """Return the task with its plan and the records that the gold actions change. Raises Unusable."""
    trial = _open(service, tables, task)
    plan = Plan(tuple(_planned(task.world["says"], actions, trial, service)), " ".join((DONE, *task.expected)))
    task = replace(task, end_state=trial.state())
    problem = unplannable(plan) if actions else "it lists no actions"
    return replace(task, no_plan=problem) if problem else replace(task, plan=plan)


def _planned(
    says: Mapping[Topic, str], actions: Sequence[Action], trial: WorldEnvironment[TrialTables], service: ServiceDomain
) -> Iterator[PlannedCall]:
    """Yield the questions, then the gold actions, each change after the customer's yes, and make them in this trial.

    A change comes after all before it, what only looks something up after the last change. Raises Unusable.
    """
    tools = {tool.name: tool for tool in trial.tools}
    asked = []
    for topic in says:
        asked.append(f"ask_{topic}")
        yield PlannedCall(asked[-1], "ask_user", {"about": topic, "question": QUESTIONS[topic]}, f"Ask for the customer's {topic}.")
    change, reads = list(asked), list[str]()
    for number, action in enumerate(actions, start=1):
        name, goal = f"c{number}", f"Step {number}: {action.name}."
        fails = not succeeds(tools[action.name], action.arguments)
        if action.name in service.reads:
            yield PlannedCall(name, action.name, action.arguments, goal, (), fails, tuple(change))
            reads.append(name)
            continue
        proposal = {"action": action.name, "arguments": action.arguments}
        yes = f"yes{number}"
        yield PlannedCall(
            yes, confirm_with_user.__name__, proposal, f"Step {number}: let the customer agree.", (), False, tuple(change + reads)
        )
        yield PlannedCall(name, action.name, action.arguments, goal, (), fails, (yes,))
        change, reads = [name], []
