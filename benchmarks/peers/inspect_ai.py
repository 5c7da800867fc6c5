"""Inspect AI's react agent with its mock model and its log.

cd benchmarks && python -m peers.inspect_ai TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import Tool, tool
from measure import measured, typed
from questions import add, expected, multiply, next_call, question


@tool(name="add")
def adding() -> Tool:
    async def execute(a: int, b: int) -> int:
        return add(a, b)

    execute.__doc__ = add.__doc__
    return execute


@tool(name="multiply")
def multiplying() -> Tool:
    async def execute(a: int, b: int) -> int:
        return multiply(a, b)

    execute.__doc__ = multiply.__doc__
    return execute


def scripted(latency_s: float) -> Any:
    """Reads the sums and the tools' results off the messages."""

    async def reply(messages: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        if latency_s:
            await asyncio.sleep(latency_s)
        asked = next(message.text for message in messages if message.role == "user")
        results = [int(message.text) for message in messages if message.role == "tool"]
        call: tuple[str, dict[str, Any]] | None = next_call(asked, results)
        name, arguments = call or ("submit", {"answer": str(results[-1])})
        made = ModelOutput.for_tool_call("mockllm", name, arguments)
        made.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return made

    return get_model("mockllm/model", custom_outputs=reply)


def run(trials: int, latency_s: float, in_flight: int) -> int:
    samples = [Sample(id=i, input=question(i), target=str(expected(i))) for i in range(trials)]
    task = Task(dataset=MemoryDataset(samples), solver=react(tools=[adding(), multiplying()]), scorer=includes())
    with tempfile.TemporaryDirectory() as folder:
        [log] = evaluate(
            task,
            model=scripted(latency_s),
            log_dir=folder,
            display="none",
            max_samples=in_flight,
            max_connections=in_flight,
        )
    if log.status != "success" or log.results is None:
        raise SystemExit(f"Inspect's run failed: {log.error}")
    return round(log.results.scores[0].metrics["accuracy"].value * trials)


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    measured(n, latency_ms, flights, lambda: (run(n, latency_ms / 1000, flights), 4 * n))
