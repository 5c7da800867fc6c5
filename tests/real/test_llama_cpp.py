"""Our path to real models against an inference server that others wrote: whatever it says, in whatever form, is taken or told.

The model has random weights, so no test says what a reply is; each says what must hold for any reply. The server is llama.cpp's,
which drops tools where the model's template has no place for them. What is held to a grammar: `test_small_model.py`.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange
from whichloop.models.local.model import open_model
from whichloop.models.probe import MAX_TOKENS, probe
from whichloop.models.real import RealModel, RealOptions
from whichloop.protocol import (
    Chunk,
    ContextOverflow,
    Message,
    NativeCall,
    Request,
    StopReason,
    ToolSpec,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig, ProviderConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.registry import make_loop
from whichloop.runs.store.trials import read_records, read_trace

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NAME = "openai/tiny"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
CONTEXT = 24_576
"""Tokens of context, nearly one per character: room for every loop's longest prompt."""
SMALL = 2048
"""Tokens of context that no loop's prompt fits into."""
HELLO = (Message("user", "hello"),)
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"sign": {"enum": ["+", "-"]}, "value": {"type": "integer"}, "is_exact": {"type": "boolean"}},
    "required": ["sign", "value", "is_exact"],
    "additionalProperties": False,
}
ROUND = ToolSpec("round", "Round a number.", SCHEMA)
PATIENT = ProviderConfig(call_timeout_s=120, attempts=3)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal or a page would obey. Tabs and line ends are for tables."""

Value = TypeVar("Value")


@pytest.fixture(scope="module")
def server(start):
    with start(CONTEXT) as running:
        yield running


@pytest.fixture(scope="module")
def small(start):
    with start(SMALL) as running:
        yield running


def with_model(server, use: Callable[[RealModel], Awaitable[Value]], model: RealModel | None = None) -> Value:
    """What `use` gives of a model that is open meanwhile."""
    model = model or open_model(NAME, server.url, RealOptions(call_timeout_s=120))

    async def used() -> Value:
        try:
            return await use(model)
        finally:
            await model.aclose()

    return asyncio.run(used())


def ask(server, request: Request, model: RealModel | None = None):
    return with_model(server, lambda model: model.complete(request), model)


# --- one reply ---


def test_a_plain_reply_is_counted_by_the_server(server):
    reply = ask(server, Request(HELLO))
    longer = ask(server, Request((Message("user", "hello " * 20),)))
    assert reply.finish_reason in ("stop", "length")
    assert reply.calls == ()
    assert reply.usage is not None
    assert longer.usage is not None
    assert not reply.usage.estimated
    assert reply.usage.input_tokens > 0
    assert longer.usage.input_tokens > reply.usage.input_tokens
    assert reply.usage.cost_usd is None


@pytest.mark.parametrize("text", ["", "I add."])
def test_a_turn_of_native_calls_and_results_can_be_shown_again(server, text):
    turn = (
        Message("assistant", text, (NativeCall("1", ROUND.name, '{"sign": "+", "value": 1, "is_exact": true}'),)),
        Message("tool", "1", call_id="1"),
    )
    assert ask(server, Request((*HELLO, *turn), (ROUND,))).usage is not None


# --- streams ---


def streamed(server, request: Request, model: RealModel | None = None) -> list[Chunk]:
    async def read(model: RealModel) -> list[Chunk]:
        return [chunk async for chunk in model.stream(request)]

    return with_model(server, read, model)


def test_streamed_text_comes_in_pieces_and_then_whole(server):
    seen = [streamed(server, Request((Message("user", f"hello {n}"),))) for n in range(5)]
    for chunks in seen:
        *pieces, last = chunks
        assert last.reply is not None
        assert all(piece.reply is None for piece in pieces)
        assert "".join(chunk.text for chunk in chunks) == last.reply.text
        assert last.reply.finish_reason in ("stop", "length")
    assert max(map(len, seen)) > 3


# --- too long ---

LONG = (Message("user", "x " * SMALL),)


def test_a_request_beyond_the_context_is_told_apart(small):
    with pytest.raises(ContextOverflow, match=f"exceeds the available context size \\({SMALL} tokens\\)"):
        ask(small, Request(LONG))
    assert ask(small, Request(HELLO)).usage is not None


# --- what it can do ---


def test_the_probe_says_what_this_server_can_do_each_in_one_line(server):
    """A model of noise shows what the server makes it say, and no more."""
    found = with_model(server, probe)
    assert found.capabilities is not None
    checks = {check.name: check for check in found.checks}
    assert all("\n" not in check.why_not and (check.works or check.why_not) for check in found.checks)
    assert [name for name in ("plain", "streaming", "seed") if not checks[name].works] == []
    assert not found.capabilities.tool_choice
    assert all(check.usage.output_tokens < 2 * MAX_TOKENS for check in found.checks if check.usage is not None)


# --- whole runs ---


def run(runs: Path, server, **changes: Any) -> Path:
    """The folder of a comparison through the Python API."""
    values: dict[str, Any] = {"loops": LOOPS, "models": (NAME,), "base_url": server.url, "provider": PATIENT, "tasks": 2}
    values |= {"concurrency": 4, "trial_timeout_s": 600.0, "mlflow": False, "runs": runs} | changes
    experiment = prepare(CompareConfig(**values))
    assert compare.run(experiment, Unwatched()) == ""
    return experiment.folder


@pytest.fixture(scope="module")
def finished(server, tmp_path_factory) -> Path:
    """A run of all five designs on the real server."""
    return run(tmp_path_factory.mktemp("finished") / "runs", server)


def check(records: list[Record], tasks: int) -> None:
    """What must hold whatever the server said."""
    assert sorted({record.arm.partition("/")[0] for record in records}) == sorted(LOOPS)
    assert len(records) == len(LOOPS) * tasks
    for record in records:
        loop = make_loop(parse_spec(record.arm.partition("/")[0]))
        if record.status == "errored":
            assert record.reason.startswith("provider: ")
        else:
            assert record.status == "scored"
            assert record.stop is not None
            assert StopReason(record.stop) in loop.stops - {StopReason.CRASHED, StopReason.TIMEOUT}
        assert record.lm_calls > 0


def test_noise_ends_all_five_designs_in_a_stop_of_theirs(finished):
    records = list(read_records(finished))
    check(records, 2)
    assert [record.reason for record in records if record.status == "errored"] == []
    for record in records:
        assert record.input_tokens > 0
        assert not record.tokens_estimated
        assert record.cost_usd is None


def test_a_context_too_small_is_the_loops_to_deal_with(small, tmp_path):
    records = list(read_records(run(tmp_path / "runs", small, tasks=1)))
    check(records, 1)
    assert "context_overflow" in {record.stop for record in records}


def whichloop(*arguments: str | Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "whichloop", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode in (0, 4), done.stderr.decode()
    return done.stdout.decode()


def test_noise_is_shown_and_does_nothing(finished):
    records = list(read_records(finished))
    said = "".join(
        event.reply or "" for record in records for event in read_trace(finished, record).events if isinstance(event, ModelExchange)
    )
    assert CONTROL.search(said)
    assert "</td>" in said
    trials = {record.arm: f"{record.arm}/{record.task}/{record.repeat}" for record in records}
    shown = [whichloop("show", finished, trial, "--full") for trial in trials.values()]
    for text in (*shown, whichloop("report", finished), whichloop("report", finished, "--format", "md")):
        assert CONTROL.findall(text) == []
    table = whichloop("report", finished, "--format", "csv")
    assert CONTROL.findall(table) == []
    rows = list(csv.reader(io.StringIO(table)))
    assert len(rows) == 1 + len(LOOPS)
    assert len({len(row) for row in rows}) == 1
    assert [cell for row in rows for cell in row if re.match(r"[=+@]|-(?!\d)", cell)] == []
    assert len(json.loads(whichloop("report", finished, "--json"))["arms"]) == len(LOOPS)


def test_the_key_is_in_no_file(finished, server, key):
    files = [server.log, *(path for path in finished.rglob("*") if path.is_file())]
    assert len(files) > 2
    assert [path for path in files if key.encode() in path.read_bytes()] == []


def test_a_server_that_falls_silent_is_no_failure_of_the_loop(server, tmp_path):
    changes = {"loops": ("bare",), "tasks": 1, "provider": ProviderConfig(call_timeout_s=8, attempts=1)}
    with server.silent():
        folder = run(tmp_path / "runs", server, **changes)
    (record,) = read_records(folder)
    assert (record.status, record.errors, record.scores) == ("errored", {"provider.timeout": 1}, {})
    assert record.reason.startswith("provider: ")
    again = reopen(folder, Permissions(base_url=server.url))
    assert compare.run(again, Unwatched()) == ""
    (record,) = read_records(folder)
    assert (record.status, record.attempt) == ("scored", 1)


def test_a_recorded_run_comes_out_the_same_without_the_server(start, tmp_path, connected, key):
    cassette = tmp_path / "cassette"
    with start(CONTEXT) as own:
        first = results(run(tmp_path / "first", own, tasks=1, cassette=cassette, cassette_mode="record"))
    before = len(connected)
    assert before > 0
    again = results(run(tmp_path / "again", own, tasks=1, cassette=cassette, cassette_mode="replay"))
    assert connected[before:] == []
    assert again.digest == first.digest
    assert len(again.records) == len(LOOPS)
    written = [path for path in cassette.rglob("*") if path.is_file()]
    assert written != []
    assert [path for path in written if key.encode() in path.read_bytes()] == []
