"""Keys of many shapes planted in every place that a key can reach; none is left in any file of a run or on the terminal."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kept import content, rows
from tests.models.real.provider import NAME, CannedAnswer, SeenRequest, completion, failure, serving
from tests.protocol.planted import SHAPES, planted
from whichloop.protocol.redact import MARK
from whichloop.runs.store.trials import TRIALS

# MLflow's own, at its first store
pytestmark = pytest.mark.thorough

ENVIRONMENT = {
    "PGPASSWORD": "correct horse battery",
    "TOKEN": "staple the other horse",
    "OPENAI_API_KEY": "plain words in a header",
    "DATABASE_URL": "postgresql://app:hunter-in-the-woods@db.test:5432/x",
    "SIGNING_PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----\nabcdefghijklmnopqrstuvwxyzabcdefgh\n-----END PRIVATE KEY-----",
}
VALUES = (
    "correct horse battery",
    "staple the other horse",
    "plain words in a header",
    "hunter-in-the-woods",
    "abcdefghijklmnopqrstuvwxyzabcdefgh",
)
PLACES = ("environment", "address", "headers", "arguments", "results", "replies", "raised", "errors", "crash")
PLANTED = {place: planted(place) for place in PLACES}
ADDRESS = "hunter7k2hunter7k2"
QUERY = "q7w8e9r0t1y2u3i4o5p6"
TOOLS = '''
import os

def leak(text: str) -> dict:
    """Return what a service said."""
    return {"said": RESULTS, "environment": [os.environ[name] for name in NAMES], "text": text}

def burst(text: str) -> str:
    """Fail as a service does."""
    raise ConnectionError(f"{RAISED} {text} {os.environ['PGPASSWORD']}")
'''
LOOP = '''
from dataclasses import dataclass
from whichloop.loops import Bare

@dataclass(frozen=True, slots=True)
class Crashing(Bare):
    """Crash with keys in the message."""

    @property
    def name(self):
        return "crashing"

    async def run(self, query, tools, model, observer=None):
        raise RuntimeError(CRASH)
'''


def texts(place: str) -> str:
    return "\n".join(key.text for key in PLANTED[place].values())


def secrets() -> dict[str, str]:
    """Return place and shape → what must be left nowhere."""
    found = {f"{place}: {name}": key.secret for place, keys in PLANTED.items() for name, key in keys.items()}
    named = {f"environment: value {value}": value for value in VALUES}
    return found | named | {"base URL: user": ADDRESS, "base URL: query": QUERY}


def rule(heard: SeenRequest) -> CannedAnswer:
    """Call one tool, then the other, then answer; keys are everywhere. Each third task meets an error that quotes its request."""
    said = json.dumps(heard.body["messages"])
    if "Task 3" in said:
        headers = heard.headers | {f"X-Header-{n}": key.text for n, key in enumerate(PLANTED["headers"].values())}
        return failure(
            401, f"Unauthorized: {json.dumps(headers)} {texts('errors')} http://app:{ADDRESS}@127.0.0.1/v1?api_key={QUERY}"
        )
    observed = sum(message["role"] == "user" for message in heard.body["messages"]) - 1
    if observed == 2:
        return completion(json.dumps({"thought": texts("replies"), "final_answer": texts("replies")}))
    call = {"thought": texts("replies"), "tool_name": ("leak", "burst")[observed % 2], "arguments": {"text": texts("arguments")}}
    return completion(json.dumps(call) if "Task 2" not in said or observed else f"no format, but {texts('replies')}")


@pytest.fixture
def shop(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shapes = {f"SETTING_{n}": key.text for n, key in enumerate(PLANTED["environment"].values())}  # names that say nothing
    for name, value in (ENVIRONMENT | shapes).items():
        monkeypatch.setenv(name, value)
    tools = TOOLS.replace("RESULTS", repr(texts("results"))).replace("NAMES", repr([*ENVIRONMENT, *shapes])).replace("RAISED", "R")
    (here / "leaking.py").write_text(f"R = {texts('raised')!r}\n{tools}")
    (here / "crashing.py").write_text(LOOP.replace("CRASH", repr(texts("crash"))))
    tasks = [{"id": f"t{n}", "query": {"text": f"Task {n}: what does the service say?"}, "expected": "nothing"} for n in (1, 2, 3)]
    (here / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return here


def left_on_disk(folder: Path, skipped: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file, compressed ones as they read."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in skipped and "__pycache__" not in path.parts:
            yield str(path.relative_to(folder)), content(path)


@functools.cache
def spellings(secret: str) -> frozenset[bytes]:
    plain = secret.encode()
    return frozenset((plain, plain.replace(b" ", b"+"), plain.replace(b" ", b"%20"), base64.b64encode(plain)[:-4]))


def leaks(name: str, data: bytes) -> list[str]:
    return [f"{name} holds {place}" for place, secret in secrets().items() if any(form in data for form in spellings(secret))]


OWN = frozenset({"leaking.py", "crashing.py", "tasks.jsonl"})


def test_no_planted_key_is_left_in_any_file_or_on_the_terminal(whichloop: Callable[..., Any], shop: Path):
    said: list[tuple[str, str]] = []

    def call(*arguments: str) -> None:
        done = whichloop(*arguments)
        said.append((" ".join(arguments[:2]), done.out + done.err))

    flags = ["--suite", "jsonl", "--data", "tasks.jsonl", "--tools", "leaking", "--model", NAME, "-s", "provider.attempts=1"]
    with serving(rule) as server:
        keys = [key.text for key in PLANTED["address"].values() if re.fullmatch(r"[\w.~-]+", key.text)]
        assert len(keys) > 40
        url = f"{server.url}/{keys[0]}?api_key={QUERY}&{'&'.join(f'x{n}={key}' for n, key in enumerate(keys))}"
        call("compare", *flags, "--loop", "bare", "-s", f"base_url={server.url.replace('http://', f'http://app:{ADDRESS}@')}")
        assert "user and password do not go into the address" in said[-1][1]
        call("compare", *flags, "--loop", "bare", "--loop", "crashing:Crashing", "--mlflow", "-s", f"base_url={server.url}")
        recorded = ["-s", "cassette=recordings", "-s", "cassette_mode=record"]  # MLflow holds the other runs
        call("compare", *flags, "--loop", "bare", "-s", f"base_url={server.url}", *recorded)
        call("compare", *flags, "--loop", "bare", "--mlflow", "-s", f"base_url={url}")
        call("check", "model", NAME, "--base-url", url)
    (run,) = {
        path.parent.name
        for path in shop.glob("runs/*/trials.sqlite")
        if any("crashing" in row["arm"].lower() for row in rows(path.parent))
    }
    allow = ["--allow", "leaking", "--allow", "crashing:Crashing"]
    shown = ("bare/openai/test-model/t1/0", "bare/openai/test-model/t3/0", "Crashing/openai/test-model/t1")
    for arguments in (
        ["report", "latest"],
        *(["show", f"runs/{run}", trial, "--full"] for trial in shown),
        ["report", "--why", f"runs/{run}"],
        ["resume", f"runs/{run}", "--rescore", *allow],
        ["learn", "plans", f"runs/{run}", "-o", "learned.jsonl", *allow],
        ["learn", "profile", f"runs/{run}", "-o", "fitted.toml"],
    ):
        call(*arguments)
    files = dict(left_on_disk(shop, OWN))
    found = [leak for name, data in files.items() for leak in leaks(name, data)]
    found += [leak for command, text in said for leak in leaks(f"the terminal after {command}", text.encode())]
    assert not found
    assert any(name.endswith("mlflow.db") for name in files)
    assert all(MARK in text for command, text in said if command.startswith("show"))
    traces = files[f"runs/{run}/trials.sqlite"]
    assert traces.count(MARK.encode()) > 5 * len(SHAPES)  # all of them did get there


def test_nothing_of_an_ordinary_run_is_taken_for_a_secret(whichloop: Callable[..., Any], here: Path):
    """Of all five designs, with replies and tools that fail."""
    profiles = ["--profile", "flaky-format", "--profile", "flaky-tools"]
    assert whichloop("compare", "--suite", "typed", "--tasks", "1", *profiles).code == 0
    files = dict(left_on_disk(here / "runs", frozenset()))
    assert len([data for name, data in files.items() if name.endswith(TRIALS) and data.count(b'"events":') == 10]) == 1
    assert not [name for name, data in files.items() if MARK.encode() in data]


def test_a_traceback_of_ours_holds_no_key(whichloop: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise RuntimeError(texts("crash"))

    monkeypatch.setattr("whichloop.runs.folders.run_folder", broken)
    done = whichloop("report", "latest")
    assert (done.code, done.out) == (1, "")
    assert "RuntimeError: " in done.err
    assert MARK in done.err
    assert not leaks("the terminal", done.err.encode())
