#!/usr/bin/env python3
"""A stand-in for Codex: it reads its settings and sends its requests in the shapes of the real one.

Standard library only. Source: the fields of `ResponsesApiRequest` in openai/codex (codex-rs/codex-api).
"""

import json
import os
import sys
import tomllib
import urllib.request
from pathlib import Path

LIMIT = 12


def post(url, body, headers):
    head = {"Content-Type": "application/json", **headers}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head), timeout=60).read().decode()


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


class Tools:
    """A client of streamable HTTP: the handshake, the list, and calls."""

    def __init__(self, servers):
        [server] = servers.values()
        self.url = server["url"]
        self.ask(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "shaped", "version": "0"}}
        )
        listed = self.ask("tools/list", {})["result"]["tools"]
        self.listed = [(f"mcp__whichloop__{tool['name']}", tool["description"], tool["inputSchema"]) for tool in listed]

    def ask(self, method, params):
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        said = post(self.url, asked, {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"})
        return next(each for each in events(said) or [json.loads(said)] if "id" in each)

    def call(self, name, arguments):
        answer = self.ask("tools/call", {"name": name.removeprefix("mcp__whichloop__"), "arguments": arguments})
        return answer["result"] if "result" in answer else {"content": [{"type": "text", "text": answer["error"]["message"]}]}


def codex(arguments):
    assert arguments == ["exec", "--skip-git-repo-check", "--ephemeral", "-"]
    settings = tomllib.loads(Path(os.environ["CODEX_HOME"], "config.toml").read_text())
    provider = settings["model_providers"][settings["model_provider"]]
    assert provider["wire_api"] == "responses"  # the only one that it takes
    tools = Tools(settings["mcp_servers"])
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": sys.stdin.read()}]}]
    functions = [
        {"type": "function", "name": name, "description": description, "strict": False, "parameters": schema}
        for name, description, schema in tools.listed
    ]
    for _ in range(LIMIT):
        body = {
            "model": settings["model"], "instructions": "You are a coding agent.", "input": said, "tools": functions,
            "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": None, "store": False, "stream": True, "include": [],
            "prompt_cache_key": "00000000-0000-0000-0000-000000000000",
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {os.environ[provider['env_key']]}", "Accept": "text/event-stream"}
        found = events(post(f"{provider['base_url']}/responses", body, headers))
        [output] = [each["response"]["output"] for each in found if each["type"] == "response.completed"]
        said += output
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return output[-1]["content"][0]["text"]
        for call in calls:
            result = tools.call(call["name"], json.loads(call["arguments"]))
            said.append({"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(result["content"])})
    raise SystemExit("no end")


if __name__ == "__main__":
    print(codex(sys.argv[1:]))
