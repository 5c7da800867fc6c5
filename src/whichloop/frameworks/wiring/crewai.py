"""CrewAI: one `Agent` with one task in a `Crew` (docs.crewai.com)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from crewai import LLM, Agent
from crewai.tools import tool

if TYPE_CHECKING:
    from whichloop.programs.outside.runner import SolverTask

ONE_AT_A_TIME = threading.Lock()
"""Making tools in several threads at once fails: pydantic finds their models half built."""


async def solve(task: SolverTask) -> object:
    return await task.in_thread(lambda: run(task))


def run(task: SolverTask) -> object:
    with ONE_AT_A_TIME:
        model = LLM(model=f"openai/{task.model}", base_url=task.base_url, api_key=task.api_key)
        tools = [tool(function.__name__)(function) for function in task.sync_tools]
        agent = Agent(
            role="solver", goal="Answer the question.", backstory="You use tools.", llm=model, tools=tools, max_iter=task.max_steps
        )
    return agent.kickoff(task.question).raw
