"""Names of a suite's tools as clients of MCP give them to a model: with the server's name, and often `mcp`, in front.

A client whose server is called `whichloop` offers `add` as `mcp__whichloop__add` (Claude Code, Codex, Qwen Code) or `whichloop_add`
(OpenCode, Mistral Vibe). The trial's model knows the tool by its own name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from whichloop.protocol import NativeCall, Reply

from ..wires.contract import WireRequest

SERVER = "whichloop"
"""What a client has to call the server, so that its tools are known by their names."""
_PREFIXED = re.compile(rf"(?:mcp[_.:/-]+)?{SERVER}[_.:/-]+(?P<tool>.+)", re.DOTALL)


def with_suite_names(wire_request: WireRequest, task_tools: Collection[str]) -> tuple[WireRequest, Mapping[str, str]]:
    """Return the request with the suite's own names, and each of these as the client has it; none if it puts nothing in front."""
    offered = {tool.name for tool in wire_request.request.tools}
    suite_names: dict[str, str] = {}
    for name in offered:
        match = _PREFIXED.fullmatch(name)
        if match is not None and match["tool"] in task_tools and match["tool"] not in offered:
            suite_names[name] = match["tool"]
    if not suite_names:
        return wire_request, {}
    request = wire_request.request
    tools = tuple(replace(tool, name=suite_names.get(tool.name, tool.name)) for tool in request.tools)
    choice = request.tool_choice if request.tool_choice is None else suite_names.get(request.tool_choice, request.tool_choice)
    messages = tuple(
        replace(message, calls=_calls(message.calls, suite_names)) if message.calls else message for message in request.messages
    )
    renamed = replace(request, tools=tools, tool_choice=choice, messages=messages)
    return replace(wire_request, request=renamed), {name: client_name for client_name, name in suite_names.items()}


def _calls(calls: tuple[NativeCall, ...], names: Mapping[str, str]) -> tuple[NativeCall, ...]:
    return tuple(replace(call, name=names.get(call.name, call.name)) for call in calls)


def with_client_names(reply: Reply, names: Mapping[str, str]) -> Reply:
    """Return a reply with the names that the client knows. `names`: as `with_suite_names` gave them."""
    return replace(reply, calls=_calls(reply.calls, names)) if names and reply.calls else reply
