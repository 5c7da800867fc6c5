"""Strands Agents: `Agent` (strandsagents.com)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strands import Agent, tool
from strands.models.openai import OpenAIModel

if TYPE_CHECKING:
    from whichloop.programs.outside.runner import SolverTask


async def solve(task: SolverTask) -> object:
    model = OpenAIModel(client_args={"base_url": task.base_url, "api_key": task.api_key}, model_id=task.model)
    agent = Agent(model, tools=[tool(function) for function in task.tools], callback_handler=None)
    result = await agent.invoke_async(task.question, limits={"turns": task.max_steps})
    if result.stop_reason == "limit_turns":
        raise task.StepLimit
    return str(result).strip()
