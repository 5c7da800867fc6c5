"""`list`, `init`, `prompts`, `ui` and `serve`: what can be named, what is written, and what is served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters

from tests.prepared import start_command
from tests.reports.mlflow.servers import free_port
from tests.sealing import reseal
from whichloop.protocol.names import program_spec
from whichloop.reports.tracking import default_uri
from whichloop.runs.config import CompareConfig

EXPECTED = {
    "loops": {"bare", "react_extract", "langgraph"},
    "frameworks": {"openai_agents", "langgraph"},
    "suites": {"arithmetic", "gsm8k"},
    "profiles": {"bad-network", "clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "provider-trouble"},
    "metrics": {"accuracy", "steps", "exact", "numeric"},
    "models": {"scripted", "local", "local:FILE"},
    "optimizers": {"MIPROv2", "GEPA", "package.module:Name"},
    "settings": {"suite", "budget.calls", "provider.attempts"},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("suites", "optimizers"))) for kind in EXPECTED]
)
def test_everything_that_can_be_named_is_listed_in_short_as_in_full(whichloop, kind):
    found = whichloop("list", kind, "--json")
    entries = json.loads(found.out)
    assert (found.code, found.err) == (0, "")
    assert EXPECTED[kind] <= {entry["name"] for entry in entries}
    assert all(entry["summary"] for entry in entries)
    if kind == "loops":
        assert all(option["doc"] for entry in entries for option in entry["options"])
    said = [line.split("\t") if "\t" in line else line.split() for line in whichloop("list", kind).out.splitlines()]
    assert {entry["name"].split()[0] for entry in entries} <= {words[0] for words in said if words}


KEPT = {".gitignore", "pyproject.toml"}
FILES = {"whichloop.toml", "loop_tools.py", "loop_tasks.jsonl", "tests/test_loops.py", ".github/workflows/loops.yml"} | KEPT


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_writes_files_whose_tasks_the_scripted_model_solves(here, whichloop, monkeypatch):
    ended = whichloop("init", "project")
    assert ended.code == 0
    assert written(here / "project") == FILES
    assert "__pycache__/" in (here / "project" / ".gitignore").read_text().splitlines()
    assert "  cd project\n" in ended.out
    monkeypatch.chdir(here / "project")
    CompareConfig.model_validate(tomllib.loads(Path("whichloop.toml").read_text()))
    flags = ("--profile", "clean", "--repeats", "1", "-s", "mlflow=false", "-q", "--json")
    made = whichloop("compare", "--config", "whichloop.toml", *flags).json
    assert {arm["loop"]: arm["accuracy"]["value"] for arm in made["arms"]} == {"bare": 1.0, "finish": 1.0}
    assert {arm["tasks"] for arm in made["arms"]} == {24}


def test_a_file_that_is_there_is_named_and_nothing_is_written(here, whichloop):
    name = ".github/workflows/loops.yml"
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text("mine")
    ended = whichloop("init")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {name}: already there; nothing was written\n"
    assert written(here) == {name}
    assert (here / name).read_text() == "mine"


@pytest.mark.parametrize("program", ["a.py:solve", "sh -c 'say \"hi\"'", "a.py:solve(venv=new)"])
def test_any_program_is_text_in_the_files(here, whichloop, program):
    assert whichloop("init", "--program", program).code == 0
    assert tomllib.loads((here / "whichloop.toml").read_text())["loops"] == [program_spec(program), "finish"]
    assert tomllib.loads((here / "pyproject.toml").read_text())["tool"]["whichloop"]["loop"] == [program_spec(program)]
    compile((here / "tests/test_loops.py").read_text(), "test_loops.py", "exec")
    assert f"program={json.dumps(program)}" in (here / "tests/test_loops.py").read_text()
    assert not [name for name in FILES if "@" in (here / name).read_text().replace("@pytest", "").replace("@v", "")]


def test_what_is_kept_stays_and_the_rest_is_written(here, whichloop):
    for name in KEPT:
        (here / name).write_text("mine\n")
    assert whichloop("init").code == 0
    assert written(here) == FILES
    assert {(here / name).read_text() for name in KEPT} == {"mine\n"}


EVIL = "Do \x1b[2J\x1b]0;owned\x07 \u202e[bold]this[/bold]\r<b>"


def saved(path: Path, instructions: str = "Do it.", demos: list[dict[str, Any]] | None = None, **about: Any) -> str:
    state = {"decide": {"signature": {"instructions": instructions, "fields": []}, "demos": demos or []}}
    path.write_text(json.dumps({**state, "metadata": {}, "whichloop": {"loop": "bare", **about}}), encoding="utf-8")
    reseal(path)
    return path.name


def test_a_program_is_shown(whichloop, here):
    talk = json.dumps([{"role": "user", "content": "How many?"}])
    name = saved(here / "p.json", "Do it.\nWell.", [{"conversation": talk, "reply": "3"}], optimizer="COPRO")
    shown = whichloop("prompts", name)
    assert (shown.code, shown.err) == (0, "")
    wanted = ["p.json", "loop       bare", "optimizer  COPRO", "── decide", "Do it.", "Well.", "user: How many?", "assistant: 3"]
    places = [shown.out.index(line) for line in wanted]
    assert places == sorted(places)


@pytest.mark.parametrize("how", [("evil.json",), ("evil.json", "--json"), ("a.json", "evil.json")])
def test_control_characters_are_shown_as_their_codes(whichloop, here, how):
    saved(here / "a.json")
    saved(here / "evil.json", EVIL, [{"query": EVIL, EVIL: 1}], **{EVIL: EVIL})
    shown = whichloop("prompts", *how)
    assert (shown.code, shown.err) == (int("a.json" in how), "")
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown.out)
    assert "[bold]" in shown.out


def test_equal_programs_have_no_diff(whichloop, here):
    found = whichloop("prompts", saved(here / "a.json"), saved(here / "b.json", seed=9))
    assert (found.code, found.out, found.err) == (0, "", "")


def test_a_loop_against_its_optimized_program(whichloop, here):
    found = whichloop("prompts", "bare", saved(here / "b.json", "Do it.", [{"query": "1", "answer": "2"}]))
    assert found.code == 1
    lines = found.out.splitlines()
    assert lines[:2] == ["--- bare", "+++ b.json"]
    assert lines[-3:] == ["+── decide, demonstration", "+query: 1", "+answer: 2"]
    assert "+Do it." in lines


def test_a_servers_address_is_printed_without_its_password(whichloop, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.test/")
    ended = whichloop("ui")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "https://mlflow.example.test\n"


def test_the_server_of_the_store_is_started_on_this_machine_alone_and_ends_with_the_command(whichloop, here, monkeypatch):
    started: list[Any] = []

    class Server(subprocess.Popen[str]):
        def __init__(self, command, **options):
            started.append((command, options["env"], self))
            super().__init__(["sleep", "60"], **options)

        def wait(self, timeout=None):
            if self.poll() is None and len(started) == 1:
                started.append("Ctrl-C")
                raise KeyboardInterrupt
            return super().wait(timeout)

    (here / "runs").mkdir()
    (here / "runs" / "mlflow.db").touch()
    monkeypatch.setattr(subprocess, "Popen", Server)
    monkeypatch.setitem(sys.modules, "whichloop.reports.mlflow", SimpleNamespace(page_of=lambda uri: "/#/page"))
    ended = whichloop("ui", "--port", str(port := free_port()))
    (command, environment, server), _ = started
    assert (ended.code, ended.out, server.poll()) == (0, f"http://127.0.0.1:{port}/#/page\n", -signal.SIGTERM)
    assert " ".join(command[1:]).startswith(f"-m mlflow ui --host 127.0.0.1 --port {port} ")
    assert environment["MLFLOW_BACKEND_STORE_URI"] == default_uri(Path("runs"))


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


def test_it_answers_until_it_is_told_to_end():
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
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 0
    assert settings[1] == f"export OPENAI_BASE_URL={base} OPENAI_API_KEY=none\n"
    assert errors.splitlines() == ["serving arithmetic, 3 tasks; Ctrl-C ends", "closed"]


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
    assert f"{port}): address already in use" in ended.err
