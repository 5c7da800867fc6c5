"""What becomes of a reply on its way: limits that a request sets, delays and silence, and whose failure it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.over_http import OverHttp, open_switchboard
from whichloop.models.profiles import Profile
from whichloop.models.server.answers import within_limits
from whichloop.protocol import Message, NativeCall, ProviderError, Reply, Request, Sampling, Usage
from whichloop.protocol.model import estimate_usage

from . import bench
from .served import BODY, SUBMIT, Book, fixed, of, run, specs, struck

texts = st.text(st.sampled_from("ab \n."), max_size=40)
calls = st.builds(NativeCall, st.sampled_from(["call_0", "call_1"]), st.sampled_from(["add", "concatenate"]), texts)


def counted(text: str, made: list[NativeCall]) -> Reply:
    reply = Reply(text, tuple(made), None, "tool_calls" if made else "stop")
    return Reply(text, tuple(made), estimate_usage(3, reply), reply.finish_reason)


replies = st.builds(counted, texts, st.lists(calls, max_size=3))


def output_tokens(reply: Reply) -> int:
    assert reply.usage is not None
    return reply.usage.output_tokens


@given(replies, st.integers(1, 30))
@example(counted("a b ", [NativeCall("call_0", "add", "{}"), NativeCall("call_1", "concatenate", "{} {} {} {}")]), 4)
def test_a_reply_has_no_more_tokens_than_allowed_and_begins_as_the_whole_one(reply: Reply, limit: int) -> None:
    kept, _ = within_limits(reply, Sampling(max_tokens=limit))
    assert estimate_usage(0, kept).output_tokens <= limit
    assert reply.text.startswith(kept.text)
    assert not kept.calls or kept.text == reply.text
    for ours, whole in zip(kept.calls, reply.calls, strict=False):
        assert (ours.id, ours.name) == (whole.id, whole.name)
        assert whole.arguments.startswith(ours.arguments)
    assert kept.calls[:-1] == reply.calls[: max(0, len(kept.calls) - 1)]  # only the last may be cut
    assert (kept is reply) if output_tokens(reply) <= limit else (kept.finish_reason == "length")


@given(replies, st.lists(st.text(st.sampled_from("ab ."), min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_reply_ends_before_the_first_stop_sequence_in_its_text(reply: Reply, stops: list[str]) -> None:
    kept, stopped_at = within_limits(reply, Sampling(stop=tuple(stops)))
    assert not any(stop in kept.text for stop in stops)
    if any(stop in reply.text for stop in stops):
        assert stopped_at in stops
        assert reply.text.startswith(kept.text + stopped_at)
        assert (kept.calls, kept.finish_reason) == ((), "stop")
    else:
        assert kept is reply
        assert stopped_at == ""


async def asked(asking: Any, **more: Any) -> tuple[str, str, int, int]:
    """The reply's text, reason to finish, number of calls, and tokens."""
    made = await asking.chat.completions.create(**BODY, **more)
    message = made.choices[0].message
    return message.content or "", made.choices[0].finish_reason, len(message.tool_calls or ()), made.usage.completion_tokens


SAID = Reply("One two three. END Four.", usage=Usage(5, 6, estimated=True))


@pytest.mark.parametrize(
    ("more", "reply"),
    [({"max_tokens": 2}, ("One two ", "length", 0, 2)), ({"stop": ["END", "two"], "max_tokens": 3}, ("One ", "stop", 0, 1))],
)
def test_max_tokens_and_stop_are_kept(more: dict[str, Any], reply: Any) -> None:
    assert run(lambda server, asking: asked(asking, **more), Book(any=fixed(SAID))) == reply


def test_a_loop_that_names_its_codec_gets_the_whole_reply() -> None:
    """It gets what it gets in a comparison, where the scripted model knows no limit."""
    book = Book(any=of(bench.Bench(bench.chain(1))))
    more = {"tools": specs(bench.Bench(bench.chain(1))), "max_tokens": 1, "metadata": {"codec": "native"}}
    assert run(lambda server, asking: asked(asking, **more), book)[1] == "tool_calls"


@pytest.mark.parametrize(("real_time", "simulated_s"), [(True, 0.0), (False, 0.01)])
def test_a_slow_reply_comes_all_the_same(real_time, simulated_s):
    profile = Profile.model_validate({"name": "x", "rates": {"provider.slow": 1.0}, "slow_s": 0.01})
    trial = bench.Bench(bench.chain(1), profile, real_time=real_time)

    async def work(server, asking):
        return (await asking.chat.completions.create(**BODY, tools=specs(trial))).choices[0].finish_reason

    assert run(work, Book(any=of(trial))) == "tool_calls"
    assert trial.tunnel.simulated_s == simulated_s
    assert [fault.kind for fault in trial.tunnel.faults if fault.landed] == ["provider.slow"]


def test_a_spoiled_reply_is_not_repaired_on_its_way():
    """What the wire did to the reply must land, even where the request forces a call."""
    served = struck("wire.empty")

    async def work(server, asking):
        made = await asking.chat.completions.create(**BODY, tools=[SUBMIT], tool_choice="required")
        return made.choices[0]

    choice = run(work, Book(any=served))
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("", None, "stop")
    assert served.tunnel.faults[0].landed


def test_a_failure_that_is_none_of_the_models_is_never_marked_as_injected():
    """Each follows an injected failure of the same scope: what that did must not be taken for the effect of this."""
    trial = bench.Bench(bench.chain(1), bench.profile("provider.server", never=1))
    unsendable = Request((Message("user", "?"), Message("assistant", "", (NativeCall("", "", "{}"),))))

    async def failed(model: OverHttp, request: Request) -> tuple[str, bool]:
        with pytest.raises(ProviderError) as caught:
            await model.complete(request)
        return caught.value.kind, caught.value.injected

    async def ask() -> list[tuple[str, bool]]:
        async with open_switchboard() as switchboard:
            with switchboard.put_through(trial.scripted) as model:
                seen = [await failed(model, trial.request()), await failed(model, unsendable), await failed(model, trial.request())]
            seen.append(await failed(model, trial.request()))  # the trial is over: the server knows it no more
            return seen

    injected = ("server", True)
    assert asyncio.run(ask()) == [injected, ("bad_request", False), injected, ("bad_request", False)]
