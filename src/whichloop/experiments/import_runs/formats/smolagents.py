"""Memories of smolagents' agents: the list of `agent.memory.get_full_steps()`, or an object with it under `steps`, per trial.

`agent.run(task, return_full_result=True).dict()` gives such an object with a `state`. Which task it was and how it was scored is
not in it: `--map task=PLACE,score=PLACE` names what you put beside the steps. Source: `memory.py` of smolagents 1.26. A step says
what its request showed, what the model wrote, which calls were read from it, one text of what came of them, and its error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.trace import RequestError
from whichloop.protocol import StopReason
from whichloop.protocol.chat import NativeCall

from ..chats import as_messages, as_text, parsed, read_chat, read_reply
from ..conversation import CallResult, ConversationItem, ModelTurn, SaidToModel
from ..foreign_file import ForeignFile, documents, task_of
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..values import answer_of, located, mapping, number_from_zero, object_at, objects_at, usage_in

STOPS: Mapping[str, StopReason] = {"success": StopReason.FINISHED, "max_steps_error": StopReason.MAX_STEPS}
FINAL = "final_answer"
"""The tool by which an agent answers."""
_PARSING, _REQUEST, _MAX_STEPS = "AgentParsingError", "AgentGenerationError", "AgentMaxStepsError"
_NEVER_RAN = "Unknown tool "
"""How the message of an `AgentToolExecutionError` begins if there is no such tool."""
_TASK_OR_ANSWER = frozenset({"task", "task_images", "system_prompt", "output"})
"""All keys of the steps that no request was made for."""


def is_memory(data: Any) -> bool:
    """Tell whether JSON is an agent's memory, and not a table's rows, whose columns may have the same names."""
    steps = data.get("steps") if isinstance(data, Mapping) else data
    return (
        isinstance(steps, list)
        and bool(steps)
        and all(
            isinstance(one, Mapping) and ({"step_number", "plan"} & one.keys() or set() < one.keys() <= _TASK_OR_ANSWER)
            for one in steps
        )
    )


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read memories."""
    log = ForeignLog("smolagents", reading)
    for name, data in documents(file):
        with located(name):
            if not is_memory(data):
                raise ValueError("not a list of memory steps, and no object with one under steps")
            whole = data if isinstance(data, Mapping) else {"steps": data}
            items = tuple(item for step in whole["steps"] for item in _items(mapping(step, "a step")))
            last = next((item for item in reversed(items) if isinstance(item, ModelTurn)), None)
            answer: Any = last.text if last is not None and not last.calls and last.error is None and not last.problem else None
            # What the run returned stands in `output`: an agent that writes Python ends with a call for it, and not with a text.
            answer = answer if whole.get("output") is None else whole["output"]
            ended = StopReason.FINISHED if answer and whole.get("state") is None else None
            log.tell(
                whole,
                ForeignArm("smolagents", loop="smolagents"),
                task_of(file, name),
                unscored="excluded",
                own_task=True,
                stop=STOPS.get(str(whole.get("state")), ended),
                answer=answer_of(answer),
                trace=ForeignTrace.of(items, ("provider", "wire")),
            )
    return log


FORMAT = Format("smolagents", lambda file: is_memory(file.first), read)


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
    ran = objects_at(step, "tool_calls", "a tool call")  # one whose call failed has them in the model's message only
    calls = tuple(map(_call, ran or objects_at(object_at(step, "model_output_message"), "tool_calls", "a tool call")))
    if kind == _REQUEST:
        yield ModelTurn(
            error=RequestError("provider", message), prompt=as_messages(read_chat(step.get("model_input_messages"))) or None
        )
    elif kind == _MAX_STEPS:  # no step of the agent's: it asked once more, for an answer
        yield _turn(step, (), as_text(step.get("action_output")))
    elif step.get("is_final_answer") and [call.name for call in calls] == [FINAL]:
        arguments, output = parsed(calls[0].arguments), step.get("action_output")
        in_call = arguments.get("answer") if isinstance(arguments, Mapping) else None
        yield _turn(step, (), as_text(next((one for one in (output, in_call) if one is not None), step.get("observations"))))
    else:
        yield _turn(step, calls, problem=message if kind == _PARSING else "")
        observed = as_text(step.get("observations")) or message
        if calls and (observed or error):
            failed = None if error and len(calls) > 1 else bool(error)  # of several calls it does not say which failed
            ours = calls[0].id if len(calls) == 1 else ""
            yield CallResult(observed, ours, failed=failed, error_type=kind or None, never_ran=message.startswith(_NEVER_RAN))


def _call(call: Mapping[str, Any]) -> NativeCall:
    function = object_at(call, "function")
    arguments = function.get("arguments")
    if isinstance(arguments, str) and not arguments.lstrip().startswith("{"):  # the code of an agent that writes Python
        arguments = {"code": arguments}
    return NativeCall(as_text(call.get("id")), as_text(function.get("name")), as_text({} if arguments is None else arguments))


def _turn(step: Mapping[str, Any], calls: Sequence[NativeCall], answer: str | None = None, problem: str = "") -> ModelTurn:
    reply = read_reply(step.get("model_output_message"))
    text = as_text(step.get("model_output", step.get("plan"))) or (reply.text if reply is not None else "")
    said, thought = (text, "") if answer is None else (answer, text)
    seconds = number_from_zero(object_at(step, "timing").get("duration"), "duration") or 0.0
    prompt = as_messages(read_chat(step.get("model_input_messages"))) or None
    tokens = usage_in(object_at(step, "token_usage"))
    return ModelTurn(said, tuple(calls), thought, tokens, seconds, prompt=prompt, problem=problem)
