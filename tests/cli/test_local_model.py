"""A local model end to end, with a stand-in for the package that serves it: runs, recordings, and what is said when it fails."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.models.local.fakes import DAMAGED, WEIGHTS, FakeLlama, fake_llama
from tests.models.real.provider import completion
from whichloop.models.local import server as local_server
from whichloop.models.local.server import Weights
from whichloop.protocol import NativeCall
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.trials import read_records


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
def compare(whichloop: Callable[..., Any]) -> Callable[..., Any]:
    """A short comparison with further words, in the folder `runs`."""
    return partial(whichloop, "compare", "--loop", "bare", "--tasks", "2")


def test_a_run_asks_the_server_of_this_process_and_says_whose_weights_answered(compare, here, llama, weights):
    assert compare("--model", f"local:{weights}", "-s", "provider.context_tokens=4000").code == 0
    (folder,) = here.glob("runs/*/")
    records = read_records(folder)
    assert [(record.status, record.lm_calls, record.input_tokens) for record in records] == [("scored", 1, 11)] * 2
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    assert read_manifest(folder).weights[f"local:{weights}"].sha256 == digest
    assert f"some.gguf, sha256 {digest[:12]}, by xllamacpp" in (folder / "report.html").read_text(encoding="utf-8")
    loaded = llama.loaded[-1]
    assert (loaded.model.path, loaded.port, loaded.n_ctx) == (str(weights), 0, 4000 * local_server.SLOTS)


def test_a_run_does_not_go_on_with_other_weights(compare, whichloop, here, llama, weights):
    assert compare("--model", f"local:{weights}", "--budget", "1calls").code == 130
    weights.write_bytes(WEIGHTS + b"more")
    refused = whichloop("resume", "latest")
    assert refused.code == 2
    assert f"the weights of model local:{weights} (some.gguf, now some.gguf)" in refused.err


def test_one_server_does_for_all_models_of_the_same_weights(compare, llama, weights):
    before = len(llama.servers)
    for _ in range(2):
        assert compare("--model", f"local:{weights}").code == 0
    assert len(llama.servers) == before + 1


def test_check_model_takes_a_local_one(whichloop, llama, weights):
    assert whichloop("check", f"local:{weights}", "--json").json["answers"]


def test_a_server_that_dies_fails_trials_and_not_the_run(compare, here, weights):
    with fake_llama(lambda heard: completion(calls=(NativeCall("1", "x", "{}"),))) as seen:
        local_server.started_server("local", Weights(weights))
        seen.servers[-1].shutdown()
        seen.servers[-1].server_close()
        compare("--model", f"local:{weights}", "-s", "provider.attempts=1")
    (folder,) = here.glob("runs/*/")
    for record in read_records(folder):
        assert (record.status, record.errors) == ("errored", {"provider.connection": 1})
        assert record.reason.startswith("provider: ")


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"text", "is not a GGUF file"), (DAMAGED, "cannot load")])
def test_bad_weights_are_one_line_and_leave_nothing_behind(compare, here, llama, content, said):
    file = here / "bad.gguf"
    if content is not None:
        file.write_bytes(content)
    ended = compare("--model", f"local:{file}")
    assert ended.code == 2
    assert said in ended.err
    assert str(file) in ended.err
    assert ended.err.count("\n") == 1
    assert not (here / "runs").exists()


@pytest.mark.parametrize("address", ["http://0.0.0.0:8080", "http://127.0.0.1.example:80", "http://[::]:8080", ""])
def test_a_server_that_others_could_reach_is_refused(compare, here, weights, address):
    with fake_llama(lambda heard: completion("42"), address) as seen:
        ended = compare("--model", f"local:{weights}")
    assert seen.loaded[-1].hostnames == ["127.0.0.1"]
    assert ended.code == 2
    assert f"xllamacpp listens on {address}, and not on 127.0.0.1 alone, as told" in ended.err
    assert not (here / "runs").exists()


def test_a_missing_binding_names_its_extra(compare, weights, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    ended = compare("--model", f"local:{weights}")
    assert ended.code == 2
    assert "needs xllamacpp, which is not installed: pip install" in ended.err
    assert "[local]" in ended.err


def test_replies_are_constrained_on_request_and_the_manifest_and_the_recording_know_it(compare, here, llama, weights):
    words = ("--model", f"local:{weights}", "-s", "cassette=recorded")
    assert compare(*words, "-s", "provider.constrain=true", "-s", "cassette_mode=record").code == 0
    schemas = [json.dumps(heard.body.get("response_format")) for heard in llama.servers[-1].seen]
    assert all('"tool_name"' in schema for schema in schemas)
    (folder,) = here.glob("runs/*/")
    assert read_manifest(folder).config["provider"]["constrain"] is True
    asked = len(schemas)
    replayed = compare(*words, "-s", "provider.constrain=true")
    assert (replayed.code, len(llama.servers[-1].seen)) == (0, asked)
    before = set(here.glob("runs/*/"))
    free = compare(*words)  # asks what was not recorded
    (made,) = set(here.glob("runs/*/")) - before
    assert "it differs in response_schema" in free.out + free.err + "".join(record.reason for record in read_records(made))


def test_only_a_local_model_can_be_constrained(compare):
    ended = compare("--model", "openai/x", "-s", "provider.constrain=true")
    assert ended.code == 2
    assert "constrain is for local models; openai/x is not one" in ended.err


def test_an_address_is_for_servers_of_others(compare):
    ended = compare("--model", "local", "-s", "base_url=http://localhost:1/v1")
    assert ended.code == 2
    assert "local runs in this process" in ended.err


def test_few_trials_at_once_ask_a_model_that_this_machine_computes():
    assert CompareConfig(models=["local"]).in_flight == 2
    assert CompareConfig(models=["local:x", "openai/y"]).in_flight == 2
    assert CompareConfig(models=["local"], concurrency=5).in_flight == 5
    assert CompareConfig(models=["openai/y"]).in_flight == 32


def test_half_of_the_processors_compute(llama, weights, monkeypatch):
    for processors, threads in ((8, 4), (1, 1), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=processors: count)
        local_server._started.cache_clear()
        local_server.started_server("local", Weights(weights))
        assert llama.loaded[-1].cpuparams.n_threads == llama.loaded[-1].cpuparams_batch.n_threads == threads
