"""From tau2's files to tasks: what the rows look like, what a trial's world keeps count of, which tasks can be run."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from whichloop.protocol import Plan, PlannedCall, Query, Tool
from whichloop.protocol.json_text import digest

from ..importing.json_files import check_limit, checked, json_file, text_file
from ..task import Environment, Suite, Task, WorldEnvironment
from ..with_user import ASKING_USER_TOOLS, USER_TOOLS, FurtherRequest, ProposedCall, ScriptedUser, with_user
from . import airline, mock, retail, telecom
from .customer import DONE, QUESTIONS, SIDE_BY_SIDE, Wishes, script
from .domain import (
    Action,
    Assertion,
    Database,
    Domain,
    InitialState,
    NotFound,
    RefusedCall,
    Side,
    TaskRow,
    TrialTables,
    Unusable,
    read_rows,
    succeeds,
    unplannable,
)

VERSION = "3"
INSTRUCTION = "Solve this ticket with the tools, by the policy. Nobody can be asked. When it is done, answer with what was done."
SOLVED = "The ticket is solved."
DOMAINS = {module.DOMAIN.name: module.DOMAIN for module in (mock, telecom, retail, airline)}


@dataclass(frozen=True, slots=True)
class _Trial:
    """A database of its own, the calls that were made, and what of them counts."""

    domain: Domain
    db: Any
    world: Mapping[str, Any]
    made: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def call(self, tool: Tool, /, **arguments: Any) -> Any:
        """Note down a call, make it and settle the world after it; one that fails was made too, as in tau2."""
        self.made.append((tool.name, copy.deepcopy(arguments)))
        try:
            return copy.deepcopy(tool.function(**arguments))
        finally:
            self.domain.settle(self.db)

    def state(self) -> Any:
        """What the task's reward basis asks for: the database, gold actions that were not made, assertions that do not hold."""
        if isinstance(self.db, TrialTables):
            return {"changed": self.db.changes()} if self.world["judges_db"] else None
        scored, state = self.world["scored"], dict[str, Any]()
        if "DB" in scored:
            state["db"] = copy.deepcopy(self.db)
        if "ACTION" in scored:
            missed = (gold for gold in self.world["actions"] if not any(_matches(gold, *made) for made in self.made))
            state["actions_not_made"] = [gold["action_id"] for gold in missed]
        if "ENV_ASSERTION" in scored:
            unmet = (item for item in map(Assertion.model_validate, self.world["assertions"]) if not self._holds(item))
            state["assertions_not_met"] = [str(item) for item in unmet]
        return state

    def _holds(self, item: Assertion) -> bool:
        """Return whether it holds, in a database that may lack its subject. Raises Unusable for wrong arguments."""
        try:
            return self.domain.assertions[item.env_type][item.func_name](self.db, **item.arguments) is item.assert_value
        except NotFound:
            return False
        except TypeError:
            raise Unusable(f"{item}: wrong arguments") from None


def _matches(gold: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call is the gold action: by `compare_args` if the task names any, else by the arguments of the call."""
    compared = arguments.keys() if gold["compare_args"] is None else gold["compare_args"]
    wanted, nothing = gold["arguments"], object()
    return bool(gold["name"] == name and all(arguments.get(key, nothing) == wanted.get(key, nothing) for key in compared))


def _open(domain: Domain, shared: Database, task: Task) -> Environment:
    """Open a trial; a customer's changes only the records that it keeps beside the `shared` database."""
    world = task.world
    trial = _Trial(domain, TrialTables(shared) if domain.customer else copy.deepcopy(world["db"]), world)
    tools = tuple(replace(tool, function=partial(trial.call, tool)) for tool in domain.toolset.bound_to(trial.db))
    environment = WorldEnvironment(tools, trial, _Trial.state)
    if not domain.customer:
        return environment
    agreed = [
        ProposedCall(name, arguments, tuple(one for one in SIDE_BY_SIDE if one in arguments))
        for name, arguments in world["agrees_to"]
    ]
    further = tuple(map(FurtherRequest, world.get("further", ())))
    talk = ASKING_USER_TOOLS if "further" in world else USER_TOOLS
    return with_user(environment, ScriptedUser(world["says"], agreed, further), talk)


def _planned(actions: Sequence[Action], tools: Sequence[Tool], domain: Domain, world: Mapping[str, Any]) -> Iterator[PlannedCall]:
    """Plan the gold actions and make them one after the other; one that fails is expected to, as in tau2. Raises Unusable.

    Whatever may change the database comes after all before it, whatever only reads after the last change. With a customer, the
    plan asks them first, and has each change agreed to. Where requests come in turn, it tells the customer of each, and shares the
    changes out evenly, in their order: a task does not say which change is of which request.
    """
    by_name = {tool.name: tool for tool in tools}
    changes = [number for number, action in enumerate(actions, start=1) if action.name not in domain.reads]
    change: list[str] = []
    reads: list[str] = []
    for topic in world.get("says", ()):
        asked = {"about": topic, "question": QUESTIONS[topic]}
        yield PlannedCall(f"ask_{topic}", "ask_user", asked, f"Ask for the customer's {topic}.")
        change.append(f"ask_{topic}")
    told_after: list[int] = []  # how many actions are made before the customer is told of each request; of the last one after all
    if "further" in world:
        requests, places = len(world["further"]) + 1, [0, *changes]
        told_after = [*(places[-(-len(changes) * request // requests)] for request in range(1, requests)), len(actions)]
    for number in range(len(actions) + 1):
        if number:
            action, name = actions[number - 1], f"c{number}"
            after = [*change, *reads] if number in changes else change
            fails = not succeeds(by_name[action.name], action.arguments)
            if domain.customer and number in changes:
                proposal = {"action": action.name, "arguments": action.arguments}
                goal = f"Step {number}: let the customer agree."
                yield PlannedCall(f"yes{number}", "confirm_with_user", proposal, goal, (), False, tuple(after))
                after = [f"yes{number}"]
            yield PlannedCall(name, action.name, action.arguments, f"Step {number}: {action.name}.", (), fails, tuple(after))
            change, reads = ([name], []) if number in changes else (change, [*reads, name])
        for request, place in enumerate(told_after, start=1):
            if place == number:
                message = {"message": f"Request {request} is dealt with.", "requests_done": request}
                goal = f"Tell the customer of request {request}."
                yield PlannedCall(f"tell{request}", "tell_user", message, goal, (), False, (*change, *reads))
                change, reads = [f"tell{request}"], []


def _initial(state: InitialState, domain: Domain, db: Database) -> Database:
    """A task's start: the folder's database with the task's data merged in, and its first calls made. Raises Unusable."""
    data = state.initialization_data
    try:
        database = domain.merge(db, (data and data.agent_data) or {}, (data and data.user_data) or {})
        domain.settle(database)
    except ValueError as error:
        raise Unusable(str(error)) from None
    tools = {tool.name: tool for tool in domain.toolset.bound_to(database)}
    for call in state.initialization_actions or ():
        if call.func_name in domain.assertions.get(call.env_type, ()):
            continue  # it changes nothing, and tau2 does not look at what it says
        where = f"initialization_actions: {call}"
        try:
            if function := domain.setup.get(call.env_type, {}).get(call.func_name):
                function(database, **call.arguments)
            elif not succeeds(tools[call.func_name], call.arguments):
                raise Unusable(f"{where} fails")
            domain.settle(database)
        except Unusable:
            raise
        except (NotFound, RefusedCall) as error:
            raise Unusable(f"{where}: {error}") from None
        except (TypeError, ValueError):
            raise Unusable(f"{where}: wrong arguments") from None
    return database


def _task(row: TaskRow, labels: Mapping[str, str], asked: Query, world: dict[str, Any], at: tuple[Domain, Database]) -> Task:
    """Return the task of a row with its plan and the state that the gold actions lead to; quarantined where there can be none."""
    domain, db = at
    criteria = row.criteria
    scored = criteria.scored()
    actions = criteria.actions or []
    if domain.customer:
        made = [(action.name, action.arguments) for action in actions]
        # What is looked up once need not be looked up again, and a plan could not tell the two apart.
        actions = [one for place, one in enumerate(actions) if one.name not in domain.reads or made[place] not in made[:place]]
        changes = [[action.name, action.arguments] for action in actions if action.name not in domain.reads]
        world |= {"agrees_to": changes, "judges_db": "DB" in scored}
    else:  # for a task that is not run too: its tools are looked at
        world = {"domain": domain.name, "db": db, "scored": [], "actions": [], "assertions": []}
    texts = (criteria.communicate_info or []) if "COMMUNICATE" in scored else []
    task = run = Task(row.id, asked, texts, "contains", labels=labels, world=world)
    try:
        _check(row, domain)
        if not domain.customer:
            start = {
                "db": _initial(row.state, domain, db),
                "scored": scored,
                "actions": [action.model_dump(exclude={"requestor"}) for action in actions],
                "assertions": [item.model_dump() for item in criteria.env_assertions or ()],
            }
            run = replace(task, world=world | start)
        trial = _open(domain, db, run)
        calls = tuple(_planned(actions, trial.tools, domain, run.world))
        end = trial.state()
        unmet = end.get("assertions_not_met") if end else None
        if unmet and (actions or "DB" in scored):
            raise Unusable(f"its own actions do not lead to {', '.join(unmet)}")
        plan = Plan(calls, " ".join((DONE if domain.customer else SOLVED, *texts)))
        run = replace(run, end_state=end | {"assertions_not_met": []} if unmet else end)
        problem = unplannable(plan) if actions else "it lists no actions"
        return replace(run, no_plan=problem) if problem else replace(run, plan=plan)
    except Unusable as error:
        return replace(task, no_plan=str(error), quarantined=str(error))


def _check(row: TaskRow, domain: Domain) -> None:
    """Raise Unusable for a task that this importer cannot run or score."""
    state, scored = row.state, row.criteria.scored()
    data = state.initialization_data
    calls = [*(state.initialization_actions or ()), *(row.criteria.env_assertions or ())]
    of_user = [call.func_name for call in calls if call.env_type == "user"]
    of_user += [action.name for action in row.criteria.actions or () if action.requestor == "user"]
    if state.message_history:
        raise Unusable("it continues a conversation with a user (message_history)")
    if not domain.customer and not (row.ticket or "").strip():
        raise Unusable("it has no ticket, and needs a simulated user")
    if domain.customer and (data or state.initialization_actions):
        raise Unusable("it starts from a state of its own (initial_state)")
    if domain.customer and of_user:
        raise Unusable("its user has tools")
    if (of_user or (data and data.user_data)) and not domain.user_tools:
        raise Unusable(f"it needs a simulated user with tools and data of its own ({', '.join(of_user) or 'user_data'})")
    if domain.customer and not (scored and {*scored} <= {"DB", "COMMUNICATE"}):
        raise Unusable(f"its criteria ask for {' and '.join(scored) or 'nothing without a judge'}, not for DB or COMMUNICATE")
    if not scored:
        raise Unusable("its criteria leave nothing to score without a judge")


def _unknown(row: TaskRow, domain: Domain, known: Mapping[Side, Collection[str]]) -> list[str]:
    """Return what a task calls and the domain does not have; a user's calls count where the domain's user has tools."""
    sides = ("assistant", "user") if domain.user_tools else ("assistant",)
    every, checks = {*known["assistant"], *known["user"]}, domain.assertions
    calls: list[tuple[Side, str, Collection[str]]] = [(one.requestor, one.name, every) for one in row.criteria.actions or ()]
    calls += [(one.env_type, one.func_name, checks.get(one.env_type, ())) for one in row.criteria.env_assertions or ()]
    for one in row.state.initialization_actions or ():
        side = one.env_type
        calls.append((side, one.func_name, {*known[side], *checks.get(side, ()), *domain.setup.get(side, ())}))
    return sorted({name for side, name, there in calls if side in sides and name not in there})


def _read_domain(folder: Path) -> tuple[Domain, Database]:
    """Read the database of a folder, and find the domain that it is of. Raises ValueError and OSError."""
    if not (folder / "tasks.json").is_file():
        raise ValueError(f"{folder}: no folder that holds tasks.json, a database and a policy")
    if (folder / telecom.COMPANY).is_file():
        return telecom.DOMAIN, telecom.read_database(folder)
    path = folder / "db.json"
    if not path.is_file():
        raise ValueError(f"{folder}: no folder that holds db.json, or {telecom.COMPANY} (telecom)")
    value = json_file(path)
    of_json = (domain for domain in DOMAINS.values() if domain.table)
    domain = next((one for one in of_json if isinstance(value, dict) and one.table in value), None)
    if domain is None:
        raise ValueError(f"{path}: not the database of {', '.join(DOMAINS)}; other domains are not here")
    return domain, checked(domain.tables, value, str(path)).model_dump()


def _policy(folder: Path, domain: Domain) -> str:
    if domain is telecom.DOMAIN:
        return telecom.policy(folder)
    for name in ("policy_solo.md", "policy.md"):
        if (folder / name).is_file():
            return text_file(folder / name).strip()
    raise ValueError(f"{folder}: the folder holds no policy_solo.md or policy.md")


def load(data: Path | None = None, split: str | None = None, limit: int | None = None, wishes: Wishes = "at_once") -> Suite:
    """Read the suite `tau2` from a domain's folder as published; the data is not part of this package.

    `data`: the folder, `--data FOLDER`. `split`: only the tasks that `split_tasks.json` lists under this name. `limit`: how many
    tasks to take from the start; all where left out. `wishes`: in `retail` and `airline`, whether customers say `at_once` all that
    they want, or ask for one thing after the other, `in_turn`.

    Task ids are tau2's. Raises OSError where a file cannot be read, and ValueError that names file, task and field for one that is
    none, for a folder that lacks a file, and for tasks of another domain than `mock`, `telecom`, `retail` and `airline`.
    """
    if data is None:
        raise ValueError(f"tau2: no data; give the folder of a domain ({', '.join(DOMAINS)}) with --data FOLDER")
    check_limit("tau2", limit)
    if wishes not in get_args(Wishes):
        raise ValueError(f"tau2: wishes is {wishes!r}, and must be one of {', '.join(get_args(Wishes))}")
    folder = Path(data).parent if Path(data).name == "tasks.json" else Path(data)
    path, path_of_splits = folder / "tasks.json", folder / "split_tasks.json"
    domain, db = _read_domain(folder)
    if wishes != "at_once" and not domain.customer:
        raise ValueError(
            f"tau2: wishes is {wishes!r}, but the tasks of {domain.name} have no customer; those of retail and airline do"
        )
    policy = _policy(folder, domain)
    splits: Mapping[str, Sequence[str]] = {}
    if path_of_splits.is_file():
        splits = checked(dict[str, list[str]], json_file(path_of_splits), str(path_of_splits))
    split_of = {task_id: name for name in ("train", "dev", "test") for task_id in splits.get(name, ())}
    tools = {tool.__name__ for tool in domain.tools}
    known: Mapping[Side, Collection[str]] = {"assistant": tools - {*domain.user_tools}, "user": domain.user_tools}
    rows = list(read_rows(path))
    for row in rows:
        if unknown := _unknown(row, domain, known):
            lacks = f"names {', '.join(map(repr, unknown))}, which the domain {domain.name!r} lacks"
            raise ValueError(f"{path}: task {row.id!r} {lacks}; it has {', '.join(sorted(tools))}")
    if split is not None and split not in splits:
        raise ValueError(f"tau2: split is {split!r}; split_tasks.json has {', '.join(map(repr, splits)) or 'none'}")
    tasks = []
    for row in islice((row for row in rows if split is None or row.id in splits[split]), limit):
        criteria, world = row.criteria, dict[str, Any]()
        labels = {"domain": domain.name} if domain.customer else {}
        labels |= {"basis": "+".join(criteria.scored())}
        if criteria.nl_assertions or "NL_ASSERTION" in criteria.reward_basis:
            labels["not_scored"] = "NL_ASSERTION"
        if row.id in split_of:
            labels["split"] = split_of[row.id]
        text = f"{row.ticket or ''}\n\n{INSTRUCTION}".strip()
        if domain.customer:
            text, world = script(row.user_scenario, wishes, f"{path}, task {row.id!r}")
        tasks.append(_task(row, labels, Query(text, policy), world, (domain, db)))
    if not tasks:
        raise ValueError(f"{path}: no task" + ("" if split is None else f" of split {split!r}"))
    used = {call.tool for task in tasks if task.plan for call in task.plan.calls}
    shared = digest(db) if domain.customer else ""
    return Suite("tau2", VERSION, tasks, partial(_open, domain, db), shared=shared, distractors=frozenset(tools - used))
