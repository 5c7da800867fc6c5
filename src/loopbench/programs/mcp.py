"""A trial's tools over the Model Context Protocol: streamable HTTP whose answers are plain JSON, without a session or a stream.

Specification: modelcontextprotocol.io/specification, "Lifecycle", "Transports" and "Tools". A server may answer a POST with
`application/json`, has to answer GET with status 405 if it has no stream, and notifications with status 202.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from loopbench.models.wires.fields import BadRequest

from .trial import ProgramTrial

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, the newest first."""
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602


async def answer(trial: ProgramTrial, message: Any) -> dict[str, Any] | None:
    """Return the answer to a message; None for one that wants none. Raises BadRequest for what is no message, and Refusal."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise BadRequest("The body must be one JSON-RPC 2.0 message.")
    if "id" not in message or "method" not in message:  # a notification, or the answer to a request that we never make
        return None
    params = message.get("params") or {}
    if not isinstance(params, dict):
        return _failed(message, INVALID_PARAMS, "params must be an object")
    match message["method"]:
        case "initialize":
            return _done(message, _introduction(params.get("protocolVersion")))
        case "ping":
            return _done(message, {})
        case "tools/list":
            listed = [_renamed(tool) for tool in trial.tool_list()]
            return _done(message, {"tools": listed})
        case "tools/call":
            name, arguments = params.get("name"), params.get("arguments") or {}
            if not isinstance(name, str) or not isinstance(arguments, dict):
                return _failed(message, INVALID_PARAMS, "name must be a string, and arguments an object")
            return _done(message, await _called(trial, name, arguments))
    return _failed(message, METHOD_NOT_FOUND, f"Method not found: {message['method']}")


def _introduction(asked: Any) -> dict[str, Any]:
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "loopbench", "version": version("loopbench")},
    }


def _renamed(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}


async def _called(trial: ProgramTrial, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool; its error is a result, too, which the model shall see."""
    seen = await trial.call(name, arguments)
    return {"content": [{"type": "text", "text": seen.as_dict()["data"]}], "isError": not seen.ok}


def _done(message: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _failed(message: Mapping[str, Any], code: int, why: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": why}}
