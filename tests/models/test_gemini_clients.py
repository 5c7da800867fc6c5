"""Google's own client against the server: replies, streams, chats, functions that it calls by itself, counts and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from whichloop.models.fake import FakeModel
from whichloop.models.server import ServedTrial, Server
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import ContextOverflow, NativeCall, ProviderError, Reply, Usage

from .served import Book, fixed, run, struck_by

genai = pytest.importorskip("google.genai")
types = genai.types
errors = genai.errors

CALL = NativeCall("call_0", "add", '{"a": 1, "b": 2}')
CALLING = Reply("", (CALL,), Usage(11, 7), "tool_calls")
DONE = Reply("It is 3.", (), Usage(30, 4))


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def turns(*replies: Reply | Exception) -> ServedTrial:
    """A trial whose model says one thing after the other."""
    return ServedTrial(FakeModel(*replies), Tunnel())


def asking(work: Callable[[Any], Coroutine[Any, Any, Any]], book: Book) -> Any:
    """Let Google's client, the asynchronous one, do some work against a server of its own."""

    async def whole(server: Server, _: Any) -> Any:
        async with httpx.AsyncClient(verify=False, timeout=30) as http:  # with aiohttp, its other choice, it meets a warning
            return await work(client_of(server, httpx_async_client=http).aio)

    return run(whole, book)


def client_of(server: Server, **options: Any) -> Any:
    return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=server.url, timeout=30_000, **options))


def test_a_reply_whole():
    async def work(client: Any) -> Any:
        return await client.models.generate_content(model="scripted", contents="Hello?", config={"system_instruction": "Be brief."})

    book = Book(any=fixed(DONE))
    reply = asking(work, book)
    assert (reply.text, reply.candidates[0].finish_reason) == ("It is 3.", types.FinishReason.STOP)
    counts = reply.usage_metadata
    assert (counts.prompt_token_count, counts.candidates_token_count, counts.total_token_count) == (30, 4, 34)
    assert (reply.model_version, len(reply.response_id)) == ("scripted", 24)
    assert [message.content for message in book.asked[0].request.messages] == ["Be brief.", "Hello?"]


def test_a_reply_in_a_stream():
    async def work(client: Any) -> list[Any]:
        return [chunk async for chunk in await client.models.generate_content_stream(model="scripted", contents="Hello?")]

    chunks = asking(work, Book(any=fixed(DONE)))
    assert "".join(chunk.text for chunk in chunks) == "It is 3."
    assert [chunk.candidates[0].finish_reason for chunk in chunks] == [None, None, types.FinishReason.STOP]
    assert chunks[-1].usage_metadata.total_token_count == 34


def test_a_stream_without_server_sent_events_is_one_json_list():
    async def work(server: Server, _: Any) -> Any:
        async with httpx.AsyncClient() as client:
            url = f"{server.url}/v1beta/models/scripted:streamGenerateContent"
            return await client.post(url, json={"contents": [{"parts": [{"text": "Hello?"}]}]})

    response = run(work, Book(any=fixed(DONE)))
    assert response.headers["content-type"] == "application/json"
    assert "".join(chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in response.json()) == "It is 3."


def test_calls_are_read_and_answered_by_hand():
    async def work(client: Any) -> Any:
        tool = types.Tool(function_declarations=[types.FunctionDeclaration.from_callable_with_api_option(callable=add)])
        config = types.GenerateContentConfig(tools=[tool])
        contents = [types.Content(role="user", parts=[types.Part(text="1 + 2?")])]
        reply = await client.models.generate_content(model="scripted", contents=contents, config=config)
        (call,) = reply.function_calls
        answer = types.Part.from_function_response(name=call.name, response={"result": add(**call.args)})
        contents += [reply.candidates[0].content, types.Content(role="user", parts=[answer])]
        return call, await client.models.generate_content(model="scripted", contents=contents, config=config)

    book = Book(any=turns(CALLING, DONE))
    call, reply = asking(work, book)
    assert (call.id, call.name, call.args) == ("call_0", "add", {"a": 1, "b": 2})
    assert reply.text == "It is 3."
    told = book.asked[1].request
    assert [(message.role, message.content, message.call_id) for message in told.messages] == [
        ("user", "1 + 2?", ""),
        ("assistant", "", ""),
        ("tool", "3", "call_0"),
    ]
    assert told.messages[1].calls == (CALL,)
    assert told.tools[0].parameters["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_functions_are_called_automatically(stream):
    async def work(client: Any) -> str:
        chat = client.chats.create(model="scripted", config={"tools": [add]})
        if stream:
            return "".join([chunk.text or "" async for chunk in await chat.send_message_stream("1 + 2?")])
        return str((await chat.send_message("1 + 2?")).text)

    book = Book(any=turns(CALLING, DONE))
    assert asking(work, book) == "It is 3."
    assert [message.content for message in book.asked[1].request.messages][-1] == "3"


def test_a_chat_keeps_its_history():
    async def work(client: Any) -> int:
        chat = client.chats.create(model="scripted")
        await chat.send_message("One?")
        await chat.send_message("Two?")
        return len(chat.get_history())

    book = Book(any=fixed(DONE))
    assert asking(work, book) == 4
    assert [message.role for message in book.asked[1].request.messages] == ["user", "assistant", "user"]


def test_the_blocking_client():
    async def work(server: Server, _: Any) -> Any:
        def ask() -> tuple[str, str]:
            with client_of(server) as client:
                whole = client.models.generate_content(model="scripted", contents="Hello?").text
                return whole, "".join(chunk.text for chunk in client.models.generate_content_stream(model="scripted", contents="?"))

        return await asyncio.to_thread(ask)

    assert run(work, Book(any=fixed(DONE))) == ("It is 3.", "It is 3.")


def test_a_reply_after_a_schema_is_parsed():
    async def work(client: Any) -> Any:
        config = {
            "response_mime_type": "application/json",
            "response_schema": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}},
        }
        return await client.models.generate_content(model="scripted", contents="?", config=config)

    book = Book(any=fixed(Reply('{"n": 3}')))
    assert asking(work, book).parsed == {"n": 3}
    assert book.asked[0].request.response_schema == {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_tokens_are_counted():
    async def work(client: Any) -> Any:
        return await client.models.count_tokens(model="scripted", contents="Hello there, how are you?")

    book = Book(any=fixed(DONE))
    assert asking(work, book).total_tokens == 11
    assert book.asked == []


def test_models_are_listed_and_found():
    async def work(client: Any) -> Any:
        listed = [model.name async for model in await client.models.list()]
        return listed, await client.models.get(model=listed[-1])

    listed, found = asking(work, Book(any=fixed(DONE)))
    assert listed == ["models/scripted", "models/scripted/flaky-tools"]
    assert (found.name, found.supported_actions) == (listed[-1], ["generateContent", "countTokens"])


def test_a_malformed_call_is_told_by_the_reason_of_the_end():
    async def work(client: Any) -> Any:
        return await client.models.generate_content(model="scripted", contents="?")

    reply = asking(work, Book(any=fixed(Reply("", (NativeCall("c", "add", '{"a": '),)))))
    assert reply.candidates[0].finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert (reply.text, reply.function_calls) == (None, None)


@pytest.mark.parametrize(
    ("failed", "kind", "status", "said"),
    [
        (ProviderError("Too many.", "rate_limit"), errors.ClientError, "RESOURCE_EXHAUSTED", "Too many. Please retry in 1s."),
        (ProviderError("Broken.", "server"), errors.ServerError, "INTERNAL", "Broken."),
        (ProviderError("Busy.", "overloaded"), errors.ServerError, "UNAVAILABLE", "Busy."),
        (ProviderError("Slow.", "timeout"), errors.ServerError, "DEADLINE_EXCEEDED", "Slow."),
        (ProviderError("Forced.", "refused"), errors.ClientError, "INVALID_ARGUMENT", "Forced."),
        (ContextOverflow("9 of 8"), errors.ClientError, "INVALID_ARGUMENT", "exceeds the maximum number of tokens allowed"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_failures_are_google_s(failed, kind, status, said, stream):
    async def work(client: Any) -> Any:
        ask = client.models.generate_content_stream if stream else client.models.generate_content
        with pytest.raises(errors.APIError) as caught:
            await consumed(await ask(model="scripted", contents="?"))
        return caught.value

    raised = asking(work, Book(any=fixed(failed)))
    assert type(raised) is kind
    assert raised.status == status
    assert said in raised.message


async def consumed(answer: Any, got: list[str] | None = None) -> None:
    """Read an answer to its end, if it is a stream; `got`: takes the texts of its chunks."""
    if hasattr(answer, "__aiter__"):
        async for chunk in answer:
            if got is not None:
                got.append(chunk.text)


def test_what_the_server_itself_refuses_has_google_s_form():
    async def work(server: Server, _: Any) -> list[Any]:
        root = f"{server.url}/v1beta"
        async with httpx.AsyncClient() as client:
            return [
                await client.post(f"{root}/models/nobody:generateContent", json={"contents": [{"parts": [{"text": "?"}]}]}),
                await client.post(f"{root}/models/scripted:embedContent", json={}),
                await client.post(f"{root}/files", content=b"x"),
                await client.get(f"{root}/models/scripted:generateContent"),
                await client.post(f"{root}/models/scripted:generateContent", content=b"{"),
                await client.post(f"{root}/models", headers={"Origin": "http://example.org"}),
            ]

    answers = run(work, Book(any=fixed(DONE)))
    said = [(answer.status_code, answer.json()["error"]["status"]) for answer in answers]
    assert said == [
        (404, "NOT_FOUND"),
        (404, "NOT_FOUND"),
        (404, "NOT_FOUND"),
        (405, "UNIMPLEMENTED"),
        (400, "INVALID_ARGUMENT"),
        (403, "PERMISSION_DENIED"),
    ]
    assert all(answer.json()["error"]["code"] == answer.status_code for answer in answers)


def streams(struck: str) -> list[bytes]:
    """Return what comes of a stream that is struck by a fault, as server-sent events and as one list."""

    async def work(server: Server, _: Any) -> list[bytes]:
        got = []
        async with httpx.AsyncClient() as client:
            for query in ("?alt=sse", ""):
                url, pieces = f"{server.url}/v1beta/models/scripted:streamGenerateContent{query}", b""
                with contextlib.suppress(httpx.RemoteProtocolError):
                    async with client.stream("POST", url, json={"contents": [{"parts": [{"text": "?"}]}]}) as response:
                        async for piece in response.aiter_bytes():
                            pieces += piece
                    pieces += b"<end>"
                got.append(pieces)
        return got

    return list(run(work, Book(any=struck_by(struck))))


def test_a_stream_that_is_cut_off_ends_the_connection_in_the_middle_of_a_chunk():
    events, listed = streams("provider.cut")
    assert events.startswith(b"data: {")
    assert listed.startswith(b"[{")
    for pieces in (events.removeprefix(b"data: "), listed):
        assert not pieces.endswith(b"<end>")
        with pytest.raises(json.JSONDecodeError):
            json.loads(pieces)


def test_a_garbled_stream_ends_well_but_cannot_be_read():
    for pieces in streams("provider.garbled"):
        assert pieces.endswith(b"<end>")
        with pytest.raises(json.JSONDecodeError):
            json.loads(pieces.removesuffix(b"<end>").removeprefix(b"data: "))


def test_an_error_in_the_middle_of_a_stream_is_a_chunk_of_it():
    events, listed = streams("provider.interrupted")
    chunks = [json.loads(line) for line in events.removesuffix(b"<end>").split(b"data: ")[1:]]
    assert [chunk | {"responseId": ""} for chunk in chunks] == [
        chunk | {"responseId": ""} for chunk in json.loads(listed.removesuffix(b"<end>"))
    ]
    assert chunks[-1] == {"error": {"code": 500, "message": "Broken.", "status": "INTERNAL"}}
    assert all("finishReason" not in chunk["candidates"][0] for chunk in chunks[:-1])


def test_google_s_client_raises_an_error_in_the_middle_of_a_stream():
    async def work(client: Any) -> tuple[list[str], Any]:
        got: list[str] = []
        with pytest.raises(errors.ServerError) as caught:
            await consumed(await client.models.generate_content_stream(model="scripted", contents="?"), got)
        return got, caught.value

    got, raised = asking(work, Book(any=struck_by("provider.interrupted")))
    assert got
    assert (raised.code, raised.status, raised.message) == (500, "INTERNAL", "Broken.")
