"""The tunnel from inside of Python: a function that uses OpenAI's client is a loop, without a process and without a socket.

    from whichloop import compare, tunnel

    @tunnel.loop
    async def my_agent(question, tools, *, client, model): ...

    compare([my_agent, "finish"], profiles=["flaky-tools"])

A function that makes its clients by itself gets them here: `OpenAI()`, `AsyncOpenAI()`, `Anthropic()` and `AsyncAnthropic()` take
the options of those classes, `Gemini()` those of `google.genai.Client`, and `transport()` is for any other client of httpx or
httpx2. All of them belong to the trial that the function is called for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whichloop.programs.function import (
    BASE_URL,
    ORIGIN,
    FunctionLoop,
    current_trial,
    gemini_client,
    transport_class,
    vendors_client,
)
from whichloop.programs.gateway import MODEL
from whichloop.programs.outside.runner import ToolError
from whichloop.programs.worker import API_KEY

__all__ = [
    "API_KEY",
    "BASE_URL",
    "MODEL",
    "Anthropic",
    "AsyncAnthropic",
    "AsyncOpenAI",
    "Gemini",
    "OpenAI",
    "ToolError",
    "loop",
    "transport",
]


def loop(function: Callable[..., Any]) -> FunctionLoop:
    """Return a loop whose runs are calls of `function(question, tools)`; what it returns is the answer.

    A coroutine function runs in the event loop and has tools that are awaited; a plain one runs on a thread. Its parameters
    `client`, `model`, `base_url`, `url`, `api_key`, `http_client` and `max_steps`, if it has them, get what they are named for.
    What it raises is a crash of it.
    """
    return FunctionLoop(function)


def OpenAI(**options: Any) -> Any:  # noqa: N802  # in the place of openai.OpenAI
    """Return an `openai.OpenAI` whose model is the trial's; call it in a plain function. Raises RuntimeError outside of a trial."""
    return vendors_client(current_trial(), "openai", "OpenAI", {"base_url": BASE_URL, **options})


def AsyncOpenAI(**options: Any) -> Any:  # noqa: N802  # in the place of openai.AsyncOpenAI
    """Return an `openai.AsyncOpenAI` whose model is the trial's. Raises RuntimeError outside of a trial."""
    return vendors_client(current_trial(), "openai", "AsyncOpenAI", {"base_url": BASE_URL, **options})


def Anthropic(**options: Any) -> Any:  # noqa: N802  # in the place of anthropic.Anthropic
    """Return an `anthropic.Anthropic` whose model is the trial's; call it in a plain function.

    Raises RuntimeError outside of a trial.
    """
    return vendors_client(current_trial(), "anthropic", "Anthropic", {"base_url": ORIGIN, **options})


def AsyncAnthropic(**options: Any) -> Any:  # noqa: N802  # in the place of anthropic.AsyncAnthropic
    """Return an `anthropic.AsyncAnthropic` whose model is the trial's. Raises RuntimeError outside of a trial."""
    return vendors_client(current_trial(), "anthropic", "AsyncAnthropic", {"base_url": ORIGIN, **options})


def Gemini(http_options: Mapping[str, Any] | None = None, **options: Any) -> Any:  # noqa: N802  # beside the vendors' classes
    """Return a `google.genai.Client` whose model is the trial's: `.models` in a plain function, `.aio.models` in a coroutine.

    `http_options`: as that class has them, a dict. Raises RuntimeError outside of a trial.
    """
    return gemini_client(current_trial(), http_options or {}, options)


def transport(library: str = "httpx") -> Any:
    """Return a transport to the trial's model for clients of `library`, `httpx` or `httpx2`, blocking or asynchronous.

    Raises RuntimeError outside of a trial, and ImportError if the library is not installed.
    """
    return transport_class(library)(current_trial())
