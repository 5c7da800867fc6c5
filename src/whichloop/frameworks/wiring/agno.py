"""Agno: `Agent` (docs.agno.com)."""

from agno.agent import Agent
from agno.models.openai.like import OpenAILike


async def solve(task):
    model = OpenAILike(id=task.model, base_url=task.base_url, api_key=task.api_key)
    response = await Agent(model=model, tools=list(task.tools), telemetry=False).arun(task.question)
    status = getattr(response.status, "value", response.status)
    if str(status).lower() == "error":  # it raises nothing, and its content is the error's text
        raise RuntimeError(response.content)
    return response.messages[-1].content if response.messages else response.content
