"""Google's Agent Development Kit: `LlmAgent` over LiteLLM (google.github.io/adk-docs)."""

import litellm  # noqa: F401  # ADK imports it with its first request, and that takes longer than a trial may
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.lite_llm import LiteLlm
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.runners import InMemoryRunner
from google.genai import types


async def solve(task):
    model = LiteLlm(f"openai/{task.model}", api_base=task.base_url, api_key=task.api_key)
    agent = LlmAgent(name="solver", model=model, tools=list(task.tools))
    plugins = [ReflectAndRetryToolPlugin()] if task.options["tool_errors"] == "shown" else []
    runner = InMemoryRunner(agent, app_name="solver", plugins=plugins)
    session = await runner.session_service.create_session(app_name="solver", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=task.question)])
    limit = RunConfig(max_llm_calls=task.max_steps)
    text = ""
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message, run_config=limit):
        if "LlmCallsLimit" in str(event.error_code or ""):
            raise task.StepLimit
        if event.error_message:  # it raises nothing: errors are events
            raise RuntimeError(f"{event.error_code}: {event.error_message}")
        if event.is_final_response() and event.content and event.content.parts:
            text = "".join(part.text or "" for part in event.content.parts)
    return text
