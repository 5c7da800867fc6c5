"""OpenAI Agents SDK: one `Agent`, run by `Runner.run` (openai.github.io/openai-agents-python)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents import (
    Agent,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

if TYPE_CHECKING:
    from whichloop.programs.outside.runner import SolverTask

set_tracing_disabled(True)  # it would send its traces to OpenAI


async def solve(task: SolverTask) -> object:
    client = AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, timeout=None)
    speaks = OpenAIResponsesModel if task.options["wire"] == "responses" else OpenAIChatCompletionsModel
    model = speaks(task.model, openai_client=client)
    more = {"failure_error_function": error_for_model} if task.options["tool_errors"] == "shown" else {}
    tools = [function_tool(tool, strict_mode=False, **more) for tool in task.tools]
    config = RunConfig(tool_not_found_behavior="return_error_to_model") if task.options["unknown_tool"] == "shown" else None
    try:
        result = await Runner.run(
            Agent("solver", tools=tools, model=model), task.question, max_turns=task.max_steps, run_config=config
        )
    except MaxTurnsExceeded as error:
        raise task.StepLimit from error
    return result.final_output


def error_for_model(context: object, error: Exception) -> str:
    return f"Error: {error}"
