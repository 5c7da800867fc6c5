"""LangChain's create_agent, which runs on LangGraph, under `abatch`: it keeps no log of its own.

cd benchmarks && python -m peers.langgraph TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from measure import measured, typed
from questions import add, expected, multiply, next_call, question


class Scripted(BaseChatModel):
    """Reads the sums and the tools' results off the messages."""

    latency_s: float

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **given: Any) -> Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        asked = next(str(message.content) for message in messages if message.type == "human")
        results = [int(message.content) for message in messages if message.type == "tool"]
        call = next_call(asked, results)
        calls = [] if call is None else [{"name": call[0], "args": call[1], "id": f"c{len(results)}"}]
        text = str(results[-1]) if call is None else ""
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text, tool_calls=calls))])

    async def _agenerate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        return self._generate(messages)


async def run(trials: int, latency_s: float, in_flight: int) -> int:
    agent = create_agent(Scripted(latency_s=latency_s), tools=[add, multiply])
    asked: Any = [{"messages": [{"role": "user", "content": question(i)}]} for i in range(trials)]
    given = await agent.abatch(asked, config={"max_concurrency": in_flight})
    return sum(one["messages"][-1].content == str(expected(i)) for i, one in enumerate(given))


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    measured(n, latency_ms, flights, lambda: (asyncio.run(run(n, latency_ms / 1000, flights)), 4 * n))
