"""What the tests of tools share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from whichloop.protocol import Observation, Tool, Toolbox, ToolCall


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own; fails where it does not end."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False)


def named(name: str, function: Callable[..., Any], **options: Any) -> Tool:
    return Tool(name, "", {"type": "object"}, function, **options)


def call(function: Callable[..., Any], **options: Any) -> Observation:
    """What comes of calling a function without arguments as a tool."""
    return asyncio.run(Toolbox([named("tool", function, **options)]).call(ToolCall("tool", {})))


def given_to(function: Any, /, validate: bool = True, **arguments: Any) -> Observation:
    """What comes of a call with arguments."""
    tool = function if isinstance(function, Tool) else Tool.from_function(function)
    return asyncio.run(Toolbox([tool]).call(ToolCall(tool.name, arguments), validate=validate))


def raises(error: BaseException) -> Callable[[], NoReturn]:
    def sync() -> NoReturn:
        raise error

    return sync
