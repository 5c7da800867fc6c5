"""The server and its clients: the official one, and a loop's own."""

from __future__ import annotations

import json

import openai
import pytest

from whichloop.models.profiles import Profile
from whichloop.protocol import ContextOverflow, Message, ModelError, ProviderError, Reply, Request, Usage

from . import bench
from .served import BODY, QUESTION, SUBMIT, Book, client, failure, fixed, of, run, specs, whole_loop

# --- the official client ---


def test_the_official_client_goes_through_a_whole_trial():
    trial = bench.Bench(bench.chain(3))
    message = run(lambda server, asking: whole_loop(asking, trial), Book(any=of(trial)))
    assert message.content == trial.expected
    assert trial.tunnel.unknown == ()


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

    (call,) = run(work, Book(any=of(trial, tools=trial.toolbox.names)))
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
        (openai.BadRequestError, None),
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
    assert trial.tunnel.calls_shown("left") == ()


def test_what_our_own_client_path_sends_is_read_as_the_request_that_was_meant():
    import dspy

    from whichloop.dspy_seam import DspyModel
    from whichloop.protocol import NativeCall, Sampling, ToolSpec

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
            Message("tool", "2", call_id="call_0"),
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
