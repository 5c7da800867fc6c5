"""Settings with which common clients ask the served model, ready to copy."""

from __future__ import annotations

from collections.abc import Iterator

API_KEY = "none"
"""Clients want some key, and the server takes any."""


def settings(url: str, model: str) -> Iterator[tuple[str, str]]:
    """Yield who takes a setting, and the setting. `url`: the server's, without a path, or with that of a trial."""
    chat = f"{url}/v1"
    yield "OpenAI's SDK, LangChain, most others", f"export OPENAI_BASE_URL={chat} OPENAI_API_KEY={API_KEY}"
    yield "LiteLLM, and what asks through it", f"export OPENAI_API_BASE={chat} OPENAI_API_KEY={API_KEY}  # model openai/{model}"
    yield "Anthropic's SDK, Claude Code", f"export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={API_KEY}"
    yield "Google's SDK, Gemini CLI", f"export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY={API_KEY}"
    yield "DSPy", f'dspy.LM("openai/{model}", api_base="{chat}", api_key="{API_KEY}", cache=False)'
    yield "whichloop", f"whichloop compare --loop finish --model openai/{model} --base-url {chat}"
