"""What a model shows of itself, over HTTP on loopback: everything, nothing, each thing alone; and the command that prints it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from whichloop.cli.check import check
from whichloop.models.local.model import open_model
from whichloop.models.prices import Price
from whichloop.models.probe import ProbeReport, probe
from whichloop.models.real import ABILITIES, RealOptions

from .provider import SECRET, CannedAnswer, Server, failure, serving

NAME = "openai/probed"

Rule = Callable[[dict[str, Any]], CannedAnswer]
"""What the server answers to a body."""


@pytest.fixture(autouse=True)
def key_and_folder(environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def said(text: str | None, *calls: str) -> CannedAnswer:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": '{"a": 2, "b": 3}'}}
            for i, name in enumerate(calls)
        ]
    reason = "tool_calls" if calls else "stop"
    return CannedAnswer(
        {"id": "1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": USAGE}
    )


def refused(what: str, status: int = 400) -> CannedAnswer:
    return failure(status, f"{what} is not supported")


def able(body: dict[str, Any]) -> CannedAnswer:
    """A model that can do it all."""
    if body.get("stream"):
        deltas = [{"content": "one "}, {"content": "two"}, {}]
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]} for delta in deltas]
        return CannedAnswer(None, frames=[*events, "[DONE]"])
    if "response_format" in body:
        return said('{"color": "red"}')
    if isinstance(body.get("tool_choice"), dict):
        return said(None, body["tool_choice"]["function"]["name"])
    if "tools" in body:
        return said(None, "add", "multiply") if "both" in body["messages"][-1]["content"] else said(None, "add")
    return said("ok")


def probed(rule: Rule, **options: Any) -> tuple[ProbeReport, list[dict[str, Any]]]:
    async def go(server: Server) -> ProbeReport:
        model = open_model(NAME, server.url, RealOptions(**({"attempts": 1} | options)))
        try:
            return await probe(model)
        finally:
            await model.aclose()

    with serving(lambda seen: rule(seen.body)) as server:
        return asyncio.run(go(server)), [seen.body for seen in server.seen]


def test_a_model_that_can_do_it_all_is_asked_fewer_than_ten_times():
    found, heard = probed(able, prices={NAME: Price(1, 1)})
    assert found.capabilities is not None
    assert all(getattr(found.capabilities, name) for name in ABILITIES)
    assert all(check.works for check in found.checks)
    assert len(heard) == len(found.checks) < 10
    assert all(check.seconds is not None for check in found.checks)
    usage = found.checks[0].usage
    assert usage is not None
    assert usage.total_tokens == 12
    assert usage.cost_usd == pytest.approx(12e-6)
    assert all(body["max_tokens"] <= 256 for body in heard)


def unless(able_to: Callable[[dict[str, Any]], Any], answer: CannedAnswer) -> Rule:
    """A model that gives this answer where it is asked for something."""
    return lambda body: answer if able_to(body) else able(body)


def without(field: str) -> Rule:
    return unless(lambda body: field in body, refused(field))


TOOLS = {"native_tools", "tool_choice", "parallel_calls"}


@pytest.mark.parametrize(
    ("rule", "lost", "asked"),
    [
        (without("tools"), TOOLS, 5),
        (without("response_format"), {"response_schema"}, 8),
        (without("stream"), {"streaming"}, 8),
        (without("seed"), set(), 8),
        (unless(lambda body: body.get("tool_choice") not in (None, "auto"), refused("tool_choice")), {"tool_choice"}, 8),
        (unless(lambda body: "tools" in body, said("5")), TOOLS, 8),
        (unless(lambda body: body.get("tool_choice") == "auto", said(None, "add")), {"parallel_calls"}, 8),
        (unless(lambda body: isinstance(body.get("tool_choice"), dict), said(None, "add")), {"tool_choice"}, 8),
        (unless(lambda body: "response_format" in body, said("Red.")), {"response_schema"}, 8),
        (unless(lambda body: "response_format" in body, failure(503, "busy")), {"response_schema"}, 8),
    ],
    ids=["no tools", "no schema", "no stream", "no seed", "only auto", "deaf", "one call", "wilful", "free text", "busy"],
)
def test_what_a_model_cannot_do_is_found_out(rule, lost, asked):
    found, heard = probed(rule)
    assert found.capabilities is not None
    assert {name for name in (*TOOLS, *ABILITIES) if not getattr(found.capabilities, name)} == lost
    assert len(heard) == asked
    assert all("\n" not in check.why_not for check in found.checks)
    assert all(check.works or check.why_not for check in found.checks)


def fails_when_forced(body: dict[str, Any]) -> CannedAnswer:
    """llama-cpp-python on `required`: a failure of the server, without a word."""
    failed = CannedAnswer({"error": {"message": "", "type": "internal_server_error"}}, 500)
    return failed if body.get("tool_choice") == "required" else able(body)


def test_what_a_server_fails_at_for_good_is_asked_twice_at_most_and_told_in_one_line():
    found, heard = probed(fails_when_forced, attempts=4)
    (check,) = [check for check in found.checks if check.name == "required tool"]
    assert (check.works, check.why_not) == (None, "server: HTTP 500")
    assert [body.get("tool_choice") for body in heard].count("required") == 2
    assert found.capabilities is not None
    assert found.capabilities.tool_choice


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [(401, "invalid_api_key", f"Incorrect API key: {SECRET}"), (404, "model_not_found", "no such model")],
)
def test_a_model_that_does_not_answer_is_asked_once_and_the_command_fails(status, code, message):
    answer = CannedAnswer({"error": {"message": message, "code": code}}, status)
    found, heard = probed(lambda body: answer)
    assert (found.capabilities, len(heard)) == (None, 1)
    assert message.partition(":")[0] in found.trouble
    assert SECRET not in found.trouble
    with serving(lambda seen: answer) as server:
        assert run("--base-url", server.url).exit_code == 1


# --- the command ---

app = typer.Typer()
app.command()(check)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [NAME, *arguments])


def test_the_command_prints_json_and_the_key_may_stand_in_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(lambda seen: able(seen.body)) as server:
        (tmp_path / ".env").write_text(f"OPENAI_API_KEY=from-the-file\nOPENAI_BASE_URL={server.url}\n")
        try:
            done = run("--json")
        finally:
            os.environ.pop("OPENAI_API_KEY")
            os.environ.pop("OPENAI_BASE_URL")
        assert {seen.key for seen in server.seen} == {"from-the-file"}
    found = json.loads(done.stdout)
    assert (done.exit_code, found["model"], found["answers"], found["capabilities"]["tool_choice"]) == (0, NAME, True, True)
    assert {check["name"] for check in found["checks"]} >= {"plain", "streaming", "seed"}
