"""A server of tools that the user names with `--tools mcp:…`: a command to start, or the address of one that runs; and its
tools as those of a suite."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import threading
from functools import partial
from typing import Any, Literal, NamedTuple

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from whichloop._extras import needed_by
from whichloop.datasets.task import Task, WorldEnvironment
from whichloop.protocol import Tool
from whichloop.protocol.json_text import digest
from whichloop.protocol.names import parse_spec
from whichloop.protocol.redact import public_address, without_secrets
from whichloop.protocol.values import error_text

from .json_files import checked
from .own_tools import OwnTools

PREFIX = "mcp:"
Session = Literal["trial", "worker"]
_SHORT = re.compile(r"mcp:\s*(?P<target>.*?)\s*(?P<options>\(\s*[A-Za-z_]\w*\s*=.*\))?\s*", re.DOTALL)


class _Options(BaseModel):
    """What may stand in the brackets behind a server."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    session: Session = "trial"
    """`trial`: each trial has a session of its own, a command a process of its own. `worker`: all trials of a process share one."""
    keys: list[str] | tuple[str, ...] = ()
    """Names of environment variables with a secret that a command may have."""
    token: str = ""
    """Name of the environment variable with the bearer token for an address."""
    start_s: float = Field(30.0, gt=0, le=600.0)
    """Seconds that a server has to start and to list its tools."""


class McpServer(_Options):
    """What the user said of a server."""

    name: str
    """As typed."""
    url: str = ""
    """Where it listens, streamable HTTP; empty for a command."""
    words: tuple[str, ...] = ()
    """The words of the command that starts it, which speaks over its standard input and output."""

    def environment(self) -> dict[str, str]:
        """Return the environment of a command: this one without secrets, but with those that were named."""
        return without_secrets(os.environ) | {name: os.environ[name] for name in self.keys}

    def headers(self) -> dict[str, str]:
        """Return the headers of requests to an address."""
        return {"Authorization": f"Bearer {os.environ[self.token]}"} if self.token else {}


def is_mcp(name: str | None) -> bool:
    """Say whether what was typed for `--tools` names a server."""
    return name is not None and name.startswith(PREFIX)


def read_server(name: str) -> McpServer:
    """Read `mcp:COMMAND` or `mcp:URL`, with options in brackets behind it. Raises ValueError that begins with the name."""
    match = _SHORT.fullmatch(name)
    assert match is not None  # whoever asks has seen the prefix
    public_name = name.replace(match["target"], public_address(match["target"]))
    try:
        options = parse_spec(f"mcp{match['options'] or ''}").options
        server = _target(match["target"])
        if public_address(match["target"]) != match["target"]:  # manifests and tables show what was typed
            how_to_name = 'token=VARIABLE for an address, keys=["VARIABLE"] for a command'
            raise ValueError(f"it holds what looks like a secret; put that into a variable, and name it: {how_to_name}")
        read = checked(_Options, dict(options))
        if (read.keys and "url" in server) or (read.token and "words" in server):
            raise ValueError("keys are for a command, and a token is for an address")
        for variable in (*read.keys, *filter(None, [read.token])):
            if variable not in os.environ:
                raise ValueError(f"the environment has no {variable}")
        return McpServer(name=name, **server, **read.model_dump())
    except ValueError as error:
        raise ValueError(f"tools {public_name!r}: {error}") from None


def _target(text: str) -> dict[str, Any]:
    """Return where the server is. Raises ValueError for an address that holds a password, and a command that is not there."""
    if text.startswith(("http://", "https://")):
        address = checked(AnyHttpUrl, text)
        if address.username is not None or address.password is not None:
            raise ValueError("a password has no place in the address; put it into a variable, and name that: token=VARIABLE")
        return {"url": text}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{error} in the command") from None
    if not words:
        raise ValueError("write mcp:COMMAND or mcp:URL")
    if shutil.which(words[0]) is None:
        raise ValueError(f"there is no {words[0]!r} to run")
    return {"words": tuple(words)}


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
        called, version, listed = sdk.read_listing(server)
    except TimeoutError:
        raise ValueError(f"tools {name!r}: no list of tools within {server.start_s:g} s; start_s=… gives it more") from None
    except Exception as error:  # what the server answers may be anything
        kind = "" if isinstance(error, sdk.McpServerGone) else f"no list of tools: {type(error).__name__}: "
        raise ValueError(f"tools {name!r}: {kind}{error_text(error)}") from None
    if not listed:
        raise ValueError(f"tools {name!r}: the server {called or 'there'} lists no tool")
    names = [tool.name for tool in listed]
    if twice := [each for each in names if names.count(each) > 1]:
        raise ValueError(f"tools {name!r}: the server lists two tools named {twice[0]!r}")
    _LAST[name] = ToolServer(called, version, digest([[tool.name, tool.description or "", tool.input_schema] for tool in listed]))
    return OwnTools(name, opener=partial(_open, server, listed))


def tool_server(name: str) -> ToolServer:
    """Return what the server said when `mcp_tools` asked it last in this process; ask it if that has not been."""
    if name not in _LAST:
        mcp_tools(name)
    return _LAST[name]


def _sdk() -> Any:
    with needed_by("--tools mcp:…"):
        return importlib.import_module(f"{__package__}.mcp_client")


def _open(server: McpServer, listed: list[Any], task: Task) -> WorldEnvironment[Any]:
    sdk, is_shared = _sdk(), server.session == "worker"
    with _LOCK:
        session = _SHARED.get(server.name) if is_shared else None
        if session is None or session.gone:
            session = sdk.McpSession(server)
            if is_shared:
                _SHARED[server.name] = session

    def check_alive(session: Any) -> None:
        """There is no end state. Raises RuntimeError if the server has died: what came out is not the loop's doing."""
        if session.gone:
            raise RuntimeError(session.gone)

    def function(name: str) -> Any:
        async def tool(**arguments: Any) -> Any:
            return await sdk.call(session, name, arguments)

        return tool

    tools = []
    for each in listed:  # as the SDK has them
        read_only = each.annotations is not None and bool(each.annotations.read_only_hint)
        tools.append(Tool(each.name, each.description or "", each.input_schema, function(each.name), read_only=read_only))
    return WorldEnvironment(tuple(tools), session, check_alive, (lambda session: None) if is_shared else sdk.close_soon)
