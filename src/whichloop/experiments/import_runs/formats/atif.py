"""ATIF trajectories, the Agent Trajectory Interchange Format of the Harbor framework, versions 1.0 to 1.8: a JSON file per trial.

Source: harborframework.com/docs/trajectory-format, and the models of harbor 0.26.0. ATIF does not say what failed between agent and
model, what a reply was before it was parsed, how long a reply took, or whether a tool's run failed; some agents write the last as
`is_error` into the `extra` of a result, and so does this package. What a trajectory goes on in (`continued_trajectory_ref`) is one
trial with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from whichloop.metrics.trace import RequestError
from whichloop.protocol import StopReason
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.json_text import load_json
from whichloop.protocol.values import shown_short

from ..chats import as_text
from ..conversation import CallResult, ConversationItem, ModelTurn, SaidToModel, answer_in
from ..foreign_file import MAX_MEMBER_BYTES, FileTree, ForeignFile, documents, task_of
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..own_trials import add_own_trial
from ..values import (
    answer_of,
    located,
    mapping,
    measures_in,
    name_of,
    number_from_zero,
    object_at,
    objects_at,
    usage_in,
)

ATIF = "atif"
"""Key in a trace's details: what a document says besides its steps, so that an export says it too."""
FAMILY = "ATIF-v1."
NEVER_TOLD = ("wire", "provider")
"""Families of faults that no ATIF file shows: replies are parsed, and failed requests are left out."""
EXTRA, OWN = "extra", "whichloop"
FAILED = ("is_error", "tool_result_is_error")
"""Keys in the `extra` of a result that say whether the call failed, as this package and Harbor's converters write them."""
NEVER_RAN = "never_ran"
"""Key in the `extra` of a result: no tool ran, and the agent itself answered."""
CONTINUED = "continued_trajectory_ref"
"""Key of a trajectory: the file in which it goes on, from its own folder, as Terminus 2 writes it to summarize."""
RAW = "raw_arguments"
"""Key in the `extra` of a call: its arguments as the model wrote them, where this says more than `arguments`."""
MAX_PARTS = 1000


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A document and what is read from it."""

    document: Mapping[str, Any]
    arm: ForeignArm
    items: tuple[ConversationItem, ...]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Trajectory:
        """Read a trajectory."""
        version = document.get("schema_version")
        if not isinstance(version, str) or not version.startswith(FAMILY):
            raise ValueError(f"schema_version is {shown_short(version)}; versions {FAMILY}0 to {FAMILY}8 are read")
        agent, steps = object_at(document, "agent"), objects_at(document, "steps", "a step")
        if not steps:
            raise ValueError("steps: there is none")
        items: list[ConversationItem] = []
        for number, step in enumerate(steps, 1):
            with located(f"step {number}"):
                items.extend(_items(step))
        options = {} if agent.get("version") is None else {"version": name_of(agent["version"], "agent.version")}
        return cls(document, ForeignArm.of(agent.get("name"), agent.get("model_name"), "agent.name", options), tuple(items))

    def measurements(self) -> dict[str, Any]:
        """Return what it says of a trial's measurements and answer, by the fields of a ForeignTrial."""
        final, answer = object_at(self.document, "final_metrics"), answer_in(self.items)
        steps = objects_at(self.document, "steps", "a step")
        names = {"input": "prompt", "output": "completion", "cached": "cached"}
        told = measures_in(final, **{f"{ours}_tokens": f"total_{theirs}_tokens" for ours, theirs in names.items()})
        if None in (told["input_tokens"], told["output_tokens"]):
            told |= {"input_tokens": None, "output_tokens": None}
        costs = [object_at(step, "metrics").get("cost_usd") for step in steps if step.get("source") == "agent"]
        known = [cost for one in costs if (cost := number_from_zero(one, "cost_usd")) is not None]
        cost = number_from_zero(final.get("total_cost_usd"), "total_cost_usd")
        stamps = [step["timestamp"] for step in steps if isinstance(step.get("timestamp"), str)]
        return told | {
            "answer": answer_of(answer or None),
            "stop": StopReason.FINISHED.value if answer else None,
            "cost_usd": math.fsum(known) if cost is None and known and len(known) == len(costs) else cost,
            "seconds": seconds_between(stamps[0], stamps[-1]) if len(stamps) > 1 else None,
        }

    def trace(self) -> ForeignTrace:
        """Return the trace; its details keep what the document says besides the steps."""
        rest = {key: value for key, value in self.document.items() if key != "steps"}
        return ForeignTrace.of(self.items, NEVER_TOLD, details={ATIF: rest})


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read trajectories."""
    log, later = ForeignLog("trajectories", reading), _later_parts(file.tree)
    for name, data in documents(file):
        if name not in later:
            with located(name):
                _add(log, file, name, mapping(data, "the trajectory"))
    return log


def _recognizes(file: ForeignFile) -> bool:
    is_job = file.tree is not None and any(name.rpartition("/")[2] == "result.json" for name in file.tree.names)
    return not is_job and isinstance(file.first, dict) and str(file.first.get("schema_version")).startswith("ATIF-")


FORMAT = Format("atif", _recognizes, read)


def _add(log: ForeignLog, file: ForeignFile, name: str, data: Mapping[str, Any]) -> None:
    whole = whole_trajectory(log, name, data, file.tree)
    extra = whole.get(EXTRA)
    own = extra.get(OWN) if isinstance(extra, Mapping) else None
    rest = {key: value for key, value in extra.items() if key != OWN} if isinstance(extra, Mapping) else extra
    document = {key: value for key, value in whole.items() if key != EXTRA} | ({EXTRA: rest} if rest else {})
    trajectory = Trajectory.read(document)
    if own is not None and add_own_trial(log, own, document.get("steps"), name or file.path.name):
        return
    told = {"unscored": "excluded", "own_task": True, "trace": trajectory.trace(), **trajectory.measurements()}
    log.tell(document, trajectory.arm, task_of(file, name), **told)


# --- trajectories in several files ---


def _later_parts(tree: FileTree | None) -> set[str]:
    """Return the names of the files in which the trajectories of others go on. What cannot be read names none."""
    later, word = set[str](), f'"{CONTINUED}"'.encode()
    for name in tree.names if tree is not None else {}:
        if name.endswith(".json") and word in (raw := tree.read(name) if tree is not None else b""):
            with suppress(ValueError, RecursionError):
                later |= {continuation_of(name, load_json(raw))} - {"", name}
    return later


def continuation_of(name: str, data: Any) -> str:
    """Return the name of the file in which a trajectory goes on; empty if it ends here. `name`: of its own file."""
    reference = data.get(CONTINUED) if isinstance(data, Mapping) else None
    return (PurePosixPath(name).parent / reference).as_posix() if isinstance(reference, str) and reference else ""


def whole_trajectory(log: ForeignLog, name: str, first: Mapping[str, Any], tree: FileTree | None) -> Mapping[str, Any]:
    """Return a trajectory with all in which it goes on; note a part that is not there.

    Of the parts, the steps that are copies of earlier ones are left out, and the totals are the last one's, which counts on.
    """
    parts, seen, size, part = [first], {name}, 0, name
    while part := continuation_of(part, parts[-1]):
        if part in seen or tree is None or part not in tree:
            log.notes.append(f"{name}: it goes on in {part}, which is {'read already' if part in seen else 'not there'}")
            break
        seen.add(part)
        raw = tree.read(part)
        size += len(raw)
        if len(parts) > MAX_PARTS or size > MAX_MEMBER_BYTES:
            raise ValueError(f"it goes on in more than {MAX_PARTS} files or {MAX_MEMBER_BYTES} bytes")
        with located(part):
            parts.append(mapping(load_json(raw), "the trajectory"))
            Trajectory.read(parts[-1])
    steps = [step for one in parts[1:] for step in objects_at(one, "steps", "a step") if step.get("is_copied_context") is not True]
    begun = {key: value for key, value in first.items() if key not in (CONTINUED, "final_metrics")}
    last = {key: value for key, value in parts[-1].items() if key in (CONTINUED, "final_metrics")}
    return first if len(parts) == 1 else {**begun, **last, "steps": [*objects_at(first, "steps", "a step"), *steps]}


def seconds_between(start: Any, end: Any) -> float | None:
    """Return the seconds between two times in ISO 8601; None if one is missing or cannot be read."""
    try:
        return max((datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


# --- steps ---


def _items(step: Mapping[str, Any]) -> Iterator[ConversationItem]:
    source, text = step.get("source"), _text(step.get("message"), "message")
    is_copy, is_rule = step.get("is_copied_context") is True, step.get("llm_call_count") == 0
    if source in ("system", "user"):
        if text:
            yield SaidToModel(source, text)
    elif source != "agent":
        raise ValueError(f"source is {shown_short(source)}, not system, user or agent")
    elif not is_copy and not is_rule:
        yield _turn(step, text)
    if is_copy:
        return
    calls = {_text_at(call, "tool_call_id"): call for call in objects_at(step, "tool_calls", "a tool call")} if is_rule else {}
    for result in objects_at(object_at(step, "observation"), "results", "a result"):
        extra, call_id = object_at(result, EXTRA), _text_at(result, "source_call_id", "")
        call = calls.get(call_id)
        tool = extra.get("tool") if call is None else _call(call).name
        error_type = extra.get("error_type")
        yield CallResult(
            _text(result.get("content"), "content"),
            call_id,
            tool if isinstance(tool, str) else "",
            next((extra[key] for key in FAILED if isinstance(extra.get(key), bool)), None),
            error_type if isinstance(error_type, str) else None,
            (extra if call is None else call).get("arguments"),
            never_ran=extra.get(NEVER_RAN) is True,
        )


def _turn(step: Mapping[str, Any], text: str) -> ModelTurn:
    metrics, error = object_at(step, "metrics"), object_at(step, EXTRA).get("error")
    if isinstance(error, Mapping) and isinstance(error.get("kind"), str) and not text:
        return ModelTurn(error=RequestError(error["kind"], str(error.get("message", ""))))
    calls, thought = objects_at(step, "tool_calls", "a tool call"), step.get("reasoning_content")
    tokens = usage_in({name: metrics.get(name) for name in ("prompt_tokens", "completion_tokens")})
    return ModelTurn(text, tuple(map(_call, calls)), thought if isinstance(thought, str) else "", tokens)


def _call(call: Mapping[str, Any]) -> NativeCall:
    raw = object_at(call, EXTRA).get(RAW)
    arguments = raw if isinstance(raw, str) else as_text(object_at(call, "arguments"))
    return NativeCall(_text_at(call, "tool_call_id"), _text_at(call, "function_name"), arguments)


def _text_at(data: Mapping[str, Any], key: str, absent: str | None = None) -> str:
    """Return the text under a key. `absent`: what stands for None; without it a text has to be there."""
    value = absent if data.get(key) is None else data[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a text: {shown_short(value)}")
    return value


def _text(content: Any, what: str) -> str:
    """Return a message or a result as text; a picture or a sound by its kind and place."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"{what} is neither a text nor a list of parts: {shown_short(content)}")
    parts = [mapping(part, f"a part of {what}") for part in content]
    return "\n".join(
        text if isinstance(text := part.get("text"), str) else f"[{part.get('type')}: {object_at(part, 'source').get('path')}]"
        for part in parts
    )
