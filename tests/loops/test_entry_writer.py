"""Entries of a checkpoint file are written beside the event loop: in order, each before the run goes on, whoever is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops import CheckpointFile
from whichloop.loops.bare import Bare
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Answer, Query, Toolbox, run_sync

Entry = dict[str, Any]


def entry(writer: int, number: int) -> Entry:
    return {"kind": "begun", "call": f"{writer}-{number}"}


def lines(path: Path) -> list[Entry]:
    """The entries of a file; a line without an end is one that is just being written."""
    *whole, _ = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]


WRITERS = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(0, 6)), min_size=1, max_size=5)
"""How many entries each of them adds, and after how many turns of the event loop it is cancelled."""


@settings(deadline=None, max_examples=cases(30))
@given(writers=WRITERS, fails=st.sets(st.integers(1, 12), max_size=3), everything_after=st.none() | st.integers(0, 8))
def test_no_entry_is_lost_or_changes_its_place_whoever_is_cancelled_and_whatever_write_fails(
    writers: list[tuple[int, int | None]],
    fails: set[int],
    everything_after: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """`fails`: the writes that a full disk fails. `everything_after`: turns after which all tasks are cancelled, as at an exit."""
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    checkpoint, synced, failed = CheckpointFile(path), 0, list[Entry]()
    fsync = os.fsync

    def syncing(file: int) -> None:
        nonlocal synced
        synced += 1
        if synced in fails:
            raise OSError("the disk is full")
        fsync(file)

    async def write(writer: int, amount: int) -> None:
        for number in range(amount):
            made = entry(writer, number)
            try:
                await checkpoint.keep(made)
            except OSError:
                assert made not in lines(path)
                failed.append(made)
            except asyncio.CancelledError:
                assert made in lines(path)  # nobody goes on before it is there
                raise
            else:
                assert made in lines(path)

    async def cancel_later(task: asyncio.Task[None], turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        task.cancel()

    async def main() -> None:
        with checkpoint.running():
            tasks = [asyncio.create_task(write(number, amount)) for number, (amount, _) in enumerate(writers)]
            later = [cancel_later(task, turns) for task, (_, turns) in zip(tasks, writers, strict=True) if turns is not None]
            if everything_after is not None:
                later += [cancel_later(task, everything_after) for task in tasks]
            ended = await asyncio.gather(*tasks, *later, return_exceptions=True)
            assert {type(one) for one in ended} <= {type(None), asyncio.CancelledError}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", syncing)
        asyncio.run(main())
    assert lines(path) == checkpoint.entries == CheckpointFile(path).entries
    assert not [one for one in failed if one in checkpoint.entries]
    for writer in range(len(writers)):
        own = [one["call"] for one in checkpoint.entries if one["call"].startswith(f"{writer}-")]
        assert own == sorted(own)


def test_other_conversations_go_on_while_the_disk_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is at its end only once another task of the event loop has run."""
    went_on = threading.Event()

    def slow(file: int) -> None:
        assert went_on.wait(30)

    monkeypatch.setattr(os, "fsync", slow)

    async def main() -> Any:
        running = asyncio.create_task(
            Resumable(Bare(), CheckpointFile(tmp_path / "run.jsonl")).run(
                Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello."))
            )
        )
        while not (tmp_path / "run.jsonl").exists() or not (tmp_path / "run.jsonl").read_bytes():
            await asyncio.sleep(0.001)
        went_on.set()
        return await running

    assert asyncio.run(main()).answer == "Hello."


def test_a_synchronous_caller_writes_on_its_own_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(os, "fsync", lambda file: threads.append(threading.current_thread()))
    loop = Resumable(Bare(), CheckpointFile(tmp_path / "run.jsonl"))
    assert loop.run_sync(Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello."))).ok
    assert threads == [threading.current_thread()]


def test_a_decision_by_the_same_checkpoint_keeps_what_is_still_to_be_written(tmp_path: Path) -> None:
    checkpoint = CheckpointFile(tmp_path / "run.jsonl")
    waiting = {"kind": "pending", "call": "a", "tool": "pay", "arguments": {}}

    async def main() -> None:
        with checkpoint.running():
            await checkpoint.keep(waiting)
            under_way = [asyncio.create_task(checkpoint.keep(entry(0, number))) for number in range(5)]
            await asyncio.sleep(0)
            checkpoint.approve("a")
            await asyncio.gather(*under_way)

    asyncio.run(main())
    kept = {json.dumps(one) for one in checkpoint.entries}
    assert kept == {json.dumps(one) for one in lines(checkpoint.path)}
    assert len(checkpoint.entries) == len(lines(checkpoint.path)) == 7


def test_a_run_of_many_conversations_has_all_their_files_whole(tmp_path: Path) -> None:
    async def converse(number: int) -> None:
        loop = Resumable(Bare(), CheckpointFile(tmp_path / f"{number}.jsonl"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.002 * number):
                await loop.run(Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello.")))

    async def main() -> None:
        await asyncio.gather(*(converse(number) for number in range(20)))
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    for number in range(20):
        loop = Resumable(Bare(), CheckpointFile(tmp_path / f"{number}.jsonl"))
        assert run_sync(loop.run(Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello.")))).ok
