"""LangGraph: the prebuilt `create_react_agent` (langchain-ai.github.io/langgraph)."""

import warnings

from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import ToolNode, create_react_agent


async def solve(task):
    model = ChatOpenAI(model=task.model, base_url=task.base_url, api_key=task.api_key, timeout=None)
    tools = list(task.tools)
    tool_node = ToolNode(tools, handle_tool_errors=True) if task.options["tool_errors"] == "shown" else tools
    with warnings.catch_warnings():  # it is deprecated in favour of `langchain.agents.create_agent`, and says so each time
        warnings.simplefilter("ignore")
        agent = create_react_agent(model, tool_node)
    try:
        # One request and one round of tools are two of the graph's steps.
        state = await agent.ainvoke({"messages": [("user", task.question)]}, {"recursion_limit": 2 * task.max_steps})
    except GraphRecursionError as error:
        raise task.StepLimit from error
    return str(state["messages"][-1].content)
