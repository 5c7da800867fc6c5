"""tau2's domains `retail` and `airline`: tasks with a customer who answers, by a script instead of a simulator.

What the customer says is the task's scenario in the first person: the query is why they write, `ask_user` gives who they are and
what they want, and `confirm_with_user` agrees to the changes among the task's gold actions and to no other. Customers say all
that they want at once, or with `wishes=in_turn` one request after the other, each when `tell_user` says that the one before is
done. A trial costs what it changes: all trials share the tables of `db.json`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from whichloop.datasets.importing.json_files import JsonRow, checked, json_file, text_file
from whichloop.datasets.task import Environment, Suite, Task, Toolset, WorldEnvironment
from whichloop.datasets.tau2 import airline, airline_tables, retail, retail_tables
from whichloop.datasets.with_user import (
    ASKING_USER_TOOLS,
    USER_TOOLS,
    FurtherRequest,
    ProposedCall,
    ScriptedUser,
    Topic,
    UserEnvironment,
    confirm_with_user,
    tell_user,
    with_user,
)
from whichloop.protocol import Plan, PlannedCall, Query
from whichloop.protocol.digest import digest

from .domain import (
    Action,
    Tables,
    TaskRow,
    TrialTables,
    Unusable,
    chosen_rows,
    read_rows,
    read_splits,
    split_names,
    succeeds,
    unplannable,
)

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ABOUT_THE_TALK = re.compile(r"\b(agent|confirm\w*|conversation)\b", re.IGNORECASE)
"""A sentence with one of these words tells how to talk, and not why the customer writes."""
_AFTER_WHICH_IT_IS_ME = r"(to|for|with|from|of|by|about|let|lets|give|gives|tell|tells|ask|asks|help|helps|offer|offers|send|sends)"
_FIRST_PERSON: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(rf"\b{pattern}\b", re.IGNORECASE), words)
    for pattern, words in (
        ("you are", "I am"),
        ("are you", "am I"),
        ("you were", "I was"),
        ("you're", "I'm"),
        (f"{_AFTER_WHICH_IT_IS_ME} you", r"\1 me"),
        ("yourself", "myself"),
        ("yours", "mine"),
        ("your", "my"),
        ("you", "I"),
    )
)


def first_person(text: str) -> str:
    """Return a text to an actor as the customer's own words; empty if there is no word in it."""
    if not any(char.isalnum() for char in text):
        return ""
    for pattern, words in _FIRST_PERSON:
        text = pattern.sub(words, text)
    return _SENTENCE_START.sub(lambda match: match[0].upper(), text.strip())


_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?]\s)|(?<=\n))[a-z]")


def opening(reason: str) -> str:
    """Return why the customer writes, in their words: without what they are told of the talk itself, but not without anything."""
    sentences = _SENTENCE.split(reason.strip())
    reasons = [sentence for sentence in sentences if not _ABOUT_THE_TALK.search(sentence)]
    return first_person(" ".join(reasons or sentences))


_FURTHER = re.compile(
    r"(?:(?:and|but) )?(?:you(?:'d| would)? )?"
    r"(?:also|then|next|once|after (?:that|this|all)|afterwards|at the end|finally|lastly|secondly|additionally|in addition)\b",
    re.IGNORECASE,
)
"""How a sentence begins that asks for something more."""


def in_turn(text: str) -> list[str]:
    """Split what an actor is told at each sentence that asks for something more; the parts have all the words, in their order."""
    parts: list[list[str]] = []
    for sentence in _SENTENCE.split(text.strip()):
        if not parts or _FURTHER.match(sentence):
            parts.append([])
        parts[-1].append(sentence)
    return [" ".join(part) for part in parts]


Wishes = Literal["at_once", "in_turn"]
"""Whether a customer says at once all that they want, or asks for one thing after the other."""
_HELP = (
    "A customer has written this. Help them with the tools, by the policy: ask them with ask_user, and let them agree to each "
    "change with confirm_with_user before it is made. "
)
INSTRUCTION = f"{_HELP}When it is done, answer with what was done."
INSTRUCTION_IN_TURN = (
    f"{_HELP}When a request is dealt with, say so with tell_user: they may have another one. When there is none left, answer with "
    "what was done."
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which tasks are read, and how their customers talk."""

    split: str | None = None
    """Only the tasks of this split; None: all."""
    limit: int | None = None
    """How many tasks, from the start; None: all."""
    wishes: Wishes = "at_once"


def conversations(folder: Path, domain_tables: tuple[ServiceDomain, Tables], chosen: Chosen, version: str) -> Suite:
    """Read the tasks of a domain's folder as published; `domain_tables`: as `service_of` returns it. Raises ValueError and
    OSError."""
    service, tables = domain_tables
    path = folder / "tasks.json"
    rows = list(read_rows(path))
    policy = text_file(folder / "policy.md").strip()
    splits = read_splits(folder)
    names = split_names(splits)
    tool_names = [tool.name for tool in service.tools.bound_to(TrialTables(tables))]
    tasks = []
    for row in islice(chosen_rows(rows, splits, chosen.split), chosen.limit):
        if unknown := sorted({action.name for action in row.criteria.actions or ()} - {*tool_names}):
            lacking = f"task {row.id!r} names {unknown[0]!r}, which the domain {service.name!r} lacks"
            raise ValueError(f"{path}: {lacking}; it has {', '.join(tool_names)}")
        scenario = checked(_Scripted, row.model_dump(), f"{path}, task {row.id!r}").user_scenario.instructions
        words = _words(scenario, chosen.wishes)
        tasks.append(_task(row, words, policy, names.get(row.id, ""), (service, tables)))
    if not tasks:
        raise ValueError(f"{path}: no task" + ("" if chosen.split is None else f" of split {chosen.split!r}"))
    used = {call.tool for task in tasks if task.plan for call in task.plan.calls}
    spare = frozenset(tool_names) - used
    return Suite("tau2", version, tuple(tasks), partial(_open, service, tables), shared=digest(tables), distractors=spare)


# The world of one trial.


@dataclass(frozen=True, slots=True)
class _Copied:
    """A tool's function whose results nobody can change the tables by."""

    function: Callable[..., Any]

    def __call__(self, /, **arguments: Any) -> Any:
        return copy.deepcopy(self.function(**arguments))


def _open(service: ServiceDomain, tables: Tables, task: Task) -> UserEnvironment:
    records, world = TrialTables(tables), task.world
    own = tuple(replace(tool, function=_Copied(tool.function)) for tool in service.tools.bound_to(records))
    further = world.get("further")
    script = ScriptedUser(
        world["says"], [_wanted(*change) for change in world["agrees_to"]], tuple(map(FurtherRequest, further or ()))
    )
    environment = WorldEnvironment(own, records, _state if world["judges_db"] else _no_state)
    return with_user(environment, script, USER_TOOLS if further is None else ASKING_USER_TOOLS)


def _wanted(action: str, arguments: Mapping[str, Any]) -> ProposedCall:
    return ProposedCall(action, arguments, tuple(name for name in SIDE_BY_SIDE if name in arguments))


def _state(records: TrialTables) -> Any:
    return {"changed": records.changes()}


def _no_state(records: TrialTables) -> None:
    return None


# Tasks.


@dataclass(frozen=True, slots=True)
class _Words:
    """What the customer of a task says."""

    opening: str
    says: Mapping[Topic, str]
    further: Sequence[str] | None
    """What they ask for later; None: all is said at once."""

    @property
    def query(self) -> str:
        return f"{self.opening}\n\n{INSTRUCTION if self.further is None else INSTRUCTION_IN_TURN}".strip()


def _words(scenario: _Instructions, wishes: Wishes) -> _Words:
    """Return a scenario in the customer's words."""
    first, further = [scenario.reason_for_call, scenario.task_instructions or ""], list[str]()
    if wishes == "in_turn":
        parts = [in_turn(text) for text in first]
        first = [part[0] for part in parts]
        further = [part for sentences in parts for part in sentences[1:]]
    says = {
        "identity": _in_lines(scenario.known_info or "", scenario.unknown_info or ""),
        "wishes": _in_lines(*first),
    }
    later = list(filter(None, map(first_person, further)))
    return _Words(opening(first[0]), {topic: text for topic, text in says.items() if text}, later if wishes == "in_turn" else None)


def _in_lines(*sentences: str) -> str:
    return "\n".join(filter(None, map(first_person, sentences)))


def _task(row: TaskRow, words: _Words, policy: str, split: str, domain_tables: tuple[ServiceDomain, Tables]) -> Task:
    service, criteria = domain_tables[0], row.criteria
    scored = criteria.scored()
    actions = _without_repeated_reads(criteria.actions or (), service)
    changes = [[action.name, action.arguments] for action in actions if action.name not in service.reads]
    labels = {"domain": service.name, "basis": "+".join(scored)} | ({"split": split} if split else {})
    if criteria.nl_assertions or "NL_ASSERTION" in criteria.reward_basis:
        labels["not_scored"] = "NL_ASSERTION"
    later = {} if words.further is None else {"further": list(words.further)}
    task = Task(
        row.id,
        Query(words.query, policy),
        (criteria.communicate_info or []) if "COMMUNICATE" in scored else [],
        "contains",
        labels=labels,
        world={"says": words.says, "agrees_to": changes, "judges_db": "DB" in scored} | later,
    )
    try:
        _check(row, scored)
        return _with_plan(task, actions, *domain_tables)
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
    without_repeats: list[Action] = []
    for action in actions:
        same = (other.name == action.name and other.arguments == action.arguments for other in without_repeats)
        if action.name not in service.reads or not any(same):
            without_repeats.append(action)
    return without_repeats


def _with_plan(task: Task, actions: Sequence[Action], service: ServiceDomain, tables: Tables) -> Task:
    """Return the task with its plan and the records that the gold actions change. Raises Unusable."""
    trial = _open(service, tables, task)
    planned = _planned(task.world["says"], task.world.get("further"), actions, (trial, service))
    plan = Plan(tuple(planned), " ".join((DONE, *task.expected)))
    task = replace(task, end_state=trial.state())
    problem = unplannable(plan) if actions else "it lists no actions"
    return replace(task, no_plan=problem) if problem else replace(task, plan=plan)


def _planned(
    says: Mapping[Topic, str], further: Sequence[str] | None, actions: Sequence[Action], at: tuple[Environment, ServiceDomain]
) -> Iterator[PlannedCall]:
    """Yield the questions, then the gold actions, each change after the customer's yes, and make them in this trial.

    A change comes after all before it, what only looks something up after the last change. Where requests come in turn, the plan
    tells the customer of each, and shares the changes out evenly, in their order: a task does not say which change is of which
    request. Raises Unusable.
    """
    trial, service = at
    tools = {tool.name: tool for tool in trial.tools}
    questions = []
    for topic in says:
        questions.append(f"ask_{topic}")
        yield PlannedCall(
            questions[-1], "ask_user", {"about": topic, "question": QUESTIONS[topic]}, f"Ask for the customer's {topic}."
        )
    told_after = _told_after(actions, 0 if further is None else len(further) + 1, service)
    change, reads, requests_told = list(questions), list[str](), 0
    for number in range(len(actions) + 1):
        if number:
            action = actions[number - 1]
            name, goal = f"c{number}", f"Step {number}: {action.name}."
            fails = not succeeds(tools[action.name], action.arguments)
            if action.name in service.reads:
                yield PlannedCall(name, action.name, action.arguments, goal, (), fails, tuple(change))
                reads.append(name)
            else:
                yield _yes(number, action, (*change, *reads))
                yield PlannedCall(name, action.name, action.arguments, goal, (), fails, (f"yes{number}",))
                change, reads = [name], []
        for _ in range(told_after.count(number)):
            requests_told += 1
            arguments = {"message": f"Request {requests_told} is dealt with.", "requests_done": requests_told}
            goal = f"Tell the customer of request {requests_told}."
            yield PlannedCall(f"tell{requests_told}", tell_user.__name__, arguments, goal, (), False, (*change, *reads))
            change, reads = [f"tell{requests_told}"], []


def _yes(number: int, action: Action, after: tuple[str, ...]) -> PlannedCall:
    """Return the call that lets the customer agree to a change."""
    proposal = {"action": action.name, "arguments": action.arguments}
    return PlannedCall(
        f"yes{number}", confirm_with_user.__name__, proposal, f"Step {number}: let the customer agree.", (), False, after
    )


def _told_after(actions: Sequence[Action], requests: int, service: ServiceDomain) -> list[int]:
    """Return for each request how many actions are made before the customer is told of it; the last one after all."""
    changes = [0, *(number for number, action in enumerate(actions, start=1) if action.name not in service.reads)]
    shares = [changes[-(-(len(changes) - 1) * request // requests)] for request in range(1, requests)]
    return [*shares, len(actions)] if requests else []
