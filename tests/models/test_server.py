"""The server on a real socket: the official client and LiteLLM unmodified, faults on the wire, and who may ask at all."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.models.fake import FakeModel
from loopbench.models.native import NATIVE
from loopbench.models.profiles import Profile
from loopbench.models.scripted import PROVIDER_FAULTS
from loopbench.models.server import MAX_BODY_BYTES, OwnRequest, ServedTrial, Server, UnknownModel, WrongMethod, own_hosts
from loopbench.models.tunnel import Tunnel
from loopbench.models.wires.chat import ChatRequest
from loopbench.protocol import ContextOverflow, Message, ModelError, ProviderError, Reply, Request, ToolCall, Usage

from . import bench

QUESTION = "What comes out?"
BODY = {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}]}
SUBMIT = {
    "type": "function",
    "function": {
        "name": "submit",
        "parameters": {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]},
    },
}


class Book:
    """Trials by name; those that nobody named get `None`'s."""

    def __init__(self, **served: ServedTrial) -> None:
        self.served = served
        self.asked: list[ChatRequest] = []

    def models(self) -> list[str]:
        return ["scripted", "scripted/flaky-tools"]

    def find(self, trial: str | None, asked: ChatRequest) -> ServedTrial:
        self.asked.append(asked)
        if asked.model not in self.models():
            raise UnknownModel(f"The model '{asked.model}' does not exist.")
        if (trial or "any") not in self.served:
            raise LookupError(f"No trial '{trial}'.")
        return self.served[trial or "any"]


def fixed(said: Reply | Exception) -> ServedTrial:
    """A trial whose model always says, or raises, the same."""
    return ServedTrial(FakeModel(then=said), Tunnel())


def of(trial: Any, **changes: Any) -> ServedTrial:
    """A bench's trial as the server has it."""
    return ServedTrial(trial.scripted, trial.tunnel, {"native": NATIVE}, **changes)


def run(work: Callable[[Server, Any], Coroutine[Any, Any, Any]], book: Book, **server: Any) -> Any:
    """Open a server, an official client of its, do the work."""

    async def whole() -> Any:
        async with Server(book, **server) as opened, client(opened) as asking:
            return await work(opened, asking)

    return asyncio.run(whole())


def client(server: Server, trial: str = "") -> openai.AsyncOpenAI:
    base = f"{server.url}/t/{trial}/v1" if trial else f"{server.url}/v1"
    return openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0, timeout=30)


def specs(trial: Any) -> list[Any]:
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in trial.toolbox.specs
    ]


async def whole_loop(asking: Any, trial: Any, **more: Any) -> Any:
    """A while loop as anyone writes it, on the official client and the trial's tools; gives the last message."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(9):
        made = await asking.chat.completions.create(model="scripted", messages=messages, tools=specs(trial), **more)
        message = made.choices[0].message
        if not message.tool_calls:
            return message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            seen = await trial.toolbox.call(trial_call(call))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": seen.data})
    return None


def trial_call(call: Any) -> Any:
    return ToolCall(call.function.name, json.loads(call.function.arguments), call.id)


# --- the official client ---


def test_the_official_client_goes_through_a_whole_trial():
    trial = bench.Bench(bench.chain(3))
    message = run(lambda server, asking: whole_loop(asking, trial), Book(any=of(trial)))
    assert message.content == trial.expected
    assert trial.tunnel.unknown == ()


def test_a_reply_has_what_the_client_wants_to_know():
    trial = bench.Bench(bench.chain(1))

    async def work(server, asking):
        return await asking.chat.completions.create(**BODY, tools=specs(trial))

    made = run(work, Book(any=of(trial)))
    (call,) = made.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 1, "b": 1})
    assert made.choices[0].finish_reason == "tool_calls"
    assert made.model == "scripted"
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens > 0


def test_call_ids_are_unique_in_a_conversation():
    trial = bench.Bench(bench.chain(3))
    book = Book(any=of(trial))
    run(lambda server, asking: whole_loop(asking, trial), book)
    ids = [call.id for message in book.asked[-1].request.messages for call in message.calls]
    assert len(ids) == len(set(ids)) == 3


def test_a_stream_says_the_same():
    async def whole(server, asking):
        trial = book.served["any"]
        return (await asking.chat.completions.create(**BODY, tools=tools)).choices[0].message, trial

    async def streamed(server, asking):
        calls: dict[int, list[str]] = {}
        usage = None
        async for chunk in await asking.chat.completions.create(
            **BODY, tools=tools, stream=True, stream_options={"include_usage": True}
        ):
            usage = chunk.usage or usage
            for delta in (call for choice in chunk.choices for call in choice.delta.tool_calls or ()):
                parts = calls.setdefault(delta.index, ["", ""])
                parts[0] += delta.function.name or ""
                parts[1] += delta.function.arguments or ""
        return calls, usage

    trial = bench.Bench(bench.chain(2))
    tools = specs(trial)
    book = Book(any=of(trial))
    message, _ = run(whole, book)
    calls, usage = run(streamed, Book(any=of(bench.Bench(bench.chain(2)))))
    assert calls == {0: [message.tool_calls[0].function.name, message.tool_calls[0].function.arguments]}
    assert usage.total_tokens > 0


def test_the_clients_own_stream_helper_puts_text_together():
    async def work(server, asking):
        async with asking.chat.completions.stream(**BODY) as stream:
            return (await stream.get_final_completion()).choices[0].message.content

    assert run(work, Book(any=fixed(Reply("all of  it ")))) == "all of  it "


def test_a_forced_tool_is_called_with_the_answer():
    trial = bench.Bench(bench.chain(1))
    results = trial.results()

    async def work(server, asking):
        messages = [{"role": "user", "content": f"{QUESTION} {results['c1']}"}]
        forced = {"type": "function", "function": {"name": "submit"}}
        tools = [*specs(trial), SUBMIT]
        made = await asking.chat.completions.create(model="scripted", messages=messages, tools=tools, tool_choice=forced)
        return made.choices[0].message.tool_calls

    (call,) = run(work, Book(any=of(trial, task_tools=trial.toolbox.names)))
    assert (call.function.name, json.loads(call.function.arguments)) == ("submit", {"answer": 2})


def test_a_response_format_is_kept_to_by_the_clients_own_parser():
    from pydantic import BaseModel

    class Solved(BaseModel):
        reasoning: str
        answer: int

    trial = bench.Bench(bench.chain(1))
    results = trial.results()

    async def work(server, asking):
        messages = [{"role": "user", "content": f"{QUESTION} {results['c1']}"}]
        made = await asking.chat.completions.parse(model="scripted", messages=messages, response_format=Solved)
        return made.choices[0].message.parsed

    assert run(work, Book(any=of(trial))).answer == 2


def test_models_are_listed_and_found():
    async def work(server, asking):
        listed = [model.id async for model in asking.models.list()]
        one = await asking.models.retrieve("scripted/flaky-tools")
        with pytest.raises(openai.NotFoundError) as caught:
            await asking.models.retrieve("gpt")
        return listed, one.id, caught.value.code

    found = run(work, Book())
    assert found == (["scripted", "scripted/flaky-tools"], "scripted/flaky-tools", "model_not_found")


async def failure(asking: Any, **more: Any) -> Any:
    with pytest.raises(openai.OpenAIError) as caught:
        await asking.chat.completions.create(**BODY | more)
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "code", "param"),
    [
        (ContextOverflow("too long"), openai.BadRequestError, "context_length_exceeded", "messages"),
        (ProviderError("tool_choice is not supported", "refused"), openai.BadRequestError, "unsupported_parameter", "tool_choice"),
        (ProviderError("no", "bad_request"), openai.BadRequestError, None, None),
        (ProviderError("no", "auth"), openai.AuthenticationError, "invalid_api_key", None),
        (ProviderError("no", "rate_limit"), openai.RateLimitError, "rate_limit_exceeded", None),
        (ProviderError("no", "server"), openai.InternalServerError, None, None),
        (ProviderError("no", "timeout"), openai.InternalServerError, "timeout", None),
        (ModelError("no"), openai.InternalServerError, None, None),
        (RuntimeError("secret"), openai.InternalServerError, None, None),
    ],
)
def test_errors_have_the_clients_own_classes(error, kind, code, param):
    raised = run(lambda server, asking: failure(asking), Book(any=fixed(error)))
    assert type(raised) is kind
    assert (raised.code, raised.param) == (code, param)
    assert "secret" not in str(raised)


def test_a_connection_that_is_not_answered_is_the_clients_connection_error():
    raised = run(lambda server, asking: failure(asking), Book(any=fixed(ProviderError("gone", "connection"))))
    assert type(raised) is openai.APIConnectionError


def test_unknown_model_trial_and_codec():
    async def work(server, asking):
        unknown = await failure(asking, model="gpt")
        async with client(server, "nowhere") as elsewhere:
            nowhere = await failure(elsewhere)
        codec = await failure(asking, metadata={"codec": "xml"})
        return [(type(error), error.code) for error in (unknown, nowhere, codec)], str(codec)

    found, said = run(work, Book(any=fixed(Reply("x"))))
    assert found == [
        (openai.NotFoundError, "model_not_found"),
        (openai.NotFoundError, "trial_not_found"),
        (openai.BadRequestError, "unknown_codec"),
    ]
    assert "'xml'" in said


def test_what_a_profile_cannot_do_is_refused():
    trial = bench.Bench(bench.chain(1), Profile.model_validate({"name": "old", "abilities": {"tool_choice": False}}))
    raised = run(lambda server, asking: failure(asking, tools=[SUBMIT], tool_choice="required"), Book(any=of(trial)))
    assert (type(raised), raised.param, raised.code) == (openai.BadRequestError, "tool_choice", "unsupported_parameter")
    assert "tool_choice is not supported" in str(raised)


def test_a_request_beyond_the_context_is_refused():
    """In OpenAI's words, by which clients know it; a loop's own client is told what the model says."""
    trial = bench.Bench(bench.chain(1), Profile.model_validate({"name": "short", "abilities": {"context_tokens": 20}}))
    long = {"messages": [{"role": "user", "content": "x" * 999}]}

    async def work(server, asking):
        return await failure(asking, **long), await failure(asking, **long, metadata={"codec": "native"})

    for raised, begins in zip(
        run(work, Book(any=of(trial))), ("This model's maximum context length", "the request has"), strict=True
    ):
        assert (type(raised), raised.code) == (openai.BadRequestError, "context_length_exceeded")
        assert raised.body["message"].startswith(begins)


# --- a loop's own client: role, scope and codec in the metadata ---


def test_the_metadata_say_what_is_asked():
    trial = bench.Bench(bench.chain(1))
    book = Book(any=of(trial))

    async def work(server, asking):
        made = await asking.chat.completions.create(**BODY, tools=specs(trial), metadata={"codec": "native", "scope": "left"})
        summary = await asking.chat.completions.create(**BODY, metadata={"role": "summarize", "codec": "native"})
        return made, summary

    made, summary = run(work, book)
    assert [call.id for call in made.choices[0].message.tool_calls] == ["call_0"]
    assert summary.choices[0].message.content
    assert [asked.request.role.value for asked in book.asked] == ["decide", "summarize"]
    assert trial.tunnel.effects("left") is not None


def test_the_effects_stay_in_the_tunnel_and_no_mark_is_left():
    """The client in the same process takes them; a mark under a request that is gone might be taken for another's."""
    trial = bench.Bench(bench.chain(1), Profile(name="x", rates={"provider.server": 1.0}))
    run(lambda server, asking: failure(asking, metadata={"codec": "native"}), Book(any=of(trial)))
    effects = trial.tunnel.effects("")
    assert effects is not None
    assert (effects.struck, effects.injected) == ("provider.server", True)
    assert trial.tunnel._struck == {}


def test_what_our_own_client_path_sends_is_read_as_the_request_that_was_meant():
    import dspy

    from loopbench.dspy_seam import DspyModel
    from loopbench.protocol import NativeCall, Sampling, ToolSpec

    tools = (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
    calls = (NativeCall("call_0", "add", '{"a": 1, "b": "\u00e9"}'), NativeCall("call_1", "add", '{"a": 1'))
    request = Request(
        (
            Message("system", "Be brief."),
            Message("user", "1 + 1?"),
            Message("assistant", "Next.", calls),
            Message("tool", "2 [r:1]", call_id="call_0"),
            Message("tool", "no", call_id="call_1"),
            Message("assistant", "", calls[:1]),
            Message("system", "Hurry."),
        ),
        tools,
        "add",
        {"type": "object"},
        Sampling(0.5, 9, 0.9, 3, ("END",)),
    )
    book = Book(any=fixed(Reply("", calls, Usage(3, 4), "tool_calls")))

    async def work(server, asking):
        model = DspyModel(dspy.LM("openai/scripted", api_base=f"{server.url}/v1", api_key="none", cache=False, num_retries=0))
        try:
            return await model.complete(request)
        finally:
            await model.aclose()

    reply = run(work, book)
    assert book.asked[0].request == request
    assert (reply.calls, reply.usage.total_tokens) == (calls, 7)


# --- faults on the wire ---


def struck(kind: str, **more: Any) -> ServedTrial:
    """A trial whose first reply meets this fault."""
    profile = Profile.model_validate({"name": "x", "rates": {kind: 1.0}, "clears": {"feedback": 0, "after": 0, "never": 1}})
    return of(bench.Bench(bench.chain(1), profile, **more))


async def raw(server: Server, body: dict[str, Any], path: str = "/v1/chat/completions") -> bytes:
    """All that comes back on a plain socket until the other side ends it; a reset ends it too."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    return await exchange(server, head.encode() + data)


async def exchange(server: Server, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    got = b""
    try:
        writer.write(sent)
        while piece := await asyncio.wait_for(reader.read(65_536), 20):
            got += piece
    except ConnectionResetError:
        got += b"<reset>"
    finally:
        writer.close()
    return got


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("kind", "status"), [("provider.rate_limit", 429), ("provider.server", 500), ("provider.timeout", 504)])
def test_failures_with_a_status(kind, status, stream):
    async def work(server, asking):
        async with httpx.AsyncClient() as plain:
            return await plain.post(f"{server.url}/v1/chat/completions", json=BODY | {"stream": stream})

    response = run(work, Book(any=struck(kind)))
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert (response.headers.get("Retry-After") == "1") == (status == 429)


@pytest.mark.parametrize("stream", [False, True])
def test_a_dropped_connection_gives_no_byte(stream):
    async def work(server, asking):
        return await raw(server, BODY | {"stream": stream}), await failure(asking, stream=stream)

    got, raised = run(work, Book(any=struck("provider.dropped")))
    assert got in (b"", b"<reset>")
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


def test_every_provider_fault_is_told_apart_from_a_reply():
    for kind in PROVIDER_FAULTS:
        served = struck(kind)

        async def work(server, asking):
            with pytest.raises((openai.OpenAIError, ValueError)):
                await asking.chat.completions.create(**BODY)

        run(work, Book(any=served))
        (fault,) = served.tunnel.faults
        assert (fault.kind, fault.landed) == (kind, True)


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
        return made.choices[0].message

    message = run(work, Book(any=served))
    assert (message.content, message.tool_calls) == ("", None)
    assert served.tunnel.faults[0].landed


# --- who may ask, and what for ---


async def asked_as(server: Server, host: str, extra: str = "", path: str = "/v1/models") -> tuple[int, Any]:
    got = await exchange(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode())
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_only_loopback_names_may_be_asked_for():
    async def work(server, asking):
        port = server.port
        good = [f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"]
        bad = [
            f"evil.example:{port}",
            "127.0.0.1",
            f"127.0.0.1:{port + 1}",
            f"127.0.0.1.evil.example:{port}",
            "",
            f"user@localhost:{port}",
        ]
        return [await asked_as(server, host) for host in good], [await asked_as(server, host) for host in bad]

    good, bad = run(work, Book())
    assert [status for status, _ in good] == [200] * 4
    assert all(status in (400, 403) and body["error"]["message"] for status, body in bad)


def test_a_request_without_a_host_is_refused():
    got = run(lambda server, asking: exchange(server, b"GET /v1/models HTTP/1.0\r\n\r\n"), Book())
    assert b" 403 " in got.splitlines()[0]


def test_a_page_of_a_browser_may_not_ask():
    async def work(server, asking):
        return await asked_as(server, f"127.0.0.1:{server.port}", "Origin: http://127.0.0.1\r\n")

    status, body = run(work, Book())
    assert (status, body["error"]["code"]) == (403, "origin_refused")


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.1.1", "example.com", "::"])
def test_no_other_address_is_bound(host):
    with pytest.raises(ValueError, match="loopback"):
        Server(Book(), host)


def test_a_port_in_use_is_an_error_of_the_operating_system():
    async def work(server, asking):
        with pytest.raises(OSError, match="in use"):
            async with Server(Book(), port=server.port):
                pass

    run(work, Book())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("DELETE", "/t/any/v1/chat/completions", 405),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/gpt", 404),
        ("GET", "/v1/completions", 404),
        ("GET", "/t/any", 404),
        ("GET", "/t/any/v1/models", 200),
        ("GET", "/t/%2e%2e/v1/models/scripted", 200),
        ("GET", "//v1/models", 404),
        ("GET", "/v1/../v1/models", 404),
        ("POST", "/t/%00%ff/v1/chat/completions", 404),
    ],
)
def test_pages(method, path, status):
    async def work(server, asking):
        data = json.dumps(BODY)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Content-Length: {len(data)}\r\n\r\n{data}".encode())

    assert answered(run(work, Book(any=fixed(Reply("x"))))) == status


def answered(got: bytes) -> int:
    """The status of an answer, which is JSON, in OpenAI's error format where it is an error."""
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"application/json" in head
    status = int(head.split()[1])
    data = json.loads(body)
    assert status == 200 or set(data["error"]) == {"message", "type", "param", "code"}
    return status


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b"NaN", b'{"model": 1e999}', b"[" * 100_000, b"null"])
def test_bodies_that_are_no_request(body):
    async def work(server, asking):
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    assert answered(run(work, Book(any=fixed(Reply("x"))))) == 400


def test_fuzzed_requests_are_answered_in_one_format():
    """Bodies, paths and whole requests of any bytes: no answer but JSON, and the server lives on."""
    text = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)
    fields = st.dictionaries(st.sampled_from([*BODY, "tools", "stream", "metadata", "n"]), st.none() | st.integers() | text)
    loop = asyncio.new_event_loop()
    server = Server(Book(any=fixed(Reply("x"))))
    loop.run_until_complete(server.__aenter__())

    @settings(max_examples=60)
    @given(text, fields | st.binary(max_size=30))
    def fuzz(path, fields):
        data = fields if isinstance(fields, bytes) else json.dumps(BODY | fields).encode()
        host = f"Host: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        for target in (f"/{path}", f"/t/{path}/v1/chat/completions", "/v1/chat/completions"):
            sent = f"POST {target} HTTP/1.1\r\n{host}".encode() + data
            got = loop.run_until_complete(exchange(server, sent))
            assert answered(got) in (200, 400, 404) if b"text/event-stream" not in got else b"[DONE]" in got

    @settings(max_examples=30)
    @given(st.binary(max_size=60))
    def noise(sent):
        got = loop.run_until_complete(exchange(server, b"X" + sent + b"\r\n\r\n"))
        assert got == b"" or answered(got) in (400, 403)

    try:
        fuzz()
        noise()
        assert loop.run_until_complete(asked_as(server, f"127.0.0.1:{server.port}"))[0] == 200
    finally:
        loop.run_until_complete(server.__aexit__())
        loop.close()


def test_a_body_that_is_too_large_is_refused_unread():
    async def work(server, asking):
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode())

    head = run(work, Book()).split(b"\r\n")[0]
    assert b" 413 " in head


@pytest.mark.parametrize(("sent", "is_last"), [(b"{}", False), (b"{", True), (b"", True)], ids=["whole", "half", "unsent"])
def test_an_answer_to_half_a_request_is_the_last_of_its_connection(sent, is_last):
    """The server closes it, and the client must know before it sends the next request."""

    async def work(server, asking):
        head = f"POST /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 2\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode() + sent)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return answer

    head = run(work, Book())
    assert b" 405 " in head.splitlines()[0]
    assert (b"\r\nConnection: close\r\n" in head) is is_last


def test_a_body_that_unpacks_to_too_much_is_refused():
    import gzip

    packed = gzip.compress(b" " * (MAX_BODY_BYTES + 1))

    async def work(server, asking):
        async with httpx.AsyncClient() as plain:
            return await plain.post(f"{server.url}/v1/chat/completions", content=packed, headers={"Content-Encoding": "gzip"})

    response = run(work, Book())
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


def test_a_client_that_waits_to_be_told_to_go_on_is_told():
    async def work(server, asking):
        data = json.dumps(BODY)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Expect: 100-continue\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode())

    first, _, rest = run(work, Book(any=fixed(Reply("x")))).partition(b"\r\n\r\n")
    assert b" 100 " in first
    assert answered(rest) == 200


def test_nothing_is_printed(capfd):
    async def work(server, asking):
        await failure(asking)
        await exchange(server, b"secret\r\n\r\n")

    run(work, Book(any=fixed(RuntimeError("secret"))))
    assert capfd.readouterr() == ("", "")


def test_httpx_leaves_the_port_of_http_out_and_is_answered_there_too():
    for host in ("127.0.0.1", "localhost", "[::1]"):
        for port in (80, 8377):
            assert httpx.Request("GET", f"http://{host}:{port}/v1/models").headers["Host"] in own_hosts(port)
    assert "127.0.0.1" not in own_hosts(8377)
    assert not any(host in own_hosts(80) for host in ("", ":80", "example.org", "127.0.0.1:8377"))


# --- further pages, and many at once ---


async def shop(call: OwnRequest) -> Any:
    if call.path == ("shop",):
        return {"method": call.method, "body": call.body}
    if call.path == ("t", "any", "shop"):
        raise WrongMethod("PUT")
    raise LookupError("no such page")


def test_further_pages_are_answered_by_whoever_has_them():
    async def work(server, asking):
        async with httpx.AsyncClient(base_url=server.url) as plain:
            posted = await plain.post("/shop", json={"a": 1})
            wrong = await plain.get("/t/any/shop")
            missing = await plain.get("/t/any/else")
            return (
                posted.json(),
                (wrong.status_code, wrong.headers["Allow"]),
                (missing.status_code, missing.json()["error"]["message"]),
            )

    found = run(work, Book(), more=shop)
    assert found == ({"method": "POST", "body": {"a": 1}}, (405, "PUT"), (404, "no such page"))


@pytest.mark.thorough
def test_many_trials_at_once_do_not_disturb_each_other():
    trials = {f"t{n}": bench.Bench(bench.chain(1 + n % 5), "flaky-tools", seed=n) for n in range(32)}
    alone = {name: bench.Bench(trial.plan, "flaky-tools", seed=trial.scripted.script.seed) for name, trial in trials.items()}

    async def work(server, asking):
        async def one(name):
            async with client(server, name) as own:
                message = await whole_loop(own, trials[name])
                return message and message.content

        return await asyncio.gather(*map(one, trials))

    async def one_by_one(server, asking):
        said = []
        for name, trial in alone.items():
            async with client(server, name) as own:
                message = await whole_loop(own, trial)
                said.append(message and message.content)
        return said

    together = run(work, Book(**{name: of(trial) for name, trial in trials.items()}))
    assert together == run(one_by_one, Book(**{name: of(trial) for name, trial in alone.items()}))
    assert sum(said == trial.expected for said, trial in zip(together, trials.values(), strict=True)) > 16


# --- LiteLLM, unmodified ---

LITELLM = """
import json, sys
import litellm

base, broken = sys.argv[1:]
ask = dict(model="openai/scripted", api_key="none", num_retries=0, max_retries=0)
ask["_skip_mcp_handler"] = True  # 1.106 looks for its extra `mcp` wherever tools are given


def tool(name, **properties):
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


add, submit = tool("add", a="integer", b="integer"), tool("submit", answer="string")
question = [{"role": "user", "content": "What comes out?"}]
found = {}

made = litellm.completion(messages=question, tools=[add], api_base=base, **ask)
call = made.choices[0].message.tool_calls[0].function
found["tools"] = [call.name, json.loads(call.arguments)]

forced = {"type": "function", "function": {"name": "submit"}}
made = litellm.completion(messages=question, tools=[add, submit], tool_choice=forced, api_base=base, **ask)
found["forced"] = made.choices[0].message.tool_calls[0].function.name

chunks = list(litellm.completion(messages=question, tools=[add], stream=True, api_base=base, **ask))
whole = litellm.stream_chunk_builder(chunks)
found["stream"] = whole.choices[0].message.tool_calls[0].function.arguments

found["errors"] = []
for trial in broken.split(","):
    try:
        litellm.completion(messages=question, api_base=base.replace("/v1", f"/t/{trial}/v1"), **ask)
    except Exception as error:
        found["errors"].append(type(error).__name__)
print(json.dumps(found))
"""


@pytest.mark.thorough
def test_litellm_unmodified():
    trial = bench.Bench(bench.chain(1))
    broken = {
        "limited": fixed(ProviderError("no", "rate_limit")),
        "failed": fixed(ProviderError("no", "server")),
        "long": fixed(ContextOverflow("the context holds 8 tokens")),
        "gone": fixed(ProviderError("no", "connection")),
    }
    book = Book(any=of(trial, task_tools=("add", "concat", "reject")), **broken)

    async def work(server, asking):
        command = [sys.executable, "-c", LITELLM, f"{server.url}/v1", ",".join(broken)]
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
        child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return json.loads(out.splitlines()[-1])

    found = run(work, book)
    assert found["tools"] == ["add", {"a": 1, "b": 1}]
    assert found["forced"] == "submit"
    assert json.loads(found["stream"]) == {"a": 1, "b": 1}
    assert found["errors"] == ["RateLimitError", "InternalServerError", "ContextWindowExceededError", "InternalServerError"]
