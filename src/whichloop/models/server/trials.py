"""What the server needs of whoever hands it trials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from whichloop.models.metering import MeteredExchange
from whichloop.models.scripted import Scripted
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.base import BadRequest, Refusal, WireRequest
from whichloop.protocol import Codec, Model, ModelError, Observation, Request, Usage
from whichloop.protocol.tool_calls import ToolListing

MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedTrial:
    """One trial's model as the server needs it."""

    model: Model
    tunnel: Tunnel
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """Codecs by the name that the client's metadata gives."""
    tools: Collection[str] | None = None
    """Names of the tools that the task is solved with; None: those of a scripted model's script."""
    recount: Callable[[Usage, Usage], None] | None = None
    """Takes the usage of a reply as the model gave it, and as it was sent, where the request made it another."""
    ask: Callable[[Request], Awaitable[MeteredExchange]] | None = None
    """Asks the model and says what came of it, where someone else keeps the accounts; None: the model itself is asked."""

    @property
    def task_tools(self) -> Collection[str]:
        if self.tools is not None:
            return self.tools
        return tuple(self.model.script.tools) if isinstance(self.model, Scripted) else ()

    async def exchange(self, request: Request) -> MeteredExchange:
        """Return what came of a request. Raises what is no failure of the model, such as BudgetExceeded."""
        if self.ask is not None:
            return await self.ask(request)
        reply, failure = None, None
        try:
            reply = await self.model.complete(request)
        except ModelError as error:
            failure = error
        finally:
            struck = self.tunnel.struck(request)  # the mark of its fault goes when the request ends
        return MeteredExchange(request, reply, failure, 0.0, struck)


class Trials(Protocol):
    """Where a server finds its models."""

    def models(self) -> Collection[str]:
        """Return the names for the pages that list models."""

    def find(self, trial: str | None, request: WireRequest) -> ServedTrial:
        """Return the trial of a request. Raises LookupError, in one line, for an unknown trial (None: none was named)."""


class McpTrial(Protocol):
    """One trial's tools as MCP offers them."""

    def listed(self) -> ToolListing:
        """Return the tools as a server of them lists them now."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Run a tool. Raises Refusal for a trial that is over."""


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """A request to a page that no vendor's API has."""

    method: str
    path: tuple[str, ...]
    """The segments of the path, decoded."""
    body: Any = None
    """The JSON body, None if absent."""

    def require(self, method: str) -> None:
        """Raise Refusal for another method than that of the page."""
        if self.method != method:
            raise Refusal(405, f"{self.method} is not allowed here, {method} is.", code="method_not_allowed")

    @property
    def fields(self) -> dict[str, Any]:
        """The body's fields. Raises BadRequest for a body that is no JSON object."""
        if not isinstance(self.body, dict):
            raise BadRequest("The body must be a JSON object.")
        return self.body


More = Callable[[OwnRequest], Awaitable[Any]]
"""A function that answers further pages with JSON. Raises LookupError (no such page) and Refusal."""
