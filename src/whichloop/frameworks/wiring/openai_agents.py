"""OpenAI Agents SDK: one `Agent`, run by `Runner.run` (openai.github.io/openai-agents-python)."""

import agents
from openai import AsyncOpenAI

agents.set_tracing_disabled(True)  # it would send its traces to OpenAI


async def solve(task):
    client = AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, timeout=None)
    speaks = agents.OpenAIResponsesModel if task.options["wire"] == "responses" else agents.OpenAIChatCompletionsModel
    model = speaks(task.model, openai_client=client)
    more = {"failure_error_function": lambda context, error: f"Error: {error}"} if task.options["tool_errors"] == "shown" else {}
    tools = [agents.function_tool(tool, strict_mode=False, **more) for tool in task.tools]
    unknown = agents.RunConfig(tool_not_found_behavior="return_error_to_model")
    config = unknown if task.options["unknown_tool"] == "shown" else None
    agent = agents.Agent("solver", tools=tools, model=model)
    try:
        result = await agents.Runner.run(agent, task.question, max_turns=task.max_steps, run_config=config)
    except agents.MaxTurnsExceeded as error:
        raise task.StepLimit from error
    return result.final_output
