"""DSPy."""

from __future__ import annotations

import dspy


async def solve(task):
    model = dspy.LM(f"openai/{task.model}", api_base=task.base_url, api_key=task.api_key, cache=False)
    agent = dspy.ReActV2("question -> answer", tools=list(task.tools), max_iters=task.max_steps)
    with dspy.context(lm=model, adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        return (await agent.acall(question=task.question)).answer
