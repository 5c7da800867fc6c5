"""A missing `await` is told by the exception that came of it, and leaves no warning behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from whichloop.protocol.missing_await import missing_await

pytestmark = pytest.mark.filterwarnings("error")


async def asked() -> str:
    return "8"


async def by_attribute() -> object:
    reply: Any = asked()
    told = "one more line"
    return told + reply.text


async def by_index() -> object:
    reply: Any = asked()
    return reply[0]


async def within_another() -> object:
    first: Any = await asked()
    second: Any = asked()
    return len(first) + used(second)


def used(reply: Any) -> int:
    return len(reply)


async def at_once() -> object:
    reply: Any = asked
    return reply().text


@pytest.mark.parametrize(("run", "line"), [(by_attribute, 1), (by_index, 1), (within_another, 2), (at_once, 2)])
def test_the_line_of_the_call_is_told_and_the_coroutine_closed(run: Callable[[], Coroutine[Any, Any, object]], line: int) -> None:
    with pytest.raises((AttributeError, TypeError)) as caught:
        asyncio.run(run())
    at = f"tests/protocol/test_missing_await.py:{run.__code__.co_firstlineno + line}"
    assert missing_await(caught.value) == missing_await(caught.value) == f"an await is missing before asked(…) at {at}"
    del caught
    gc.collect()


def test_a_coroutine_that_a_run_returns_is_told_and_closed() -> None:
    assert missing_await(asked()) == "an await is missing before asked(…), whose coroutine was returned"
    assert missing_await("8") == ""
    gc.collect()


def test_other_exceptions_tell_of_none() -> None:

    for error in (KeyError("coroutine"), TypeError("'int' object is not iterable"), AttributeError("no coroutine here")):
        assert missing_await(error) == ""
    assert missing_await(TypeError("a coroutine of nobody's")) == ""


async def gathered() -> object:
    job = asked()
    return await asyncio.gather(job, None)  # type: ignore[call-overload]


async def spoken_of() -> object:
    job = asyncio.ensure_future(asked())
    try:
        raise TypeError("no coroutine function was given")
    finally:
        assert await job == "8"


@pytest.mark.parametrize(("run", "words"), [(gathered, "is required"), (spoken_of, "was given")])
@pytest.mark.filterwarnings("ignore:coroutine 'asked' was never awaited")
def test_an_exception_that_only_speaks_of_coroutines_keeps_its_words(run: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        asyncio.run(run())
    assert missing_await(caught.value) == ""
