"""A checkpoint in a file: whatever is left of it when a process ends is taken up, by one process at a time."""

from __future__ import annotations

import json
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired
from whichloop.loops.checkpoints.checkpoint_file import CheckpointFile, _end_of_lines
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Outcome, Query, Request, Toolbox, ToolCall, run_sync


class Desk:
    """Two refunds that wait for a person, over one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid = Counter[str]()

    def refund(self, order: str) -> str:
        """Give money back."""
        self.paid[order] += 1
        return f"{order} is paid back"

    def model(self) -> FakeModel:
        def said(request: Request) -> Act | Answer:
            shown = "".join(message.content for message in request.messages[1:])
            left = [order for order in ("A", "Ü") if f"{order} is paid back" not in shown]
            return Act("", (ToolCall("refund", {"order": left[0]}),)) if left else Answer("", "Done.")

        return FakeModel(then=said)

    def checkpoint(self) -> CheckpointFile:
        return CheckpointFile(self.path, needs_approval=["refund"])

    def work(self) -> Outcome[Any]:
        return Resumable(Bare(), self.checkpoint()).run_sync(Query("Pay both."), Toolbox([self.refund]), self.model())

    def work_to_the_end(self) -> int:
        """Return how many decisions a person has to make until the run ends."""
        decisions = 0
        while True:
            try:
                assert self.work().answer == "Done."
                return decisions
            except ApprovalRequired:
                for waiting in CheckpointFile(self.path).pending:
                    CheckpointFile(self.path).approve(waiting)
                    decisions += 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that ended."""
    desk = Desk(tmp_path_factory.mktemp("whole") / "run.jsonl")
    assert desk.work_to_the_end() == 2
    assert desk.paid == Counter("AÜ")
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o600
    return desk.path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(share=st.floats(0, 1))
def test_a_file_that_ends_anywhere_is_taken_up(whole: bytes, tmp_path: Path, share: float) -> None:
    end = int(share * len(whole))
    desk = Desk(tmp_path / "run.jsonl")
    desk.path.write_bytes(whole[:end])
    kept = [json.loads(line) for line in whole[:end].split(b"\n")[:-1]]
    results = [entry["call"] for entry in kept if entry["kind"] == "result"]
    desk.work_to_the_end()
    assert desk.paid.total() == 2 - len(results)
    assert max(desk.paid.values(), default=0) <= 1
    lines = desk.path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines][: len(kept)] == kept


def test_one_process_at_a_time_carries_a_run_out_and_knows_what_others_have_decided(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "run.jsonl")
    with pytest.raises(ApprovalRequired):
        desk.work()
    early = desk.checkpoint()
    CheckpointFile(desk.path).reject(early.pending[0], "no", by="ann")
    assert early.pending  # as it was read
    refused: list[str] = []

    def refund(order: str) -> str:
        """Give money back."""
        raise AssertionError("a person refused it")

    async def answering(request: Request) -> Answer:
        try:
            await Resumable(Bare(), desk.checkpoint()).run(Query("Pay both."), Toolbox([refund]), FakeModel())
        except RuntimeError as error:
            refused.append(str(error))
        return Answer("", "Done.")

    outcome = Resumable(Bare(), early).run_sync(Query("Pay both."), Toolbox([refund]), FakeModel(then=answering))
    assert outcome.answer == "Done."
    assert refused == [f"the run of {desk.path} is under way elsewhere: let it end"]
    assert run_sync(Resumable(Bare(), desk.checkpoint()).run(Query("Pay both."), Toolbox([refund]), FakeModel())).answer == "Done."


def test_what_is_no_checkpoint_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("what?\n")
    with pytest.raises(ValueError, match=r"run\.jsonl: line 1 is no JSON: b'what\?"):
        CheckpointFile(path)
    path.write_text('{"kind": "no"}\n')
    with pytest.raises(ValueError, match=r"run\.jsonl: entries\[0\] is no entry of a checkpoint"):
        CheckpointFile(path)
    with pytest.raises(IsADirectoryError):
        CheckpointFile(tmp_path)
    nowhere = Resumable(Bare(), CheckpointFile(tmp_path / "none" / "run.jsonl"))
    with pytest.raises(FileNotFoundError):
        nowhere.run_sync(Query("Pay."), Toolbox(), model := FakeModel(then=Answer("", "Done.")))
    assert model.requests == []


@given(text=st.text("ab\n", max_size=40), step=st.integers(1, 8))
def test_the_end_of_the_last_whole_line_is_found_however_much_is_read_at_once(
    text: str, step: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_text(text)
    with path.open("rb") as file:
        assert _end_of_lines(file.fileno(), len(text), step) == text.rfind("\n") + 1


def test_a_folder_is_no_checkpoint_and_the_error_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"is a folder; give the path of a file in it, such as .*run\.jsonl$"):
        CheckpointFile(tmp_path)
