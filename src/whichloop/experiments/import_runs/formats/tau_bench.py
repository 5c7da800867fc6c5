"""Result files of tau-bench: a list of runs, each with reward and messages, as `tau_bench/run.py` writes it.

The replies of the strategy `tool-calling` have their arguments as the model wrote them; those of `act` and `react` are text, whose
last part after `Action:` is the call. Results of tools that failed begin with `Error:`, and those of tools that do not exist
with `Unknown action` (`tau_bench/envs/base.py`). Failed requests are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.json_text import digest

from ..chats import as_text, parsed, read_chat
from ..conversation import CallResult, ConversationItem, ModelTurn, SaidToModel, answer_in
from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..values import answer_of, count, list_at, located, mapping, name_of, object_at, without_floats

SUITE = "tau-bench"
ACTION, OUTPUT = "Action:", "API output: "
"""Marks of the text strategies: before a call, and before what came of it."""
FAILED, UNKNOWN = "Error:", "Unknown action"
_RUN = {"task_id", "reward", "traj", "trial"}


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a file of results; the arm is named after it."""
    if not isinstance(file.json_value, list):
        raise ValueError("not a list of runs")
    arm, log = ForeignArm(name_of(file.path.stem, "the file's name")), ForeignLog(SUITE, reading)
    for number, item in enumerate(file.json_value, 1):
        with located(f"run {number}"):
            _add(log, arm, mapping(item, "the run"))
    return log


FORMAT = Format("tau-bench", lambda file: file.top_level.keys() >= _RUN, read)


def _add(log: ForeignLog, arm: ForeignArm, run: Mapping[str, Any]) -> None:
    messages, info = list_at(run, "traj"), object_at(run, "info")
    task, repeat, described = run.get("task_id"), count(run.get("trial"), "trial") or 0, object_at(info, "task")
    question = digest(without_floats(described)) if described else ""
    if not messages and info.get("error") is not None:
        log.tell(run, arm, task, repeat=repeat, question=question, reason=info["error"], stop=StopReason.CRASHED)
        return
    items = tuple(_with_actions(read_chat(messages)))
    answer = answer_in(items)
    log.tell(
        run,
        arm,
        task,
        run.get("reward"),
        repeat=repeat,
        question=question,
        reason="no reward",
        stop=StopReason.FINISHED if answer else None,
        answer=answer_of(answer or None),
        trace=ForeignTrace.of(items, ("provider",), expected=described.get("outputs")),
    )


def _with_actions(items: Sequence[ConversationItem]) -> Iterator[ConversationItem]:
    """Yield the items; results with what they say, and a reply in text and the API's output after it as a call."""
    called = False
    for item, after in zip(items, [*items[1:], None], strict=True):
        is_output = isinstance(after, SaidToModel) and after.text.startswith(OUTPUT)
        if isinstance(item, SaidToModel) and called:
            yield _told(CallResult(item.text.removeprefix(OUTPUT)))
            called = False
        elif isinstance(item, ModelTurn) and not item.calls and is_output and ACTION in item.text:
            data = parsed(raw := item.text.rpartition(ACTION)[2].strip())
            is_call = isinstance(data, Mapping)
            name, arguments = (str(data.get("name", "")), as_text(data.get("arguments") or {})) if is_call else ("", raw)
            yield replace(item, calls=(NativeCall("", name, arguments),))
            called = True
        else:
            yield _told(item) if isinstance(item, CallResult) else item


def _told(result: CallResult) -> CallResult:
    """Return a result with what its text says: whether the call failed."""
    unknown = result.text.startswith(UNKNOWN)
    failed = unknown or result.text.startswith(FAILED)
    return replace(result, failed=failed, error_type=("UnknownTool" if unknown else "Error") if failed else None)
