"""LlamaIndex: `FunctionAgent` (docs.llamaindex.ai)."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.workflow.errors import WorkflowRuntimeError
from llama_index.llms.openai_like import OpenAILike


async def solve(task):
    able = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 128_000}
    model = OpenAILike(task.model, api_base=task.base_url, api_key=task.api_key, **able)
    agent = FunctionAgent(tools=list(task.tools), llm=model, timeout=None)
    try:
        # It stops at the reply that reaches the limit, also where that is the answer.
        return str(await agent.run(task.question, max_iterations=task.max_steps + 1))
    except WorkflowRuntimeError as error:
        if "Max iterations" in str(error):
            raise task.StepLimit from error
        raise
