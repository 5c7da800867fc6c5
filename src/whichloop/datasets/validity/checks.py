"""What shows that a suite cannot be trusted without calling a tool: plans, schemas, splits, copies, tools that nothing needs.

After the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825). Each check is a function that gives the problems it
finds. Quarantined tasks are for the caller to leave out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from whichloop.protocol import PlannedCall, ToolSpec, refs
from whichloop.protocol.json_text import digest
from whichloop.protocol.names import most_like, near

from ..task import BY_CONSTRUCTION, Task, is_by_construction

MAX_UNANSWERABLE = 0.10
"""Largest share of tasks without an answer: a loop that does nothing gets these right."""
MAX_LOOKED_UP = 0.05
"""Largest share of tasks that a lookup may pass: it answers what a near copy of the question in another split wants."""
MAX_SCHEMAS = 60
"""Most answer schemas that are checked against the draft's own schema, at 12 ms each."""
MAX_COMPARED = 10_000
"""Most tasks that are searched for near copies; of more, every second, third, … one is."""
MAX_TOLD = 0.10
"""Largest share of tasks whose answer may stand in what is shown before any call: numbers meet by chance, choices by intent."""
MIN_TOLD = 3
"""Fewer tasks than this are not reported."""
ALIKE = 0.8
"""Jaccard similarity of two texts' shingles from which on they are near copies."""
SHINGLE = 3
"""Number of words in a row."""
EVERYWHERE = 0.5
"""A shingle that stands in more than this share of texts, such as an answer instruction's, tells none from another."""
BLOCK = 500
"""Texts that are compared with all others at once."""
_MASKED = re.compile(r"\d+(?:[.,:/-]?\d+)*")
_WORD = re.compile(r"\w+|#")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a suite, in a line."""

    text: str
    fails: bool = True
    """False: reported, but results can be trusted nevertheless."""


def plan_problems(task: Task) -> Iterator[Problem]:
    """Find a plan that cannot be right as it stands, or a missing plan without a reason."""
    if (task.plan is None) == (not task.no_plan):
        yield Problem(f"task {task.id!r}: a task has a plan, or a reason in `no_plan`, and not both")
    if task.plan is None:
        return
    answer, expected = task.plan.answer, task.expected
    if (answer is None) != (expected is None):
        yield Problem(f"task {task.id!r}: the plan's answer is {answer!r}, expected is {expected!r}: None belongs to None")
    if not task.plan.calls and expected is not None:
        yield Problem(f"task {task.id!r}: the plan answers without any call: a loop that uses no tool would be right")


def goal_problems(task: Task) -> Iterator[Problem]:
    """Find goals that stand in another one or in the question: a call is picked by finding its goal in a prompt."""
    if task.plan is None:
        return
    texts = {"the question": task.query.text, "the context": task.query.context} | {
        f"the goal of call {call.id!r}": call.goal for call in task.plan.calls
    }
    for call in task.plan.calls:
        own = f"the goal of call {call.id!r}"
        if not call.goal.strip():
            yield Problem(f"task {task.id!r}: {own} is empty")
            continue
        for name, text in texts.items():
            if name != own and call.goal in text:
                yield Problem(f"task {task.id!r}: {own}, {call.goal!r}, stands in {name} too")


def unanswerable_problems(tasks: Sequence[Task]) -> Iterator[Problem]:
    """Find too many tasks without an answer. A single one is never too many."""
    unanswerable = sum(task.expected is None for task in tasks)
    if unanswerable > max(1, MAX_UNANSWERABLE * len(tasks)):
        share = f"doing nothing would score {unanswerable / len(tasks):.0%}, at most {MAX_UNANSWERABLE:.0%} is right"
        yield Problem(f"{unanswerable} of {len(tasks)} tasks have no answer: {share}")


def argument_problems(task: Task, tools: Iterable[ToolSpec]) -> Iterator[Problem]:
    """Find planned calls, and their alternatives, of unknown tools or with arguments that the tool's schema does not take.

    What a reference stands for is known only when the plan is replayed. An expected error must come from the tool itself: a call
    that is refused for its arguments gets no receipt.
    """
    tools_by_name = {tool.name: tool for tool in tools}
    for call in task.plan.calls if task.plan is not None else ():
        for _, text in call_misfits(call, tools_by_name):
            yield Problem(f"task {task.id!r}, call {call.id!r}: {text}")


def call_misfits(call: PlannedCall, tools: Mapping[str, ToolSpec]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a planned call, or an alternative of it, by the tools: the argument, empty for the call, and a text.

    `tools`: by name.
    """
    for option in (call, *call.alternatives):
        if option.tool not in tools:
            hint = near(option.tool, tools) or f"there are {', '.join(tools) or 'none'}"
            yield "", f"no tool {option.tool!r}; {hint}"
        else:
            for argument, text in misfits(option, tools[option.tool].parameters):
                yield argument, f"{option.tool}: {text}"


def misfits(call: PlannedCall, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a call's arguments by its tool's schema, each with the argument, which is empty for a missing one.

    First their names, then the values that are no references.
    """
    yield from misnamed(call, schema)
    properties: Mapping[str, Any] = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, value in call.arguments.items():
        rules = properties.get(name, others)
        if rules is not False and not any(refs(value)) and (problem := _invalid(value, rules, schema)):
            yield name, f"argument {name!r}: {problem}"


def misnamed(call: PlannedCall, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the same of the arguments that a call lacks and those that its tool does not know. A misspelt one is no missing one."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    is_open = schema.get("additionalProperties", True) is not False
    unknown = [] if is_open else [name for name in call.arguments if name not in properties]
    unused = [name for name in properties if name not in call.arguments]
    meant = {name: most_like(name, unused) for name in unknown}
    if missing := [name for name in schema.get("required", ()) if name not in {*call.arguments, *meant.values()}]:
        yield "", f"missing argument {missing[0]!r}"
    for name in unknown:
        hint = f"did you mean {meant[name]!r}?" if meant[name] else f"there are {', '.join(properties) or 'none'}"
        yield name, f"unknown argument {name!r}; {hint}"


def _invalid(value: Any, rules: Any, root: Mapping[str, Any]) -> str:
    """Return what a schema, a part of `root`, finds wrong with a value; empty if nothing is."""
    if isinstance(rules, Mapping):
        rules = {**{name: root[name] for name in ("$defs", "definitions") if name in root}, **rules}
    try:
        error = best_match(Draft202012Validator(rules, registry=Registry()).iter_errors(value))
    except (SchemaError, Unresolvable, RecursionError, TypeError, AttributeError) as broken:
        return f"the schema cannot be applied ({type(broken).__name__})"
    return "" if error is None else _cut_text(error.message)


def schema_problems(tasks: Iterable[Task], most: int = MAX_SCHEMAS) -> Iterator[Problem]:
    """Find invalid answer schemas (JSON Schema, draft 2020-12), and expected answers that theirs does not take.

    `most`: how many different schemas are looked at for themselves.
    """
    broken: dict[str, str] = {}
    for task in tasks:
        schema = task.query.schema
        if schema is None:
            continue
        key = digest(schema)
        if key not in broken:
            broken[key] = ""
            try:
                if len(broken) <= most:
                    Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                broken[key] = _cut_text(error.message)
        if broken[key]:
            yield Problem(f"task {task.id!r}: the answer's schema is none: {broken[key]}")
        elif task.expected is not None and (problem := _invalid(task.expected, schema, schema)):
            yield Problem(f"task {task.id!r}: the schema does not take the expected answer: {problem}")


def tool_problems(plans: Iterable[Task], tools: Collection[str], distractors: Collection[str]) -> Iterator[Problem]:
    """Find tools that no plan uses and that are not named as distractors, and distractors that are not.

    `plans`: all tasks of the suite. `tools`: names that environments of the suite were seen to have. A tool that only tempts does
    no harm: it is told.
    """
    used = {option.tool for task in plans if task.plan for call in task.plan.calls for option in (call, *call.alternatives)}
    for name in sorted(set(tools) - used - set(distractors)):
        yield Problem(f"tool {name!r} is used by no plan; name it among the suite's distractors, or leave it out", fails=False)
    for name in sorted(set(distractors) & used):
        yield Problem(f"tool {name!r} is named a distractor, and a plan uses it")
    for name in sorted(set(distractors) - set(tools)):
        yield Problem(f"distractor {name!r} is not a tool of the suite")


def split_problems(tasks: Iterable[Task]) -> Iterator[Problem]:
    """Find instances and questions that stand in two splits: what is tuned on one would be tested on itself.

    A question is its text and context; over another world, with another answer, it is another question.
    """
    instances: dict[str, tuple[str, str]] = {}
    questions: dict[str, tuple[str, str]] = {}
    for task in tasks:
        split = str(task.labels.get("split", ""))
        if not split:
            continue
        instance, asked = task.labels.get("instance"), [task.query.text, task.query.context]
        keys = [(questions, digest([*asked, task.expected, task.end_state]), "question")]
        keys += [(instances, str(instance), f"instance {instance!r}")] if instance else []
        for first_places, key, what in keys:
            first, where = first_places.setdefault(key, (task.id, split))
            if where != split:
                yield Problem(f"tasks {first!r} ({where}) and {task.id!r} ({split}) share one {what}: it stands in two splits")


def copy_problems(tasks: Iterable[Task]) -> Iterator[Problem]:
    """Find tasks that ask the same of the same world: they are duplicates, or one of two answers is wrong."""
    first_by_question: dict[str, tuple[str, str]] = {}
    for task in tasks:
        query = task.query
        question = digest([query.text, query.context, query.schema, dict(task.world)])
        answer = digest([task.expected, task.end_state])
        first, expected = first_by_question.setdefault(question, (task.id, answer))
        if first != task.id:
            same = "and want the same" if expected == answer else "and want two different answers"
            yield Problem(f"tasks {first!r} and {task.id!r} ask the same of the same world, {same}")


def wording(text: str) -> str:
    """Return a text's words alone: lower case, numbers masked as `#`."""
    return " ".join(_WORD.findall(_MASKED.sub("#", text.casefold())))


def alike(wordings: Sequence[str]) -> list[list[int]]:
    """Return groups of places whose wordings are near copies, directly or over a third, by shingles (Broder 1997)."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(wordings):
        places[text].append(place)
    groups: dict[int, list[int]] = defaultdict(list)
    for text, group in zip(places, _groups(list(places)), strict=True):
        groups[group] += places[text]
    return [group for group in groups.values() if len(group) > 1]


def _groups(texts: Sequence[str]) -> list[int]:
    if len(texts) < 2:
        return [0] * len(texts)
    numbers: dict[tuple[str, ...], int] = {}
    rows, columns = [], []
    for row, text in enumerate(texts):
        words = text.split(" ")
        for shingle in {tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}:
            rows.append(row)
            columns.append(numbers.setdefault(shingle, len(numbers)))
    held = scipy.sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)))
    held = held[:, np.flatnonzero(held.sum(axis=0) <= max(EVERYWHERE * len(texts), 2))]
    sizes, rows, columns = held.sum(axis=1), [], []
    for start in range(0, len(texts), BLOCK):
        shared = (held[start : start + BLOCK] @ held.T).tocoo()
        row, column = shared.coords[0] + start, shared.coords[1]
        near = shared.data >= ALIKE * (sizes[row] + sizes[column] - shared.data)
        rows += row[near].tolist()
        columns += column[near].tolist()
    graph = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(texts)))
    found: list[int] = scipy.sparse.csgraph.connected_components(graph, directed=False)[1].tolist()
    return found


def likeness_problems(tasks: Sequence[Task]) -> Iterator[Problem]:
    """Find tasks that the answer of a near copy in another split passes: a question of nearly the same words, numbers masked.

    Tasks without an answer are not counted: how many there may be is limited anyway.
    """
    chosen = tasks[:: max(1, -(-len(tasks) // MAX_COMPARED))]
    chances: dict[str, float] = {}  # for each task, that a near copy drawn from another split has its answer
    for group in alike([wording(task.query.full_text) for task in chosen]):
        answered = [task for task in map(chosen.__getitem__, group) if task.expected is not None or task.end_state is not None]
        like = [(task.id, str(task.labels.get("split", "")), digest([task.expected, task.end_state])) for task in answered]
        splits, answers = Counter(split for _, split, _ in like), Counter((split, answer) for _, split, answer in like)
        every = Counter(answer for _, _, answer in like)
        for task, split, answer in like:
            chances[task] = (every[answer] - answers[split, answer]) / max(len(like) - splits[split], 1)
    share = sum(chances.values()) / len(chosen)
    if share > MAX_LOOKED_UP:
        passed = sorted((task for task, chance in chances.items() if chance), key=lambda task: -chances[task])
        told = f"{share:.1%} of {len(chosen)} tasks are passed by the answer of a near copy in another split"
        yield Problem(f"{told}, at most {MAX_LOOKED_UP:.0%} may be: {some(passed)}")


def told_problems(tasks: Sequence[Task], visible_text: Callable[[Task], str]) -> Iterator[Problem]:
    """Find answers in what a loop sees before it calls a tool: numbers, which is a failure, and texts, as with a choice.

    `visible_text`: that text of a task. Whole numbers below 10 and texts of one or two characters say nothing.
    """
    for kind, fails in (("number", True), ("text", False)):
        telling = [task.id for task in tasks if _stands_in(task.expected, kind, visible_text(task))]
        if len(telling) >= MIN_TOLD and len(telling) > MAX_TOLD * len(tasks):
            share = f"{len(telling)} of {len(tasks)} tasks show their answer, a {kind}"
            yield Problem(f"{share}, in the question, context or tools' descriptions: {some(telling)}", fails)


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def _stands_in(answer: Any, kind: str, text: str) -> bool:
    if kind == "text":
        whole = isinstance(answer, str) and len(answer) > 2 and re.escape(answer.casefold())
        return bool(whole and re.search(rf"(?<!\w){whole}(?!\w)", text.casefold()))
    if isinstance(answer, bool) or not isinstance(answer, int | float) or (abs(answer) < 10 and answer == int(answer)):
        return False
    return any(float(number) == abs(answer) for number in _NUMBER.findall(text.replace(",", "")))


def constructed(tasks: Iterable[Task]) -> Iterator[Problem]:
    """Count the tasks that a scripted model solves by construction, by the reasons that their label gives."""
    return _by_reason((str(task.labels[BY_CONSTRUCTION]), task.id) for task in tasks if is_by_construction(task))


def set_aside(tasks: Iterable[Task]) -> Iterator[Problem]:
    """Count the tasks that a run leaves out by their reasons: quarantined, and without a plan (under a scripted model)."""

    def told() -> Iterator[tuple[str, str]]:
        for task in tasks:
            if task.quarantined:
                yield f"quarantined: {task.quarantined}", task.id
            elif task.plan is None:
                yield f"without a plan: {task.no_plan or 'no reason is given'}", task.id

    return _by_reason(told())


def _by_reason(told: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Count tasks by what is told of them, the most frequent first. `told`: a reason and a task's id, each."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for reason, task in told:
        reasons[reason].append(task)
    for reason, ids in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield Problem(f"{len(ids)} × {_cut_text(reason)} ({some(ids)})", False)


def some(ids: Sequence[str]) -> str:
    """Return the first ids of several."""
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")


def _cut_text(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
