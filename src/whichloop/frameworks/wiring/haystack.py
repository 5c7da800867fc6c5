"""Haystack: `Agent` (docs.haystack.deepset.ai/docs/agent)."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret


def solve(task):
    model = OpenAIChatGenerator(model=task.model, api_base_url=task.base_url, api_key=Secret.from_token(task.api_key))
    tools = [create_tool_from_function(tool) for tool in task.sync_tools]
    agent = Agent(chat_generator=model, tools=tools, max_agent_steps=task.max_steps)
    result = agent.run(messages=[ChatMessage.from_user(task.question)])
    return result["last_message"].text
