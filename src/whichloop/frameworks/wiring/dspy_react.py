"""DSPy: `dspy.ReActV2` with native calls (dspy.ai)."""

import dspy

MODEL = "openai/gpt-4o-mini"
"""A name that DSPy's catalogue has: it asks for native calls only of models that it knows to take them."""


async def solve(task):
    model = dspy.LM(MODEL, api_base=task.base_url, api_key=task.api_key, cache=False)
    agent = dspy.ReActV2("question -> answer", tools=list(task.tools), max_iters=task.max_steps)
    with dspy.context(lm=model, adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        try:
            prediction = await agent.acall(question=task.question)
        except ValueError as error:
            if "after max_iters" in str(error):
                raise task.StepLimit from error
            raise
    if prediction.termination_reason == "forced_submit" and len(prediction.history.messages) > task.max_steps:
        raise task.StepLimit(prediction.answer)
    return prediction.answer
