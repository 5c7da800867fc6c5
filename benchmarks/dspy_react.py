"""dspy.ReAct under dspy.Evaluate, with a scripted engine: four calls that decide and one that extracts.

python benchmarks/dspy_react.py TRIALS LATENCY_MS IN_FLIGHT
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage
from measure import measured, typed
from questions import add, expected, multiply, next_call, question

_OBSERVED = re.compile(r"\[\[ ## observation_\d+ ## \]\]\n(.*)")


class Engine:
    """Reads the sums and the observations off the prompt."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s

    def complete(self, request: Any) -> Any:
        time.sleep(self.latency_s)
        prompt = request.messages[-1].text
        seen = [int(value) for value in _OBSERVED.findall(prompt)[:3]]  # behind them: that of `finish`
        call = next_call(prompt, seen)
        if "[[ ## reasoning ## ]]" in prompt:
            fields = {"reasoning": "done", "answer": str(seen[-1])}
        else:
            tool, arguments = call or ("finish", {})
            fields = {"next_thought": "use a tool", "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()) + "[[ ## completed ## ]]"
        return Response(
            id=None,
            model="scripted",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=100, output_tokens=10),
        )


def run(trials: int, latency_s: float, threads: int) -> int:
    dspy.configure(lm=dspy.LM("scripted/sums", engine=Engine(latency_s), cache=False, num_retries=0))
    rows = [dspy.Example(question=question(i), answer=str(expected(i))).with_inputs("question") for i in range(trials)]
    agent = dspy.ReAct("question -> answer", tools=[add, multiply], max_iters=5)
    found = dspy.Evaluate(
        devset=rows, metric=lambda row, got: row.answer == got.answer, num_threads=threads, display_progress=False
    )(agent)
    return int(sum(score for *_, score in found.results))


if __name__ == "__main__":
    n, latency_ms, flights = typed()
    measured(n, latency_ms, flights, lambda: (run(n, latency_ms / 1000, flights), 5 * n))
