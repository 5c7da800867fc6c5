"""AutoGen: `AssistantAgent` (microsoft.github.io/autogen)."""

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallSummaryMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

ABILITIES = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


async def solve(task):
    model = OpenAIChatCompletionClient(model=task.model, base_url=task.base_url, api_key=task.api_key, model_info=ABILITIES)
    agent = AssistantAgent("solver", model, tools=list(task.tools), max_tool_iterations=task.max_steps)
    result = await agent.run(task=task.question)
    last = result.messages[-1]
    if isinstance(last, ToolCallSummaryMessage):  # at the limit it returns the results of the last tools
        raise task.StepLimit
    return last.to_text()
