"""CrewAI: one `Agent` with one task in a `Crew` (docs.crewai.com)."""

import threading

from crewai import LLM, Agent
from crewai.tools import tool

ONE_AT_A_TIME = threading.Lock()
"""Making tools in several threads at once fails: pydantic finds their models half built."""


def solve(task):
    with ONE_AT_A_TIME:
        model = LLM(model=f"openai/{task.model}", base_url=task.base_url, api_key=task.api_key)
        tools = [tool(function.__name__)(function) for function in task.sync_tools]
        agent = Agent(
            role="solver", goal="Answer the question.", backstory="You use tools.", llm=model, tools=tools, max_iter=task.max_steps
        )
    return agent.kickoff(task.question).raw
