"""A process that dies while a tool is at work: `python -m tests.loops.killed_desk PATH guarded|free`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from whichloop import current_call
from whichloop.loops import Bare, CheckpointFile, Query, Resumable, Toolbox
from whichloop.models.fake import FakeModel
from whichloop.protocol import Outcome, ToolCall

CALLS = [ToolCall("look", {"order": "A"}), ToolCall("pay", {"order": "A"})]


class Desk:
    """Two tools that write down each call that acts, with its key and attempt; the first payment hangs after it has acted."""

    def __init__(self, path: Path, *, is_guarded: bool) -> None:
        self.path = path
        self.acted = path.with_suffix(".acted")
        self.needs_approval = {"pay": lambda arguments: False} if is_guarded else {}

    def look(self, order: str) -> str:
        return self._act("looked")

    def pay(self, order: str) -> str:
        self._act("paid")
        if current_call().attempt == 1:
            print("acted", flush=True)
            time.sleep(600)
        return "paid"

    def _act(self, what: str) -> str:
        with self.acted.open("a") as file:
            file.write(f"{what} {current_call().idempotency_key} {current_call().attempt}\n")
        return what

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.acted.read_text().splitlines()]

    def run(self, *calls: ToolCall) -> str | None:
        checkpoint = CheckpointFile(self.path, needs_approval=self.needs_approval)
        tools = Toolbox([self.look, self.pay])
        outcome: Outcome[str] = Resumable(Bare(), checkpoint).run_sync(Query("Pay A."), tools, FakeModel.script(calls, "Done."))
        return outcome.answer


if __name__ == "__main__":
    Desk(Path(sys.argv[1]), is_guarded=sys.argv[2] == "guarded").run(*CALLS)
