"""Agno."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agno.agent import Agent
from agno.models.openai.like import OpenAILike

if TYPE_CHECKING:
    from loopbench.programs.outside.runner import SolverTask


async def solve(task: SolverTask) -> object:
    model = OpenAILike(id=task.model, base_url=task.base_url, api_key=task.api_key)
    found = await Agent(model=model, tools=list(task.tools), telemetry=False).arun(task.question)
    status = getattr(found.status, "value", found.status)
    if str(status).lower() == "error":  # it raises nothing, and its content is the error's text
        raise RuntimeError(found.content)
    return found.messages[-1].content if found.messages else found.content
