"""Local models, recordings and users whom a real model plays: runs, replays, and what is said when they fail."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.tau2_shops import EXCHANGE, SHOP, action, loaded, row
from tests.models.local.fakes import DAMAGED, WEIGHTS, FakeLlama, fake_llama
from tests.models.real.provider import NAME, SECRET, CannedAnswer, SeenRequest, Server, completion, failure, serving
from whichloop.datasets.task import Suite
from whichloop.datasets.with_user import UserEnvironment, instructions
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.run import Experiment, prepare
from whichloop.loops.bare_codecs import CODEC
from whichloop.metrics.record import Record, records_digest
from whichloop.models.local import server as local_server
from whichloop.protocol import Act, Answer, NativeCall, ToolCall
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.trials import read_records

from .conftest import Ended


@pytest.fixture(scope="module")
def llama() -> Iterator[FakeLlama]:
    answer = json.dumps({"final_answer": "42"})
    with fake_llama(lambda heard: completion(answer)) as seen:
        yield seen


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "some.gguf"
    file.write_bytes(WEIGHTS)
    return file


@pytest.fixture
def compare_local(whichloop: Callable[..., Any]) -> Callable[..., Any]:
    """A short comparison with further words, in the folder `runs`."""
    return partial(whichloop, "compare", "--loop", "bare", "--tasks", "2")


def test_a_run_asks_the_server_of_this_process_and_says_whose_weights_answered(compare_local, here, llama, weights):
    assert compare_local("--model", f"local:{weights}", "-s", "provider.context_tokens=4000").code == 0
    (folder,) = here.glob("runs/*/")
    records = read_records(folder)
    assert [(record.status, record.lm_calls, record.input_tokens) for record in records] == [("scored", 1, 11)] * 2
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    assert read_manifest(folder).weights[f"local:{weights}"]["sha256"] == digest
    assert f"some.gguf, sha256 {digest[:12]}, by xllamacpp" in (folder / "report.html").read_text(encoding="utf-8")
    loaded = llama.loaded[-1]
    assert (loaded.model.path, loaded.port, loaded.n_ctx) == (str(weights), 0, 4000 * local_server.SLOTS)


def test_a_run_does_not_go_on_with_other_weights(compare_local, whichloop, here, llama, weights):
    assert compare_local("--model", f"local:{weights}", "--budget", "1calls").code == 130
    weights.write_bytes(WEIGHTS + b"more")
    refused = whichloop("resume", "latest")
    assert refused.code == 2
    assert f"the weights of model local:{weights} (some.gguf, now some.gguf)" in refused.err


def test_a_server_that_dies_fails_trials_and_not_the_run(compare_local, here, weights):
    with fake_llama(lambda heard: completion(calls=(NativeCall("1", "x", "{}"),))) as seen:
        local_server.started_server("local", weights)
        seen.servers[-1].shutdown()
        seen.servers[-1].server_close()
        compare_local("--model", f"local:{weights}", "-s", "provider.attempts=1")
    (folder,) = here.glob("runs/*/")
    for record in read_records(folder):
        assert (record.status, record.errors) == ("errored", {"provider.connection": 1})
        assert record.reason.startswith("provider: ")


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"text", "is not a GGUF file"), (DAMAGED, "cannot load")])
def test_bad_weights_are_one_line_and_leave_nothing_behind(compare_local, here, llama, content, said):
    file = here / "bad.gguf"
    if content is not None:
        file.write_bytes(content)
    ended = compare_local("--model", f"local:{file}")
    assert ended.code == 2
    assert said in ended.err
    assert str(file) in ended.err
    assert ended.err.count("\n") == 1
    assert not (here / "runs").exists()


@pytest.mark.parametrize("address", ["http://0.0.0.0:8080", "http://127.0.0.1.example:80"])
def test_a_server_that_others_could_reach_is_refused(compare_local, here, weights, address):
    with fake_llama(lambda heard: completion("42"), address) as seen:
        ended = compare_local("--model", f"local:{weights}")
    assert seen.loaded[-1].hostnames == ["127.0.0.1"]
    assert ended.code == 2
    assert f"xllamacpp listens on {address}, and not on 127.0.0.1 alone, as told" in ended.err
    assert not (here / "runs").exists()


def rule(heard: Any) -> Any:
    """Add the two numbers of the prompt first; and say the key, as a proxy that repeats headers might."""
    if len(heard.body["messages"]) < 3:
        return completion(CODEC.render(Act(f"My key is {SECRET}.", (ToolCall("add", {"a": 2, "b": 3}),))).text)
    return completion(CODEC.render(Answer("", "5")).text)


def test_a_recorded_run_is_replayed_without_server_and_key_and_a_miss_says_how_to_record_it(
    whichloop: Any, here: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    asked = ("--loop", "bare", "--model", NAME, "-s", "cassette=tape", "--json")
    with serving(rule) as server:
        words = ["compare", *asked, "--tasks", "3", "-s", f"base_url={server.url}"]
        words += ["-s", "cassette_mode=record", "-s", "concurrency=3"]
        recorded = whichloop(*words)
        requests = len(server.seen)
        assert (recorded.code, requests) == (0, 6)
        assert "recording tape: 0 replies replayed, 6 recorded" in recorded.err
        again = whichloop(*words)
        assert (again.code, len(server.seen)) == (2, requests)
        assert re.search(r"tape/openai-test-model\.jsonl: openai/test-model is recorded already", again.err)
    monkeypatch.delenv("OPENAI_API_KEY")
    file = here / "tape" / "openai-test-model.jsonl"
    before = file.read_bytes()
    assert SECRET.encode() not in before
    for concurrency in ("1", "8"):
        replayed = whichloop("compare", *asked, "--tasks", "3", "-s", f"concurrency={concurrency}")
        assert replayed.code == 0
        assert json.loads(replayed.out)["digest"] == json.loads(recorded.out)["digest"]
        assert "recording tape: 6 replies replayed, 0 recorded" in replayed.err
    missed = whichloop("compare", *asked, "--tasks", "4", "-s", "provider.attempts=2", "-s", "provider.without=streaming")
    assert missed.code == 4
    assert file.read_bytes() == before
    lines = missed.err.splitlines()
    (miss,) = (number for number, line in enumerate(lines) if line.startswith("not recorded: "))
    assert lines[miss + 1 : miss + 3] == ["--- recorded", "+++ asked"]
    (command,) = (line.partition(": ")[2] for line in lines if line.startswith("record what is missing: "))
    said = {"--tasks", "4", "cassette=tape", "cassette_mode=replay-or-record", "provider.attempts=2", "provider.without=streaming"}
    assert said <= set(shlex.split(command))
    assert not [path for path in here.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


AGENT, USER = "openai/agent", "openai/user"
TASK = row("t", action("get_order_details", order_id="#2"), action("exchange_delivered_order_items", **EXCHANGE))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return loaded(tmp_path_factory.mktemp("shop"), SHOP, TASK)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


class Talk:
    """Plays both sides: the agent follows the task's plan, the user says yes to all changes but answers nothing else."""

    def __init__(self, suite: Suite) -> None:
        (task,) = suite.tasks
        assert task.plan is not None
        environment = suite.open(task)
        assert isinstance(environment, UserEnvironment)
        self.calls = [ToolCall(call.tool, call.arguments) for call in task.plan.calls]
        self.script = instructions(environment.script)

    def __call__(self, heard: SeenRequest) -> CannedAnswer:
        messages = heard.body["messages"]
        if messages[0]["content"] == self.script:
            assert heard.body["model"] == "user"
            return self.user(messages)
        seen = sum(message["role"] == "user" for message in messages) - 1
        move = Act("Next.", (self.calls[seen],)) if seen < len(self.calls) else Answer("All is done.", "Done.")
        return completion(CODEC.render(move).text)

    def user(self, messages: list[dict[str, Any]]) -> CannedAnswer:
        return completion("Yes." if "May I make this change" in messages[-1]["content"] else "The lamp, please.")


def prepared(tmp_path: Path, shop: Suite, server: Server | None, **changes: Any) -> Experiment:
    loaded(tmp_path, SHOP, TASK)
    values: dict[str, Any] = {"loops": ("bare",), "models": (AGENT,), "user": USER, "suite": "tau2", "data": tmp_path}
    values |= {"base_url": None if server is None else server.url, "mlflow": False, "runs": tmp_path / "runs"} | changes
    return prepare(CompareConfig(**values))


def ran(experiment: Experiment) -> list[Record]:
    compare.run(experiment, Unwatched())
    return list(read_records(experiment.folder))


def test_the_user_is_counted_apart_recorded_and_replayed(tmp_path: Path, shop: Suite, whichloop: Callable[..., Ended]) -> None:
    talk = Talk(shop)
    recording: dict[str, Any] = {"cassette": tmp_path / "cassette"}
    with serving(talk) as server:
        (record,) = ran(prepared(tmp_path, shop, server, cassette_mode="record", **recording))
        requests = len(server.seen)
    assert (record.status, record.accuracy) == ("scored", 1.0)
    assert record.user_counts == {"calls": 3, "input_tokens": 33, "output_tokens": 15}  # two questions and a change
    assert record.lm_calls == requests - 3 == len(talk.calls) + 1
    assert record.tokens == 16 * record.lm_calls
    assert record.user_tokens == 48
    replayed = prepared(tmp_path, shop, None, **recording)
    (again,) = ran(replayed)
    assert records_digest([again]) == records_digest([record])
    assert again.user_counts == record.user_counts
    (arm,) = whichloop("report", str(replayed.folder), "--json").json["arms"]
    assert (arm["user_calls"]["value"], arm["user_tokens"]["value"], arm["lm_calls"]["value"]) == (3, 48, record.lm_calls)
    assert "user calls" in whichloop("report", str(replayed.folder), "-v").out


def test_a_user_who_cannot_answer_is_not_the_agent_s_fault(tmp_path: Path, shop: Suite) -> None:
    talk = Talk(shop)
    talk.user = lambda messages: failure(400, "no such model")  # type: ignore[method-assign]
    with serving(talk) as server:
        (record,) = ran(prepared(tmp_path, shop, server))
    assert record.status == "errored"
    assert record.reason.startswith("user: provider: ")


def test_the_run_s_budget_holds_for_the_user_too_and_the_trial_s_does_not(tmp_path: Path, shop: Suite) -> None:
    with serving(Talk(shop)) as server:
        budget = {"trial_budget": {"calls": 6}}
        (record,) = ran(prepared(tmp_path, shop, server, **budget))
        assert (record.accuracy, record.lm_calls, record.user_counts["calls"]) == (1.0, 6, 3)
        experiment = prepared(tmp_path, shop, server, budget={"calls": 3})
        assert "budget of 3 model calls used up" in compare.run(experiment, Unwatched())
        assert read_records(experiment.folder) == []
