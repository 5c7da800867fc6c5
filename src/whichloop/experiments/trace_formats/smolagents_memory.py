"""The steps of a smolagents agent's memory as a conversation, as `agent.memory.get_full_steps()` gives them.

Source: `memory.py` of smolagents 1.26. A step says what its request showed, what the model wrote, which calls were read from it,
one text of what came of them, and the error that it ended with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.experiments.import_runs.values import mapping, number_from_zero, object_at, objects_at, usage_in
from whichloop.metrics.trace import RequestError
from whichloop.protocol import WireError
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.wire import read_call

from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel
from .gen_ai import as_text, message_of, messages_in

FINAL = "final_answer"
"""The tool by which an agent answers."""
_PARSING, _REQUEST, _MAX_STEPS = "AgentParsingError", "AgentGenerationError", "AgentMaxStepsError"
_NEVER_RAN = "Unknown tool "
"""How the message of an `AgentToolExecutionError` begins if there is no such tool."""
_KEYS = frozenset({"step_number", "plan", "task", "system_prompt", "output"})
"""Keys of which every step has one."""
_TASK_OR_ANSWER = frozenset({"task", "task_images", "system_prompt", "output"})
"""All keys of the steps that no request was made for."""


def is_memory(steps: Any) -> bool:
    """Tell whether a JSON value is a list of memory steps."""
    return isinstance(steps, list) and bool(steps) and all(isinstance(step, Mapping) and _is_step(step) for step in steps)


def _is_step(step: Mapping[str, Any]) -> bool:
    """Tell a step from a row of a table, whose columns may have the same names: a task or an answer has little beside it."""
    if not _KEYS & step.keys() or "step_number" in step or "plan" in step:
        return bool(_KEYS & step.keys())
    return step.keys() <= _TASK_OR_ANSWER


def items_of_steps(steps: Sequence[Any]) -> tuple[ConversationItem, ...]:
    """Return what the steps say. Raises ValueError."""
    return tuple(item for step in steps for item in _items(mapping(step, "a step")))


def _items(step: Mapping[str, Any]) -> Iterator[ConversationItem]:
    if "system_prompt" in step:
        yield SaidToModel("system", as_text(step["system_prompt"]))
    elif "task" in step:
        yield SaidToModel("user", as_text(step["task"]))
    elif "step_number" in step:
        yield from _action(step)
    elif "plan" in step:
        yield _turn(step, ())


def _action(step: Mapping[str, Any]) -> Iterator[ConversationItem]:
    error = object_at(step, "error")
    kind, message = as_text(error.get("type")), as_text(error.get("message"))
    calls = [_call(call) for call in _calls(step)]
    if kind == _REQUEST:
        yield ModelTurn(error=RequestError("provider", message), prompt=messages_in(step.get("model_input_messages")))
        return
    if kind == _MAX_STEPS:  # no step of the agent's: it asked once more, for an answer
        yield _turn(step, (), as_text(step.get("action_output")))
        return
    answers = [call for call in calls if call.name == FINAL]
    if step.get("is_final_answer") and answers and len(calls) == 1:
        yield _turn(step, (), _answer(step, answers[0]))
        return
    yield _turn(step, tuple(calls), problem=message if kind == _PARSING else "")
    observed = as_text(step.get("observations")) or message
    if calls and (observed or error):
        failed = None if error and len(calls) > 1 else bool(error)  # of several calls it does not say which failed
        ours = calls[0].id if len(calls) == 1 else ""
        yield CallResult(observed, ours, failed=failed, error_type=kind or None, never_ran=message.startswith(_NEVER_RAN))


def _calls(step: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls of a step; one whose call failed has them in the model's message only."""
    ran = objects_at(step, "tool_calls", "a tool call")
    return ran or objects_at(object_at(step, "model_output_message"), "tool_calls", "a tool call")


def _answer(step: Mapping[str, Any], call: NativeCall) -> str:
    """Return the answer of the last step, which stands in its output, or else in the arguments of the call."""
    if step.get("action_output") is not None:
        return as_text(step["action_output"])
    try:
        arguments = read_call(call).arguments
    except WireError:
        return as_text(step.get("observations"))
    return as_text(arguments["answer"]) if "answer" in arguments else as_text(step.get("observations"))


def _call(call: Mapping[str, Any]) -> NativeCall:
    function = object_at(call, "function")
    arguments = function.get("arguments")
    if isinstance(arguments, str) and not arguments.lstrip().startswith("{"):  # the code of an agent that writes Python
        arguments = {"code": arguments}
    raw = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return NativeCall(as_text(call.get("id")), as_text(function.get("name")), raw)


def _turn(step: Mapping[str, Any], calls: tuple[NativeCall, ...], answer: str | None = None, problem: str = "") -> ModelTurn:
    reply = message_of(step.get("model_output_message"))
    text = as_text(step.get("model_output", step.get("plan"))) or (reply.content if reply is not None else "")
    return ModelTurn(
        text if answer is None else answer,
        calls,
        thought="" if answer is None else text,
        tokens=usage_in(object_at(step, "token_usage")),
        seconds=number_from_zero(object_at(step, "timing").get("duration"), "duration") or 0.0,
        prompt=messages_in(step.get("model_input_messages")),
        problem=problem,
    )
