"""Deep Agents: `create_deep_agent` (docs.langchain.com/oss/python/deepagents)."""

from deepagents import create_deep_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError


async def solve(task):
    model = ChatOpenAI(model=task.model, base_url=task.base_url, api_key=task.api_key, timeout=None)
    told = [ToolErrorMiddleware(on_error=lambda error, request: f"Error: {error}")]
    agent = create_deep_agent(model, tools=list(task.tools), middleware=told if task.options["tool_errors"] == "shown" else [])
    try:
        state = await agent.ainvoke({"messages": [("user", task.question)]}, {"recursion_limit": 4 * task.max_steps})
    except GraphRecursionError as error:
        raise task.StepLimit from error
    return state["messages"][-1].text
