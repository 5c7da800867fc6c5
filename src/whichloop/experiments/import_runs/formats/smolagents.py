"""Memories of smolagents' agents: the list of `agent.memory.get_full_steps()`, or an object with it under `steps`, per trial.

`agent.run(task, return_full_result=True).dict()` gives such an object with a `state`. Which task it was and how it was scored is
not in it: `--map task=PLACE,score=PLACE` names what you put beside the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.experiments.import_runs.foreign_file import documents, has, in_document, task_of, unscored
from whichloop.experiments.import_runs.foreign_trials import LogBuilder
from whichloop.experiments.import_runs.places import TraceFields
from whichloop.experiments.trace_formats.conversation import ModelTurn, SaidToModel, beyond_parts_in, events_of, untold_of
from whichloop.experiments.trace_formats.smolagents_memory import is_memory, items_of_steps
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest

from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..places import check_meanings, mapped
from ..values import answer_of, name_of, score

MEANINGS = ("arm", "task", "score", "suite", "model")
NO_SCORE = "a memory holds no score; put it beside the steps, and say where: --map score=PLACE"
STOPS: Mapping[str, StopReason] = {"success": StopReason.FINISHED, "max_steps_error": StopReason.MAX_STEPS}


def is_smolagents(data: object) -> bool:
    """Whether JSON is the memory of an agent of smolagents, or its steps."""
    return is_memory(data.get("steps") if isinstance(data, Mapping) else data)


def recognizes(file: ForeignFile) -> bool:
    return has(file, is_smolagents)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read memories. Raises ValueError with a one-line message that names the file in the folder, and the step."""
    check_meanings(reading, MEANINGS)
    log_builder, fields = LogBuilder("smolagents"), TraceFields(reading)
    for name, data in documents(file):
        with in_document(file, name):
            if not is_smolagents(data):
                raise ValueError("not a list of memory steps, and no object with one under steps")
            typed = {meaning: mapped(data, meaning, reading) for meaning in MEANINGS}
            model = name_of(typed["model"] or "unknown", "--map model")
            arm = ForeignArm(name_of(typed["arm"] or "smolagents", "--map arm"), loop="smolagents", model=model)
            task = task_of(name) if typed["task"] is None else name_of(typed["task"], "--map task")
            key = (arm.name, task, log_builder.next_repeat(arm.name, task))
            value = score(typed["score"], reading.scale)
            trial = _trial(data, key, value, unscored(NO_SCORE, typed["task"]) if value is None else "")
            question = digest(trial.trace.query if trial.trace else "")
            fields.add(trial, data if isinstance(data, Mapping) else {})
            log_builder.add(arm, trial, question, name_of(typed["suite"] or "smolagents", "--map suite"))
    log_builder.notes.extend(fields.notes())
    return log_builder.log(by="smolagents")


FORMAT = Format("smolagents", recognizes, read, mapped=True)


def _trial(data: Any, key: tuple[str, str, int], value: float | None, reason: str) -> ForeignTrial:
    steps = data["steps"] if isinstance(data, Mapping) else data
    state = data.get("state") if isinstance(data, Mapping) else None
    items = items_of_steps(steps)
    events = events_of(items)
    query = next((item.text for item in items if isinstance(item, SaidToModel) and item.role == "user"), "")
    last = next((item for item in reversed(items) if isinstance(item, ModelTurn)), None)
    answer: object = last.text if last is not None and not last.calls and last.error is None and not last.problem else None
    # What the run returned stands here: an agent that writes Python ends with a call for it, and not with a text.
    if isinstance(data, Mapping) and data.get("output") is not None:
        answer = data["output"]
    stop = STOPS.get(str(state), StopReason.FINISHED if answer and state is None else None)
    return ForeignTrial(
        *key,
        status="excluded" if value is None else "scored",
        reason=reason,
        score=value,
        stop=stop,
        answer=answer_of(answer),
        beyond_parts=beyond_parts_in(items),
        trace=ForeignTrace(events, query, untold=tuple(sorted({"provider", "wire", *untold_of(events)}))),
    )
