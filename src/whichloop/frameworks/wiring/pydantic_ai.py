"""Pydantic AI: `Agent` (ai.pydantic.dev)."""

import functools

from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


async def solve(task):
    client = AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, timeout=None)
    tools = [retried(tool, task) for tool in task.tools] if task.options["tool_errors"] == "shown" else list(task.tools)
    speaks = OpenAIResponsesModel if task.options["wire"] == "responses" else OpenAIChatModel
    model = speaks(task.model, provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, tools=tools, retries=task.options["retries"])
    try:
        result = await agent.run(task.question, usage_limits=UsageLimits(request_limit=task.max_steps))
    except UsageLimitExceeded as error:
        raise task.StepLimit from error
    return result.output


def retried(tool, task):
    @functools.wraps(tool)
    async def call(*args, **kwargs):
        try:
            return await tool(*args, **kwargs)
        except task.ToolError as error:
            raise ModelRetry(str(error)) from error

    return call
