"""What a model shows of itself, over HTTP on loopback: everything, nothing, each thing alone; and the command that prints it."""

from __future__ import annotations

import asyncio
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
        (unless(lambda body: "tools" in body, said("5")), TOOLS, 8),
        (unless(lambda body: body.get("tool_choice") == "auto", said(None, "add")), {"parallel_calls"}, 8),
        (unless(lambda body: isinstance(body.get("tool_choice"), dict), said(None, "add")), {"tool_choice"}, 8),
        (unless(lambda body: "response_format" in body, said("Red.")), {"response_schema"}, 8),
    ],
    ids=["no tools", "no schema", "deaf", "one call", "wilful", "free text"],
)
def test_what_a_model_cannot_do_is_found_out(rule, lost, asked):
    found, heard = probed(rule)
    assert found.capabilities is not None
    assert {name for name in (*TOOLS, *ABILITIES) if not getattr(found.capabilities, name)} == lost
    assert len(heard) == asked
    assert all("\n" not in check.why_not for check in found.checks)
    assert all(check.works or check.why_not for check in found.checks)


def test_a_model_that_does_not_answer_is_asked_once_and_the_command_fails():
    message = f"Incorrect API key: {SECRET}"
    answer = CannedAnswer({"error": {"message": message, "code": "invalid_api_key"}}, 401)
    found, heard = probed(lambda body: answer)
    assert (found.capabilities, len(heard)) == (None, 1)
    assert message.partition(":")[0] in found.trouble
    assert SECRET not in found.trouble
    with serving(lambda seen: answer) as server:
        assert run("--base-url", server.url).exit_code == 1


app = typer.Typer()
app.command()(check)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [NAME, *arguments])
