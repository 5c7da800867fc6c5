"""LangChain: `create_agent` (docs.langchain.com/oss/python/langchain/agents)."""

from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError


async def solve(task):
    model = ChatOpenAI(model=task.model, base_url=task.base_url, api_key=task.api_key, timeout=None)
    told = [ToolErrorMiddleware(on_error=lambda error, request: f"Error: {error}")]
    agent = create_agent(model, tools=list(task.tools), middleware=told if task.options["tool_errors"] == "shown" else [])
    try:
        # One request and one round of tools are two of the graph's steps.
        state = await agent.ainvoke({"messages": [("user", task.question)]}, {"recursion_limit": 2 * task.max_steps})
    except GraphRecursionError as error:
        raise task.StepLimit from error
    return state["messages"][-1].text
