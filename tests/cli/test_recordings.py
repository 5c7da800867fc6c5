"""A run on a real model, recorded from a server, and replayed without it: by the command line alone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

from tests.models.real.provider import NAME, SECRET, completion, serving
from whichloop.loops.bare_codecs import CODEC
from whichloop.protocol import Act, Answer, ToolCall


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
        words = (
            "compare",
            *asked,
            "--tasks",
            "3",
            "-s",
            f"base_url={server.url}",
            "-s",
            "cassette_mode=record",
            "-s",
            "concurrency=3",
        )
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
