"""The bare loop over plain functions: a registry of tools, any function from messages to text as the model. Standard library only.

    registry = ToolRegistry()

    @registry.register()
    def add(a: int, b: int) -> int:
        '''Add two numbers.'''
        return a + b

    run_agent("What is 5 + 3?", llm_func=my_llm, registry=registry)["final_answer"]

`python -m whichloop.loops.bare_standalone` runs a demo offline.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from typing import Any

from whichloop.protocol.chat import Capabilities
from whichloop.protocol.model import FunctionModel, ModelError, ProviderError, Request
from whichloop.protocol.outcome import Query
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_here
from whichloop.protocol.tool_calls import StopRun
from whichloop.protocol.tools import Tool, Toolbox

from .bare import Bare, History, signature_of

logger = logger_of(__name__)

LlmFunction = Callable[[History, int], str | Awaitable[str]]
"""`llm_func(messages, step)`: returns the raw reply, and may be async."""


class ToolRegistry:
    """Named functions. Registering a name again warns, and the last one wins."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(
        self, name: str | None = None, *, time_limit_s: float | None = None, max_chars: int | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that registers a function and leaves it as it is.

        `time_limit_s`: seconds for one call. `max_chars`: characters that the model reads of one result. None: the loop's limit, if
        any. Raises ValueError for a positional-only parameter without default: a call by name could never fill it; TypeError for a
        function in the place of the name.
        """
        if callable(name):
            raise TypeError("register() makes a decorator: say register()(function), or @register() above the function")

        def add(func: Callable[..., Any]) -> Callable[..., Any]:
            tool_name = name if name is not None else str(getattr(func, "__name__", type(func).__name__))
            signature = signature_of(func)
            for parameter, is_required in (signature.bound or {}).items():
                if is_required and parameter not in (signature.by_name or {}):
                    raise ValueError(f"tool {tool_name!r}: parameter {parameter!r} is positional-only and has no default")
            if tool_name in self._tools:
                warnings.warn(f"tool {tool_name!r} is registered again; the last one wins", stacklevel=2)
            about, takes = inspect.getdoc(func) or "", {"type": "object"}
            self._tools[tool_name] = Tool(tool_name, about, takes, func, time_limit_s=time_limit_s, max_chars=max_chars)
            return func

        return add

    def get_tool(self, name: str) -> Callable[..., Any] | None:
        return self._tools[name].function if name in self._tools else None

    def list_tools(self) -> list[str]:
        """Return the names in the order of registration."""
        return list(self._tools)

    def toolbox(self, *, check_types: bool = False) -> Toolbox:
        """Return the same functions as a Toolbox; only `check_types` needs pydantic."""
        if not check_types:
            return Toolbox(self._tools.values())
        return Toolbox(
            Tool.from_function(tool.function, name=tool.name, time_limit_s=tool.time_limit_s, max_chars=tool.max_chars)
            for tool in self._tools.values()
        )


registry = ToolRegistry()


def mock_llm(history: History, step: int) -> str:
    """Stand in for a model, offline and deterministic: one sum or division of two numbers, then the answer."""
    if step > 0:
        return json.dumps({"final_answer": json.loads(history[-1]["content"])["data"]})
    query = next(entry["content"] for entry in history if entry["role"] == "user")
    sum_or_division = re.search(r"(-?\d+(?:\.\d+)?)\s*([+/])\s*(-?\d+(?:\.\d+)?)", query)
    if sum_or_division is None:
        return json.dumps({"final_answer": "mock_llm can only add and divide two numbers."})
    a, b = (float(text) if "." in text else int(text) for text in sum_or_division.group(1, 3))
    tool = "add" if sum_or_division.group(2) == "+" else "divide"
    return json.dumps({"thought": f"{tool} the two numbers", "tool_name": tool, "arguments": {"a": a, "b": b}})


def model_of(llm_func: LlmFunction) -> FunctionModel:
    """Return a Model that asks an `llm_func`; it counts its requests, which are the steps of a bare run.

    It raises ProviderError for whatever the function raises, except StopRun and a Model's own errors.
    """
    steps = count()

    async def asked(request: Request) -> str:
        try:
            text = llm_func([{"role": each.role, "content": each.content} for each in request.messages], next(steps))
            text = await text if inspect.isawaitable(text) else text
            if not isinstance(text, str):
                raise TypeError(f"llm_func gave {type(text).__name__}, not text")
            return text
        except (StopRun, ModelError):
            raise
        except Exception as error:  # llm_func is the provider here: whatever it raises is a provider's failure
            logger.warning("llm_func raised %s: %s", type(error).__name__, error)
            raise ProviderError(str(error) or type(error).__name__) from error

    capabilities = Capabilities(native_tools=False, tool_choice=False, streaming=False, parallel_calls=False)
    return FunctionModel(asked, name="llm_func", capabilities=capabilities)


async def arun_agent(
    query: str,
    max_steps: int = 10,
    llm_func: LlmFunction = mock_llm,
    max_consecutive_errors: int | None = 3,
    *,
    registry: ToolRegistry = registry,
    config: Bare | None = None,
) -> dict[str, Any]:
    """Run the loop over plain functions; return `{"final_answer", "steps", "history"}`.

    `llm_func` gets the messages as any provider takes them: a system text that lists the tools first, observations as role user.
    `config` sets the other factors, limits for the tools among them: `Bare(tool_timeout_s=5, tool_max_chars=2000)`. An exception
    that `llm_func` raises ends the run with `final_answer` None and is logged, unless `config.on_provider_error` is "observe".
    Raises ValueError for native calls, which text cannot hold.
    """
    if llm_func is mock_llm:
        logger.warning("run_agent answers from mock_llm, a stand-in: pass llm_func to use a model")
    loop = replace(config or Bare(), max_steps=max_steps, max_consecutive_errors=max_consecutive_errors)
    if loop.decision_format == "native":
        raise ValueError("llm_func gives text: for native calls give a Model to Bare.run")
    outcome = await loop.run(Query(query), registry.toolbox(check_types=loop.check_types), model_of(llm_func))
    return {"final_answer": outcome.answer, "steps": outcome.steps, "history": outcome.details["history"]}


def run_agent(
    query: str,
    max_steps: int = 10,
    llm_func: LlmFunction = mock_llm,
    max_consecutive_errors: int | None = 3,
    *,
    registry: ToolRegistry = registry,
    config: Bare | None = None,
) -> dict[str, Any]:
    """Run `arun_agent` from synchronous code."""
    return run_here(arun_agent(query, max_steps, llm_func, max_consecutive_errors, registry=registry, config=config))


def demo() -> None:
    """Answer two questions with `mock_llm` and print the answers."""
    tools = ToolRegistry()

    @tools.register()
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @tools.register()
    def divide(a: float, b: float) -> float:
        """Divide a by b."""
        if b == 0:
            raise ValueError("Cannot divide by zero")
        return a / b

    for query in ("What is 5 + 3?", "What is 1 / 0?"):
        result = run_agent(query, registry=tools)
        print(f"{query} -> {result['final_answer']} ({result['steps']} steps)")  # noqa: T201


if __name__ == "__main__":
    demo()
