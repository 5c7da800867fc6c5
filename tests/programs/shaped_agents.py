#!/usr/bin/env python3
"""Stand-ins for Codex and Claude Code: they read their settings and send their requests in the shapes of the real ones.

Standard library only. Which one it is, its own file name says. Sources: the fields of `ResponsesApiRequest` in openai/codex
(codex-rs/codex-api), and code.claude.com/docs/en/llm-gateway.md with the Messages requests of the Claude Agent SDK.
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


def claude(arguments):
    assert arguments[:3] == ["-p", "--output-format", "text"]
    assert "--strict-mcp-config" in arguments
    assert arguments[arguments.index("--allowedTools") + 1] == "mcp__whichloop"
    tools = Tools(json.loads(Path(arguments[arguments.index("--mcp-config") + 1]).read_text())["mcpServers"])
    kept = {"cache_control": {"type": "ephemeral"}}
    said = [{"role": "user", "content": [{"type": "text", "text": sys.stdin.read(), **kept}]}]
    offered = [{"name": name, "description": description, "input_schema": schema} for name, description, schema in tools.listed]
    headers = {
        "Authorization": f"Bearer {os.environ['ANTHROPIC_AUTH_TOKEN']}",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
    }
    base = f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages"
    asked: dict[str, object] = {
        "model": os.environ["ANTHROPIC_MODEL"], "messages": said, "tools": offered,
        "system": [{"type": "text", "text": "You are a coding agent.", **kept}],
    }  # fmt: skip
    assert json.loads(post(f"{base}/count_tokens", asked, headers))["input_tokens"] > 0
    asked |= {"max_tokens": 32000, "metadata": {"user_id": "user_0_account__session_0"}, "stream": True}
    for _ in range(LIMIT):
        blocks = message_of(events(post(f"{base}?beta=true", asked, headers)))
        said.append({"role": "assistant", "content": blocks})
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return blocks[-1]["text"]
        results = [(call["id"], tools.call(call["name"], call["input"])) for call in calls]
        content = [
            {"type": "tool_result", "tool_use_id": number, "content": result["content"], "is_error": result.get("isError", True)}
            for number, result in results
        ]
        said.append({"role": "user", "content": content})
    raise SystemExit("no end")


def message_of(found):
    """The blocks of a streamed message."""
    blocks = []
    for event in found:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "partial": ""})
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            blocks[event["index"]]["text"] += event["delta"]["text"]
        elif event["type"] == "content_block_delta":
            blocks[event["index"]]["partial"] += event["delta"]["partial_json"]
    for block in blocks:
        partial = block.pop("partial")
        block |= {"input": json.loads(partial or "{}")} if block["type"] == "tool_use" else {}
    return blocks


if __name__ == "__main__":
    print({"codex": codex, "claude": claude}[Path(sys.argv[0]).name](sys.argv[1:]))
