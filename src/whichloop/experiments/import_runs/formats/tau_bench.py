"""Result files of tau-bench: a list of runs, each with reward and messages, as `tau_bench/run.py` writes it.

The replies of the strategy `tool-calling` have their arguments as the model wrote them; those of `act` and `react` are text, whose
last part after `Action:` is the call. Results of tools that failed begin with `Error:`, and those of tools that do not exist
with `Unknown action` (`tau_bench/envs/base.py`). Failed requests are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.experiments.trace_formats.conversation import (
    CallResult,
    ConversationItem,
    ModelTurn,
    SaidToModel,
    answer_in,
    events_of,
    items_of,
    raw_arguments,
    untold_result,
)
from whichloop.protocol import StopReason
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.digest import digest
from whichloop.protocol.wire import from_json

from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..values import answer_of, count, list_at, located, mapping, name_of, object_at, reason_line, score, without_floats

SUITE = "tau-bench"
ACTION, OUTPUT = "Action:", "API output: "
"""Marks of the text strategies: before a call, and before what came of it."""
FAILED, UNKNOWN = "Error:", "Unknown action"


def recognizes(file: ForeignFile) -> bool:
    return {"task_id", "reward", "traj", "trial"} <= file.top_level.keys()


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a file of results; the arm is named after it. Raises ValueError that names the run and the message."""
    data = file.json_value
    if not isinstance(data, list):
        raise ValueError("not a list of runs")
    arm = ForeignArm(name_of(file.path.stem, "the file's name"))
    trials: list[ForeignTrial] = []
    questions: dict[str, str] = {}
    for number, item in enumerate(data, 1):
        with located(f"run {number}"):
            run = mapping(item, "the run")
            task, repeat = name_of(run.get("task_id"), "task_id"), count(run.get("trial"), "trial") or 0
            described = object_at(object_at(run, "info"), "task")
            questions[task] = questions.get(task) or (digest(without_floats(described)) if described else "")
            trials.append(_trial(run, arm.name, task, repeat, reading))
    return ForeignLog(SUITE, (arm,), tuple(trials), questions, by=SUITE)


FORMAT = Format("tau-bench", recognizes, read)


def _trial(run: Mapping[str, Any], arm: str, task: str, repeat: int, reading: ReadingOptions) -> ForeignTrial:
    messages, info = list_at(run, "traj"), object_at(run, "info")
    if not messages and info.get("error") is not None:
        return ForeignTrial(arm, task, repeat, status="errored", reason=reason_line(info["error"]), stop=StopReason.CRASHED)
    reward = score(run.get("reward"), reading.scale)
    items = tuple(_with_actions(list(items_of(messages, read_result))))
    query = next((item.text for item in items if isinstance(item, SaidToModel) and item.role == "user"), "")
    outputs = object_at(info, "task").get("outputs")
    answer = answer_in(items)
    return ForeignTrial(
        arm,
        task,
        repeat,
        status="errored" if reward is None else "scored",
        reason="no reward" if reward is None else "",
        score=reward,
        stop=StopReason.FINISHED if answer else None,
        answer=answer_of(answer or None),
        trace=ForeignTrace(events_of(items), query, expected=outputs, untold=("provider",)),
    )


def read_result(message: Mapping[str, Any], text: str) -> CallResult:
    """Read a tool's message, whose text says whether the call failed."""
    result = untold_result(message, text)
    return _result(text, result.call_id, result.tool)


def _result(text: str, call_id: str, tool: str) -> CallResult:
    unknown = text.startswith(UNKNOWN)
    failed = unknown or text.startswith(FAILED)
    return CallResult(text, call_id, tool, failed, ("UnknownTool" if unknown else "Error") if failed else None)


def _with_actions(items: Sequence[ConversationItem]) -> Iterator[ConversationItem]:
    """Yield the items; a reply in text and the API's output after it as the call that they are."""
    following = [*items[1:], None]
    called = False
    for item, after in zip(items, following, strict=True):
        is_output = isinstance(after, SaidToModel) and after.text.startswith(OUTPUT)
        if isinstance(item, SaidToModel) and called:
            yield _result(item.text.removeprefix(OUTPUT), "", "")
            called = False
        elif isinstance(item, ModelTurn) and not item.calls and is_output and ACTION in item.text:
            yield ModelTurn(item.text, (_action(item.text),), item.thought, item.tokens)
            called = True
        else:
            yield item


def _action(text: str) -> NativeCall:
    """Return the call of a reply in text."""
    raw = text.rpartition(ACTION)[2].strip()
    try:
        data = mapping(from_json(raw), "the action")
    except ValueError:
        return NativeCall("", "", raw)
    return NativeCall("", str(data.get("name", "")), raw_arguments(data.get("arguments")))
