"""smolagents: `ToolCallingAgent` (huggingface.co/docs/smolagents)."""

from smolagents import OpenAIModel, ToolCallingAgent, tool
from smolagents.monitoring import LogLevel


def solve(task):
    model = OpenAIModel(task.model, api_base=task.base_url, api_key=task.api_key)
    tools = [tool(function) for function in task.sync_tools]
    agent = ToolCallingAgent(tools=tools, model=model, verbosity_level=LogLevel.OFF, max_steps=task.max_steps)
    result = agent.run(task.question, return_full_result=True)
    if result.state == "max_steps_error":
        raise task.StepLimit(result.output)  # it asked once more, for an answer without calls
    return result.output
