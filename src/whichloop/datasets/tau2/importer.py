"""From tau2's files to tasks: what the rows look like, what a trial's world keeps count of, which tasks can be run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from whichloop.protocol import Plan, PlannedCall, Query, Tool

from ..importing.json_files import check_limit
from ..task import Suite, Task
from . import mock, telecom
from .conversation import SERVICES, Chosen, Wishes, conversations, service_of
from .domain import (
    Action,
    Criteria,
    Database,
    Domain,
    FunctionCall,
    InitialState,
    NotFound,
    RefusedCall,
    Side,
    TaskRow,
    Unusable,
    chosen_rows,
    read_rows,
    read_splits,
    split_names,
    succeeds,
    unplannable,
)

VERSION = "3"
INSTRUCTION = "Solve this ticket with the tools, by the policy. Nobody can be asked. When it is done, answer with what was done."
SOLVED = "The ticket is solved."
DOMAINS = {domain.name: domain for domain in (mock.DOMAIN, telecom.DOMAIN)}

# The world of one trial.


@dataclass(slots=True)
class _World:
    """A database of its own, the calls that were made, and what of them counts."""

    domain: Domain
    db: Database
    scored: Sequence[str]
    actions: Sequence[Mapping[str, Any]]
    assertions: Sequence[Mapping[str, Any]]
    made: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(replace(tool, function=_Noted(tool, self)) for tool in self.domain.tools.bound_to(self.db))

    def state(self) -> dict[str, Any]:
        """What the task's reward basis asks for: the database, gold actions that were not made, assertions that do not hold."""
        state: dict[str, Any] = {}
        if "DB" in self.scored:
            state["db"] = copy.deepcopy(self.db)
        if "ACTION" in self.scored:
            state["actions_not_made"] = [
                gold["action_id"] for gold in self.actions if not any(_matches(gold, *m) for m in self.made)
            ]
        if "ENV_ASSERTION" in self.scored:
            state["assertions_not_met"] = [_words(item) for item in self.assertions if not _holds(item, self.domain, self.db)]
        return state

    def close(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Noted:
    """A tool's function that notes down each call, and settles the world after it; one that fails was made too, as in tau2."""

    tool: Tool
    world: _World

    def __call__(self, /, **arguments: Any) -> Any:
        self.world.made.append((self.tool.name, copy.deepcopy(arguments)))
        try:
            return self.tool.function(**arguments)
        finally:
            self.world.domain.settle(self.world.db)


def _matches(gold: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call is the gold action: by `compare_args` if the task names any, else by the arguments of the call."""
    if gold["name"] != name:
        return False
    compared = arguments.keys() if gold["compare_args"] is None else gold["compare_args"]
    return all(
        (key in arguments) == (key in gold["arguments"]) and arguments.get(key) == gold["arguments"].get(key) for key in compared
    )


def _holds(assertion: Mapping[str, Any], domain: Domain, db: Database) -> bool:
    """Return whether an assertion holds, in a database that may lack its subject. Raises Unusable for wrong arguments."""
    try:
        check = domain.assertions[assertion["env_type"]][assertion["func_name"]]
        return check(db, **assertion["arguments"]) is assertion["assert_value"]
    except NotFound:
        return False
    except TypeError:
        raise Unusable(f"{_words(assertion)}: wrong arguments") from None


def _words(call: Mapping[str, Any]) -> str:
    return f"{call['func_name']}({', '.join(f'{name}={value!r}' for name, value in call['arguments'].items())})"


def _open(task: Task) -> _World:
    world = task.world
    return _World(DOMAINS[world["domain"]], copy.deepcopy(world["db"]), world["scored"], world["actions"], world["assertions"])


# Plans and end states.


def _planned(actions: Sequence[Action], world: _World, answer: str) -> Plan:
    """Plan the gold actions and make them one after the other in this world; one that fails is expected to, as in tau2.

    Whatever may change the database comes after all before it, whatever only reads after the last change. Raises Unusable.
    """
    tools = {tool.name: tool for tool in world.tools}
    calls, only_reads = [], world.domain.reads
    change: list[str] = []
    reads: list[str] = []
    for number, action in enumerate(actions, start=1):
        name = f"c{number}"
        fails = not succeeds(tools[action.name], action.arguments)
        after = change if action.name in only_reads else change + reads
        calls.append(PlannedCall(name, action.name, action.arguments, f"Step {number}: {action.name}.", (), fails, tuple(after)))
        if action.name in only_reads:
            reads.append(name)
        else:
            change, reads = [name], []
    return Plan(tuple(calls), answer)


def _initial(state: InitialState, domain: Domain, db: Database) -> Database:
    """A task's start: the folder's database with the task's data merged in, and its first calls made. Raises Unusable."""
    data = state.initialization_data
    try:
        database = domain.merge(db, (data and data.agent_data) or {}, (data and data.user_data) or {})
        domain.settle(database)
    except ValueError as error:
        raise Unusable(str(error)) from None
    tools = {tool.name: tool for tool in domain.tools.bound_to(database)}
    for call in state.initialization_actions or ():
        if call.func_name in domain.assertions[call.env_type]:
            continue  # it changes nothing, and tau2 does not look at what it says
        if not _is_set_up(call, domain.setup[call.env_type].get(call.func_name), tools.get(call.func_name), database):
            raise Unusable(f"initialization_actions: {_words(call.model_dump())} fails")
        try:
            domain.settle(database)
        except NotFound as error:
            raise Unusable(f"initialization_actions: {_words(call.model_dump())}: {error}") from None
    return database


def _is_set_up(call: FunctionCall, function: Callable[..., Any] | None, tool: Tool | None, db: Database) -> bool:
    """Make a call of a task's start, of a function or else of a tool. Raises Unusable for arguments that it does not take."""
    if function is None:
        assert tool is not None
        return succeeds(tool, call.arguments)
    try:
        function(db, **call.arguments)
    except (NotFound, RefusedCall):
        return False
    except (TypeError, ValueError):
        raise Unusable(f"initialization_actions: {_words(call.model_dump())}: wrong arguments") from None
    return True


# Tasks.


def _task(row: TaskRow, domain: Domain, db: Database, policy: str, split: str) -> Task:
    criteria = row.criteria
    scored = criteria.scored()
    texts = (criteria.communicate_info or []) if "COMMUNICATE" in scored else []
    labels = {"basis": "+".join(scored)}
    if criteria.nl_assertions or "NL_ASSERTION" in criteria.reward_basis:
        labels["not_scored"] = "NL_ASSERTION"
    if split:
        labels["split"] = split
    query = Query(f"{row.ticket or ''}\n\n{INSTRUCTION}".strip(), policy)
    world = {
        "domain": domain.name,
        "db": db,
        "scored": [],
        "actions": [],
        "assertions": [],
    }  # for a task that is not run too: its tools are looked at
    task = Task(row.id, query, texts, "contains", labels=labels, world=world)
    try:
        state = row.initial_state or InitialState()
        calls = [*(state.initialization_actions or ()), *(criteria.env_assertions or ())]
        of_user = [call.func_name for call in calls if call.env_type == "user"]
        of_user += [action.name for action in criteria.actions or () if action.requestor == "user"]
        if state.message_history:
            raise Unusable("it continues a conversation with a user (message_history)")
        if not (row.ticket or "").strip():
            raise Unusable("it has no ticket, and needs a simulated user")
        has_data = bool(state.initialization_data and state.initialization_data.user_data)
        if (of_user or has_data) and not domain.has_user_tools:
            raise Unusable(f"it needs a simulated user with tools and data of its own ({', '.join(of_user) or 'user_data'})")
        if not criteria.scored():
            raise Unusable("its criteria leave nothing to score without a judge")
        start = _initial(row.initial_state or InitialState(), domain, db)
        return _with_plan(task, criteria, start)
    except Unusable as error:
        return replace(task, no_plan=str(error), quarantined=str(error))


def _with_plan(task: Task, criteria: Criteria, start: Database) -> Task:
    """Return the task with its world, its plan and the state that the gold actions lead to. Raises Unusable."""
    actions = criteria.actions or []
    scored = criteria.scored()
    world = {
        "domain": task.world["domain"],
        "db": start,
        "scored": scored,
        "actions": [action.model_dump(include={"action_id", "name", "arguments", "compare_args"}) for action in actions],
        "assertions": [
            item.model_dump(include={"env_type", "func_name", "arguments", "assert_value"})
            for item in criteria.env_assertions or ()
        ],
    }
    task = replace(task, world=world)
    trial = _open(task)
    plan = _planned(actions, trial, " ".join((SOLVED, *task.expected)))
    end = trial.state()
    unmet = end.get("assertions_not_met")
    if unmet and (actions or "DB" in scored):
        raise Unusable(f"its own actions do not lead to {', '.join(unmet)}")
    task = replace(task, end_state=end | ({} if unmet is None else {"assertions_not_met": []}))
    problem = unplannable(plan)
    return replace(task, no_plan=problem) if problem else replace(task, plan=plan)


# Files.


def _check_domain(rows: Sequence[TaskRow], domain: Domain, path: Path) -> None:
    """Raise ValueError for tasks of another domain."""
    unknown = sorted({name for row in rows for name in _unknown(row, domain)})
    if not unknown:
        return
    if not any((row.ticket or "").strip() for row in rows):
        raise ValueError(
            f"{path}: no task has a ticket, so that each needs a user who answers the agent, and such a user is missing here; "
            f"domains that run without one: {', '.join(DOMAINS)}"
        )
    named = ", ".join(map(repr, unknown[:4])) + (", …" if len(unknown) > 4 else "")
    known_names = ", ".join((*domain.sides, *(name for names in domain.assertions.values() for name in names)))
    raise ValueError(
        f"{path}: names {named}, which the domain {domain.name!r} lacks; only that domain's tools are here: {known_names}"
    )


def _unknown(row: TaskRow, domain: Domain) -> Iterator[str]:
    """Find what a task calls and the domain does not have; a user's calls count where the domain's user has tools."""
    sides: tuple[Side, ...] = ("assistant", "user") if domain.has_user_tools else ("assistant",)
    actions = [action for action in row.criteria.actions or () if action.requestor in sides]
    yield from (action.name for action in actions if action.name not in domain.sides)
    for side in sides:
        checks, tools = domain.assertions[side], [name for name, whose in domain.sides.items() if whose == side]
        calls = [call.func_name for call in row.criteria.env_assertions or () if call.env_type == side]
        yield from (name for name in calls if name not in checks)
        first = [call.func_name for call in _first_calls(row) if call.env_type == side]
        yield from (name for name in first if name not in {*tools, *checks, *domain.setup[side]})


def _first_calls(row: TaskRow) -> Sequence[FunctionCall]:
    return (row.initial_state and row.initial_state.initialization_actions) or ()


def _domain_of(folder: Path) -> Domain:
    """Return the domain whose files a folder holds. Raises ValueError for a folder that lacks one."""
    if not (folder / "tasks.json").is_file():
        raise ValueError(f"{folder}: no folder that holds tasks.json; a domain's has tasks.json, a database and a policy")
    if (folder / telecom.COMPANY).is_file():
        needed = (telecom.PHONE, *(name for _, name in telecom.POLICIES))
        if missing := [name for name in needed if not (folder / name).is_file()]:
            raise ValueError(f"{folder}: no folder that holds {missing[0]}; telecom's has {', '.join(needed)}")
        return telecom.DOMAIN
    if not (folder / "db.json").is_file():
        raise ValueError(f"{folder}: no folder that holds db.json (mock) or {telecom.COMPANY} (telecom)")
    return mock.DOMAIN


def load(data: Path | None = None, split: str | None = None, limit: int | None = None, wishes: Wishes = "at_once") -> Suite:
    """Read the suite `tau2` from a domain's folder as published; the data is not part of this package.

    `data`: the folder, `--data FOLDER`. `split`: only the tasks that `split_tasks.json` lists under this name. `limit`: how many
    tasks to take from the start; all where left out. `wishes`: in `retail` and `airline`, whether customers say `at_once` all that
    they want, or ask for one thing after the other, `in_turn`.

    Task ids are tau2's. Raises OSError where a file cannot be read, and ValueError that names file, task and field for one that is
    none, for a folder that lacks a file, and for tasks of another domain than `mock`, `telecom`, `retail` and `airline`.
    """
    if data is None:
        known_domains = ", ".join((*DOMAINS, *(service.name for service in SERVICES)))
        raise ValueError(f"tau2: no data; give the folder of a domain ({known_domains}) with --data FOLDER")
    check_limit("tau2", limit)
    if wishes not in get_args(Wishes):
        raise ValueError(f"tau2: wishes is {wishes!r}, and must be one of {', '.join(get_args(Wishes))}")
    folder = Path(data)
    if (service_and_tables := service_of(folder)) is not None:
        return conversations(folder, service_and_tables, Chosen(split, limit, wishes), VERSION)
    domain = _domain_of(folder)
    if wishes != "at_once":
        raise ValueError(
            f"tau2: wishes is {wishes!r}, but the tasks of {domain.name} have no customer; those of retail and airline do"
        )
    rows = list(read_rows(folder / "tasks.json"))
    _check_domain(rows, domain, folder / "tasks.json")
    db = domain.load(folder)
    splits = read_splits(folder)
    names = split_names(splits)
    policy = domain.policy(folder)
    chosen = chosen_rows(rows, splits, split)
    tasks = tuple(_task(row, domain, db, policy, names.get(row.id, "")) for row in islice(chosen, limit))
    if not tasks:
        raise ValueError(f"{folder / 'tasks.json'}: no task" + ("" if split is None else f" of split {split!r}"))
    used = {call.tool for task in tasks if task.plan for call in task.plan.calls}
    return Suite("tau2", VERSION, tasks, _open, distractors=frozenset(domain.sides) - used)
