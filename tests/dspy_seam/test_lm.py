"""A Model as a dspy.LM: requests, replies and errors pass through unchanged."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMStreamAssemblyError,
    LMTimeoutError,
    LMTransportError,
    LMUnexpectedError,
    LMUnsupportedFeatureError,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.dspy_seam.helpers import Answering
from whichloop.dspy_seam import DspyModel, lm_of
from whichloop.dspy_seam.errors import model_error
from whichloop.dspy_seam.requests import ToolNames
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    Message,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    Usage,
    run_sync,
)
from whichloop.protocol.wire import to_json

NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NATIVE = st.builds(NativeCall, NAMES, NAMES, st.dictionaries(WORDS, st.integers(), max_size=2).map(to_json))

TURNS = st.one_of(
    st.builds(Message, st.just("user"), WORDS.filter(bool)),
    st.builds(Message, st.just("assistant"), WORDS.filter(bool), st.lists(NATIVE, max_size=2).map(tuple)),
    st.builds(Message, st.just("tool"), WORDS, call_id=NAMES),
)

OPENING = st.tuples(
    st.builds(Message, st.just("system"), WORDS.filter(bool)), st.builds(Message, st.just("user"), WORDS.filter(bool))
)
NO_ARGUMENTS = {"type": "object", "properties": {}}

REQUESTS = st.builds(
    Request,
    st.builds(lambda opening, turns: (*opening, *turns), OPENING, st.lists(TURNS, max_size=3)),
    st.just((ToolSpec("add", "Add.", NO_ARGUMENTS), ToolSpec("sub", "", NO_ARGUMENTS))),
    st.sampled_from([None, "auto", "required", "none", "add"]),
    st.sampled_from([None, {"type": "object", "properties": {"a": {"type": "integer"}}}]),
    st.sampled_from([Sampling(), Sampling(0.5), Sampling(0.0, 9, 0.9, 3, ("x", "y"))]),
)


@given(request=REQUESTS)
@settings(deadline=None, max_examples=cases(30))
def test_a_request_passes_through_dspy_to_the_model_unchanged(request: Request) -> None:
    model = Answering("fine")
    assert run_sync(DspyModel(lm_of(model)).complete(request)).text == "fine"
    assert model.requests == [request]


@given(
    reply=st.builds(
        Reply,
        WORDS,
        st.lists(NATIVE, max_size=2).map(tuple),
        st.none() | st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9)),
        st.sampled_from(["stop", "length", "content_filter", "other"]),
    ).map(lambda reply: replace(reply, finish_reason="tool_calls") if reply.calls else reply)
)
@settings(deadline=None, max_examples=cases(30))
def test_a_reply_passes_back_through_dspy_unchanged(reply: Reply) -> None:
    model = DspyModel(lm_of(Answering(reply)))
    assert run_sync(model.complete(Request((Message("user", "hi"),)))) == reply


def test_arguments_that_are_no_object_stay_readable() -> None:
    for raw in ("[1]", "{oops", "3"):
        reply = Reply("", (NativeCall("c", "add", raw),), None, "tool_calls")
        got = run_sync(DspyModel(lm_of(Answering(reply))).complete(Request((Message("user", "hi"),))))
        assert json.loads(got.calls[0].arguments) == {"_unparsed": raw}


@given(st.lists(st.text("ab0./_ü", min_size=1, max_size=4) | st.sampled_from(["x" * 64, "x" * 65, "x" * 66]), unique=True))
@example(["shop.find", "shop/find", "shop_find"])
def test_each_tool_is_sent_under_a_name_of_its_own_that_a_provider_takes_and_its_call_comes_back_to_it(tools: list[str]) -> None:
    names = ToolNames(Request((), tuple(ToolSpec(tool, "", NO_ARGUMENTS) for tool in tools)))
    sent = [names.sent(tool) for tool in tools]
    assert len(set(sent)) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in sent)
    back = names.in_reply(Reply("", tuple(NativeCall("c", name, "{}") for name in sent)))
    assert [call.name for call in back.calls] == tools


def test_lm_of_caches_and_retries_nothing_and_a_deep_copy_asks_the_same_model() -> None:
    model = Answering(ProviderError("down", "rate_limit"), "a", "b")
    lm = lm_of(model)
    with pytest.raises(dspy.utils.exceptions.LMError):
        lm("same")
    assert [lm("same"), copy.deepcopy(lm)("same")] == [["a"], ["b"]]
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LMRateLimitError("slow", status=429, retry_after=1.5), "rate_limit"),
        (LMTimeoutError("late"), "timeout"),
        (LMTransportError("no route"), "connection"),
        (LMAuthError("who?", status=401), "auth"),
        (LMInvalidRequestError("what?", status=400), "bad_request"),
        (LMInvalidRequestError("LiteLLM knows no better", status=429), "rate_limit"),
        (LMInvalidRequestError("LiteLLM knows no better", status=401), "auth"),
        (LMInvalidRequestError("LiteLLM knows no better", status=503), "overloaded"),
        (LMInvalidRequestError("LiteLLM knows no better", status=504), "timeout"),
        (LMUnsupportedFeatureError("no tools here"), "refused"),
        (LMStreamAssemblyError("it ended in the middle"), "connection"),
        (LMUnexpectedError("huh"), "server"),
    ],
)
def test_errors_of_dspy_become_ours_by_cause(error: Any, kind: str) -> None:
    ours = model_error(error)
    assert isinstance(ours, ProviderError)
    assert (ours.kind, ours.status, ours.retry_after_s) == (kind, error.status, error.retry_after)
    assert isinstance(model_error(ContextWindowExceededError(message="long")), ContextOverflow)


@pytest.mark.parametrize("make", [lambda: ProviderError("x"), lambda: ContextOverflow("x"), lambda: BudgetExceeded("x")])
def test_an_error_of_ours_inside_an_engine_comes_back_itself(make: Callable[[], Exception]) -> None:
    inner = make()
    outer, between = LMUnexpectedError("wrapped"), RuntimeError("between")
    outer.__cause__, between.__cause__ = between, inner
    assert model_error(outer) is inner
