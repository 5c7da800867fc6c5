"""Strands Agents: `Agent` (strandsagents.com)."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel


async def solve(task):
    model = OpenAIModel(client_args={"base_url": task.base_url, "api_key": task.api_key}, model_id=task.model)
    agent = Agent(model, tools=[tool(function) for function in task.tools], callback_handler=None)
    result = await agent.invoke_async(task.question, limits={"turns": task.max_steps})
    if result.stop_reason == "limit_turns":
        raise task.StepLimit
    return str(result).strip()
