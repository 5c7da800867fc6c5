"""Microsoft Agent Framework: `Agent` (learn.microsoft.com/agent-framework)."""

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

AT_LIMIT = "Function invocation limit reached"


async def solve(task):
    limits = {"max_iterations": task.max_steps, "include_detailed_errors": task.options["tool_errors"] == "shown"}
    speaks = OpenAIChatClient if task.options["wire"] == "responses" else OpenAIChatCompletionClient
    client = speaks(task.model, base_url=task.base_url, api_key=task.api_key, function_invocation_configuration=limits)
    response = await Agent(client, tools=list(task.tools)).run(task.question)
    answer = response.messages[-1].text
    if answer.startswith(AT_LIMIT):  # its own words in the place of an answer
        raise task.StepLimit("")
    return answer  # `found.text` joins the texts of all messages, those beside calls among them
