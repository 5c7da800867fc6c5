"""`serve` as a process of its own: what it prints, what it answers, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters

from tests.prepared import start_command


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Any]:
    """A running server: (process, base URL, example)."""
    child = start_command(["serve", "--port", "0", "--tasks", "3", *arguments], Path.cwd(), {"PATH": os.defpath})
    try:
        assert child.stdout is not None
        base, example = child.stdout.readline().strip(), child.stdout.readline().strip()
        yield child, base, example
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("end", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_answers_until_it_is_told_to_end(end):
    with served("--profile", "flaky-tools") as (child, base, example):
        listed = httpx.get(f"{base}/models").json()
        assert "scripted/clean" in [model["id"] for model in listed["data"]]
        assert len(httpx.get(base.replace("/v1", "/tasks")).json()["tasks"]) == 3
        words = shlex.split(example)
        assert words[:2] == ["curl", "-s"]
        assert words[2].startswith(base)
        made = httpx.post(words[2], json=json.loads(words[-1]), headers={"Connection": "keep-alive"}).json()
        assert made["choices"][0]["message"]["tool_calls"]
        settings = [child.stdout.readline() for _ in range(2)]
        child.send_signal(end)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 0
    assert settings[1] == f"export OPENAI_BASE_URL={base} OPENAI_API_KEY=none\n"
    assert errors.splitlines() == ["serving arithmetic, 3 tasks; Ctrl-C ends", "closed"]


def test_it_takes_any_name_of_a_model_and_tells_what_it_refuses_and_cannot_read():
    with served() as (child, base, example):
        words = shlex.split(example)
        body = json.loads(words[-1]) | {"model": "gpt-4o"}
        question = {"model": "claude-x", "messages": body["messages"]}
        assert httpx.get(f"{base}/models/gpt-4o").json()["id"] == "gpt-4o"
        assert httpx.post(words[2], json=body).json()["choices"][0]["message"]["tool_calls"]
        refused = [
            httpx.post(words[2], json=question | {"model": "scripted/nope"}),
            httpx.post(words[2], json=question | {"stop": []}),
            httpx.post(words[2], json=question | {"stop": []}),
            httpx.post(words[2], content=b"{"),
            httpx.get(base.replace("/v1", "/v1/nowhere")),
        ]
        assert [response.status_code for response in refused] == [404, 400, 400, 400, 404]
        assert httpx.post(words[2], json=question).status_code == 200
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=60)
    _, model, stop, no_json, page, unread, closed = errors.splitlines()
    assert model.startswith("refused POST /v1/chat/completions: 404: The model 'scripted/nope' does not exist; there are ")
    assert stop.startswith("refused POST /v1/chat/completions: 400: stop: ")
    assert no_json.startswith("refused POST /v1/chat/completions: 400: The body is no JSON: ")
    assert no_json.endswith(" (1 line held back before it)")
    assert page == "refused GET /v1/nowhere: 404: No page GET /v1/nowhere"
    assert unread.startswith(
        "a request that names no trial (wire chat) leaves the scripted model without its task's calls: it offers the tools none, "
    )
    assert closed == "closed"


def test_what_tools_of_the_users_own_print_does_not_come_before_the_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud_tools.py").write_text('print("hello")\n\n\ndef price(item: str) -> float:\n    return 1.5\n')
    call = {"id": "c1", "tool": "price", "arguments": {"item": "lamp"}, "goal": "Look up the lamp."}
    task = {
        "id": "a",
        "query": {"text": "What does it cost?"},
        "expected": 1.5,
        "plan": {"calls": [call], "answer": {"$ref": "c1"}},
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(task))
    with served("--suite", "jsonl", "--data", "q.jsonl", "--tools", "loud_tools") as (_, base, example):
        assert base.startswith("http://127.0.0.1:")
        assert base in example


def test_it_offers_the_tools_over_mcp():
    async def talk(address, command):
        first, *rest = shlex.split(command)
        answers = []
        for server in (address, StdioServerParameters(command=first, args=rest)):
            async with Client(server) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                result: Any = await client.call_tool("add", {"a": 2, "b": 3})
                answers.append((names, result.content[0].text))
        return answers

    with served("--mcp") as (child, base, _):
        address, command = child.stdout.readline().strip(), child.stdout.readline().strip()
        [task, *_] = httpx.get(base.replace("/v1", "/tasks")).json()["tasks"]
        assert address == base.replace("/v1", f"/t/{task['trial']}/mcp")
        over_http, over_stdio = asyncio.run(talk(address, command))
        assert httpx.get(address.removesuffix("/mcp")).json()["tool_calls"] == 2
    assert over_http == over_stdio
    assert over_http[0] == {tool["function"]["name"] for tool in task["tools"]}
    assert " 5 " in over_http[1]


def test_a_port_in_use_is_said_in_one_line(whichloop):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = whichloop("serve", "--port", str(port))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"port {port} is in use" in ended.err
