"""ATIF, the Agent Trajectory Interchange Format of the Harbor framework, both ways: versions 1.0 to 1.8 in, 1.7 out.

Source: harborframework.com/docs/trajectory-format, and the models of harbor 0.26.0. ATIF does not say what failed between agent and
model, what a reply was before it was parsed, how long a reply took, or whether a tool's run failed; some agents write the last as
`is_error` into the `extra` of a result, and so does this package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from whichloop.experiments.import_runs.values import (
    count,
    located,
    mapping,
    name_of,
    number_from_zero,
    object_at,
    objects_at,
    short_value,
    usage_in,
)
from whichloop.metrics.trace import UNTOLD, ModelExchange, RequestError, ToolRun, TracedCall, TraceEvent
from whichloop.protocol import Message
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.wire import from_json

from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel

VERSION = "ATIF-v1.7"
"""The version that is written: the first in which results and calls have an `extra`."""
FAMILY = "ATIF-v1."
NEVER_TOLD = ("wire", "provider")
"""Families of faults that no ATIF file shows: replies are parsed, and failed requests are left out."""
_FAILED = ("is_error", "tool_result_is_error")
"""Keys in the `extra` of a result that say whether the call failed, as this package and Harbor's converters write them."""
NEVER_RAN = "never_ran"
"""Key in the `extra` of a result: no tool ran, and the agent itself answered."""
MAX_WAITING = 64
"""Steps with calls that nothing has answered which a later result may still answer."""
CONTINUED = "continued_trajectory_ref"
"""Key of a trajectory: the file in which it goes on, from its own folder."""
RAW = "raw_arguments"
"""Key in the `extra` of a call: its arguments as the model wrote them, where this says more than `arguments`."""


# --- in ---


@dataclass(frozen=True, slots=True)
class AtifTotals:
    """What a trajectory says of the whole trial; None: nothing."""

    tokens: tuple[int, int] | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class AtifTrajectory:
    """What is read from a trajectory."""

    agent: str
    version: str
    model: str
    items: tuple[ConversationItem, ...]
    totals: AtifTotals
    timestamps: tuple[str, ...] = ()
    """ISO 8601, of the steps that have one."""

    @property
    def query(self) -> str:
        """The first message of a user; empty if there is none."""
        return next((item.text for item in self.items if isinstance(item, SaidToModel) and item.role == "user"), "")


def is_atif(data: Any) -> bool:
    """Tell whether a JSON value says that it is an ATIF trajectory."""
    return isinstance(data, Mapping) and isinstance(data.get("schema_version"), str) and data["schema_version"].startswith("ATIF-")


def read_trajectory(data: Mapping[str, Any]) -> AtifTrajectory:
    """Read a trajectory. Raises ValueError with a one-line message that names the place."""
    version = data.get("schema_version")
    if not isinstance(version, str) or not version.startswith(FAMILY):
        raise ValueError(f"schema_version is {short_value(version)}; versions {FAMILY}0 to {FAMILY}8 are read")
    agent = object_at(data, "agent")
    steps = objects_at(data, "steps", "a step")
    if not steps:
        raise ValueError("steps: there is none")
    items: list[ConversationItem] = []
    for number, step in enumerate(steps, 1):
        with located(f"step {number}"):
            items.extend(_items(step))
    model = agent.get("model_name")
    return AtifTrajectory(
        agent=name_of(agent.get("name"), "agent.name"),
        version="" if agent.get("version") is None else name_of(agent["version"], "agent.version"),
        model="unknown" if model is None or model == "" else name_of(model, "agent.model_name"),
        items=tuple(items),
        totals=_totals(object_at(data, "final_metrics"), steps),
        timestamps=tuple(step["timestamp"] for step in steps if isinstance(step.get("timestamp"), str)),
    )


def continuation_of(name: str, data: Any) -> str | None:
    """Return the name of the file in which a trajectory goes on; None if it ends here. `name`: of its own file.

    Terminus 2 of Harbor begins such a file where it has summarized its context.
    """
    reference = data.get(CONTINUED) if isinstance(data, Mapping) else None
    return (PurePosixPath(name).parent / reference).as_posix() if isinstance(reference, str) and reference else None


def joined_trajectory(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one trajectory of several, each of which continues the one before and may begin with a copy of its steps.

    The totals are those of the last part, which counts on; it may be continued itself. Raises ValueError.
    """
    first, *later = parts
    new = (step for part in later for step in objects_at(part, "steps", "a step") if step.get("is_copied_context") is not True)
    last = {key: value for key, value in parts[-1].items() if key in (CONTINUED, "final_metrics")}
    begun = {key: value for key, value in first.items() if key not in (CONTINUED, "final_metrics")}
    return begun | last | {"steps": [*objects_at(first, "steps", "a step"), *new]}


def _items(step: Mapping[str, Any]) -> Iterator[ConversationItem]:
    source, text = step.get("source"), content_text(step.get("message"), "message")
    is_copy = step.get("is_copied_context") is True
    if source in ("system", "user"):
        if text:
            yield SaidToModel(source, text)
    elif source != "agent":
        raise ValueError(f"source is {short_value(source)}, not system, user or agent")
    elif not is_copy and step.get("llm_call_count") != 0:
        yield _turn(step, text)
    if is_copy:
        return
    by_rule = {} if step.get("llm_call_count") != 0 else {_id(call): call for call in objects_at(step, "tool_calls", "a tool call")}
    for result in objects_at(object_at(step, "observation"), "results", "a result"):
        yield _result(result, by_rule)


def _turn(step: Mapping[str, Any], text: str) -> ModelTurn:
    metrics, error = object_at(step, "metrics"), object_at(step, "extra").get("error")
    if isinstance(error, Mapping) and isinstance(error.get("kind"), str) and not text:
        return ModelTurn(error=RequestError(error["kind"], str(error.get("message", ""))))
    thought = step.get("reasoning_content")
    return ModelTurn(
        text=text,
        calls=tuple(_call(call) for call in objects_at(step, "tool_calls", "a tool call")),
        thought=thought if isinstance(thought, str) else "",
        tokens=usage_in({name: metrics.get(name) for name in ("prompt_tokens", "completion_tokens")}),
    )


def _call(call: Mapping[str, Any]) -> NativeCall:
    name = call.get("function_name")
    if not isinstance(name, str):
        raise ValueError(f"function_name of a tool call is not a text: {short_value(name)}")
    raw = object_at(call, "extra").get(RAW)
    arguments = raw if isinstance(raw, str) else _as_text(mapping(call.get("arguments"), "arguments"))
    return NativeCall(_id(call), name, arguments)


def _id(call: Mapping[str, Any]) -> str:
    value = call.get("tool_call_id")
    if not isinstance(value, str):
        raise ValueError(f"tool_call_id is not a text: {short_value(value)}")
    return value


def _result(result: Mapping[str, Any], by_rule: Mapping[str, Mapping[str, Any]]) -> CallResult:
    """Return a result; `by_rule`: calls of the step that no model made, by id."""
    extra = object_at(result, "extra")
    call_id = result.get("source_call_id")
    if call_id is not None and not isinstance(call_id, str):
        raise ValueError(f"source_call_id is not a text: {short_value(call_id)}")
    failed = next((extra[key] for key in _FAILED if isinstance(extra.get(key), bool)), None)
    error_type, tool = extra.get("error_type"), extra.get("tool")
    call = by_rule.get(call_id or "")
    return CallResult(
        text=content_text(result.get("content"), "content"),
        call_id=call_id or "",
        tool=_call(call).name if call is not None else tool if isinstance(tool, str) else "",
        failed=failed,
        error_type=error_type if isinstance(error_type, str) else None,
        arguments=extra.get("arguments") if call is None else call.get("arguments"),
        never_ran=extra.get(NEVER_RAN) is True,
    )


def content_text(content: Any, what: str) -> str:
    """Return a message or a result as text; a picture or a sound by its kind and place."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"{what} is neither a text nor a list of parts: {short_value(content)}")
    return "\n".join(_part(mapping(part, f"a part of {what}")) for part in content)


def _part(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    if isinstance(text, str):
        return text
    return f"[{part.get('type')}: {object_at(part, 'source').get('path')}]"


def _tokens(prompt: Any, completion: Any) -> tuple[int, int] | None:
    counts = count(prompt, "prompt tokens"), count(completion, "completion tokens")
    return None if counts[0] is None or counts[1] is None else (counts[0], counts[1])


def _totals(final: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> AtifTotals:
    """Return the totals; cost that only steps name is added up if all steps of the agent name it."""
    costs = [
        number_from_zero(object_at(step, "metrics").get("cost_usd"), "cost_usd") for step in steps if step.get("source") == "agent"
    ]
    cost = number_from_zero(final.get("total_cost_usd"), "total_cost_usd")
    if cost is None and costs and None not in costs:
        cost = sum(value for value in costs if value is not None)
    return AtifTotals(
        _tokens(final.get("total_prompt_tokens"), final.get("total_completion_tokens")),
        count(final.get("total_cached_tokens"), "total_cached_tokens"),
        cost,
    )


# --- out ---


@dataclass(slots=True)
class _WrittenStep:
    """A step of an agent, and its calls that nothing has answered yet."""

    step: dict[str, Any]
    open: list[tuple[str, TracedCall]] = field(default_factory=list)


def steps_of(events: Sequence[TraceEvent]) -> list[dict[str, Any]]:
    """Return the steps of a trajectory: what was said to the model, its replies, and what came of its calls.

    What ATIF has no place for is left out: roles, faults, the loop's own notes, and what a loop leaves out of a later prompt.
    """
    steps: list[dict[str, Any]] = []
    written: list[_WrittenStep] = []
    requests = 0
    for event in events:
        if isinstance(event, ModelExchange):
            for message in event.messages:
                _add_answer(message, written)
            steps.extend(_step(message.role, message.content) for message in event.messages if message.role in ("system", "user"))
            requests += 1
            written = [*[one for one in written if one.open][-MAX_WAITING:], _agent_step(event, requests)]
            steps.append(written[-1].step)
        elif isinstance(event, ToolRun) and (event.status != UNTOLD or event.data):
            if not written:
                written.append(_WrittenStep(_step("agent", "") | {"llm_call_count": 0}))
                steps.append(written[-1].step)
            _add_result(event, written)
    return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]


def _step(source: str, message: str) -> dict[str, Any]:
    return {"source": source, "message": message}


def _agent_step(event: ModelExchange, number: int) -> _WrittenStep:
    step = _step("agent", event.reply or "")
    calls = [(call.id, call.name, call.arguments) for call in event.native_calls]
    if not calls:
        calls = [("", call.tool, _as_text(call.arguments)) for call in event.calls]
    opened: list[tuple[str, TracedCall]] = []
    listed: list[dict[str, Any]] = []
    for place, (call_id, name, raw) in enumerate(calls, 1):
        value = _parsed(raw)
        used_ids = {one["tool_call_id"] for one in listed}
        unique = call_id if call_id and call_id not in used_ids else f"call_{number}_{place}"
        call: dict[str, Any] = {
            "tool_call_id": unique,
            "function_name": name,
            "arguments": value if isinstance(value, dict) else {},
        }
        if not isinstance(value, dict) or _as_text(value) != raw:
            call["extra"] = {RAW: raw}
        listed.append(call)
        opened.append((unique, TracedCall(name, value)))
    if listed:
        step["tool_calls"] = listed
    if event.tokens is not None:
        step["metrics"] = {"prompt_tokens": event.tokens[0], "completion_tokens": event.tokens[1]}
    if event.error is not None:
        step["extra"] = {"error": {"kind": event.error.kind, "message": event.error.message}}
    return _WrittenStep(step, opened)


def _add_result(run: ToolRun, written: Sequence[_WrittenStep]) -> None:
    """Add what came of a run to the latest step with such a call; if there is none, to the last step, beside its calls."""
    opened = [(one, call) for one in reversed(written) for call in one.open if call[1].tool == run.call.tool]
    opened_call = next((item for item in opened if item[1][1].key == run.call.key), opened[0] if opened else None)
    result: dict[str, Any] = {"content": run.data}
    extra: dict[str, Any] = {} if run.status == UNTOLD else {"is_error": not run.ok}
    if run.error_type is not None:
        extra["error_type"] = run.error_type
    step = written[-1].step
    if opened_call is not None:
        one, call = opened_call
        one.open.remove(call)
        step, result = one.step, {"source_call_id": call[0], **result}
    else:
        extra |= {"tool": run.call.tool, "arguments": run.call.arguments}
    if extra:
        result["extra"] = extra
    step.setdefault("observation", {"results": []})["results"].append(result)


def _add_answer(message: Message, written: Sequence[_WrittenStep]) -> None:
    """Add what a loop said in a tool's place: a message that answers a call which no tool has run."""
    open_call = next(((one, call) for one in reversed(written) for call in one.open if call[0] == message.call_id), None)
    if message.role == "tool" and open_call is not None:
        one, call = open_call
        one.open.remove(call)
        result = {"source_call_id": call[0], "content": message.content, "extra": {"is_error": True, NEVER_RAN: True}}
        one.step.setdefault("observation", {"results": []})["results"].append(result)


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parsed(raw: str) -> Any:
    """Return the JSON value of a text, or the text if it is not JSON."""
    try:
        return from_json(raw)
    except ValueError:
        return raw
