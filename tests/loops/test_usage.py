"""What an outcome says that its run took, how the replies of a function stream, and the ids of calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.loops.helpers import Heard, in_turn
from tests.loops.shopper import QUESTION, Shopper, price
from tests.loops.test_resumable import DESIGNS
from whichloop.loops import Bare, CallDelta, Checkpoint, Finish, ProviderRetry, Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Outcome, Query, Reply, RunEvent, StopRun, Toolbox, ToolCall, Usage, run_sync
from whichloop.protocol.chat import reply_of_pieces
from whichloop.protocol.events import ReplyChunk, ReplyReceived, RequestStarted, RunEnded, ToolFinished
from whichloop.protocol.model import FunctionModel, ProviderError, Request
from whichloop.protocol.moves import Act, Answer
from whichloop.protocol.outcome import RunUsage


class Counted(Shopper):
    """A shopper whose client tells what each reply took, or nothing."""

    def __init__(self, tells: bool, spoiled: int | None = 3) -> None:
        super().__init__(spoiled)
        self.tells = tells

    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        usage = Usage(len(str(request.messages)), len(reply.text), cost_usd=0.25) if self.tells else None
        return Reply(reply.text, reply.calls, usage)


def told(events: list[RunEvent]) -> RunUsage:
    """The sum of what events tell."""
    replies = [event.reply for event in events if isinstance(event, ReplyReceived)]
    tokens = None
    for reply in replies:
        if reply.usage is not None:
            tokens = reply.usage if tokens is None else tokens + reply.usage
    return RunUsage(
        sum(isinstance(event, RequestStarted) for event in events),
        sum(isinstance(event, ToolFinished) for event in events),
        tokens,
        sum(reply.usage is None for reply in replies),
    )


@pytest.mark.parametrize(("name", "tells"), in_turn(DESIGNS, [True, False]))
def test_the_usage_of_an_outcome_is_the_sum_of_its_events(name: str, tells: bool) -> None:
    heard = Heard(streams=tells)
    outcome: Outcome[Any] = run_sync(DESIGNS[name].run(Query(QUESTION), Toolbox([price]), Counted(tells), heard))
    assert outcome.usage == told(heard.events)
    assert outcome.usage.requests > 0
    assert (outcome.usage.tokens is not None) is tells
    alone: Outcome[Any] = run_sync(DESIGNS[name].run(Query(QUESTION), Toolbox([price]), Counted(tells)))
    assert alone.usage == outcome.usage
    last = heard.events[-1]
    assert isinstance(last, RunEnded)
    assert last.as_dict()["usage"] == outcome.usage.as_dict()


def test_each_attempt_is_a_request_and_one_that_fails_has_no_tokens() -> None:
    model = FakeModel(ProviderError("busy", "rate_limit"), Act("", (ToolCall("prise", {}),)), Answer("", "1.5"))
    usage = ProviderRetry(Bare()).run_sync(Query(QUESTION), Toolbox([price]), model).usage
    assert usage is not None
    assert (usage.requests, usage.tool_calls, usage.uncounted) == (3, 0, 0)
    assert usage.total_tokens == (usage.input_tokens or 0) + (usage.output_tokens or 0) > 0
    nothing = RunUsage(1, 0, None, 1)
    assert (nothing.input_tokens, nothing.output_tokens, nothing.total_tokens, nothing.cost_usd) == (None,) * 4
    assert nothing.as_dict() == {"requests": 1, "tool_calls": 0, "uncounted": 1}


def test_a_run_that_was_taken_up_has_the_usage_of_the_whole_run() -> None:
    class Stopped(StopRun):
        """The run stops here."""

    moves: list[Act | Answer] = [Act("", (ToolCall("price", {"item": "tea"}),)), Answer("", "Done.")]
    whole = Bare().run_sync(Query(QUESTION), Toolbox([price]), FakeModel(*moves))
    checkpoint = Checkpoint()
    with pytest.raises(Stopped):
        Resumable(Bare(), checkpoint).run_sync(Query(QUESTION), Toolbox([price]), FakeModel(moves[0], Stopped()))
    again = Resumable(Bare(), checkpoint).run_sync(Query(QUESTION), Toolbox([price]), FakeModel(moves[1]))
    assert (again.usage, again.messages) == (whole.usage, whole.messages)


# --- a function whose reply streams ---


class Bill(BaseModel):
    total: int


PIECES = ['{"final_', 'answer": ', '"Two."}']


async def in_pieces(request: Request) -> AsyncIterator[str]:
    for piece in PIECES:
        yield piece


async def with_usage(request: Request) -> AsyncIterator[str | Reply]:
    for piece in PIECES:
        yield piece
    yield Reply("".join(PIECES), usage=Usage(7, 3))


def whole(request: Request) -> str:
    return "".join(PIECES)


async def whole_reply(request: Request) -> Reply:
    return Reply("".join(PIECES), usage=Usage(7, 3))


async def with_usage_alone(request: Request) -> AsyncIterator[str | Reply]:
    for piece in PIECES:
        yield piece
    yield Reply(usage=Usage(6, 4))


@pytest.mark.parametrize(
    ("function", "pieces", "tokens"),
    [
        (in_pieces, PIECES, None),
        (with_usage, PIECES, 10),
        (with_usage_alone, PIECES, 10),
        (lambda request: in_pieces(request), PIECES, None),
        (whole, ["".join(PIECES)], None),
        (whole_reply, ["".join(PIECES)], 10),
    ],
)
def test_the_pieces_that_a_function_yields_are_those_that_are_told(
    function: Callable[[Request], Any], pieces: list[str], tokens: int | None
) -> None:
    for streams in (True, False):
        heard = Heard(streams)
        outcome = Bare().run_sync(Query("How many?"), Toolbox(), FunctionModel(function), heard)
        assert outcome.usage is not None
        assert (outcome.answer, outcome.usage.total_tokens) == ("Two.", tokens)
        texts = [event.as_dict()["text"] for event in heard.events if isinstance(event, ReplyChunk)]
        assert texts == (pieces if streams else [])


def test_calls_stream_in_pieces_too_and_a_hook_reads_them() -> None:
    async def calling(request: Request) -> AsyncIterator[CallDelta | str]:
        yield "So. "
        yield CallDelta(0, "c", "__finish__")
        yield CallDelta(0, arguments='{"total"')
        yield CallDelta(0, arguments=": 7}")

    heard, partial = Heard(streams=True), list[Any]()
    loop = Finish(max_steps=2, on_stream=lambda chunk: partial.append(chunk.partial))
    outcome = loop.run_sync(Query("How much?", schema=Bill), Toolbox(), FunctionModel(calling), heard)
    assert outcome.answer == Bill(total=7)
    assert any(partial)
    pieces = [event.chunk for event in heard.events if isinstance(event, ReplyChunk)]
    (received,) = [event.reply for event in heard.events if isinstance(event, ReplyReceived)]
    assert reply_of_pieces("".join(one.text for one in pieces), [one.call for one in pieces if one.call is not None]) == received


# --- types of events ---


def test_attempts_that_the_client_makes_by_itself_are_requests_in_success_and_failure() -> None:
    """Of two requests, the first is sent three times until it has its reply; the provider refuses the other after two attempts."""
    failures = ("server", "overloaded")
    first = Reply('{"thought": "", "tool_calls": []}', failed_attempts=failures)
    outcome = Bare().run_sync(
        Query(QUESTION), Toolbox([price]), FakeModel(first, ProviderError("down", failed_attempts=failures[:1]))
    )
    assert outcome.usage is not None
    assert outcome.usage.requests == 3 + 2
    assert outcome.details["exception"].is_transient


# --- the ids of calls in events, and what is told of a call that cannot be made ---
