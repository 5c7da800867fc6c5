"""Other harnesses with the task of benchmarks/programs.py, and models that do as its model: none writes what ours writes.

cd benchmarks && python -m peers NAME TRIALS LATENCY_MS IN_FLIGHT

`langgraph`: LangChain's create_agent under `abatch`, without a log. `pydantic_evals`: a pydantic-ai agent, with a report in
memory. `inspect_ai`: the react agent with the mock model, and its log. `make bench-peers` installs them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from programs import Run, add, expected, main, multiply, next_call, question


def langgraph(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **given: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *given: Any, **more: Any) -> ChatResult:
            asked = next(str(message.content) for message in messages if message.type == "human")
            results = [int(message.content) for message in messages if message.type == "tool"]
            call = next_call(asked, results)
            calls = [] if call is None else [{"name": call[0], "args": call[1], "id": f"c{len(results)}"}]
            text = str(results[-1]) if call is None else ""
            return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])

        async def _agenerate(self, messages: list[Any], *given: Any, **more: Any) -> ChatResult:
            if latency_s:
                await asyncio.sleep(latency_s)
            return self._generate(messages)

    async def run() -> int:
        agent = create_agent(Scripted(), tools=[add, multiply])
        asked: Any = [{"messages": [{"role": "user", "content": question(i)}]} for i in range(trials)]
        given = await agent.abatch(asked, config={"max_concurrency": in_flight})
        return sum(one["messages"][-1].content == str(expected(i)) for i, one in enumerate(given))

    return lambda: (asyncio.run(run()), 4 * trials)


def pydantic_evals(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected

    async def reply(messages: list[ModelMessage], info: Any) -> ModelResponse:
        if latency_s:
            await asyncio.sleep(latency_s)
        parts = [part for message in messages for part in message.parts]
        asked = next(str(part.content) for part in parts if part.part_kind == "user-prompt")
        results = [int(str(part.content)) for part in parts if part.part_kind == "tool-return"]
        call = next_call(asked, results)
        part = TextPart(str(results[-1])) if call is None else ToolCallPart(*call)
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=100, output_tokens=10))

    agent = Agent(FunctionModel(reply), tools=[add, multiply])

    async def run() -> int:
        async def solve(asked: str) -> str:
            return str((await agent.run(asked)).output)

        cases = [Case(name=str(i), inputs=question(i), expected_output=str(expected(i))) for i in range(trials)]
        data = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected()])
        report = await data.evaluate(solve, max_concurrency=in_flight, progress=False)
        return sum(all(made.value for made in case.assertions.values()) for case in report.cases)

    return lambda: (asyncio.run(run()), 4 * trials)


def inspect_ai(trials: int, latency_s: float, in_flight: int, folder: Path) -> Run:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.agent import react
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.tool import tool

    def as_tool(function: Any) -> Any:
        async def execute(a: int, b: int) -> int:
            return int(function(a, b))

        execute.__doc__ = function.__doc__
        return tool(name=function.__name__)(lambda: execute)()

    async def reply(messages: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        if latency_s:
            await asyncio.sleep(latency_s)
        asked = next(message.text for message in messages if message.role == "user")
        results = [int(message.text) for message in messages if message.role == "tool"]
        call: tuple[str, Any] = next_call(asked, results) or ("submit", {"answer": str(results[-1])})
        made = ModelOutput.for_tool_call("mockllm", *call)
        made.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return made

    def run() -> tuple[int, int]:
        samples = [Sample(id=i, input=question(i), target=str(expected(i))) for i in range(trials)]
        solver = react(tools=[as_tool(add), as_tool(multiply)])
        task = Task(dataset=MemoryDataset(samples), solver=solver, scorer=includes())
        model = get_model("mockllm/model", custom_outputs=reply)
        limits = {"max_samples": in_flight, "max_connections": in_flight}
        [log] = evaluate(task, model=model, log_dir=str(folder), display="none", **limits)
        if log.status != "success" or log.results is None:
            raise SystemExit(f"Inspect's run failed: {log.error}")
        return round(log.results.scores[0].metrics["accuracy"].value * trials), 4 * trials

    return run


if __name__ == "__main__":
    main({"langgraph": langgraph, "pydantic_evals": pydantic_evals, "inspect_ai": inspect_ai})
