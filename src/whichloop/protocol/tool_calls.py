"""What a loop says when it calls a tool, and what it sees of the call: specs, calls, results, and the exceptions that end a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from .values import render_value


class StopRun(Exception):
    """A tool raises this, or a subclass of a product's own, to end the run: every loop lets it pass to who called `run`."""


class BudgetExceeded(StopRun):
    """A budget is used up, and the run ends here. Every loop lets it pass, and so does a tool that asks a model itself."""


class TransientError(Exception):
    """A tool's failure may pass: the same call may work the next time. Subclasses name the reason."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as a move states it."""

    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """A JSON object."""
    call_id: str = field(default="", compare=False)
    """The provider's id of a native call; not part of the move."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool that a model gets."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""


class ToolListing(NamedTuple):
    """The tools as a server lists them."""

    tools: tuple[ToolSpec, ...]
    changes: int = 0
    """How often a fault has changed the list so far, whether or not that still shows."""


NEVER_RAN = frozenset({"UnknownTool", "InvalidArguments"})
"""Error types of a call that was refused, because there is no such tool or because its arguments did not pass the check."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a call. The error's type is a field of its own, so that each design can word it."""

    tool_name: str
    status: Literal["success", "error"]
    data: str
    """The result as text, or the error's message without its type; what a model reads, so it may be cut."""
    error_type: str | None = None
    """Name of the exception's class; one of NEVER_RAN if the tool never ran."""
    value: Any = field(default=None, compare=False)
    """The result as the tool returned it; None for an error."""
    call_id: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Wall time of the call."""
    transient: bool = field(default=False, compare=False)
    """The tool raised a TransientError."""
    max_chars: int | None = field(default=None, compare=False)
    """How many characters of a longer text `data` shows; None if it shows all."""
    raised: BaseException | None = field(default=None, compare=False, repr=False)
    """What the tool raised; None if it raised nothing, or was not called."""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def ran(self) -> bool:
        """Whether the tool ran, whatever came of it; False for a call that was refused instead."""
        return self.error_type not in NEVER_RAN

    @property
    def whole(self) -> str:
        """The whole text of a result, also where `data` is cut: for hooks and stores, which are not short of context."""
        return self.data if self.max_chars is None or not self.ok else render_value(self.value)

    def as_dict(self) -> dict[str, str]:
        """Return `{"status", "data", "tool_name"}`, an error with its type in front."""
        data = self.data if self.error_type is None else f"{self.error_type}: {self.data}"
        return {"status": self.status, "data": data, "tool_name": self.tool_name}


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
