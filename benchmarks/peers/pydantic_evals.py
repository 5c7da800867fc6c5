"""A pydantic-ai agent with a function as its model, under pydantic-evals: it keeps no log of its own, its report stays in memory.

cd benchmarks && python -m peers.pydantic_evals TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
from typing import Any

from measure import measured, typed
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected
from questions import add, expected, multiply, next_call, question


def scripted(latency_s: float) -> FunctionModel:
    """Reads the sums and the tools' results off the messages."""

    async def reply(messages: list[ModelMessage], info: Any) -> ModelResponse:
        if latency_s:
            await asyncio.sleep(latency_s)
        parts = [part for message in messages for part in message.parts]
        asked = next(str(part.content) for part in parts if part.part_kind == "user-prompt")
        results = [int(str(part.content)) for part in parts if part.part_kind == "tool-return"]
        call = next_call(asked, results)
        part = TextPart(str(results[-1])) if call is None else ToolCallPart(*call)
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=100, output_tokens=10))

    return FunctionModel(reply)


async def run(trials: int, latency_s: float, in_flight: int) -> int:
    agent = Agent(scripted(latency_s), tools=[add, multiply])

    async def solve(asked: str) -> str:
        return (await agent.run(asked)).output

    cases = [Case(name=str(i), inputs=question(i), expected_output=str(expected(i))) for i in range(trials)]
    data = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected()])
    report = await data.evaluate(solve, max_concurrency=in_flight, progress=False)
    return sum(all(made.value for made in case.assertions.values()) for case in report.cases)


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    measured(n, latency_ms, flights, lambda: (asyncio.run(run(n, latency_ms / 1000, flights)), 4 * n))
