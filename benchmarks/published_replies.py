"""What published replies of models show of each kind of fault: readers of tau-bench's trajectories and of BFCL's result files.

Formats: `historical_trajectories/*.json` of sierra-research/tau-bench, and a model's folder of `*_result.json` in
HuanzhiMao/BFCL-Result, beside the questions and `possible_answer` of ShishirPatil/gorilla at that time (version 1 of BFCL).
Only what a file says is counted, and a kind that it cannot show has no share at all, which is not a share of 0.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whichloop.datasets.bfcl.official import officially_right
from whichloop.experiments.fit_profile.attempts import wire_damage
from whichloop.protocol import NativeCall, Reply

Form = Literal["native", "text"]

PROSE, OTHER_TOOL, TOO_FEW, TOO_MANY = "prose round a call", "another tool", "too few calls", "too many calls"
UNCOVERED: Mapping[str, str] = {
    PROSE: "a call stands in prose, without a fence, where the call alone was asked for",
    OTHER_TOOL: "another tool than the right one is called, though it exists",
    TOO_FEW: "some of the calls that the question needs are not made",
    TOO_MANY: "calls are made that the question does not need",
}
"""What models do and no kind of fault covers."""
UNREADABLE = ("wire.malformed", "wire.truncated", "wire.empty", "wire.duplicated")
_ARGUMENTS = ("decision.missing_argument", "decision.extra_argument", "decision.wrong_type")
_BFCL_DECISIONS = ("decision.no_tool", "decision.unknown_tool", *_ARGUMENTS, "decision.wrong_value", OTHER_TOOL, TOO_FEW, TOO_MANY)
CATEGORIES = ("simple", "multiple_function", "parallel_function", "parallel_multiple_function")
_FILE = "gorilla_openfunctions_v1_test_{}"
_SERVICE_ERRORS = re.compile(
    r"(Error|Internal error|Invalid JSON payload|Parsing error|An error occurred|429|5\d\d )", re.IGNORECASE
)
"""How the text begins that BFCL stored where the provider gave no reply."""
_AS_SENT = ("gpt-", "mistral-", "open-mi")
"""How the names of those native models begin whose arguments BFCL stored as they were sent; others' went through a parser."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "float": (float, int),
    "number": (float, int),
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
    "list": (list,),
    "tuple": (list, tuple),
    "dict": (dict,),
    "object": (dict,),
}


class Accuracy(NamedTuple):
    """Share of requests with a right reply; one in a fence or in prose is none, because BFCL asks for the calls alone."""

    counted: float
    """By this file."""
    published: float | None


@dataclass(frozen=True, slots=True)
class PublishedReplies:
    """The replies of one model in one form."""

    source: str
    """Name of the set, such as BFCL, with the date of its publication if its path says one."""
    model: str
    form: Form
    replies: int
    """Replies at which a call was due (BFCL), or that made one (tau-bench)."""
    counts: Mapping[str, int]
    """Kind of fault, or a name in UNCOVERED → replies that show it; a kind that is left out cannot be seen in these files."""
    failed: int = 0
    """Requests to which the provider gave no reply; `replies` leaves them out."""
    accuracy: Accuracy | None = None
    """None where there is no answer key."""


class Question(NamedTuple):
    """One question of BFCL."""

    functions: tuple[Mapping[str, Any], ...]
    wanted: list[Any]
    """The answer key: `[{function: {parameter: [allowed value, …]}}, …]`."""


class Call(NamedTuple):
    """A call as a reply has it."""

    function: str
    arguments: Mapping[str, Any]


# --- tau-bench ---


def read_tau_bench(path: Path) -> PublishedReplies:
    """Count what the native calls of an agent's trajectories show. Raises OSError, and ValueError for another format."""
    counts = Counter({"wire.malformed": 0, "wire.truncated": 0, "wire.duplicated": 0, "decision.repeated_call": 0})
    replies = 0
    for trajectory in _trajectories(path):
        seen: dict[tuple[str, str], str] = {}
        failed = {message.get("tool_call_id") for message in trajectory if _is_failed(message)}
        for message in trajectory:
            calls = message.get("tool_calls") or () if message["role"] == "assistant" else ()
            replies += bool(calls)
            kinds = set()
            for call in calls:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                damage, read = _native_arguments(name, arguments)
                kinds |= {damage} if damage else set()
                key = (name, json.dumps(read, sort_keys=True))
                kinds |= {"decision.repeated_call"} if key in seen and seen[key] not in failed else set()
                seen[key] = call.get("id", "")
            counts.update(kinds)
    return PublishedReplies(_dated("tau-bench", path), path.stem, "native", replies, dict(counts))


def _is_failed(message: Mapping[str, Any]) -> bool:
    """Whether a message is the result of a call that failed: to make that call again is a retry."""
    return message["role"] == "tool" and str(message.get("content", "")).startswith("Error")


def _trajectories(path: Path) -> list[list[dict[str, Any]]]:
    try:
        entries = json.loads(path.read_text("utf-8"))
        trajectories = [entry["traj"] for entry in entries]
        roles = {message["role"] for trajectory in trajectories for message in trajectory}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no trajectories of tau-bench ({type(error).__name__}: {error})") from None
    if "assistant" not in roles:
        raise ValueError(f"{path}: no trajectories of tau-bench (no message of an assistant)")
    return trajectories


# --- BFCL ---


def read_questions(folder: Path) -> dict[str, Question]:
    """Read BFCL's questions with their answer keys, by id. Raises OSError, and ValueError for another format."""
    questions = {}
    for category in CATEGORIES:
        name = _FILE.format(category) + ".json"
        keys = {row["id"]: row["ground_truth"] for row in json_rows(folder / "possible_answer" / name)}
        for row in json_rows(folder / name):
            functions = row["function"] if isinstance(row["function"], list) else [row["function"]]
            names = {function["name"] for function in functions}
            wanted = [{_plain(call, names): arguments} for call, arguments in keys[row["id"]].items()]
            questions[row["id"]] = Question(tuple(functions), wanted)
    return questions


def _plain(name: str, known: set[str]) -> str:
    """Return a function's name without the number by which a key tells two calls of it apart."""
    return name if name in known else re.sub(r"[_ ]\d+$", "", name)


def read_bfcl(folder: Path, questions: Mapping[str, Question]) -> PublishedReplies:
    """Count what the replies of one model show. Raises OSError, and ValueError for another format or unknown questions."""
    rows = [row for category in CATEGORIES for row in replies_of(folder, category)]
    form: Form = "native" if any(_is_calls(row["result"]) for row in rows) else "text"
    shown = (*UNREADABLE, "wire.fenced", PROSE) if form == "text" else UNREADABLE if folder.name.startswith(_AS_SENT) else ()
    counts = Counter(dict.fromkeys((*shown, *_BFCL_DECISIONS), 0))
    failed = right = 0
    for row in rows:
        if row["id"] not in questions:
            raise ValueError(f"{folder}: no question has the id {row['id']!r}")
        if is_failure(row["result"]):
            failed += 1
        else:
            kinds = kinds_of(row["result"], questions[row["id"]], form)
            right += not kinds
            counts.update(kinds)
    accuracy = Accuracy(right / len(rows), _published_accuracy(folder))
    return PublishedReplies(_dated("BFCL", folder), folder.name, form, len(rows) - failed, dict(counts), failed, accuracy)


def replies_of(folder: Path, category: str) -> list[dict[str, Any]]:
    """Read one model's replies to a category's questions, in the order of the questions. Raises OSError and ValueError."""
    return list(json_rows(folder / f"{_FILE.format(category)}_result.json"))


def _dated(name: str, path: Path) -> str:
    date = re.search(r"(?<!\d)20\d\d-\d\d-\d\d(?=/)", path.as_posix())
    return f"{name} {date.group()}" if date else name


def _published_accuracy(folder: Path) -> float | None:
    """Return the share of right replies that BFCL found, from the folder `score` beside `result`; None if it is not there."""
    scores = folder.parent.parent / "score" / folder.name
    if not scores.is_dir():
        return None
    heads = [next(json_rows(scores / f"{category}_score.json")) for category in CATEGORIES]
    return float(sum(head["correct_count"] for head in heads) / sum(head["total_count"] for head in heads))


def _is_calls(result: Any) -> bool:
    return isinstance(result, list) and bool(result) and all(isinstance(call, dict) for call in result)


def is_failure(result: Any) -> bool:
    """Whether BFCL stored an error of the provider in place of a reply."""
    return isinstance(result, str) and _SERVICE_ERRORS.match(result) is not None


def kinds_of(result: Any, question: Question, form: Form) -> set[str]:
    """Return what a reply shows: damage of the reply, else what is wrong with its calls; fences and prose do not hide the calls."""
    if form == "text":
        return _text_kinds(str(result), question)
    if not _is_calls(result):
        return {"decision.no_tool"} if result else {"wire.empty"}
    calls = []
    for entry in result:
        for name, arguments in entry.items():
            damage, read = _native_arguments(name, arguments)
            if damage:
                return {damage}
            calls.append(Call(name, read))
    return _decision_kinds(calls, question)


def _native_arguments(name: str, arguments: Any) -> tuple[str, Any]:
    """Return the damage of a native call's arguments, "" for none, and what they are if they can be read."""
    if not isinstance(arguments, str):
        return "", arguments
    try:
        read = json.loads(arguments)
    except ValueError:
        read = None
    unreadable = not isinstance(read, dict)
    damage = wire_damage(Reply("", (NativeCall("call", name, arguments),)), unreadable)
    return damage, arguments if unreadable else read


def _text_kinds(text: str, question: Question) -> set[str]:
    calls = python_calls(text)
    if calls is not None:
        return _decision_kinds(calls, question)
    if not text.strip():
        return {"wire.empty"}
    fenced = re.search(r"```(?:python|json)?\s*(.*?)```", text, re.DOTALL)
    listed = re.search(r"\[\s*[\w.]+\(.*\)\s*\]", text, re.DOTALL)
    for kind, found in (("wire.fenced", fenced and fenced.group(1)), (PROSE, listed and listed.group())):
        calls = python_calls(found) if found else None
        if calls is not None:
            return {kind} | _decision_kinds(calls, question)
    if not any(function["name"] in text for function in question.functions):
        return {"decision.no_tool"}
    return {wire_damage(Reply(fenced.group(1) if fenced else text), True)}


def python_calls(text: str) -> list[Call] | None:
    """Read calls as BFCL's prompt asks for them, `[function(parameter=value, …), …]`; None for what is not that."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
    if not nodes or not all(isinstance(node, ast.Call) and not node.args for node in nodes):
        return None
    return [
        Call(ast.unparse(node.func), {str(word.arg): _literal(word.value) for word in node.keywords})
        for node in nodes
        if isinstance(node, ast.Call)
    ]


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return ast.unparse(node)


def _decision_kinds(calls: Sequence[Call], question: Question) -> set[str]:
    """Return what is wrong with calls that could be read: the first that is found, from the tool's name to the values."""
    functions = {
        name: function for function in question.functions for name in (function["name"], function["name"].replace(".", "_"))
    }
    if any(call.function not in functions for call in calls):
        return {"decision.unknown_tool"}
    for kind in _ARGUMENTS:
        if any(_has(kind, call.arguments, functions[call.function]["parameters"]) for call in calls):
            return {kind}
    made = [{"function": functions[call.function]["name"], "arguments": dict(call.arguments)} for call in calls]
    if officially_right(question.wanted, made, question.functions, "python"):
        return set()
    if len(made) != len(question.wanted):
        return {TOO_FEW if len(made) < len(question.wanted) else TOO_MANY}
    same_tools = Counter(call["function"] for call in made) == Counter(name for want in question.wanted for name in want)
    return {"decision.wrong_value" if same_tools else OTHER_TOOL}


def _has(kind: str, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    known = parameters.get("properties") or {}
    if kind == "decision.missing_argument":
        return not set(parameters.get("required") or ()) <= arguments.keys()
    if kind == "decision.extra_argument":
        return not arguments.keys() <= known.keys()
    return any(not _is_of_type(value, known[name].get("type")) for name, value in arguments.items() if name in known)


def _is_of_type(value: Any, kind: Any) -> bool:
    types = _TYPES.get(kind) if isinstance(kind, str) else None
    return types is None or (isinstance(value, types) and (bool in types or not isinstance(value, bool)))


def json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines. Raises OSError, and ValueError with the line's number."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line) if line.strip() else None
            except ValueError as error:
                raise ValueError(f"{path}:{number}: not JSON: {error}") from None
            if row is not None:
                yield row
