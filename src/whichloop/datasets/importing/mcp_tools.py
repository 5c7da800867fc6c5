"""The tools of a server that the user names, as those of a suite: `--tools mcp:COMMAND` or `--tools mcp:URL`."""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from whichloop._extras import needed_by
from whichloop.protocol import Tool
from whichloop.protocol.digest import digest
from whichloop.protocol.tool_calls import McpError
from whichloop.protocol.values import error_text

from ..task import Task
from .mcp_server import McpServer, read_server
from .own_tools import OwnTools


class ToolServer(NamedTuple):
    """What a server said of itself and its tools when it was asked last."""

    name: str
    version: str
    tools: str
    """Digest of the tools' names, descriptions and schemas, in the order of the list."""


_LAST: dict[str, ToolServer] = {}
"""The name as typed → the server, as it was read last in this process."""
_SHARED: dict[str, Any] = {}
"""The name as typed → the session that all trials of this process share."""
_LOCK = threading.Lock()


def mcp_tools(name: str) -> OwnTools:
    """Return the tools of a server; its list is read now, and its tools run in sessions of trials.

    Raises ValueError in one line that begins with the name for a server that cannot be started, dies, hangs, or whose list cannot
    be read, and MissingExtra.
    """
    server = read_server(name)
    sdk = _sdk()
    try:
        listing = sdk.read_listing(server)
    except TimeoutError:
        raise ValueError(f"tools {name!r}: no list of tools within {server.start_s:g} s; start_s=… gives it more") from None
    except McpError as error:
        raise ValueError(f"tools {name!r}: the list of tools cannot be read: {error}") from None
    except Exception as error:  # what the server answers may be anything
        raise ValueError(f"tools {name!r}: {_line(error)}") from None
    if not listing.tools:
        raise ValueError(f"tools {name!r}: the server {listing.server or 'there'} lists no tool")
    names = [tool.name for tool in listing.tools]
    if twice := [each for each in names if names.count(each) > 1]:
        raise ValueError(f"tools {name!r}: the server lists two tools named {twice[0]!r}")
    tool_descriptions = [[tool.name, tool.description, tool.parameters] for tool in listing.tools]
    _LAST[name] = ToolServer(listing.server, listing.version, digest(tool_descriptions))
    return OwnTools(name, opener=partial(_open, server, listing.tools))


def tool_server(name: str) -> ToolServer:
    """Return what the server said when `mcp_tools` asked it last in this process; ask it if that has not been."""
    if name not in _LAST:
        mcp_tools(name)
    return _LAST[name]


def _line(error: Exception) -> str:
    gone = type(error).__name__ == "McpServerGone"
    return error_text(error) if gone else f"the list of tools cannot be read: {type(error).__name__}: {error_text(error)}"


def _sdk() -> Any:
    with needed_by("--tools mcp:…"):
        return importlib.import_module(f"{__package__}.mcp_client")


@dataclass(frozen=True, slots=True)
class McpEnvironment:
    """The tools of one session."""

    session: Any
    tools: tuple[Tool, ...]
    shared: bool = field(default=False)

    def state(self) -> None:
        """There is no end state. Raises RuntimeError if the server has died: what came out is not the loop's doing."""
        if self.session.gone:
            raise RuntimeError(self.session.gone)

    def close(self) -> None:
        if not self.shared:
            _sdk().close_soon(self.session)


def _open(server: McpServer, listed: tuple[Any, ...], task: Task) -> McpEnvironment:
    session = _shared_session(server) if server.session == "worker" else _sdk().open_session(server)
    tools = tuple(
        Tool(each.name, each.description, each.parameters, _function(session, each.name), read_only=each.read_only)
        for each in listed
    )
    return McpEnvironment(session, tools, shared=server.session == "worker")


def _shared_session(server: McpServer) -> Any:
    """Return the session of this process; a new one if the last one's server has died."""
    with _LOCK:
        session = _SHARED.get(server.name)
        if session is None or session.gone:
            session = _SHARED[server.name] = _sdk().open_session(server)
        return session


def _function(session: Any, name: str) -> Any:
    call = _sdk().call

    async def tool(**arguments: Any) -> Any:
        return await call(session, name, arguments)

    return tool
