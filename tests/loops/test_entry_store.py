"""What stores the entries of a checkpoint has stored an entry when it returns, or nothing acts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from tests.loops.shopper import DESIGNS
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Query, Toolbox, ToolCall

Entry = dict[str, Any]


async def stores(entry: Entry) -> None:
    raise AssertionError("nothing is to be stored by a coroutine")


def in_lines(entry: Entry) -> Iterator[None]:
    yield


async def in_turn(entry: Entry) -> AsyncIterator[None]:
    yield


class Database:
    async def put(self, entry: Entry) -> None:
        raise AssertionError("nothing is to be stored by a coroutine")

    async def __call__(self, entry: Entry) -> None:
        raise AssertionError("nothing is to be stored by a coroutine")


@pytest.mark.parametrize("wrong", [stores, partial(stores), Database().put, Database(), partial(Database())])
def test_an_async_store_is_refused_before_the_run_with_what_to_do_instead(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^on_entry is async, and its entries would be lost; write def, .* asyncio\.run_coroutine"):
        Checkpoint(on_entry=wrong)


@pytest.mark.parametrize("wrong", [in_lines, in_turn, partial(in_lines)])
def test_a_store_that_is_a_generator_function_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^on_entry is a generator function, and its entries would be lost; write def, "):
        Checkpoint(on_entry=wrong)


@pytest.mark.parametrize("wrong", [3, "store", []])
def test_a_store_that_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^on_entry: give a function that stores an entry, not "):
        Checkpoint(on_entry=wrong)


LATER: dict[str, Callable[[Entry], Any]] = {
    "coroutine": lambda entry: stores(entry),
    "Task": lambda entry: asyncio.get_running_loop().create_task(stores(entry)),
    "Future": lambda entry: asyncio.get_running_loop().create_future(),
    "Future of a thread": lambda entry: Future(),
    "generator": lambda entry: in_lines(entry),
    "async_generator": lambda entry: in_turn(entry),
}
"""Stores that return what would store an entry later."""


@pytest.mark.parametrize("kind", LATER)
@pytest.mark.parametrize("name", ["bare", "finish in parallel", "phased agent", "stateless"])
def test_a_store_that_would_store_later_ends_the_run_before_anything_acts(name: str, kind: str) -> None:
    paid: list[str] = []

    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return "paid"

    loop, model = DESIGNS[name](), FakeModel.script([ToolCall("pay", {"to": "ann"})], "Done.")
    told = rf"^on_entry returned {kind.split()[0]}, by which nothing is stored yet; write def, "
    checkpoint = Checkpoint(on_entry=LATER[kind])
    with pytest.raises(TypeError, match=told):
        Resumable(loop, checkpoint).run_sync(Query("Pay."), Toolbox([pay]), model)
    assert (paid, checkpoint.entries, len(model.requests)) == ([], [], 1)

    checkpoint = Checkpoint(needs_approval=["pay"])
    model = FakeModel.script([ToolCall("pay", {"to": "ann"})], "Done.")
    with pytest.raises(ApprovalRequired):
        Resumable(loop, checkpoint).run_sync(Query("Pay."), Toolbox([pay]), model)
    checkpoint.approve(checkpoint.pending[0])
    checkpoint.on_entry, before = LATER[kind], list(checkpoint.entries)
    with pytest.raises(TypeError, match=told):
        Resumable(loop, checkpoint).run_sync(Query("Pay."), Toolbox([pay]), model)
    assert (paid, checkpoint.entries) == ([], before)
    checkpoint.on_entry = None
    assert Resumable(loop, checkpoint).run_sync(Query("Pay."), Toolbox([pay]), model).answer == "Done."
    assert paid == ["ann"]
