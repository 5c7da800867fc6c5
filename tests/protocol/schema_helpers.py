"""What the tests of arguments share."""

from __future__ import annotations

from typing import Any

from whichloop.protocol import Observation, Tool, Toolbox, ToolCall, run_sync


def call(function: Any, /, validate: bool = True, **arguments: Any) -> Observation:
    tool = function if isinstance(function, Tool) else Tool.from_function(function)
    return run_sync(Toolbox([tool]).call(ToolCall(tool.name, arguments), validate=validate))
