"""The limit: the plainest asyncio loop that could do the job, with one line of JSON kept per trial.

python benchmarks/hand.py TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import Any

from measure import measured, typed
from questions import add, expected, multiply, next_call, question

TOOLS = {"add": add, "multiply": multiply}


def scripted(messages: list[dict[str, str]]) -> str:
    results = [int(message["content"]) for message in messages if message["role"] == "tool"]
    call = next_call(messages[0]["content"], results)
    return json.dumps({"final_answer": results[-1]} if call is None else {"tool_name": call[0], "arguments": call[1]})


async def solve(i: int, latency_s: float) -> tuple[int, list[dict[str, str]]]:
    messages = [{"role": "user", "content": question(i)}]
    while True:
        if latency_s:
            await asyncio.sleep(latency_s)
        reply = scripted(messages)
        messages.append({"role": "assistant", "content": reply})
        data = json.loads(reply)
        if "final_answer" in data:
            return data["final_answer"], messages
        messages.append({"role": "tool", "content": str(TOOLS[data["tool_name"]](**data["arguments"]))})


async def run(trials: int, latency_s: float, in_flight: int) -> int:
    todo: Any = iter(range(trials))
    right = 0

    async def worker() -> None:
        nonlocal right
        for i in todo:
            answer, messages = await solve(i, latency_s)
            right += answer == expected(i)
            log.write(json.dumps({"task": i, "answer": answer, "messages": messages}) + "\n")

    with tempfile.TemporaryFile("w") as log:
        await asyncio.gather(*(worker() for _ in range(in_flight)))
    return right


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    measured(n, latency_ms, flights, lambda: (asyncio.run(run(n, latency_ms / 1000, flights)), 4 * n))
