"""Whole runs with a real model: who is to blame for what, going on, and no key left anywhere."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy
import pytest

from tests.kept import content
from whichloop.cli.main import main
from whichloop.datasets import arithmetic
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, replay
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import prepare
from whichloop.loops.bare_codecs import CODEC
from whichloop.loops.react_extract_codecs import ExtractAnswer, ExtractCodec, ReactCodec, ReactStep
from whichloop.metrics.record import Record
from whichloop.protocol import Act, Answer, Codec, ToolCall, run_sync
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import read_records

from .provider import NAME, SECRET, CannedAnswer, SeenRequest, Server, completion, failure, serving

LOOPS = ("bare", "react_extract")
"""What the server of these tests speaks."""
SUITE = arithmetic.SUITE()
TASKS = 2
REACT = ReactCodec(ReactStep)
EXTRACT = ExtractCodec(ExtractAnswer.append("answer", dspy.OutputField(), str), {})


class Solver:
    """Answers as a model that knows the suite: follows a task's plan by counting the observations in the prompt."""

    def __init__(self, suite: Suite, tasks: int) -> None:
        self.tasks = {task.query.text: task for task in suite.tasks[:tasks]}
        self.calls = {text: run_sync(replay(task, suite)) for text, task in self.tasks.items()}

    def __call__(self, heard: SeenRequest) -> CannedAnswer:
        messages = heard.body["messages"]
        prompt = "\n".join(message["content"] for message in messages)
        question = next(text for text in self.tasks if text in prompt)
        task, calls = self.tasks[question], self.calls[question]
        if "[[ ## reasoning ## ]]" in prompt:
            return self.say(EXTRACT, Answer("It follows.", self.answer(task)))
        if "[[ ## next_thought ## ]]" in prompt:
            return self.act(REACT, calls, messages[-1]["content"].count("[[ ## observation_"), None)
        seen = sum(message["role"] == "user" for message in messages) - 1
        return self.act(CODEC, calls, seen, self.answer(task))

    def act(self, codec: Codec, calls: tuple[Replayed, ...], seen: int, answer: str | None) -> CannedAnswer:
        if seen >= len(calls):
            return self.say(codec, Answer("All is known.", answer))
        return self.say(codec, Act("Next.", (ToolCall(calls[seen].tool, calls[seen].arguments),)))

    def answer(self, task: Task) -> str:
        return "cannot be determined" if task.expected is None else str(task.expected)

    def say(self, codec: Codec, move: Act | Answer) -> CannedAnswer:
        return completion(codec.render(move).text)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(SUITE, TASKS)


def run(tmp_path: Path, server: Server, **changes: Any) -> list[Record]:
    """A comparison through the Python API; gives its records."""
    values: dict[str, Any] = {"loops": LOOPS, "models": (NAME,), "base_url": server.url, "tasks": TASKS, "mlflow": False}
    values |= {"runs": tmp_path / "runs"} | changes
    experiment = prepare(CompareConfig(**values))
    compare.run(experiment, Unwatched())
    return list(read_records(experiment.folder))


def test_both_loops_solve_tasks_over_http(tmp_path, solver: Solver):
    with serving(solver) as server:
        records = run(tmp_path, server)
        asked = len(server.seen)
    assert len(records) == len(LOOPS) * TASKS
    assert {record.status for record in records} == {"scored"}
    assert [record.accuracy for record in records] == [1.0] * len(records)
    assert {record.stop for record in records} == {"finished"}
    assert sum(record.lm_calls for record in records) == asked
    for record in records:
        assert (record.input_tokens, record.output_tokens, record.cached_tokens) == tuple(n * record.lm_calls for n in (11, 5, 4))
        assert not record.tokens_estimated
        assert record.cost_usd is None


def test_a_hanging_provider_is_told_from_a_slow_loop(tmp_path):
    released = threading.Event()

    def hang(heard: SeenRequest) -> CannedAnswer:
        released.wait(30)
        return completion()

    with serving(hang) as server:
        try:
            records = run(tmp_path, server, trial_timeout_s=0.4, tasks=1, provider={"attempts": 2})
        finally:
            released.set()
    assert {(record.status, record.reason) for record in records} == {("errored", "provider: no reply within 0.2 s")}
    assert {(record.errors["provider.timeout"], record.retries["timeout"]) for record in records} == {(1, 1)}


def test_a_run_at_an_address_with_a_key_in_it_goes_on_where_the_address_is_typed_again(tmp_path, solver: Solver):
    with serving(solver) as server:
        address = f"{server.url}?api_key={SECRET}"
        values = {"loops": ("bare",), "models": (NAME,), "base_url": address, "tasks": 1, "mlflow": False}
        begun = prepare(CompareConfig(**values, runs=tmp_path / "runs", provider={"attempts": 1}))
        for wrong in (None, server.url, address.replace("127.0.0.1", "localhost")):
            with pytest.raises(RunError, match="type it again") as caught:
                reopen(begun.folder, Permissions(base_url=wrong))
            assert SECRET not in str(caught.value)
        again = reopen(begun.folder, Permissions(base_url=address))
    assert again.config.base_url == address
    assert SECRET not in (begun.folder / "manifest.json").read_text()


def test_an_overflow_is_the_loops_to_deal_with(tmp_path, solver: Solver):
    def small(heard: SeenRequest) -> CannedAnswer:
        long = len(heard.body["messages"]) > 2
        return failure(400, "too long", "context_length_exceeded") if long else solver(heard)

    with serving(small) as server:
        records = run(tmp_path, server, tasks=1, loops=("bare",))
    assert [(record.status, record.stop, record.accuracy) for record in records] == [("scored", "context_overflow", 0.0)]


@dataclass(frozen=True)
class Here:
    """The command within this process, which has the key: one of its own would take seconds to import what it needs."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    places: list[Any] = field(default_factory=list)
    """What was connected to."""

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.monkeypatch.setattr(sys, "argv", ["whichloop", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        code, said = left.value.code, self.capsys.readouterr()
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    def texts(self) -> str:
        """All that a run left on the disk."""
        return "\n".join(content(path).decode(errors="replace") for path in self.home.rglob("*") if path.is_file())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    made, connect = Here(tmp_path, monkeypatch, capsys), socket.socket.connect

    def watched(sock: socket.socket, address: Any) -> None:
        made.places.append(address)
        connect(sock, address)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setattr(socket.socket, "connect", watched)
    return made


def flags(server: Server) -> list[str]:
    return ["--model", NAME, "-s", f"base_url={server.url}"]


COMPARE = ["compare", "--loop", "bare", "--loop", "react_extract", "--suite", "arithmetic", "--tasks", str(TASKS), "--json"]


def test_errored_trials_run_again_on_resume_and_no_key_is_left_anywhere(here: Here, solver: Solver):
    def broken(heard: SeenRequest) -> CannedAnswer:
        if "next_thought" not in json.dumps(heard.body):
            return solver(heard)
        return failure(401, f"Unauthorized: {json.dumps(heard.headers)} from http://user:{heard.key}@proxy.test/")

    with serving(broken) as server:
        first = here(*COMPARE, *flags(server))
        assert {heard.key for heard in server.seen} == {SECRET}
        before = here.texts()
        server.rule = solver
        asked = len(server.seen)
        untyped = here("resume", "latest", "--json")  # a run directory does not say where a key is sent
        assert (untyped.returncode, untyped.stdout, len(server.seen)) == (2, "", asked)
        assert "type it again: -s base_url" in untyped.stderr
        second = here("resume", "latest", "--json", "-s", f"base_url={server.url}")
        again = server.seen[asked:]
    arms = [[(arm["loop"], arm["scored"], arm["errored"]) for arm in json.loads(done.stdout)["arms"]] for done in (first, second)]
    assert arms == [[("bare", TASKS, 0), ("react_extract", 0, TASKS)], [("bare", TASKS, 0), ("react_extract", TASKS, 0)]]
    assert all("[[ ## " in json.dumps(heard.body) for heard in again)  # bare's trials stood already
    assert second.returncode == 0
    assert [(arm["model"], arm["accuracy"]["value"]) for arm in json.loads(second.stdout)["arms"]] == [(NAME, 1.0)] * 2
    assert {place[:2] for place in here.places} == {("127.0.0.1", server.server_port)}
    assert [path.name for path in here.home.iterdir()] == ["runs"]
    assert "[redacted]" in before
    for text in (before, here.texts(), first.stdout, first.stderr, second.stdout, second.stderr):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": ("openai/gpt-4o-mini",), "base_url": None}, "no key: set OPENAI_API_KEY in the environment"),
        ({"base_url": "http://me:hunter2@127.0.0.1/v1"}, "user and password do not go into the address"),
    ],
    ids=["key", "password"],
)
def test_what_could_not_run_makes_no_run_directory(tmp_path, shared, changes, said):
    with pytest.raises(ValueError, match=said):
        run(tmp_path, shared, **changes)
    assert [*tmp_path.iterdir()] == []


def test_an_address_in_a_manifest_has_no_password():
    config = CompareConfig(models=(NAME,), base_url="http://me:p@ss/w:rd@127.0.0.1:8000/v1?x=1")
    assert "p@ss" not in json.dumps(config.public())
