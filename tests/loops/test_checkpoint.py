"""A checkpoint: its lines, its file, who may use it, and the conversation that it holds."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import in_turn
from tests.loops.killed_desk import Desk
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper, price
from whichloop.loops import Bare, CheckpointFile, ContextOverflow, Loop, ModelError, NativeCall
from whichloop.loops.checkpoint import CUT_OFF, NO_RESULT, Checkpoint, RunUnderWay, failure_of, json_value, reply_of
from whichloop.loops.resumable import ApprovalRequired, Resumable, failure_entry, result_entry
from whichloop.models.fake import FakeModel
from whichloop.protocol import Outcome, ProviderError, Query, Reply, Request, Tool, Toolbox, Usage, run_sync
from whichloop.protocol.moves import Act, Answer
from whichloop.protocol.tool_calls import CallId, Observation, StopRun, ToolCall

# --- lines ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers(0, 10**9)
USAGES = st.none() | st.builds(Usage, NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.none() | st.floats(0, 9))
CALLS = st.lists(st.builds(NativeCall, st.text(), st.text(), st.text()), max_size=2).map(tuple)
REPLIES = st.builds(Reply, st.text(), CALLS, USAGES, failed_attempts=st.lists(st.text(), max_size=2).map(tuple), native=JSON)
FAILURES: st.SearchStrategy[ModelError] = st.one_of(
    st.builds(ProviderError, st.text(min_size=1), st.sampled_from(["auth", "server"]), failed_attempts=st.just(("server",))),
    st.builds(ContextOverflow, st.text(min_size=1)),
)
RESULTS = st.builds(
    Observation, st.just("look"), st.sampled_from(["success", "error"]), st.text(), st.none() | st.text(), JSON, st.just("look-1")
)


@given(reply=REPLIES, failure=FAILURES, seen=RESULTS)
def test_what_a_line_says_is_what_was_recorded(reply, failure, seen):
    again = reply_of(json.loads(json.dumps(asdict(reply))))
    assert (again, again.native) == (reply, reply.native)
    stored = failure_of(json.loads(json.dumps(failure_entry(failure))))
    assert (type(stored), vars(stored), str(stored)) == (type(failure), vars(failure), str(failure))
    entry = json.loads(json.dumps(result_entry(ToolCall("look", {}, CallId("look-1")), seen)))
    observation = Observation(**entry["result"], call_id="look-1")
    assert (observation, observation.value) == (seen, seen.value)


@given(value=JSON | st.sampled_from([{1}, (1,), {1: 2}, object, float("nan")]))
def test_a_value_that_json_does_not_hold_becomes_text(value):
    kept = json_value(value)
    assert json.loads(json.dumps(kept)) == kept
    assert kept == value or isinstance(kept, str)


WRONG: list[Any] = [
    3,
    {},
    {"kind": "no"},
    {"kind": "reply", "scope": "", "request": "x", "reply": {}},
    {"kind": "result", "call": "x", "result": {"tool_name": "x", "status": "success", "data": ""}},
    {"kind": "decision", "id": "x", "approved": "yes", "reason": "", "by": ""},
    {"kind": "decision", "id": "x", "approved": True, "reason": "", "by": "", "arguments": [1]},
]


@pytest.mark.parametrize("entry", WRONG, ids=str)
def test_what_is_no_entry_is_told_with_its_place_and_its_line(entry: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"kind": "resumed"}\n' + json.dumps(entry) + "\n")
    with pytest.raises(ValueError, match=r"^entries\[1\] is no entry of a checkpoint: "):
        Checkpoint([{"kind": "resumed"}, entry])
    with pytest.raises(ValueError, match=r"run\.jsonl: line 2: "):
        CheckpointFile(path)


def test_what_is_no_file_of_a_checkpoint_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("what?\n")
    with pytest.raises(ValueError, match=r"run\.jsonl: line 1: "):
        CheckpointFile(path)
    with pytest.raises(OSError, match=str(tmp_path)):
        CheckpointFile(tmp_path)
    nowhere = Resumable(Bare(), CheckpointFile(tmp_path / "none" / "run.jsonl"))
    with pytest.raises(FileNotFoundError):
        nowhere.run_sync(Query("Pay."), Toolbox(), model := FakeModel(then=Answer("", "Done.")))
    assert model.requests == []


def test_an_entry_is_stored_when_on_entry_returns_and_one_that_would_be_stored_later_is_refused() -> None:
    async def later(entry: dict[str, Any]) -> None:
        raise AssertionError("nobody awaits it")

    model = FakeModel(then=Answer("", "Done."))
    with pytest.raises(TypeError, match="on_entry must be a plain function"), pytest.warns(RuntimeWarning, match="never awaited"):
        Resumable(Bare(), Checkpoint(on_entry=later)).run_sync(Query("Pay."), Toolbox(), model)
    assert model.requests == []


# --- the file, whatever ends the process ---


class Office:
    """Two refunds that wait for a person, over one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid = Counter[str]()

    def refund(self, order: str) -> str:
        self.paid[order] += 1
        return f"{order} is paid back"

    def model(self) -> FakeModel:
        def said(request: Request) -> Act | Answer:
            shown = "".join(message.content for message in request.messages[1:])
            left = [order for order in ("A", "Ü") if f"{order} is paid back" not in shown]
            return Act("", (ToolCall("refund", {"order": left[0]}),)) if left else Answer("", "Done.")

        return FakeModel(then=said)

    def work(self) -> Outcome[Any]:
        loop = Resumable(Bare(), CheckpointFile(self.path, needs_approval=["refund"]))
        return loop.run_sync(Query("Pay both."), Toolbox([self.refund]), self.model())

    def decided(self) -> Iterator[str]:
        """Work to the end; yield each call that a person is asked about, who lets it run."""
        while True:
            try:
                assert self.work().answer == "Done."
                return
            except ApprovalRequired:
                for waiting in CheckpointFile(self.path).pending:
                    CheckpointFile(self.path).approve(waiting)
                    yield waiting.call.arguments["order"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that ended."""
    office = Office(tmp_path_factory.mktemp("whole") / "run.jsonl")
    assert list(office.decided()) == ["A", "Ü"]
    assert office.paid == Counter("AÜ")
    assert stat.S_IMODE(office.path.stat().st_mode) == 0o600
    return office.path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(share=st.floats(0, 1))
def test_a_file_that_ends_anywhere_goes_on(whole: bytes, tmp_path: Path, share: float) -> None:
    end = int(share * len(whole))
    office = Office(tmp_path / "run.jsonl")
    office.path.write_bytes(whole[:end])
    kept = [json.loads(line) for line in whole[:end].split(b"\n")[:-1]]
    results = [entry["call"] for entry in kept if entry["kind"] == "result"]
    list(office.decided())
    assert office.paid.total() == 2 - len(results)
    assert max(office.paid.values(), default=0) <= 1
    *lines, last = office.path.read_bytes().split(b"\n")
    assert last == b""
    assert [json.loads(line) for line in lines][: len(kept)] == kept


@pytest.mark.parametrize("kind", ["guarded", "free"])
def test_a_call_during_which_the_process_was_killed_waits_or_is_made_again_with_the_same_key(kind: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "run.jsonl", is_guarded=kind == "guarded")
    command = [sys.executable, "-m", "tests.loops.killed_desk", str(desk.path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"acted\n"
        with pytest.raises(RunUnderWay, match=r"run\.jsonl is in use"):
            desk.run()
        process.kill()
    looked, paid = desk.lines()
    if kind == "guarded":
        with pytest.raises(ApprovalRequired):
            desk.run()
        (waiting,) = CheckpointFile(desk.path).pending
        assert (waiting.call.name, waiting.problem, waiting.idempotency_key) == ("pay", CUT_OFF, paid[1])
        assert desk.lines() == [looked, paid]
        CheckpointFile(desk.path).approve(waiting)
    assert desk.run() == "Done."
    assert desk.lines() == [looked, paid, ["paid", paid[1], "2"]]


def test_a_checkpoint_is_used_by_one_run_or_decision_at_a_time_and_knows_what_others_decided(tmp_path: Path) -> None:
    office = Office(tmp_path / "run.jsonl")
    with pytest.raises(ApprovalRequired):
        office.work()
    early = CheckpointFile(office.path, needs_approval=["refund"])
    (waiting,) = early.pending
    CheckpointFile(office.path).reject(waiting, "no", by="ann")
    assert early.pending  # as it was read
    refused: list[RunUnderWay] = []

    async def answering(request: Request) -> Answer:
        for again in (early, CheckpointFile(office.path)):
            with pytest.raises(RunUnderWay) as error:
                await Resumable(Bare(), again).run(Query("Pay both."), Toolbox([office.refund]), FakeModel())
            refused.append(error.value)
            with pytest.raises(RunUnderWay):
                again.approve(waiting)
        return Answer("", "Done.")

    outcome = Resumable(Bare(), early).run_sync(Query("Pay both."), Toolbox([office.refund]), FakeModel(then=answering))
    assert (outcome.answer, office.paid, len(refused)) == ("Done.", Counter(), 2)
    assert all(isinstance(one, RuntimeError) and "\n" not in str(one) for one in refused)
    assert office.work().answer == "Done."


WRITERS = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(0, 6)), min_size=1, max_size=5)
"""How many entries each of them adds, and after how many turns of the event loop it is cancelled."""


@settings(deadline=None, max_examples=cases(30))
@given(writers=WRITERS, fails=st.sets(st.integers(1, 12), max_size=3))
def test_no_entry_is_lost_whoever_is_cancelled_and_whatever_write_fails(
    writers: list[tuple[int, int | None]], fails: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`fails`: the writes that a full disk fails."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    checkpoint, synced, fsync = CheckpointFile(path), 0, os.fsync

    def syncing(file: int) -> None:
        nonlocal synced
        synced += 1
        if synced in fails:
            raise OSError("the disk is full")
        fsync(file)

    def stored(name: str) -> bool:
        return any(json.loads(line)["call"] == name for line in path.read_bytes().split(b"\n")[:-1])

    async def write(writer: int, amount: int) -> None:
        for number in range(amount):
            name, is_stored = f"{writer}-{number}", True
            try:
                await checkpoint.keep({"kind": "begun", "call": name, "tool": "look", "arguments": {}, "guarded": False})
            except OSError:
                is_stored = False
            except asyncio.CancelledError:
                is_stored = stored(name)
                raise
            finally:  # nobody goes on before it is there
                assert stored(name) == is_stored == (name in checkpoint.calls)

    async def cancel_later(task: asyncio.Task[None], turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        task.cancel()

    async def main() -> None:
        with checkpoint.held():
            tasks = [asyncio.create_task(write(number, amount)) for number, (amount, _) in enumerate(writers)]
            later = [cancel_later(task, turns) for task, (_, turns) in zip(tasks, writers, strict=True) if turns is not None]
            ended = await asyncio.gather(*tasks, *later, return_exceptions=True)
            assert {type(one) for one in ended} <= {type(None), asyncio.CancelledError}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", syncing)
        asyncio.run(main())
    assert set(checkpoint.calls) == set(CheckpointFile(path).calls)


def test_other_conversations_go_on_while_the_disk_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is at its end only once another task of the event loop has run."""
    went_on, path = threading.Event(), tmp_path / "run.jsonl"
    monkeypatch.setattr(os, "fsync", lambda file: went_on.wait(30))

    async def main() -> Any:
        run = Resumable(Bare(), CheckpointFile(path)).run(Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello.")))
        running = asyncio.create_task(run)
        while not path.exists() or not path.read_bytes():
            await asyncio.sleep(0.001)
        went_on.set()
        return await running

    assert asyncio.run(main()).answer == "Hello."


# --- the conversation ---


class Stopped(StopRun):
    """The run stops here."""


OTHERS: dict[str, Callable[[], Loop]] = {"bare, other words": lambda: Bare(instructions="Be brief."), **DESIGNS}


@pytest.mark.parametrize(("then", "first"), in_turn(OTHERS, ["bare", "finish in parallel", "phased"], whole=0))
def test_a_new_run_goes_on_from_the_conversation_with_other_prompts_and_tools(then: str, first: str) -> None:
    def stops(item: str) -> str:
        if item == "milk":
            raise Stopped
        return PRICES[item]

    before = ({"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."})
    checkpoint, asked = Checkpoint(), list[str]()
    tools = Toolbox([Tool.from_function(stops, name="price", blocking=False)])
    with pytest.raises(Stopped):
        Resumable(DESIGNS[first](), checkpoint).run_sync(Query(QUESTION, history=before), tools, Shopper())
    talk = Checkpoint(json.loads(json.dumps(checkpoint.entries))).messages
    assert [message.role for message in talk] == ["user", "assistant", "user", *["assistant", "tool"] * 2]
    assert [talk[2].content, talk[4].content, talk[6].content] == [QUESTION, PRICES["tea"], f"NoResult: {NO_RESULT}"]

    def price_of(item: str) -> str:
        asked.append(item)
        return price(item)

    new_tools = Toolbox([Tool.from_function(price_of, name="price", description="Its price.")])
    model = Shopper()
    outcome = run_sync(OTHERS[then]().run(Query("Go on.", history=talk), new_tools, model))
    assert outcome.answer == ANSWER
    assert "milk" in asked
    assert any(NO_RESULT in message.content for request in model.requests for message in request.messages)
