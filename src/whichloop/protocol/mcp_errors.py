"""JSON-RPC errors, which stand in the place of a tool's result over the Model Context Protocol (MCP).

Their codes: jsonrpc.org/specification, section 5.1. To a loop such an error is one like any other, with its code at the end.
"""

from __future__ import annotations

import re
from typing import Final

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
_WITH_CODE = re.compile(r"(?P<message>.*) \((?P<code>-?[0-9]{1,9})\)", re.DOTALL)


class McpError(Exception):
    """A server answered the call of a tool with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


def is_mcp_error(error_type: str | None) -> bool:
    """Say whether an observation's `error_type` is that of a JSON-RPC error."""
    return error_type == McpError.__name__


def read_mcp_error(text: str) -> McpError:
    """Return the error that an observation's `data` shows; one without a code is an internal error."""
    match = _WITH_CODE.fullmatch(text)
    return McpError(INTERNAL_ERROR, text) if match is None else McpError(int(match["code"]), match["message"])
