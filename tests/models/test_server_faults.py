"""Faults on the wire for real, as the official client meets them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from whichloop.models.profiles import Profile
from whichloop.models.server import ServedTrial, Server

from . import bench
from .served import BODY, SUBMIT, Book, exchange, failure, of, run, specs


def struck(kind: str, **more: Any) -> ServedTrial:
    """A trial whose first reply meets this fault."""
    profile = Profile.model_validate({"name": "x", "rates": {kind: 1.0}, "clears": {"never": 1}})
    return of(bench.Bench(bench.chain(1), profile, **more))


async def raw(server: Server, body: dict[str, Any], path: str = "/v1/chat/completions") -> bytes:
    """All that comes back on a plain socket until the other side ends it; a reset ends it too."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    return await exchange(server, head.encode() + data)


@pytest.mark.parametrize("stream", [False, True])
def test_a_dropped_connection_gives_no_byte(stream):
    async def work(server, asking):
        return await raw(server, BODY | {"stream": stream}), await failure(asking, stream=stream)

    got, raised = run(work, Book(any=struck("provider.dropped")))
    assert got == b"<reset>"  # not the clean end that b"" would be
    assert type(raised) is openai.APIConnectionError


def test_a_cut_body_ends_before_its_length():
    async def work(server, asking):
        got = await raw(server, BODY)
        async with httpx.AsyncClient() as plain:
            with pytest.raises(httpx.TransportError):
                await plain.post(f"{server.url}/v1/chat/completions", json=BODY)
        return got, await failure(asking)

    got, raised = run(work, Book(any=struck("provider.cut")))
    head, _, body = got.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length"))
    assert b" 200 " in head.splitlines()[0]
    assert body.startswith(b'{"id":"chatcmpl-')
    assert 0 < len(body) < length
    assert type(raised) is openai.APIConnectionError


def test_a_cut_stream_ends_after_some_chunks_and_without_its_end():
    async def work(server, asking):
        got = await raw(server, BODY | {"stream": True})
        came = []
        stream = await asking.chat.completions.create(**BODY, stream=True)
        came.append(await anext(stream))
        with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
            await anext(stream)
        return got, came

    got, came = run(work, Book(any=struck("provider.cut")))
    assert b"data: " in got
    assert b"[DONE]" not in got
    assert not got.endswith(b"0\r\n\r\n")
    assert came[0].choices[0].delta.role == "assistant"


def test_an_interrupted_stream_begins_and_ends_in_an_error():
    async def work(server, asking):
        got = await raw(server, BODY | {"stream": True})
        whole = await failure(asking)
        stream = await asking.chat.completions.create(**BODY, stream=True)
        came = [await anext(stream), await anext(stream)]
        with pytest.raises(openai.APIError, match="in the middle of the reply"):
            await anext(stream)
        return got, whole, came

    got, whole, came = run(work, Book(any=struck("provider.interrupted")))
    assert b" 200 " in got.splitlines()[0]
    assert got.endswith(b"0\r\n\r\n")  # the stream itself ends in order
    assert b"[DONE]" not in got
    assert (type(whole), whole.status_code) == (openai.InternalServerError, 500)  # a whole reply has no middle
    assert came[1].choices[0].delta.content


async def everything(asking: Any, stream: bool) -> Any:
    made = await asking.chat.completions.create(**BODY, stream=stream)
    return [chunk async for chunk in made] if stream else made


@pytest.mark.parametrize("stream", [False, True])
def test_a_garbled_reply_is_whole_and_no_json(stream):
    async def work(server, asking):
        async with httpx.AsyncClient() as plain:
            response = await plain.post(f"{server.url}/v1/chat/completions", json=BODY | {"stream": stream})
        with pytest.raises((openai.OpenAIError, ValueError)):
            await everything(asking, stream)
        return response

    response = run(work, Book(any=struck("provider.garbled")))
    assert response.status_code == 200
    text = response.text.splitlines()[0].removeprefix("data: ")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(text)


def test_in_real_time_a_time_out_is_silence():
    async def work(server, asking):
        with pytest.raises(openai.APITimeoutError):
            await asking.with_options(timeout=0.2).chat.completions.create(**BODY)

    run(work, Book(any=struck("provider.timeout", real_time=True)))


@pytest.mark.parametrize(("real_time", "simulated_s"), [(True, 0.0), (False, 0.01)])
def test_a_slow_reply_comes_all_the_same(real_time, simulated_s):
    """In real time the model has slept for it; in virtual time the trial's clock says so."""
    profile = Profile.model_validate({"name": "x", "rates": {"provider.slow": 1.0}, "slow_s": 0.01})
    trial = bench.Bench(bench.chain(1), profile, real_time=real_time)

    async def work(server, asking):
        return (await asking.chat.completions.create(**BODY, tools=specs(trial))).choices[0].finish_reason

    assert run(work, Book(any=of(trial))) == "tool_calls"
    assert trial.tunnel.simulated_s == simulated_s
    assert [fault.kind for fault in trial.tunnel.faults if fault.landed] == ["provider.slow"]


def test_the_silence_ends_some_time():
    book = Book(any=struck("provider.timeout", real_time=True))
    raised = run(lambda server, asking: failure(asking), book, hold_s=0.01)
    assert (type(raised), raised.status_code) == (openai.InternalServerError, 504)


def test_a_spoiled_reply_is_not_repaired_on_its_way():
    """What the wire did to the reply must land, even where the request forces a call."""
    served = struck("wire.empty")

    async def work(server, asking):
        made = await asking.chat.completions.create(**BODY, tools=[SUBMIT], tool_choice="required")
        return made.choices[0]

    choice = run(work, Book(any=served))
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("", None, "stop")
    assert served.tunnel.faults[0].landed
